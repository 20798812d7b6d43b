"""What scripts of the Trainer ask a cluster, or a context of the Core API for the rank alone."""

import libcst as cst

from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.to_lightning.scripts.one_place import IMPORT, INIT, RANK, TRAINER
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.branches import without_cluster
from det_compat.migrate.tree.file import Lines
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.symbols import Symbols

_CLUSTER = "det_compat.info.get_cluster_info"
_CORE = "det_compat.core"
_RANKS = ("distributed.rank", "distributed.get_rank()")


def run_off_clusters(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Leave out of a script of the Trainer what asks for a cluster, which no Lightning is on."""
    asks = file.symbols.has(_CLUSTER) and (file.symbols.has(INIT, TRAINER) or file.plans)
    # A script of the Core API stays one, and is told of its task in this way.
    tree = without_core_context(tree, file) if asks else tree
    if not asks or asks_core(tree, file.symbols):
        return tree
    return without_cluster(tree, file.symbols, _CLUSTER, asked=file.asked)


def asks_core(tree: cst.Module, symbols: Symbols) -> bool:
    """Whether a script uses the Core API, and not only what ``pytorch.init`` takes of it."""
    paths = (symbols.path(name) or "" for name in syntax.find(tree, cst.Name))
    return any(
        path.startswith(f"{_CORE}.") and not path.startswith(f"{_CORE}.DistributedContext")
        for path in paths
    )


def without_core_context(tree: cst.Module, file: LightningFile) -> cst.Module:
    """The script without a Core context that is asked for nothing but the rank."""
    return syntax.transformed(tree, _Contexts(file)) if file.symbols.has(INIT) else tree


class _Contexts(cst.CSTTransformer):
    def __init__(self, file: LightningFile) -> None:
        super().__init__()
        self._file = file

    def leave_With(self, original: cst.With, updated: cst.With) -> Lines:
        (item, *others), body = updated.items, updated.body
        call, given = item.item, item.asname.name if item.asname is not None else None
        is_core = (
            isinstance(call, cst.Call) and self._file.symbols.path(call.func) == f"{_CORE}.init"
        )
        if others or not is_core or not isinstance(body, cst.IndentedBlock):
            return updated
        if isinstance(call, cst.Call) and call.args:
            return updated
        name = syntax.code(given) if given is not None else ""
        asked = {f"{name}.{rank}" for rank in _RANKS}

        def ranked(node: cst.BaseExpression) -> cst.BaseExpression:
            return syntax.expression(RANK) if syntax.code(node) in asked else node

        made = syntax.each(syntax.each(body, cst.Call, ranked), cst.Attribute, ranked)
        if name and name in syntax.names_in(made):
            return updated
        if not made.deep_equals(body):
            self._file.imports.new.add(IMPORT)
        first, *rest = made.body
        return cst.FlattenSentinel([above(first, updated.leading_lines), *rest])
