"""LR schedulers that a trial steps itself, where Lightning steps none: when, and every how many."""

import textwrap
from collections.abc import Collection, Mapping, Sequence

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.to_lightning.class_facts import (
    WrappedScheduler,
    step_mode_of,
    variables_of,
)
from det_compat.migrate.to_lightning.optimization.accumulation import stepping_when_due
from det_compat.migrate.to_lightning.optimization.kept import wrappings
from det_compat.migrate.to_lightning.optimization.step_modes import (
    STEP_MODE,
    choices,
    kept_mode,
    step_mode,
)
from det_compat.migrate.to_lightning.plan import TOTAL_BATCH, LightningFile, TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import FileTransformer, Line, Lines
from det_compat.migrate.tree.metric_shapes import assigned
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import is_there, of_self

_INDENT = "    "


def are_lightnings(
    schedulers: Sequence[WrappedScheduler],
    own: Mapping[str, cst.FunctionDef],
    asked: Collection[str],
) -> bool:
    """Whether Lightning may step the schedulers of a class, as far as anything does.

    Args:
        schedulers: those of the class.
        own: its methods.
        asked: the attributes that code elsewhere may ask it for.
    """
    if not all(
        s.is_lightnings or (_is_idle(s, own) and s.attribute not in asked) for s in schedulers
    ):
        return False
    # What is written for one that counts batches is for it alone; branches may make it in several
    # ways.
    stepped = {s for s in schedulers if s.interval}
    is_mixed = len(stepped) > 1 and any(s.counts_batches for s in stepped)
    return not is_mixed and not _are_crossed(schedulers)


def _is_idle(scheduler: WrappedScheduler, own: Mapping[str, cst.FunctionDef]) -> bool:
    """Whether nothing steps a scheduler, which has set the first learning rates, and no more."""
    found = [*map(syntax.code, (n for m in own.values() for n in syntax.find(m, cst.Attribute)))]
    names = {f"{syntax.self_name(method)}.{scheduler.attribute}" for method in own.values()}
    is_used = sum(map(found.count, names)) != 1
    return scheduler.mode == "MANUAL_STEP" and not is_used and _has_one_name(scheduler, own)


def _has_one_name(scheduler: WrappedScheduler, own: Mapping[str, cst.FunctionDef]) -> bool:
    """Whether a scheduler is made where it is wrapped, and nothing else can step it."""
    return all(
        (call := syntax.call_of(line)) is not None
        and _is_made(syntax.argument(call, 0, "lr_scheduler"), method, own)
        for method in own.values()
        for line in syntax.find(method, cst.SimpleStatementLine)
        if syntax.target_of(line) == f"{syntax.self_name(method)}.{scheduler.attribute}"
    )


def _is_made(
    value: cst.BaseExpression | None, method: cst.FunctionDef, own: Mapping[str, cst.FunctionDef]
) -> bool:
    """Whether an expression in a method makes something, which nothing else has."""
    if isinstance(value, cst.Name):
        uses = [name for name in syntax.find(method, cst.Name) if name.value == value.value]
        return len(uses) == 2 and _is_made(assigned(method).get(value.value), method, own)
    if not isinstance(value, cst.Call):
        return False
    owner, _, name = syntax.code(value.func).rpartition(".")
    if owner != syntax.self_name(method):
        return True
    returns = syntax.find(own[name], cst.Return) if name in own else ()
    return name in own and all(_is_made(found.value, own[name], own) for found in returns)


def listed_schedulers(schedulers: Sequence[WrappedScheduler], names: dict[str, str]) -> str:
    """The list of schedulers that configure_optimizers returns; ``""`` if there are none."""
    known = dict.fromkeys(s.attribute for s in schedulers if s.is_torchs)
    lacking = {s.attribute for s in schedulers if s.may_lack}
    if not known:
        return ""
    if len(known) == 1 and lacking & known.keys():
        (name,) = known
        return f"[{names[name]}] if {_if_there(name)} is not None else []"
    return listed([*known], lacking, names)


def listed(attributes: Sequence[str], lacking: Collection[str], names: dict[str, str]) -> str:
    """The list of some attributes, of which these may lack, given what each is called."""
    texts = [_if_there(name) if name in lacking else names[name] for name in attributes]
    if not {*lacking} & {*attributes}:
        return f"[{', '.join(texts)}]"
    return f"[each for each in ({', '.join(texts)}) if each is not None]"


def _if_there(attribute: str) -> str:
    """The expression of what may lack, or None."""
    owner, bracket, key = attribute.partition("[")
    if bracket:
        return f"self.{owner}.get({key.removesuffix(']')})"
    return of_self(attribute)


def stepping_hooks(plan: TrialPlan, schedulers: list[WrappedScheduler]) -> list[cst.BaseStatement]:
    """The hooks that step schedulers, where Lightning does not."""
    if plan.is_automatic:
        due = next((s.is_due("self.global_step") for s in schedulers if s.counts_batches), "")
        return [syntax.method(_OVER_EPOCHS.format(due))] if due else []
    if plan.accumulation is not None:
        return stepping_when_due((s, _calls(s)) for s in schedulers)
    made: list[cst.BaseStatement] = []
    crossed = _are_crossed(schedulers)
    for interval, header, count in (
        ("step", "on_train_batch_end(self, outputs, batch, batch_idx)", TOTAL_BATCH.format("self")),
        ("epoch", "on_train_epoch_end(self)", "self.current_epoch"),
    ):
        idle = "    # there is no scheduler as in the base class\n    pass\n"
        due = "".join(
            _step_if(condition, scheduler, count)
            for scheduler in schedulers
            for due_at, condition in [(scheduler.interval, ""), *scheduler.choices]
            if due_at == interval and not crossed
        )
        if crossed and interval == "step":
            due = "".join(map(_step_in_order, schedulers))
        for lines in (idle if interval in plan.idle_hooks else "", due):
            if lines:
                made.append(syntax.method(f"def {header}:\n{lines}"))
    return made


def in_training(
    body: Sequence[cst.BaseStatement], plan: TrialPlan, trials: Mapping[str, TrialPlan]
) -> list[cst.BaseStatement]:
    """The body of a class whose ``training_step`` steps schedulers, instead of a hook behind it.

    Lightning calls the hook after its callbacks, of which ModelCheckpoint may have saved the
    schedulers by then: a run that goes on from there would be one step behind. The hook stays where
    ``training_step`` returns early, or heirs have their own.
    """
    named = {each.name.value: each for each in body if isinstance(each, cst.FunctionDef)}
    hook, training = named.get("on_train_batch_end"), named.get("training_step")
    if hook is None or training is None or syntax.returns(training) or not is_alone(plan, trials):
        return [*body]
    if syntax.self_name(training) != "self" or "super()" in syntax.code(hook):
        return [*body]
    stepped = syntax.with_body(training, [*syntax.body_of(training), *syntax.body_of(hook)])
    return [stepped if each is training else each for each in body if each is not hook]


def is_alone(plan: TrialPlan, trials: Mapping[str, TrialPlan]) -> bool:
    """Whether a class steps by itself after batches, and neither its bases nor its heirs do."""
    is_own = plan.is_automatic or "on_train_batch_end" in plan.own.methods
    heirs = (each for each in trials.values() if plan in each.ancestors[1:])
    return plan.is_root and not is_own and not any(heirs)


def _are_crossed(schedulers: Sequence[WrappedScheduler]) -> bool:
    """Whether one that steps after batches comes after one of epochs.

    After the last batch of an epoch both step in this order, which Lightning turns around: of two
    schedulers of one optimizer the second goes on from what the first has set.
    """
    intervals = [scheduler.interval for scheduler in schedulers]
    return "epoch" in intervals and "step" in intervals[intervals.index("epoch") :]


def _step_in_order(scheduler: WrappedScheduler) -> str:
    if scheduler.interval == "epoch":
        return _step_if("self.trainer.is_last_batch", scheduler, "self.current_epoch")
    return _step_if("", scheduler, TOTAL_BATCH.format("self")) if scheduler.interval else ""


_OVER_EPOCHS = """\
def lr_scheduler_step(self, scheduler, metric):
    # a "frequency" would count the batches of each epoch anew
    if {0}:
        scheduler.step()
"""


def _step_if(condition: str, scheduler: WrappedScheduler, count: str) -> str:
    """The lines that step a scheduler under a condition; ``""`` for none."""
    conditions = [is_there(scheduler.attribute)] if scheduler.may_lack else []
    conditions += [condition] if condition else []
    lines = _step(scheduler, count)
    if not conditions:
        return lines
    return f"    if {' and '.join(conditions)}:\n{textwrap.indent(lines, _INDENT)}"


def _step(scheduler: WrappedScheduler, count: str) -> str:
    lines = _calls(scheduler)
    if scheduler.frequency != "1":
        lines = [
            f"if {scheduler.is_due(f'({count} + 1)')}:",
            *(f"    {line}" for line in lines),
        ]
    return "".join(f"    {line}\n" for line in lines)


def _calls(scheduler: WrappedScheduler) -> list[str]:
    if scheduler.attribute.startswith("*"):
        return [f"for scheduler in self.{scheduler.attribute[1:]}:", "    scheduler.step()"]
    return [f"self.{scheduler.attribute}.step()"]


def keep_modes(tree: cst.Module, symbols: Symbols) -> cst.Module:
    """Keep the step mode of each scheduler of which it is known only when the trial is made."""

    def keeping(node: cst.ClassDef) -> cst.ClassDef:
        names = _kept_at_run_time(node, symbols)
        return syntax.transformed(node, _Keeping(symbols, names)) if names else node

    return syntax.each(tree, cst.ClassDef, keeping)


def _kept_at_run_time(node: cst.ClassDef, symbols: Symbols) -> set[str]:
    """The attributes of a class with schedulers whose step mode is not known, or not one."""
    own = syntax.methods(node)
    variables = variables_of(own)
    modes: dict[str, set[str]] = {}
    for found in (w for method in own.values() for w in wrappings(method, symbols)):
        if found.member == "wrap_lr_scheduler" and not found.is_list:
            given = step_mode_of(found, symbols, variables)
            has_choices = isinstance(given, cst.IfExp) and choices(given, symbols)
            mode = syntax.code(given) if has_choices and given else step_mode(given, symbols)
            modes.setdefault(found.attribute, set()).add(mode)
    return {name for name, known in modes.items() if len(known) > 1 or known == {""}}


class _Keeping(cst.CSTTransformer):
    def __init__(self, symbols: Symbols, names: Collection[str]) -> None:
        super().__init__()
        self._symbols = symbols
        self._names = names

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        owner, _, name = (syntax.target_of(updated) or "").partition(".")
        found = syntax.find(updated, cst.Call)
        call = next((c for c in found if self._symbols.method(c) == "wrap_lr_scheduler"), None)
        mode = syntax.argument(call, 1, "step_mode") if call is not None else None
        if name not in self._names or mode is None:
            return updated
        target = syntax.expression(f"{owner}.{kept_mode(name)}")
        if syntax.code(mode) == syntax.code(target):
            return updated
        kept = cst.SimpleStatementLine([syntax.assignment(target, mode.deep_clone())])
        return cst.FlattenSentinel([updated, kept])


def write_step_modes(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Make texts of the step modes that are left, to be compared and looked up by name."""
    has_modes = any(step_mode(name, file.symbols) for name in syntax.find(tree, cst.Name))
    return (
        syntax.transformed(tree, _Writing(file))
        if has_modes or file.symbols.has(STEP_MODE)
        else tree
    )


class _Writing(FileTransformer[LightningFile]):
    def leave_Subscript(
        self, original: cst.Subscript, updated: cst.Subscript
    ) -> cst.BaseExpression:
        index = updated.slice[0].slice
        is_lookup = self.symbols.path(original.value) == STEP_MODE and isinstance(index, cst.Index)
        return ensure_type(index, cst.Index).value if is_lookup else updated

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.BaseExpression:
        mode = step_mode(original, self.symbols)
        return cst.SimpleString(f'"{mode}"') if mode else updated
