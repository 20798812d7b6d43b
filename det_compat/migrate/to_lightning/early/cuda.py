"""Tensors that a trial puts on a GPU without saying on which.

It was that of the process, which Determined had set by then. Lightning sets it later: each process
would have what ``__init__`` moves on the first GPU. Steps have it on the module's device, which a
Trainer may be told.
"""

import re
from collections.abc import Collection
from functools import partial

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.to_lightning.early.moved_devices import (
    anywhere,
    is_class,
    is_tensor,
    makers_in,
)
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import VALIDATING, reachable, values_set

_CUDA = r"""["']cuda["'](?: if torch\.cuda\.is_available\(\) else ["']cpu["'])?"""
_DEVICE = rf"torch\.device\({_CUDA}\)|{_CUDA}"
_SAID = "# on the first GPU in each process: Lightning sets that of the process after __init__"


def on_own_gpu(node: cst.ClassDef, early: Collection[str], symbols: Symbols) -> cst.ClassDef:
    """A trial whose methods that are ``early`` leave it to Lightning to move such tensors."""
    own = syntax.methods(node)
    if not any("cuda" in syntax.code(own[name]) for name in early):
        return node
    every = [pair for method in own.values() for pair in values_set(method)]

    def moved(method: cst.FunctionDef) -> cst.FunctionDef:
        makers, me, gpu = makers_in(method, symbols), syntax.self_name(method), _Gpu(method)

        def kept(line: cst.SimpleStatementLine) -> cst.BaseStatement:
            small, target = syntax.simple(line), syntax.target_of(line) or ""
            value, attribute = getattr(small, "value", None), target.removeprefix(f"{me}.")
            is_kept = attribute != target and attribute.isidentifier()
            if value is None or not gpu.asked.search(syntax.code(value)):
                return line
            if target.isidentifier() and method.name.value != "__init__":
                # Who calls the method may keep what it has made.
                _, maker = anywhere(gpu.without(value), symbols, makers)
                said = [cst.EmptyLine(comment=cst.Comment(_SAID))] if is_tensor(maker) else []
                return above(line, said)
            if not is_kept:
                return line
            set_to = [each for to, each in every if syntax.code(to) == target]
            found = [anywhere(gpu.without(each), symbols, makers)[1] for each in set_to]
            if any(is_class(maker) and not is_tensor(maker) for maker in found):
                # Lightning moves models.
                return line
            uses = sum(syntax.code(own[name].body).count(target) for name in early)
            plain = syntax.code(gpu.without(value))
            is_free = len(set_to) == uses == 1 and "requires_grad" not in plain
            if is_free and is_tensor(found[0]) and not gpu.asked.search(plain):
                buffer = f'{me}.register_buffer("{attribute}", {plain}, persistent=False)'
                return line.with_changes(body=[cst.Expr(syntax.expression(buffer))])
            return above(line, [cst.EmptyLine(comment=cst.Comment(_SAID))])

        return syntax.each(method, cst.SimpleStatementLine, kept)

    made: dict[cst.BaseStatement, cst.BaseStatement] = {own[n]: moved(own[n]) for n in early}
    return syntax.with_body(node, [made.get(line, line) for line in syntax.body_of(node)])


def on_its_device(node: cst.ClassDef) -> cst.ClassDef:
    """A trial whose steps move to the module's device what they moved to a GPU."""
    own = syntax.methods(node)
    steps = reachable(own, "train_batch", *VALIDATING)
    others = reachable(own, *(name for name in own if name not in steps))

    def moved(me: str, call: cst.Call) -> cst.BaseExpression:
        func, found = call.func, _MOVE.fullmatch(f".{syntax.code(call).rpartition('.')[2]}")
        owner = func.value if isinstance(func, cst.Attribute) else None
        if found is None or owner is None or syntax.code(owner) in (me, "super()"):
            return call
        text = f"x.to({me}.device{', non_blocking=True' if found['late'] else ''})"
        made = ensure_type(syntax.expression(text), cst.Call)
        return made.with_deep_changes(made.func, value=owner)

    made: dict[cst.BaseStatement, cst.BaseStatement] = {}
    for method in (own[name] for name in steps if name not in others):
        if not method.decorators:
            made[method] = syntax.each(method, cst.Call, partial(moved, syntax.self_name(method)))
    return syntax.with_body(node, [made.get(line, line) for line in syntax.body_of(node)])


_MOVE = re.compile(r"""\.(?:cuda\(|to\(["']cuda["'](?:, )?)(?P<late>non_blocking=True)?\)""")


class _Gpu:
    """How a method says that something is on the GPU: it may have a name for that."""

    def __init__(self, method: cst.FunctionDef) -> None:
        pairs = [(syntax.code(to), syntax.code(value)) for to, value in values_set(method)]
        names = [re.escape(name) for name, text in pairs if re.fullmatch(_DEVICE, text)]
        device = rf"(?:{'|'.join([_DEVICE, *names])})"
        moves = rf"\.cuda\((?:non_blocking=True)?\)|\.to\({device}(?:, non_blocking=True)?\)"
        self._given = re.compile(rf"{moves}|, device={device}(?=[,)])")
        self.asked = re.compile(rf"{self._given.pattern}|\btorch\.cuda\.\w+Tensor\(")

    def without(self, value: cst.BaseExpression) -> cst.BaseExpression:
        """A value that is put on no GPU."""
        return syntax.expression(self._given.sub("", syntax.code(value)))
