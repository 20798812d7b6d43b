"""What scripts give ``pytorch.init()``."""

from __future__ import annotations

from dataclasses import dataclass
from keyword import iskeyword

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.to_lightning.scripts.one_place import uses_of
from det_compat.migrate.tree import syntax
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
_DEVICES = 'devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1"))'
_NODES = 'num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1"))'
_LOCAL = ('"localhost"', "'localhost'", '"127.0.0.1"', "'127.0.0.1'", "None")


@dataclass(frozen=True)
class Init:
    """What ``pytorch.init()`` was given: expressions as text, ``""`` for none.

    ``devices`` are the arguments by which ``pl.Trainer`` is told on which it trains, if they say.
    """

    hparams: str = ""
    exp_conf: str = ""
    aggregation: str = ""
    devices: tuple[str, ...] = ()


def given_to_init(call: cst.Call, symbols: Symbols) -> Init | None:
    """What ``init()`` is given; None if something of it has no place in Lightning."""
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


def told_of_torchrun(tree: cst.Module, symbols: Symbols) -> cst.Module:
    """A script that makes such a context where it gives it on, and needs no variable for it."""
    if not any(is_of_torchrun(call, symbols) for call in syntax.find(tree, cst.Call)):
        return tree
    made = {
        name: call
        for line in syntax.find(tree, cst.SimpleStatementLine)
        if (call := syntax.call_of(line)) and is_of_torchrun(call, symbols)
        if (name := syntax.target_of(line))
    }

    def in_place(arg: cst.Arg) -> cst.Arg:
        is_it = arg.keyword is not None and arg.keyword.value == "distributed"
        found = [name for name in made if is_it and uses_of(arg.value, name, symbols)]
        return arg.with_changes(value=made[found[0]]) if found else arg

    changed = syntax.each(tree, cst.Arg, in_place)
    # One use is where it is set.
    gone = {name for name in made if len(uses_of(changed, name, symbols)) == 1}

    def left(line: cst.SimpleStatementLine) -> cst.BaseStatement | cst.RemovalSentinel:
        target = syntax.target_of(line) or ""
        return cst.RemoveFromParent() if target in gone or _SIGN in target else line

    return syntax.each(changed if gone == {*made} else tree, cst.SimpleStatementLine, left)
