"""Tensors that a trial draws once, and moves to the device where it uses them.

Determined drew them again, by the same seed, when a run went on; Lightning would draw others. A
buffer is in the checkpoint, and on the device.
"""

from collections.abc import Collection, Iterator

import libcst as cst

from det_compat.migrate.to_lightning.early.late import DRAWING
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.symbols import Symbols


def with_buffers(node: cst.ClassDef, symbols: Symbols, asked: Collection[str]) -> cst.ClassDef:
    """A trial that has buffers for what ``__init__`` draws and other methods move.

    Args:
        node: the class, of which no other knows what it keeps.
        symbols: what placeholders stand for.
        asked: the attributes that are asked for elsewhere.
    """
    init = syntax.methods(node).get("__init__")
    for line in syntax.body_of(init) if init is not None else ():
        name, target = _drawn(line, syntax.self_name(init)) if init is not None else ("", "")
        if name and name not in asked and _is_moved(name, line, node, symbols):
            value = syntax.code(getattr(syntax.simple(line), "value", cst.Name("None")))
            text = f'{target.removesuffix(name)}register_buffer("{name}", {value})'
            made = line.with_changes(body=[cst.Expr(syntax.expression(text))])
            node = syntax.transformed(syntax.with_node(node, line, made), _Moved(name, symbols))
    return node


def draws(value: cst.BaseExpression | None) -> bool:
    """Whether a value is a tensor that torch draws."""
    name = syntax.code(value.func) if isinstance(value, cst.Call) else ""
    return name.startswith("torch.") and name.removeprefix("torch.") in DRAWING


def _drawn(line: cst.BaseStatement, me: str) -> tuple[str, str]:
    """The attribute that keeps what a statement draws, without its object and with it."""
    small, target = syntax.simple(line), syntax.target_of(line) or ""
    name = target.removeprefix(f"{me}.")
    value = getattr(small, "value", None)
    is_one = isinstance(small, cst.Assign) and name != target and name.isidentifier()
    if not is_one or not isinstance(value, cst.BaseExpression) or not draws(value):
        return "", ""
    return ("", "") if "requires_grad" in syntax.code(value) else (name, target)


def _is_moved(name: str, line: cst.BaseStatement, node: cst.ClassDef, symbols: Symbols) -> bool:
    """Whether nothing sets an attribute again but to move it, and who reads it moves it."""
    own = syntax.methods(node)
    users = [m for m in own.values() if any(_uses(m, name))]
    first = own["__init__"]
    later = [method for method in users if method is not first]
    is_once = len([*_uses(first, name)]) == 1
    return is_once and bool(later) and all(_moves(method, name, symbols) for method in later)


def _uses(method: cst.FunctionDef, name: str) -> Iterator[cst.Attribute]:
    return (each for each in syntax.find(method, cst.Attribute) if each.attr.value == name)


def _moves(method: cst.FunctionDef, name: str, symbols: Symbols) -> bool:
    """Whether a method moves an attribute wherever it reads it, or before."""
    text = f"{syntax.self_name(method)}.{name}"
    moved = [
        each
        for line in syntax.find(method, cst.Assign)
        for target, value in syntax.pairs(line)
        if syntax.code(target) == text
        for each in [_is_move(value, text, symbols)]
    ]
    calls = [c for c in syntax.find(method, cst.Call) if _is_move(c, text, symbols)]
    # Each move reads it, and what keeps it sets it.
    if not calls or not all(moved):
        return False
    uses = [each for each in _uses(method, name) if syntax.code(each) == text]
    is_plain = len(uses) == len([*_uses(method, name)])
    return is_plain and (bool(moved) or len(uses) == len(calls))


def _is_move(node: cst.BaseExpression, text: str, symbols: Symbols) -> bool:
    """Whether an expression is what ``text`` is, on the device of the trial."""
    if not isinstance(node, cst.Call):
        return False
    if symbols.method(node) == "to_device":
        return syntax.code(node.args[0].value) == text
    device = syntax.argument(node, 0, "device")
    is_to = syntax.code(node.func) == f"{text}.to" and len(node.args) == 1
    member = symbols.member(device)
    return is_to and member is not None and member[1] == "device"


class _Moved(cst.CSTTransformer):
    """Takes away what moves a buffer."""

    def __init__(self, name: str, symbols: Symbols) -> None:
        super().__init__()
        self._name = name
        self._symbols = symbols

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        for each in syntax.find(original, cst.Attribute):
            if each.attr.value == self._name and _is_move(
                original, syntax.code(each), self._symbols
            ):
                return each
        return updated

    def leave_IndentedBlock(
        self, original: cst.IndentedBlock, updated: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        body: list[cst.BaseStatement] = []
        above_it: list[cst.EmptyLine] = []
        for before, line in zip(original.body, updated.body, strict=True):
            if syntax.is_idle(line) and not syntax.is_idle(before):
                # What it says is said of what comes next.
                above_it += getattr(line, "leading_lines", ())
            else:
                body.append(above(line, above_it) if above_it else line)
                above_it = []
        is_same = len(body) == len(updated.body)
        return updated if is_same or not body else updated.with_changes(body=body)
