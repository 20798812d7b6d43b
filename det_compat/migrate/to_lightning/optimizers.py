"""Wrapped models, optimizers and schedulers: ``configure_optimizers``."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from det_compat.migrate.tree.file import File, Schedule, TrialPlan
from det_compat.migrate.tree.marks import marked
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.syntax import (
    argument,
    body_of,
    call_of,
    code,
    dedented,
    expression,
    find,
    mentions,
    method,
    names_in,
    replaced,
    simple,
    target_of,
    with_body,
)
from det_compat.migrate.tree.wrapping import wrappings

_MOVED = ("wrap_optimizer", "wrap_lr_scheduler")
_WRAPPERS = {
    "wrap_model": "model",
    "wrap_optimizer": "optimizer",
    "wrap_lr_scheduler": "lr_scheduler",
    "wrap_scaler": "scaler",
    "wrap_reducer": "reducer",
    "experimental.wrap_reducer": "reducer",
}


def moved_lines(
    init: cst.FunctionDef, plan: TrialPlan, symbols: Symbols, own: dict[str, cst.FunctionDef]
) -> list[int]:
    """The statements of ``__init__`` that make optimizers and schedulers, if they can be moved."""
    body = body_of(init)
    found = [i for i, line in enumerate(body) if _wrapped(line, symbols) and "." in _target(line)]
    if len(found) != sum(_count(line, symbols) for line in body):
        return []
    found = _with_locals(body, found)
    rest = [line for i, line in enumerate(body) if i not in found]
    moved = [body[i] for i in found]
    made = {_target(line) for line in moved}
    local = {n for line in body for t in find(line, cst.AssignTarget) for n in names_in(t.target)}
    local |= {p.name.value for p in init.params.params[1:]}
    local -= {init.params.params[0].name.value}
    needed = set().union(*(names_in(line) for line in moved)) & local
    # what __init__ calls may need them as well
    early = [own[name] for name in plan.early - {"__init__"} if name in own]
    if needed - made or any(mentions(n, name) for name in made for n in (*rest, *early)):
        return []
    return found


def _with_locals(body: Sequence[cst.BaseStatement], found: list[int]) -> list[int]:
    """With the assignments of local variables that are used there and nowhere else."""
    while True:
        moved = [body[i] for i in found]
        used = set().union(*(names_in(line) for line in moved)) if moved else set()
        more = [
            i
            for i, line in enumerate(body)
            if i not in found
            and _target(line).isidentifier()
            and _target(line) in used
            and not any(
                _target(line) in names_in(other)
                for j, other in enumerate(body)
                if j != i and j not in found
            )
        ]
        if not more:
            return found
        found = sorted({*found, *more})


def _target(line: cst.BaseStatement) -> str:
    return target_of(line) or ""


def _wrapped(line: cst.BaseStatement, symbols: Symbols) -> str:
    found = symbols.called(call_of(line)) if simple(line) is not None else None
    return found[1] if found and found[1] in _MOVED else ""


def _count(line: cst.BaseStatement, symbols: Symbols) -> int:
    calls = (symbols.called(call) for call in find(line, cst.Call))
    return sum(found is not None and found[1] in _MOVED for found in calls)


def configure_optimizers(
    plan: TrialPlan, moved: list[cst.BaseStatement], used: set[str]
) -> list[cst.BaseStatement]:
    """configure_optimizers, and the hooks that step schedulers where Lightning does not.

    Args:
        plan: of the class.
        moved: the statements that make optimizers and schedulers; if there are none, the class
            has made them.
        used: the attributes that are used elsewhere, and so stay attributes.
    """
    optimizers, schedulers = plan.all_optimizers, plan.all_schedulers
    listed = [*optimizers, *(s.attribute for s in schedulers)]
    names = {name: _own(name) for name in listed}
    if moved:
        names.update({name: name for name in names if name not in used})
    returned = _returned(plan, [names[name] for name in optimizers], schedulers, names)
    made = method(f"def configure_optimizers(self):\n    return {returned}\n")
    lines = [_unwrapped_line(line, names) for line in moved]
    if lines:
        first = lines[0]
        lines[0] = first.with_changes(
            leading_lines=[line for line in first.leading_lines if line.comment]  # type: ignore[attr-defined]
        )
    made = with_body(made, [*lines, *body_of(made)])
    is_kept = any("self." in name for name in map(names.get, optimizers) if name)
    starred = [name for name in optimizers if name.startswith("*")]
    can_count = len(starred) < min(2, len(optimizers))
    counted = [_counted(optimizers)] if is_kept and can_count and not plan.is_automatic else []
    return [made, *counted, *_stepping_hooks(plan, schedulers)]


def _own(attribute: str) -> str:
    """An attribute, or the elements of one, of the module."""
    return f"*self.{attribute[1:]}" if attribute.startswith("*") else f"self.{attribute}"


def _counted(optimizers: list[str]) -> cst.BaseStatement:
    """Lets Lightning count the steps, without which it saves no checkpoints."""
    names = ", ".join(map(_own, optimizers))
    return method(f"def on_train_start(self):\n    {names} = self.optimizers()\n")


def _unwrapped_line(line: cst.BaseStatement, names: dict[str, str]) -> cst.BaseStatement:
    for attribute, name in names.items():
        if name == attribute:
            line = replaced(line, f"self.{attribute}", name)
    return line


def _returned(
    plan: TrialPlan, optimizers: list[str], schedulers: list[Schedule], names: dict[str, str]
) -> str:
    if not plan.is_automatic:
        steps = [names[s.attribute] for s in schedulers]
        if len(optimizers) == 1 and not steps and not optimizers[0].startswith("*"):
            return optimizers[0]
        listed = f"[{', '.join(optimizers)}]"
        return f"{listed}, [{', '.join(steps)}]" if steps else listed
    if not schedulers:
        return optimizers[0]
    described = [_described(schedule, names) for schedule in schedulers]
    if len(described) == 1:
        return (
            "{\n"
            f'        "optimizer": {optimizers[0]},\n'
            f'        "lr_scheduler": {described[0]},\n'
            "    }"
        )
    lines = "".join(f"\n        {text}," for text in described)
    return f"[{optimizers[0]}], [{lines}\n    ]"


def _described(schedule: Schedule, names: dict[str, str]) -> str:
    frequency = "" if schedule.frequency == "1" else f', "frequency": {schedule.frequency}'
    name = names[schedule.attribute]
    return f'{{"scheduler": {name}, "interval": "{schedule.interval}"{frequency}}}'


def _stepping_hooks(plan: TrialPlan, schedulers: list[Schedule]) -> list[cst.BaseStatement]:
    if plan.is_automatic:
        return []
    made: list[cst.BaseStatement] = []
    for interval, header, count in (
        ("step", "on_train_batch_end(self, outputs, batch, batch_idx)", _TOTAL),
        ("epoch", "on_train_epoch_end(self)", "self.current_epoch"),
    ):
        if interval in plan.idle_hooks:
            lines = "    # there is no scheduler as in the base class\n    pass\n"
            made.append(method(f"def {header}:\n{lines}"))
        due = [s for s in schedulers if s.interval == interval]
        if due:
            lines = "".join(_step(schedule, count) for schedule in due)
            made.append(method(f"def {header}:\n{lines}"))
    return made


_TOTAL = "self.trainer.fit_loop.epoch_loop.total_batch_idx"


def _step(schedule: Schedule, count: str) -> str:
    lines = [f"self.{schedule.attribute}.step()"]
    if schedule.attribute.startswith("*"):
        lines = [f"for scheduler in self.{schedule.attribute[1:]}:", "    scheduler.step()"]
    if schedule.frequency != "1":
        lines = [
            f"if ({count} + 1) % ({schedule.frequency}) == 0:",
            *(f"    {line}" for line in lines),
        ]
    return "".join(f"    {line}\n" for line in lines)


def apply(tree: cst.Module, file: File) -> cst.Module:
    """Take the wrappers off: Lightning wraps what it needs to."""
    return tree.visit(_Unwrapping(file))


class _Unwrapping(cst.CSTTransformer):
    def __init__(self, file: File) -> None:
        self._file = file
        self._marks: list[list[str]] = []
        self._appended: set[str] = set()
        self._methods = {name for plan in file.plans.values() for name in plan.methods}

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        found = wrappings(node, self._file.symbols)
        self._appended |= {w.attribute for w in found if w.is_list and w.member == "wrap_model"}

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        """A list of models is a ModuleList, or Lightning does not see them."""
        value = updated_node.value
        attribute = code(updated_node.targets[0].target).partition(".")[2]
        if attribute not in self._appended or not isinstance(value, (cst.List, cst.ListComp)):
            return updated_node
        self._file.imports.add("import torch")
        is_empty = isinstance(value, cst.List) and not value.elements
        made = "torch.nn.ModuleList()" if is_empty else f"torch.nn.ModuleList({code(value)})"
        return updated_node.with_changes(value=expression(made))

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        self._marks.append([])

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.RemovalSentinel:
        line: cst.BaseStatement = updated_node
        for message in self._marks.pop():
            line = marked(line, message, "MIGRATION.md#nvidia-apex")
        small = simple(updated_node)
        if isinstance(small, cst.Assign) and _target(updated_node) == code(small.value):
            return cst.RemoveFromParent()
        is_bare = isinstance(small, cst.Expr) and isinstance(small.value, (cst.Name, cst.Attribute))
        was_call = call_of(original_node) is not None
        return cst.RemoveFromParent() if is_bare and was_call else line

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        found = self._file.symbols.called(updated_node)
        if found is None:
            return updated_node
        if found[1] == "configure_apex_amp":
            return self._without_apex(updated_node)
        name = _WRAPPERS.get(found[1])
        wrapped = argument(updated_node, 0, name) if name else None
        if wrapped is None:
            return updated_node
        if name == "reducer" and self._is_function(wrapped):
            self._file.has_function_reducers = True
            return expression(f"FunctionMetric({code(wrapped)})")
        is_below = isinstance(updated_node.whitespace_before_args, cst.ParenthesizedWhitespace)
        return dedented(wrapped) if is_below else wrapped

    def _is_function(self, node: cst.BaseExpression) -> bool:
        is_known = isinstance(node, cst.Name) and node.value in self._file.functions
        # a method of the trial
        is_method = isinstance(node, cst.Attribute) and node.attr.value in self._methods
        return is_known or is_method or isinstance(node, cst.Lambda)

    def _without_apex(self, call: cst.Call) -> cst.BaseExpression:
        models, optimizers = argument(call, 0, "models"), argument(call, 1, "optimizers")
        if models is None or optimizers is None:
            return call
        if self._marks:
            self._marks[-1].append('mixed precision is pl.Trainer(precision="16-mixed")')
        return expression(f"({code(models)}, {code(optimizers)})")
