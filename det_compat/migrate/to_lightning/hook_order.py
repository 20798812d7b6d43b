"""What the hooks of callbacks find otherwise than before, since something else comes first now."""

import ast
import re

import libcst as cst

from det_compat.migrate.to_lightning.metrics.told import CALLS
from det_compat.migrate.to_lightning.optimization.schedulers import is_alone
from det_compat.migrate.to_lightning.plan import LightningFile, TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import parsed
from det_compat.migrate.tree.trial_attributes import attributes_changed, attributes_read

#: They ended a period of training, after the schedulers' steps.
_AFTER_BATCHES = ("on_training_epoch_end", *CALLS)
_OF_BATCHES = ("on_validation_epoch_start", "on_validation_epoch_end")
_NOT_CALLED = "Lightning calls this, and Determined did not where a trial evaluates a whole dataset"
_SCHEDULED = "an LR scheduler steps after this now, and did before: step it in training_step"


_OTHERWISE = (
    "{0} sets {1}, too, as a period of training ends, and Lightning may call it in another order"
)
#: What a statement sets of an object.
_SET = re.compile(r"(?<!self)\.(\w+) *(?:[-+*/|&^%@]|//|\*\*)?=(?!=)")


def _set_by_another(
    method: cst.FunctionDef, name: str, file: LightningFile
) -> tuple[str, str] | None:
    """Another callback that sets what a hook sets, by a hook that Lightning calls at another time.

    Determined ended an epoch, and the period of training, callback by callback.
    """
    if method.name.value not in _AFTER_BATCHES:
        return None
    own = {*_SET.findall(syntax.code(method.body))}
    for other in sorted(file.callbacks - {name}):
        for node in ast.walk(parsed(file.elsewhere.texts.get(other, ""))):
            is_end = isinstance(node, ast.FunctionDef) and node.name in _AFTER_BATCHES
            if isinstance(node, ast.FunctionDef) and is_end and node.name != method.name.value:
                for shared in sorted(own & {*_SET.findall(ast.unparse(node))}):
                    return other, shared
    return None


def left_of_order(method: cst.FunctionDef, node: cst.ClassDef, file: LightningFile) -> str:
    """What must be said of a hook of a callback; ``""`` for nothing.

    Lightning steps schedulers of epochs behind the validation, and a module that steps by itself
    those of batches behind the callbacks, if it does not in ``training_step``.
    """
    name, plans = method.name.value, [p for p in file.trials.values() if not p.is_mixin]
    # Where nobody is seen to make the callback, any trial may have it.
    plans = [p for p in plans if _makes(p, node.name.value)] or plans
    if name in _OF_BATCHES and any(plan.evaluates_whole for plan in plans):
        return _NOT_CALLED
    if both := _set_by_another(method, node.name.value, file):
        return _OTHERWISE.format(*both)
    is_after, is_validation = name in _AFTER_BATCHES, name.startswith("on_validation")
    for plan in plans if is_after or is_validation else ():
        stepped = {s.interval or "step" for s in plan.all_schedulers if s.mode != "MANUAL_STEP"}
        is_behind = is_after and not plan.is_automatic and not _steps_in_training(plan, file)
        is_late = "epoch" in stepped or (bool(stepped) and is_behind)
        if is_late and _changes_rates(method, plan):
            return _SCHEDULED
    return ""


def _steps_in_training(plan: TrialPlan, file: LightningFile) -> bool:
    """Whether ``training_step`` steps the schedulers of batches, before any callback."""
    nodes = [*ast.walk(parsed(file.elsewhere.texts.get(plan.own.name, "")))]
    training = [n for n in nodes if isinstance(n, ast.FunctionDef) and n.name == "train_batch"]
    early = (n for each in training for line in each.body[:-1] for n in ast.walk(line))
    is_one = bool(training) and not any(isinstance(node, ast.Return) for node in early)
    return is_one and is_alone(plan, file.trials)


def _makes(plan: TrialPlan, name: str) -> bool:
    return any(name in called for p in plan.ancestors for called in p.own.called.values())


def _changes_rates(method: cst.FunctionDef, plan: TrialPlan) -> bool:
    """Whether a hook sets learning rates, or steps something that does."""
    text = syntax.code(method.body)
    sets = "param_groups" in text and re.search(r"\]\s*[-+*/]?=[^=]", text)
    steps = re.search(r"\.step\(", text)
    rated = {*plan.all_optimizers, *(s.attribute for s in plan.all_schedulers), "param_groups"}
    rated = {name.strip("*").partition("[")[0] for name in rated}
    called = {syntax.code(call.func).rpartition(".")[2] for call in syntax.find(method, cst.Call)}
    of_trial = called & plan.all_methods
    return bool(sets or steps or rated & plan.uses(*plan.reached(*of_trial)).keys())


def is_seen_before(node: cst.ClassDef, name: str) -> bool:
    """Whether what a hook of a callback keeps is read by hooks that Lightning calls before it."""
    own = syntax.methods(node)
    changed = {*attributes_changed(own[name])}
    first = (m for n, m in own.items() if n.startswith("on_validation") or n in CALLS)
    return any(changed & {*attributes_read(method)} for method in first)
