"""LR schedulers that a trial steps itself, where Lightning steps none: when, and every how many."""

import re
from collections.abc import Collection, Mapping, Sequence

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.shapes.values import assigned
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
    stepped = {s for s in schedulers if s.is_stepped}
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
    returns = syntax.returns(own[name]) if name in own else []
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


#: A condition that stands again below what it is for.
_AGAIN = re.compile(r"^(    if .*:\n)((?:        .*\n)+(?:\1(?:        .*\n)+)+)", re.M)


def stepping_hooks(plan: TrialPlan, schedulers: list[WrappedScheduler]) -> list[cst.BaseStatement]:
    """The hooks that step schedulers, where Lightning does not."""
    if plan.is_automatic:
        due = next((s.is_due("self.global_step") for s in schedulers if s.counts_batches), "")
        return [syntax.method(_OVER_EPOCHS.format(due))] if due else []
    if plan.accumulation is not None:
        return stepping_when_due((s, _calls(s)) for s in schedulers)
    lines = "".join(map(_step, schedulers))
    lines = _AGAIN.sub(lambda found: found[1] + found[2].replace(found[1], ""), lines)
    if plan.is_idle and not lines:
        lines = "    # there is no scheduler as in the base class\n    pass\n"
    header = f"def {_HOOK}(self, outputs, batch, batch_idx):\n"
    return [syntax.method(header + lines)] if lines else []


def in_training(
    body: Sequence[cst.BaseStatement], plan: TrialPlan, trials: Collection[TrialPlan]
) -> list[cst.BaseStatement]:
    """The body of a class whose ``training_step`` steps schedulers, instead of a hook behind it.

    Lightning calls the hook after its callbacks, of which ModelCheckpoint may have saved the
    schedulers by then: a run that goes on from there would be one step behind. Where bases and
    heirs have schedulers of their own, it calls a method that each of them may have.
    """
    family = {
        each
        for other in trials
        if not {*plan.ancestors}.isdisjoint(other.ancestors)
        for each in other.ancestors
    }
    stepping = [each for each in family if _steps_batches(each)]
    # What only another heir of its base steps is nothing of this class.
    lines_of = (each.ancestors for each in trials if plan in each.ancestors)
    own = {*plan.ancestors}.union(*lines_of)
    if own.isdisjoint(stepping) or any(each.is_automatic for each in family):
        return [*body]
    name, taken = "step_schedulers", {n for p in family for n in (*p.own.methods, *p.own.stores)}
    while name in taken:
        name = f"{name}_of_batch"
    named = {each.name.value: each for each in body if isinstance(each, cst.FunctionDef)}
    hook, training = named.get(_HOOK), named.get("training_step")
    lines = syntax.statements(f"self.{name}()\n")
    method = list[cst.BaseStatement]()
    has_heirs = any(plan in each.ancestors[1:] for each in trials)
    is_alone = stepping == [plan] and not has_heirs
    if is_alone and hook is not None and training is not None:
        lines = [*syntax.body_of(hook)]
    elif hook is not None:
        plain = syntax.method(f"def {name}(self): ...")
        method = [syntax.with_body(plain, syntax.body_of(hook))]
    elif training is not None and not {*plan.ancestors} & {*stepping}:
        method = [syntax.method(f"def {name}(self):\n    # heirs have schedulers\n    pass\n")]
    made = list[cst.BaseStatement]()
    for each in body:
        if each is training:
            made += [_ending_with(training, lines), *(method if hook is None else ())]
        else:
            made += method if each is hook else [each]
    return made


_HOOK = "on_train_batch_end"


def _steps_batches(plan: TrialPlan) -> bool:
    """Whether a class gets the hook that steps schedulers."""
    has_hooks = plan.own.optimizers or plan.own.schedulers or (plan.is_root and plan.all_optimizers)
    hooks = stepping_hooks(plan, plan.all_schedulers) if has_hooks else []
    return any(isinstance(n, cst.FunctionDef) and n.name.value == _HOOK for n in hooks)


def _ending_with(method: cst.FunctionDef, lines: Sequence[cst.BaseStatement]) -> cst.FunctionDef:
    """A method that ends with these statements, wherever it returns."""
    own, returns = syntax.self_name(method), syntax.returns(method)
    if own != "self":
        lines = [syntax.replaced(line, "self", own) for line in lines]
    ends = [*syntax.find(method, cst.SimpleStatementLine)]
    for line in ends:
        if any(line.body[-1] is each for each in returns):
            before = (each.deep_clone() for each in lines)
            method = syntax.with_node(method, line, cst.FlattenSentinel([*before, line]))
    body = syntax.body_of(method)
    is_over = isinstance(syntax.simple(body[-1]), cst.Return)
    return method if is_over else syntax.with_body(method, [*body, *lines])


def _are_crossed(schedulers: Sequence[WrappedScheduler]) -> bool:
    """Whether one that steps after batches comes after one of epochs.

    After the last batch of an epoch both step in this order, which Lightning turns around: of two
    schedulers of one optimizer the second goes on from what the first has set.
    """
    intervals = [scheduler.interval for scheduler in schedulers]
    return "epoch" in intervals and "step" in intervals[intervals.index("epoch") :]


_OVER_EPOCHS = """\
def lr_scheduler_step(self, scheduler, metric):
    # a "frequency" would count the batches of each epoch anew
    if {0}:
        scheduler.step()
"""


def _step(scheduler: WrappedScheduler) -> str:
    """The lines that step a scheduler as a batch ends, or the last one of an epoch."""
    text = ""
    for interval, chosen in ((scheduler.interval, ""), *scheduler.choices):
        is_epochs = interval == "epoch"
        count = "self.current_epoch" if is_epochs else TOTAL_BATCH.format("self")
        conditions = [
            is_there(scheduler.attribute) if scheduler.may_lack else "",
            "self.trainer.is_last_batch" if is_epochs else "",
            chosen,
            scheduler.is_due(f"({count} + 1)") if scheduler.frequency != "1" else "",
        ]
        condition = " and ".join(filter(None, conditions))
        lines = [f"    {line}\n" for line in _calls(scheduler) if interval]
        if condition and lines:
            lines = [f"    if {condition}:\n", *(f"    {line}" for line in lines)]
        text += "".join(lines)
    return text


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

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """The same for ``getattr``."""
        is_lookup = syntax.code(original.func) == "getattr" and len(original.args) == 2
        is_lookup = is_lookup and self.symbols.path(original.args[0].value) == STEP_MODE
        return updated.args[1].value if is_lookup else updated

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.BaseExpression:
        mode = step_mode(original, self.symbols)
        return cst.SimpleString(f'"{mode}"') if mode else updated
