"""How the metrics of batches are reduced: Determined's Reducer, by Lightning's names."""

from collections.abc import Sequence

import libcst as cst

from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import FileTransformer
from det_compat.migrate.tree.marks import marked
from det_compat.migrate.tree.symbols import Symbols

_REDUCERS = {"AVG": "mean", "SUM": "sum", "MAX": "max", "MIN": "min"}
_REDUCER = "det_compat.pytorch.Reducer."


def reduction(reducer: cst.FunctionDef | None, symbols: Symbols) -> str | None:
    """The one reduction that evaluation_reducer returns; None if it decides at run time."""
    if reducer is None:
        return "mean"
    body = syntax.body_of(reducer)[syntax.has_docstring(syntax.body_of(reducer)) :]
    small = syntax.simple(body[-1]) if len(body) == 1 else None
    value = small.value if isinstance(small, cst.Return) else None
    elements = value.elements if isinstance(value, cst.Dict) else ()
    found = {_reduction_of(part.value, symbols) for part in elements}
    found = found or {_reduction_of(value, symbols)}
    return found.pop() if len(found) == 1 else None


def _reduction_of(node: cst.BaseExpression | None, symbols: Symbols) -> str | None:
    path = symbols.path(node)
    return _REDUCERS.get(path.removeprefix(_REDUCER)) if path else None


class ReducerNames(FileTransformer[LightningFile]):
    """Determined's reducers by the names that Lightning has for them."""

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.BaseExpression:
        path = self.symbols.path(original) or ""
        name = _REDUCERS.get(path.removeprefix(_REDUCER)) if path.startswith(_REDUCER) else None
        return cst.SimpleString(f'"{name}"') if name else updated

    def leave_Subscript(
        self, original: cst.Subscript, updated: cst.Subscript
    ) -> cst.BaseExpression:
        if self.symbols.path(original.value) != _REDUCER.rstrip("."):
            return updated
        # `Reducer[name]` looks up a member by its name.
        return updated.with_changes(value=syntax.expression(repr(_REDUCERS).replace("'", '"')))


def with_names_at_top(tree: cst.Module, file: LightningFile) -> cst.Module:
    """A file whose own variables for Determined's reducers have these by name, too."""
    return tree.with_changes(
        body=[
            syntax.transformed(line, ReducerNames(file))
            if isinstance(line, cst.SimpleStatementLine)
            else line
            for line in tree.body
        ]
    )


def reported_late(
    method: cst.FunctionDef, shared: Sequence[str], *, can: bool
) -> tuple[cst.FunctionDef, dict[str, str]]:
    """A method without the metrics that its class changes in place, and these by their names.

    Determined reported what they were after the last batch. Where that cannot be said otherwise,
    the method has a comment: its metrics are reduced, or it is no evaluation.

    Args:
        method: of a batch.
        shared: the attributes that hold them.
        can: whether the class can report them in a hook.
    """
    late: dict[str, str] = {}
    values = {f"{syntax.self_name(method)}.{name}" for name in shared}

    def taken(found: cst.Return) -> cst.Return:
        if not isinstance(found.value, cst.Dict):
            return found
        kept = []
        for each in found.value.elements:
            key = each.key if isinstance(each, cst.DictElement) else None
            if isinstance(key, cst.SimpleString) and syntax.code(each.value) in values:
                late[syntax.code(key)] = syntax.code(each.value)
            else:
                kept.append(each)
        return found.with_changes(value=found.value.with_changes(elements=kept))

    without = syntax.each(method, cst.Return, taken)
    is_all = {*late.values()} == values and syntax.self_name(method) == "self"
    if can and is_all and method.name.value == "evaluate_batch":
        return without, late
    message = f"Determined reported what {', '.join(shared)} was after the last batch"
    return marked(method, f"{message}, since it is changed in place"), {}


def late_hook(metrics: dict[str, str]) -> cst.FunctionDef:
    """The hook that reports metrics after the last batch."""
    lines = "".join(f"    self.log({name}, {value})\n" for name, value in metrics.items())
    return syntax.method(
        f"def on_validation_epoch_end(self):\n    super().on_validation_epoch_end()\n{lines}"
    )
