"""``context.step_optimizer`` as the lines that it stands for."""

from __future__ import annotations

import libcst as cst

from det_compat.migrate.tree.file import File, TrialPlan
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.syntax import (
    argument,
    body_of,
    code,
    find,
    mentions,
    names_in,
    replaced,
    self_name,
    statements,
    with_body,
)


def clipping(clip: cst.BaseExpression | None, optimizer: str) -> list[str]:
    """The lines that clip gradients as ``clip_grads`` did."""
    if clip is None or code(clip) == "None":
        return []
    lines = [f'params = [p for group in {optimizer}.param_groups for p in group["params"]]']
    if isinstance(clip, cst.Lambda) and len(clip.params.params) == 1:
        lines.append(code(replaced(clip.body, clip.params.params[0].name.value, "params")))
    elif isinstance(clip, cst.Attribute):
        lines.append(f"{code(clip)}(params)")
    else:
        lines.append(f"clip_grads = {code(clip)}")
        lines += ["if clip_grads is not None:", "    clip_grads(params)"]
    return lines


def step(call: cst.Call) -> list[cst.BaseStatement] | None:
    """What ``step_optimizer`` does, step by step; None if it is called in an unknown way."""
    optimizer, zero = argument(call, 0, "optimizer"), argument(call, 2, "auto_zero_grads")
    scaler = argument(call, 3, "scaler")
    if optimizer is None or any(given.star for given in call.args):
        return None
    name = code(optimizer)
    lines = clipping(argument(call, 1, "clip_grads"), name)
    lines.append(f"{name}.step()" if scaler is None else f"{code(scaler)}.step({name})")
    if zero is None or code(zero) == "True":
        lines.append(f"{name}.zero_grad()")
    elif code(zero) != "False":
        lines += [f"if {code(zero)}:", f"    {name}.zero_grad()"]
    return statements("\n".join(lines) + "\n")


def apply(tree: cst.Module, file: File) -> cst.Module:
    """Write out the steps outside of trial classes, in callbacks for example."""
    return tree.visit(Stepping(file.symbols))


class Stepping(cst.CSTTransformer):
    """Writes out every ``step_optimizer`` that is a statement."""

    def __init__(self, symbols: Symbols) -> None:
        self._symbols = symbols

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        small = updated_node.body[0] if len(updated_node.body) == 1 else None
        call = small.value if isinstance(small, cst.Expr) else None
        found = self._symbols.called(call)
        if found is None or found[1] != "step_optimizer" or not isinstance(call, cst.Call):
            return updated_node
        lines = step(call)
        if lines is None:
            return updated_node
        first, last = lines[0], lines[-1]
        lines[0] = first.with_changes(leading_lines=updated_node.leading_lines)
        if last is not first and isinstance(last, cst.SimpleStatementLine):
            lines[-1] = last.with_changes(trailing_whitespace=updated_node.trailing_whitespace)
        return cst.FlattenSentinel(lines)


def with_optimizers(method: cst.FunctionDef, plan: TrialPlan, symbols: Symbols) -> cst.FunctionDef:
    """A method with its steps written out; it asks Lightning for the optimizers it steps."""
    own = self_name(method)
    stepped = _stepped(method, own, plan, symbols)
    changed = method.visit(Stepping(symbols))
    assert isinstance(changed, cst.FunctionDef)
    if not plan.is_moved or not stepped:
        return changed
    taken = names_in(method.body)
    if taken & set(plan.optimizers):
        return changed
    for attribute in stepped:
        changed = replaced(changed, f"{own}.{attribute}", attribute)
    names = [name if name in stepped else "_" for name in plan.optimizers]
    first = statements(f"{', '.join(names)} = {own}.optimizers()\n")
    return with_body(changed, [*first, *body_of(changed)])


def _stepped(method: cst.FunctionDef, own: str, plan: TrialPlan, symbols: Symbols) -> list[str]:
    if not any(
        (f := symbols.called(c)) and f[1] == "step_optimizer" for c in find(method, cst.Call)
    ):
        return []
    return [name for name in plan.optimizers if mentions(method, f"{own}.{name}")]
