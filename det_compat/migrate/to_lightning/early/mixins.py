"""The ``__init__`` of mixins, and of bases that mixins come before."""

import re

import libcst as cst

from det_compat.migrate.to_lightning.class_facts import hands_rest_on, is_init_of_next
from det_compat.migrate.to_lightning.plan import LightningFile, TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import marked

#: What the constructor of a trial did that has none itself: the module is the context.


def mixin_init(init: cst.FunctionDef, plan: TrialPlan, file: LightningFile) -> cst.FunctionDef:
    """The ``__init__`` of a class that only becomes part of a module together with others.

    Its module has been initialized by then, so it hands the context on to other such classes alone.
    """
    own = plan.own.name
    trials = [p for p in file.trials.values() if not p.is_mixin and plan in mixins_of(p)]
    rest = (init.params.star_arg, init.params.star_kwarg)
    # What comes by stars is the context, too, which nobody could follow there.
    handed = {p.name.value for p in rest if isinstance(p, cst.Param)}
    handed |= {name for p in init.params.params if "context" in (name := p.name.value)}
    goes_on = {_next_init(plan, trial) for trial in trials}

    def left(line: cst.BaseStatement) -> list[cst.BaseStatement]:
        call = syntax.lone_call(line)
        given = [] if call is None else call.args
        hands_on = any(
            file.symbols.is_context(arg.value) or syntax.code(arg.value) in handed for arg in given
        )
        if call is None or not is_init_of_next(call) or not hands_on:
            return [line]
        if len(goes_on) > 1:
            return [marked(line, "another __init__ is behind this one in some trials, not in all")]
        # A trial behind it takes hyperparameters, which come with the rest.
        if goes_on == {"mixin"} or (goes_on == {"trial"} and hands_rest_on(init, call)):
            return [line]
        return [marked(line, _SHARED)] if _has_other_heirs(own, file) else []

    return syntax.with_body(init, [made for line in syntax.body_of(init) for made in left(line)])


_SHARED = "classes that are no trials need this call, and a module has been initialized by then"


def _has_other_heirs(name: str, file: LightningFile) -> bool:
    """Whether a class that is no trial derives from this one."""
    heir = re.compile(rf"^class \w+\([^)]*\b{name}\b", re.MULTILINE)
    others = (text for each, text in file.elsewhere.texts.items() if each not in file.trials)
    return any(heir.search(text) for text in others)


def mixins_of(plan: TrialPlan) -> list[TrialPlan]:
    """The mixins of a trial in the order in which ``super()`` comes by them."""
    found: list[TrialPlan] = []
    for parent in plan.parents:
        if not parent.is_mixin:
            break  # What is behind a trial, it does not call.
        found += [parent, *mixins_of(parent)]
    return [each for index, each in enumerate(found) if each not in found[index + 1 :]]


def _next_init(plan: TrialPlan, trial: TrialPlan) -> str:
    """What has the ``__init__`` behind that of a mixin: another mixin, a trial, or a module."""
    mixins = mixins_of(trial)
    if any("__init__" in each.own.methods for each in mixins[mixins.index(plan) + 1 :]):
        return "mixin"
    return "module" if trial.is_root else "trial"
