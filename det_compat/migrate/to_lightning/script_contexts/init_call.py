"""What scripts give ``pytorch.init()``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from keyword import iskeyword

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.to_lightning.script_contexts.one_place import (
    BY_HAND,
    as_init,
    entries,
    uses_of,
)
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line, Lines
from det_compat.migrate.tree.symbols import Symbols

_KNOWN = {
    "hparams",
    "exp_conf",
    "aggregation_frequency",
    "enable_tensorboard_logging",
    "distributed",
}
_CONTEXT = "det_compat.core.DistributedContext"
_MAKER = "from_torch_distributed"
#: What told Determined's Trainer that torchrun has started it.
_SIGN = "USE_TORCH_DISTRIBUTED"
_ASKING = ("bool", "get", "getenv", "int", "is_available", "len")
_DEVICES = 'devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1"))'
_NODES = 'num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1"))'
_LOCAL = ('"localhost"', "'localhost'", '"127.0.0.1"', "'127.0.0.1'", "None")


@dataclass(frozen=True)
class Init:
    """What ``pytorch.init()`` was given: expressions as text, ``""`` for none.

    ``devices`` are the arguments by which ``pl.Trainer`` is told on which it trains, if they say.
    Below the call ``hparams`` ``is_named`` where it is a variable, and still has the same value.
    """

    hparams: str = ""
    exp_conf: str = ""
    aggregation: str = ""
    devices: tuple[str, ...] = ()
    is_named: bool = False


def given_to_init(call: cst.Call, symbols: Symbols) -> Init | None:
    """What ``init()`` is given; None if something of it has no place in Lightning."""
    if symbols.path(call.func) == BY_HAND:
        config = call.args[0].value
        of_it = {name: syntax.code(value) for name, value in entries(config).items()}
        hparams = of_it.get("hyperparameters", f'{syntax.code(config)}["hyperparameters"]')
        return Init(hparams, syntax.code(config))
    given = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    if len(given) < len(call.args) or not given.keys() <= _KNOWN:
        return None
    devices: list[str] = []
    distributed = given.pop("distributed", None)
    if distributed is not None and syntax.code(distributed) != "None":
        if not is_of_torchrun(distributed, symbols):
            return None
        chief = syntax.argument(ensure_type(distributed, cst.Call), 0, "chief_ip")
        is_local = chief is None or syntax.code(chief) in _LOCAL
        devices = [_DEVICES] if is_local else [_DEVICES, _NODES]
    texts = {name: syntax.code(value) for name, value in given.items()}
    said = {name: text for name, text in texts.items() if text != "None"}
    aggregation = said.get("aggregation_frequency", "1")
    # A step after each batch is what there is without the word.
    frequency = "" if aggregation == "1" else aggregation
    return Init(said.get("hparams", ""), said.get("exp_conf", ""), frequency, tuple(devices))


def by_keyword(hparams: str) -> list[str]:
    """The arguments that are hyperparameters, which a script may write out; none of ``""``."""
    found = syntax.expression(hparams or "{}")
    if not isinstance(found, cst.Dict):
        return [f"**{hparams}"]
    made = []
    for each in found.elements:
        key = each.key if isinstance(each, cst.DictElement) else None
        name = key.raw_value if isinstance(key, cst.SimpleString) else ""
        if not name.isidentifier() or iskeyword(name):
            return [f"**{hparams}"]
        made.append(f"{name}={syntax.code(each.value)}")
    return made


def is_of_torchrun(node: cst.CSTNode, symbols: Symbols) -> bool:
    """Whether an expression makes the context of processes that torchrun has started."""
    func = node.func if isinstance(node, cst.Call) else None
    if not isinstance(func, cst.Attribute):
        return symbols.path(func) == f"{_CONTEXT}.{_MAKER}"
    return func.attr.value == _MAKER and symbols.path(func.value) == _CONTEXT


def asked_within(tree: cst.Module, symbols: Symbols) -> cst.Module:
    """A script in which the statements that ask its context also stand below ``pytorch.init()``.

    A context answered when its ``with`` had ended, too.
    """

    def within(lines: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
        body = [*lines]
        for at, line in enumerate(body):
            if not isinstance(line, cst.With) or len(line.items) != 1:
                continue
            given = line.items[0].asname
            if given is None or as_init(line.items[0].item, symbols) is None:
                continue
            name = syntax.code(given.name)
            asking = [i for i in range(at + 1, len(body)) if uses_of(body[i], name, symbols)]
            for last in asking[-1:]:
                inner = [*syntax.body_of(line), *body[at + 1 : last + 1]]
                return [*body[:at], syntax.with_body(line, inner), *body[last + 1 :]]
        return body

    def in_block(block: cst.IndentedBlock) -> cst.IndentedBlock:
        return block.with_changes(body=within(block.body))

    tree = syntax.each(tree, cst.IndentedBlock, in_block)
    return tree.with_changes(body=within(tree.body))


def told_of_torchrun(tree: cst.Module, symbols: Symbols) -> cst.Module:
    """A script that makes such a context where it gives it on, and needs no variable for it."""
    if not any(is_of_torchrun(call, symbols) for call in syntax.find(tree, cst.Call)):
        return tree
    values: dict[str, list[cst.BaseExpression]] = {}
    for line in syntax.find(tree, cst.SimpleStatementLine):
        value = getattr(syntax.simple(line), "value", None)
        if value is not None and (name := syntax.target_of(line)):
            values.setdefault(name, []).append(value)
    made = {name: found[0] for name in values if (found := _makers(values[name], symbols))}

    def in_place(call: cst.Call) -> cst.Call:
        value = syntax.argument(call, len(call.args), "distributed")
        if value is None or as_init(call, symbols) is None:
            return call
        names = (name for name in made if uses_of(value, name, symbols))
        found = [*_makers([value], symbols), *(made[name] for name in names)]
        return syntax.with_node(call, value, found[0]) if found else call

    changed = syntax.each(tree, cst.Call, in_place)
    # What is left of its uses is where it is set.
    gone = {n for n in made if len(uses_of(changed, n, symbols)) == len(values[n])}
    return syntax.transformed(changed if gone == {*made} else tree, _Without(gone))


def _makers(values: Iterable[cst.BaseExpression], symbols: Symbols) -> list[cst.Call]:
    """The calls that make such a context, if each of some values is one, or None.

    Without torchrun there is one process, and Lightning is told so in the same way.
    """
    parts = [part for value in values for part in _parts(value)]
    calls = [ensure_type(part, cst.Call) for part in parts if is_of_torchrun(part, symbols)]
    nothing = [part for part in parts if syntax.code(part) == "None"]
    return calls if len(calls) + len(nothing) == len(parts) else []


def _parts(value: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(value, cst.IfExp):
        return [*_parts(value.body), *_parts(value.orelse)]
    return [value]


class _Without(cst.CSTTransformer):
    """Leaves out some variables, and the questions that were for them alone."""

    def __init__(self, names: set[str]) -> None:
        super().__init__()
        self._names = names
        self._others: list[cst.CSTNode | None] = []

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        target = syntax.target_of(updated) or ""
        return cst.RemoveFromParent() if target in self._names or _SIGN in target else updated

    def visit_If(self, node: cst.If) -> None:
        self._others.append(node.orelse)

    def leave_If(self, original: cst.If, updated: cst.If) -> cst.If | cst.RemovalSentinel:
        if updated.orelse is not None and _is_idle(updated.orelse):
            updated = updated.with_changes(orelse=None)
        is_other = any(original is other for other in self._others)
        return cst.RemoveFromParent() if _is_idle(updated) and not is_other else updated

    def leave_Try(self, original: cst.Try, updated: cst.Try) -> cst.Try | cst.RemovalSentinel:
        parts = (updated, *updated.handlers, updated.orelse, updated.finalbody)
        is_idle = not any(part is not None and part.body.body for part in parts)
        return cst.RemoveFromParent() if is_idle else updated


def _is_idle(branch: cst.If | cst.Else) -> bool:
    """Whether nothing is left of a branch, and of those that follow it, but what has no effect."""
    if isinstance(branch, cst.Else):
        return not branch.body.body
    names = (syntax.code(call.func) for call in syntax.find(branch.test, cst.Call))
    is_plain = all(name.rpartition(".")[2] in _ASKING for name in names)
    return is_plain and not branch.body.body and branch.orelse is None
