"""``evaluate_batch`` and ``evaluate_full_dataset`` become ``validation_step``."""

from __future__ import annotations

import libcst as cst

from det_compat.migrate.to_lightning.logging_calls import Logged, parameters
from det_compat.migrate.tree.file import TrialPlan, WrappedReducer
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.syntax import (
    body_of,
    expression,
    find,
    has_docstring,
    names_in,
    replaced,
    self_name,
    simple,
)
from det_compat.migrate.tree.syntax import (
    method as made_method,
)

_REDUCERS = {"AVG": "mean", "SUM": "sum", "MAX": "max", "MIN": "min"}
_REDUCER = "det_compat.pytorch.Reducer."
#: Each batch counts the same, as in Determined, whatever its size.
BATCH_SIZE = ", batch_size=1"


def validation_step(
    method: cst.FunctionDef, plan: TrialPlan, reducer: cst.FunctionDef | None, symbols: Symbols
) -> cst.FunctionDef:
    """The validation_step of a trial's evaluate_batch or evaluate_full_dataset."""
    own = self_name(method)
    fx = reduction(reducer, symbols)
    options = BATCH_SIZE if fx in (None, "mean") else f', reduce_fx="{fx}"{BATCH_SIZE}'
    validated = _literal_names(method)
    renamed = {name: f"val_{name}" for name in plan.logged & validated}
    if any(new in validated for new in renamed.values()):
        renamed = {}
    by = "" if plan.evaluates_whole else fx or "mean"
    method = Logged(own, options=options, renamed=renamed, reduction=by).in_method(method)
    return _renamed(method)


def reduction(reducer: cst.FunctionDef | None, symbols: Symbols) -> str | None:
    """The one reduction that evaluation_reducer returns; None if it decides at run time."""
    if reducer is None:
        return "mean"
    body = body_of(reducer)[has_docstring(body_of(reducer)) :]
    small = simple(body[-1]) if len(body) == 1 else None
    value = small.value if isinstance(small, cst.Return) else None
    elements = value.elements if isinstance(value, cst.Dict) else ()
    found = {_reduction_of(part.value, symbols) for part in elements}
    found = found or {_reduction_of(value, symbols)}
    return found.pop() if len(found) == 1 else None


def _reduction_of(node: cst.BaseExpression | None, symbols: Symbols) -> str | None:
    path = symbols.path(node)
    return _REDUCERS.get(path.removeprefix(_REDUCER)) if path else None


def by_name(own: str, metrics: str) -> str:
    """The lines that log each metric with the reduction that evaluation_reducer names."""
    return (
        f"reductions = {own}.evaluation_reducer()\n"
        f"for name, value in {metrics}.items():\n"
        "    reduction = reductions[name] if isinstance(reductions, dict) else reductions\n"
        f"    {own}.log(name, value, reduce_fx=reduction{BATCH_SIZE})"
    )


class ReducerNames(cst.CSTTransformer):
    """Determined's reducers by the names that Lightning has for them."""

    def __init__(self, symbols: Symbols) -> None:
        self._symbols = symbols

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        path = self._symbols.path(original_node) or ""
        name = _REDUCERS.get(path.removeprefix(_REDUCER)) if path.startswith(_REDUCER) else None
        return cst.SimpleString(f'"{name}"') if name else updated_node

    def leave_Subscript(
        self, original_node: cst.Subscript, updated_node: cst.Subscript
    ) -> cst.BaseExpression:
        if self._symbols.path(original_node.value) != _REDUCER.rstrip("."):
            return updated_node
        # `Reducer[name]`
        return updated_node.with_changes(value=expression(repr(_REDUCERS).replace("'", '"')))


def reducer_hooks(reducers: list[WrappedReducer]) -> list[cst.BaseStatement]:
    """The hooks that reset reducers before a validation, and log them after it."""
    if not reducers:
        return []
    resets = "\n".join(_reset(reducer) for reducer in reducers)
    logs = "\n".join(_log(reducer) for reducer in reducers)
    return [
        made_method(f"def on_validation_start(self):\n{resets}\n"),
        made_method(f"def on_validation_epoch_end(self):\n{logs}\n"),
    ]


def _reset(reducer: WrappedReducer) -> str:
    if not reducer.attribute.startswith("*"):
        return f"    self.{reducer.attribute}.reset()"
    return f"    for reducer in self.{reducer.attribute[1:]}:\n        reducer.reset()"


def _log(reducer: WrappedReducer) -> str:
    name, attribute = reducer.name, reducer.attribute.removeprefix("*")
    if attribute == reducer.attribute:
        logged = _logged(name, f"self.{attribute}")
        return f"    {logged}"
    loop = f"reducer in self.{attribute}"
    if name is not None:
        target, _, values = reducer.loop.partition(" in ")
        if "enumerate(" not in values and values.startswith("range(len("):
            loop = f"{target}, reducer in enumerate(self.{attribute})"
        else:
            loop = f"({target}), reducer in zip({values}, self.{attribute})"
    return f"    for {loop}:\n        {_logged(name, 'reducer')}"


def _logged(name: str | None, reducer: str) -> str:
    value = f"{reducer}.compute()"
    return f"self.log_dict({value})" if name is None else f"self.log({name}, {value})"


def _literal_names(method: cst.FunctionDef) -> set[str]:
    found: set[str] = set()
    for given in find(method, cst.Return):
        elements = given.value.elements if isinstance(given.value, cst.Dict) else ()
        for element in elements:
            key = getattr(element, "key", None)
            if isinstance(key, cst.SimpleString):
                found.add(str(key.evaluated_value))
    return found


def _renamed(method: cst.FunctionDef) -> cst.FunctionDef:
    given = [*method.params.posonly_params, *method.params.params]
    own, batch = given[0], given[1]
    names = [p.name.value for p in given[2:]]
    index = next((n for n in names if "batch" in n), "batch_idx")
    if index != "batch_idx":
        method = replaced(method, index, "batch_idx")
    epoch = next((n for n in names if "epoch" in n), "")
    if epoch and epoch in names_in(method.body):
        method = replaced(method, epoch, f"{own.name.value}.current_epoch")
    annotated = any(p.annotation is not None for p in given[1:])
    annotation = cst.Annotation(cst.Name("int")) if annotated else None
    last = cst.Param(cst.Name("batch_idx"), annotation)
    returns = cst.Annotation(cst.Name("None")) if method.returns is not None else None
    return method.with_changes(
        name=cst.Name("validation_step"),
        params=parameters([cst.Param(own.name), cst.Param(batch.name, batch.annotation), last]),
        whitespace_before_params=cst.SimpleWhitespace(""),
        returns=returns,
    )
