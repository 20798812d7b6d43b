"""How what devices find in their shares of the data becomes one number.

Determined's chief went through all of the data. A mean over a share is averaged over devices, while
a sum that is divided by a fixed number is a part of what the chief found, so these add up.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.whole import kept
from det_compat.migrate.to_lightning.whole.parts import Parts, parsed
from det_compat.migrate.tree import syntax

#: What gives a number as it is.
_SAME = words("float int round item cpu detach numpy tensor as_tensor squeeze double to")
_SUMS = words("sum len")


def reduction(body: Sequence[ast.stmt], after: Sequence[ast.stmt], me: str) -> str | None:
    """``"mean"`` or ``"sum"``; None where neither is right for all that is logged.

    Args:
        body: the statements of the loop over the loader.
        after: those behind it.
        me: what these call the module.
    """
    found = _Numbers(body, after, me)
    grown = {found.growth(value) for value in _logged(after, me)}
    if len(grown) > 1 or None in grown:
        return None
    return "sum" if 1 in grown else "mean"


#: How what is a part of a sum is logged.
SUMMED = 'reduce_fx="sum"'


def apart(parts: Parts, me: str) -> Parts:
    """The parts, where means and parts of a sum that are logged together are logged one by one."""
    numbers = _Numbers(parsed(parts.body), parsed(parts.after), me)
    after: list[cst.BaseStatement] = []
    for line in parts.after:
        call = syntax.lone_call(line)
        dicts = [call.args[0].value] if call is not None and call.args else []
        elements = [e for each in dicts if isinstance(each, cst.Dict) for e in each.elements]
        named = [e for e in elements if isinstance(e, cst.DictElement)]
        grown = [numbers.growth(_expression(each.value)) for each in named]
        is_mixed = len(named) == len(elements) and {*grown} == {0, 1}
        if call is None or syntax.code(call.func) != f"{me}.log_dict" or not is_mixed:
            after.append(line)
            continue
        for kind in (0, 1):
            some = [each for each, growth in zip(named, grown, strict=True) if growth == kind]
            lines = getattr(line, "leading_lines", ()) if kind == 0 else ()
            after.append(
                _logging(call, some, me, summed=bool(kind)).with_changes(leading_lines=lines)
            )
    return replace(parts, after=after)


def _expression(node: cst.BaseExpression) -> ast.expr:
    return ast.parse(syntax.whole(syntax.code(node)).strip(), mode="eval").body


def _logging(
    call: cst.Call, named: Sequence[cst.DictElement], me: str, *, summed: bool
) -> cst.BaseStatement:
    """The statement that logs some of what one logs, as it does."""
    pairs = [(syntax.code(each.key), syntax.code(each.value)) for each in named]
    given = ", ".join(syntax.code(arg).rstrip(", ") for arg in call.args[1:])
    options = ", ".join(filter(None, [given, SUMMED if summed else ""]))
    name, what = "log_dict", f"{{{', '.join(map(': '.join, pairs))}}}"
    if len(named) == 1:
        name, what = "log", ", ".join(pairs[0])
    return syntax.statement(f"{me}.{name}({what}, {options})\n")


def _logged(after: Sequence[ast.stmt], me: str) -> Iterator[ast.expr]:
    """The values that are logged, as far as dicts are written out."""
    nodes = [node for line in after for node in ast.walk(line)]
    assigns = [node for node in nodes if isinstance(node, ast.Assign)]
    for log in (node for node in nodes if isinstance(node, ast.Call) and kept.is_log(node, me)):
        if any(each.arg == "reduce_fx" for each in log.keywords):
            continue
        if len(log.args) > 1:
            yield log.args[1]
            continue
        name = ast.unparse(log.args[0]) if log.args else ""
        dicts = [log.args[0]] if log.args else []
        for assign in assigns:
            target = assign.targets[0]
            if ast.unparse(target) == name:
                dicts.append(assign.value)
            elif isinstance(target, ast.Subscript) and ast.unparse(target.value) == name:
                yield assign.value
        yield from (v for each in dicts if isinstance(each, ast.Dict) for v in each.values)


class _Numbers:
    """What grows with the share of the data that a device has."""

    def __init__(self, body: Sequence[ast.stmt], after: Sequence[ast.stmt], me: str) -> None:
        nodes = [node for line in body for node in ast.walk(line)]
        adding = (n for n in nodes if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Add))
        self._sums = {_stem(node.target) for node in adding}
        self._sums |= {_stem(n.targets[0]) for n in nodes if isinstance(n, ast.Assign) and _adds(n)}
        self._sums.add(f"{me}.trainer.num_val_batches")
        calls = (node.func for node in nodes if isinstance(node, ast.Call))
        methods = (func for func in calls if isinstance(func, ast.Attribute))
        self._lists = {_stem(m.value) for m in methods if m.attr in ("append", "extend")}
        self._values: dict[str, ast.expr] = {}
        for node in (each for line in after for each in ast.walk(line)):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                name = ast.unparse(node.targets[0])
                is_first = name not in self._values and name not in self._sums | self._lists
                self._values |= {name: node.value} if is_first else {}

    def growth(self, node: ast.expr, seen: frozenset[str] = frozenset()) -> int | None:
        """0 for what is the same for any share, 1 for a sum; None for what is neither."""
        name = _stem(node)
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            if name in self._sums:
                return 1
            value = self._values.get(ast.unparse(node))
            if value is not None and name not in seen:
                return self.growth(value, seen | {name})
            return 0
        parts = [*_parts(node)]
        grown = [self.growth(part, seen) for part in parts]
        if isinstance(node, ast.Call):
            last = ast.unparse(node.func).rpartition(".")[2]
            if last in _SUMS and self._has_lists(node, seen):
                return 1
            if last in _SAME:
                return grown[0] if grown else 0
        if None in grown:
            return None
        known = [each or 0 for each in grown]
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div, ast.FloorDiv)):
            total = known[0] + known[1] * (1 if isinstance(node.op, ast.Mult) else -1)
            return total if total in (0, 1) else None
        # A zero is no share of anything.
        zero = [isinstance(part, ast.Constant) and part.value == 0 for part in parts]
        counted = {each for each, is_zero in zip(known, zero, strict=True) if not is_zero}
        is_plain = isinstance(node, (ast.BinOp, ast.UnaryOp, ast.IfExp)) and len(counted) == 1
        return counted.pop() if is_plain else None if any(known) else 0

    def _has_lists(self, node: ast.AST, seen: frozenset[str]) -> bool:
        for part in ast.walk(node):
            if isinstance(part, (ast.Name, ast.Attribute)):
                name = ast.unparse(part)
                value = self._values.get(name)
                if name in self._lists:
                    return True
                if value is not None and name not in seen and self._has_lists(value, seen | {name}):
                    return True
        return False


def _parts(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.Call):
        owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return [*owner, *node.args, *(each.value for each in node.keywords)]
    return [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]


def _stem(node: ast.AST) -> str:
    """The code of what something is a part of, if that is by a key."""
    return ast.unparse(node.value if isinstance(node, ast.Subscript) else node)


def _adds(node: ast.Assign) -> bool:
    value, target = node.value, ast.unparse(node.targets[0])
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        return False
    return target in (ast.unparse(value.left), ast.unparse(value.right))
