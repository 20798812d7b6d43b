"""What scripts of the Trainer ask a cluster, or a context of the Core API for the rank alone."""

from collections.abc import Collection

import libcst as cst

from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.to_lightning.script_contexts.one_place import IMPORT, INIT, RANK, TRAINER
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.branches import ends, without_cluster
from det_compat.migrate.tree.file import Lines
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.symbols import Symbols

_CLUSTER = "det_compat.info.get_cluster_info"
_CORE = "det_compat.core"
_RANKS = ("distributed.rank", "distributed.get_rank()")


def run_off_clusters(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Leave out what asks for a cluster, which no Lightning is on: of scripts and beside trials."""
    is_beside = bool(file.plans or file.callbacks)
    is_beside |= bool(file.trials) and not file.elsewhere.has_core_contexts
    # A script of trials that are in no file here stays as it is, but for marks.
    is_script = file.symbols.has(INIT, TRAINER) and bool(file.trials)
    asks = file.symbols.has(_CLUSTER) and (is_beside or is_script)
    # A script of the Core API stays one, and is told of its task in this way.
    tree = without_core_context(tree, file) if asks else tree
    if not asks or asks_core(tree, file.symbols):
        return tree
    made = tree
    if file.config:
        told = _told_by_config(tree, file.symbols)
        made = without_cluster(told, file.symbols, _CLUSTER, asked=file.asked)
    if _CONFIG not in syntax.names_in(made):
        # No line that runs off a cluster asks for what a config has.
        return without_cluster(tree, file.symbols, _CLUSTER, asked=file.asked)
    file.imports.new |= {"import pathlib", "import yaml"}
    where = "parent.joinpath" if "/" in file.config else "with_name"
    path = f'pathlib.Path(__file__).{where}("{file.config}")'
    read = syntax.expression(f"yaml.safe_load({path}.read_text())")
    return syntax.each(made, cst.Name, lambda node: read if node.value == _CONFIG else node)


#: It stands for the config that starts a script.
_CONFIG = "det_compat_config"


def _told_by_config(tree: cst.Module, symbols: Symbols) -> cst.Module:
    """The script that takes what a cluster told of its trial from the config that starts it.

    It is as it was where it asks for something else, too.
    """
    calls = [c for c in syntax.find(tree, cst.Call) if symbols.path(c.func) == _CLUSTER]
    told = {syntax.code(call) for call in calls}
    pairs = [pair for line in syntax.find(tree, cst.Assign) for pair in syntax.pairs(line)]
    held = {syntax.code(target) for target, value in pairs if syntax.code(value) in told}
    told |= held - {syntax.code(to) for to, value in pairs if syntax.code(value) not in told}
    known = {".latest_checkpoint": "None", ".trial._config": _CONFIG}
    known[".trial.hparams"] = f'{_CONFIG}["hyperparameters"]'
    new = {f"{name}{asked}": text for name in told for asked, text in known.items()}

    def answered(node: cst.Attribute) -> cst.BaseExpression:
        text = new.get(syntax.code(node))
        return node if text is None else syntax.expression(text)

    made = syntax.each(tree, cst.Attribute, answered)
    left = (syntax.code(node.value) for node in syntax.find(made, cst.Attribute))
    return tree if told & {*left} else syntax.transformed(made, _Guards(told))


class _Guards(cst.CSTTransformer):
    """Takes away what ends a script that is on no cluster, and what prints that it is on one."""

    def __init__(self, told: Collection[str]) -> None:
        super().__init__()
        self._told = told

    def leave_If(self, original: cst.If, updated: cst.If) -> cst.If | cst.RemovalSentinel:
        lines = syntax.body_of(updated)
        is_guard = self._is_of_it(updated.test) and updated.orelse is None
        return cst.RemoveFromParent() if is_guard and ends(lines[-1]) else updated

    def leave_SimpleStatementLine(
        self, original: cst.SimpleStatementLine, updated: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        small, call = syntax.simple(updated), syntax.lone_call(updated)
        is_guard = isinstance(small, cst.Assert) and self._is_of_it(small.test)
        is_print = call is not None and syntax.code(call.func) == "print"
        is_of_it = call is not None and all(syntax.code(a.value) in self._told for a in call.args)
        return cst.RemoveFromParent() if is_guard or (is_print and is_of_it) else updated

    def _is_of_it(self, test: cst.BaseExpression) -> bool:
        """Whether a condition asks whether there is a cluster, and nothing else."""
        if isinstance(test, cst.UnaryOperation):
            test = test.expression
        if isinstance(test, cst.Comparison):
            test = test.left
        return syntax.code(test) in self._told


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
