"""What of a batch is used where it is: Lightning moves batches, which a whole evaluation did."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.whole.flow import stored

#: What is called or asked of a tensor, wherever it is.
_ANYWHERE = words(
    """
    cuda to cpu item tolist shape size dim ndim dtype numel device __len__ keys
    transfer_batch_to_device len isinstance type
    """
)
#: What goes by the order of several things, and gives them again.
_GIVING = words("enumerate zip list tuple reversed items values")
#: The same of tensors that are all of the batch.
_JOINING = words("torch.cat torch.stack torch.concat torch.vstack torch.hstack")
_COMPUTING = words("self torch F nn functional")
_ON_CPU = words("cpu numpy tolist np sklearn metrics")
#: What hands on what is in it.
_AROUND = (
    ast.Dict,
    ast.Subscript,
    ast.Starred,
    ast.Tuple,
    ast.List,
    ast.Call,
    ast.keyword,
    ast.ListComp,
    ast.GeneratorExp,
)
_MOVES = words("transfer_batch_to_device cuda to cpu")
_MAKING = words("zeros ones empty full tensor arange eye linspace as_tensor")


def needs_cpu(
    target: ast.expr,
    body: Sequence[ast.stmt],
    everything: Sequence[ast.stmt],
    models: Collection[str] = (),
) -> bool:
    """Whether a loop may need a part of a batch on the CPU, where the loader has made it.

    Args:
        target: what the loop sets for each batch.
        body: its statements.
        everything: all statements of the validation.
        models: the models, which are on the device: what they are given has to be there, too.
    """
    raw, is_soft = {*stored(target)}, False
    computing = _COMPUTING | {*_of_self(everything)}
    models = {*models, *_named(everything, models)}
    for line in body:
        for use in _uses(line, raw, computing, models):
            if use == "hard":
                return True
            is_soft = is_soft or use == "soft"
        raw -= _moved_names(line)
    return is_soft and any(map(_is_of_cpu, (e for line in everything for e in ast.walk(line))))


def _of_self(body: Sequence[ast.stmt]) -> Iterator[str]:
    """The variables that are some attribute of the module."""
    for node in (each for line in body for each in ast.walk(line)):
        value = node.value if isinstance(node, ast.Assign) else None
        is_part = isinstance(value, ast.Attribute)
        if isinstance(node, ast.Assign) and is_part and _stem(node.value) in _COMPUTING:
            yield from (name for each in node.targets for name in stored(each))


def _named(body: Sequence[ast.stmt], models: Collection[str]) -> Iterator[str]:
    """The variables that are always one of the models."""
    nodes = [node for line in body for node in ast.walk(line)]
    every = [name for line in body for name in stored(line)]
    for node in nodes:
        if isinstance(node, ast.Assign) and ast.unparse(node.value) in models:
            names = {name for each in node.targets for name in stored(each)}
            yield from (name for name in names if every.count(name) == 1)


def _stem(value: ast.expr) -> str:
    return ast.unparse(value).partition(".")[0]


def _moved_names(line: ast.stmt) -> set[str]:
    """The variables that an assignment sets to what it moves to some device."""
    if not isinstance(line, ast.Assign):
        return set()
    values = line.value.elts if isinstance(line.value, ast.Tuple) else [line.value]
    is_move = all(map(_is_moved, values))
    return {name for each in line.targets for name in stored(each)} if is_move else set()


def _is_moved(value: ast.expr) -> bool:
    """Whether a value has been moved, or made of what has been."""
    while isinstance(value, (ast.Call, ast.Attribute)):
        if isinstance(value, ast.Attribute) and value.attr in _MOVES:
            return True
        value = value.func if isinstance(value, ast.Call) else value.value
    return False


def _uses(
    line: ast.stmt, raw: set[str], computing: Collection[str], models: Collection[str]
) -> Iterator[str]:
    """How a statement uses what is not moved; parts of it that get names are noted in ``raw``."""
    parents = {child: node for node in ast.walk(line) for child in ast.iter_child_nodes(node)}
    # A name that is set further down in a block may be used above in the next round.
    for _ in range(3):
        known = len(raw)
        uses = [
            use
            for node in ast.walk(line)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in raw
            for use in [_use(node, parents, raw, computing, models)]
        ]
        if len(raw) == known:
            break
    yield from uses


def _use(
    node: ast.AST,
    parents: dict[ast.AST, ast.AST],
    raw: set[str],
    computing: Collection[str],
    models: Collection[str],
) -> str:
    """How a variable is used: ``""`` for nothing that is done in some place, or by name."""
    while True:
        parent = parents.get(node)
        if isinstance(parent, ast.Attribute):
            if parent.attr in _ANYWHERE:
                return ""
            if parent.attr == "numpy":
                return "hard"
        elif isinstance(parent, ast.Call) and parent.func is not node:
            name = ast.unparse(parent.func)
            last = name.rpartition(".")[2]
            if last in _ANYWHERE or name in models:
                return ""
            if last not in _GIVING and name not in _JOINING:
                return "soft" if _stem(parent.func) in computing else "hard"
        elif isinstance(parent, (ast.Assign, ast.AnnAssign)):
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            raw |= {name for each in targets for name in stored(each)}
            return ""
        elif isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is node:
            raw |= {*stored(parent.target)}
            return ""
        elif isinstance(parent, (ast.BinOp, ast.Compare, ast.AugAssign, ast.UnaryOp)):
            return "soft"
        elif not isinstance(parent, _AROUND):
            return "" if isinstance(parent, (ast.Expr, ast.Delete, ast.If)) else "hard"
        node = parent


def _is_of_cpu(node: ast.AST) -> bool:
    """Whether this makes something on the CPU, or works there."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _MAKING:
        is_torchs = ast.unparse(node.func).startswith("torch.")
        return is_torchs and not any(each.arg == "device" for each in node.keywords)
    if isinstance(node, ast.Attribute):
        return node.attr in ("cpu", "numpy", "tolist")
    return isinstance(node, ast.Name) and node.id in _ON_CPU
