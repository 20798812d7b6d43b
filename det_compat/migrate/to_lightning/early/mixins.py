"""The ``__init__`` of mixins, and of bases that mixins come before."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import libcst as cst

from det_compat.analysis.classes import Hierarchy
from det_compat.analysis.scopes import Class, Scope
from det_compat.migrate.to_lightning.class_facts import hands_rest_on, is_init_of_next
from det_compat.migrate.to_lightning.plan import LightningFile, TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import marked
from det_compat.migrate.tree.symbols import Symbols


def mixins_in_front(scope: Scope, hierarchy: Hierarchy) -> tuple[list[Scope], bool]:
    """The mixins of a trial class, in the order of ``super()``, and whether a trial is behind them.

    That is another one of the project.
    """
    found: list[Scope] = []
    for base in hierarchy.bases(scope):
        if not isinstance(base, Class) or hierarchy.is_trial(base.scope):
            return found, isinstance(base, Class)
        found += [base.scope, *mixins_in_front(base.scope, hierarchy)[0]]
    return found, False


def handing_on(
    chains: Iterable[tuple[Sequence[tuple[Path, str]], bool]],
    files: Mapping[Path, tuple[cst.Module, Symbols]],
) -> dict[Path, cst.Module]:
    """The trees in which mixins hand hyperparameters on to the trial behind them.

    That is what they did with the context, where they do more than that first of all: a module
    cannot be initialized before them, then. Those that come before or behind such a mixin in some
    trial do the same, or all stay as they are.

    Args:
        chains: for each trial, the path and name of each of its mixins, in the order of
            ``super()``, and whether another trial is behind them.
        files: the tree of each file, and what its placeholders stand for.
    """
    families: list[tuple[set[tuple[Path, str]], bool]] = []
    for chain, has_trial in chains:
        met = [family for family in families if not family[0].isdisjoint(chain)]
        families = [family for family in families if family not in met]
        every = {*chain}.union(*(names for names, _ in met))
        families.append((every, has_trial and all(has for _, has in met)))
    trees = {path: tree for path, (tree, _) in files.items()}
    for family, has_trial in families:
        inits = {
            (path, node.name.value): syntax.methods(node)["__init__"]
            for path in sorted({path for path, _ in family} & files.keys())
            for node in syntax.find(trees[path], cst.ClassDef)
            if (path, node.name.value) in family and "__init__" in syntax.methods(node)
        }
        made = {key: _handing_on(init, files[key[0]][1]) for key, init in inits.items()}
        if has_trial and all(made.values()) and any(map(_is_late, inits.values())):
            for key, init in made.items():
                if init is not None:
                    trees[key[0]] = syntax.with_node(trees[key[0]], inits[key], init)
    return trees


def _is_late(init: cst.FunctionDef) -> bool:
    body = syntax.body_of(init)
    call = next(map(syntax.lone_call, body[syntax.has_docstring(body) :]), None)
    return call is None or not is_init_of_next(call)


def _handing_on(init: cst.FunctionDef, symbols: Symbols) -> cst.FunctionDef | None:
    """The ``__init__`` of a mixin with hyperparameters in the place of the context; None if not.

    What stands before the call of the next one can ask for hyperparameters alone.
    """
    params, body = init.params, syntax.body_of(init)
    calls = [call for line in body if (call := syntax.lone_call(line)) and is_init_of_next(call)]
    every = [c for c in syntax.find(init, cst.Call) if is_init_of_next(c)]
    if len(calls) != 1 or len(every) != 1 or params.kwonly_params or params.posonly_params:
        return None
    (call,) = calls
    given = [arg for arg in call.args if not arg.star]
    names = {p.name.value for p in (params.star_arg, params.star_kwarg) if isinstance(p, cst.Param)}
    others = {syntax.code(arg.value) for arg in call.args if arg.star}
    if len(params.params) - 1 != len(given) or len(given) > 1 or others != names:
        return None
    if any(not symbols.is_context(arg.value) for arg in given):
        return None
    rest = "hparams" if params.star_kwarg is None else params.star_kwarg.name.value
    if params.star_kwarg is None and rest in syntax.names_in(init):
        return None
    at = next(i for i, line in enumerate(body) if syntax.lone_call(line) is call)
    if any(not names.isdisjoint(syntax.names_in(line)) for line in (*body[:at], *body[at + 1 :])):
        return None
    before = [_asking(line, rest, symbols) for line in body[:at]]
    # The module is the context, wherever a mixin keeps it.
    before = [each for each in before if not symbols.is_context(_kept(each))]
    if any(symbols.is_context(name) for line in before for name in syntax.find(line, cst.Name)):
        return None
    star = params.star_kwarg or cst.Param(cst.Name(rest))
    handed = [*(arg for arg in call.args if arg.star == "*"), cst.Arg(star.name, star="**")]
    new = syntax.with_node(body[at], call, call.with_changes(args=syntax.without_commas(handed)))
    params = params.with_changes(params=syntax.without_commas(params.params[:1]), star_kwarg=star)
    return syntax.with_body(init.with_changes(params=params), [*before, new, *body[at + 1 :]])


def _kept(line: cst.BaseStatement) -> cst.BaseExpression | None:
    small = syntax.simple(line)
    return small.value if isinstance(small, cst.Assign) else None


def _asking(line: cst.BaseStatement, rest: str, symbols: Symbols) -> cst.BaseStatement:
    """A statement that looks hyperparameters up in those that are given."""

    def looked_up(call: cst.Call) -> cst.BaseExpression:
        name = syntax.argument(call, 0, "name")
        is_lookup = symbols.method(call) == "get_hparam" and len(call.args) == 1
        return syntax.expression(f"{rest}[{syntax.code(name)}]") if name and is_lookup else call

    return syntax.each(line, cst.Call, looked_up)


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
        if hands_rest_on(init, call) and goes_on <= {"mixin", "trial"}:
            return [line]
        if len(goes_on) > 1:
            return [marked(line, "another __init__ is behind this one in some trials, not in all")]
        # A trial behind it takes hyperparameters, which come with the rest.
        if goes_on == {"mixin"}:
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
