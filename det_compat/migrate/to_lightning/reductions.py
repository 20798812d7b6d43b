"""How the metrics of batches are reduced: Determined's Reducer, by Lightning's names."""

import libcst as cst

from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import FileTransformer
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
