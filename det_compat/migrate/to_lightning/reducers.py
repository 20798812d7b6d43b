"""MetricReducers become torchmetrics."""

from __future__ import annotations

import libcst as cst

from det_compat.migrate.tree.file import File
from det_compat.migrate.tree.marks import marked
from det_compat.migrate.tree.syntax import (
    body_of,
    call_of,
    code,
    has_docstring,
    method,
    methods,
    statement,
    with_body,
)

_REDUCING = ("per_slot_reduce", "cross_slot_reduce")
_COMPUTE = """\
def compute(self):
    gathered = [self.per_slot_reduce()]
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        gathered *= torch.distributed.get_world_size()
        torch.distributed.all_gather_object(gathered, self.per_slot_reduce())
    return self.cross_slot_reduce(gathered)
"""


_FUNCTION_METRIC = """\
class FunctionMetric(torchmetrics.Metric):
    \"""What a function makes of all the values of a validation.\"""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.values = []

    def reset(self):
        super().reset()
        self.values = []

    def update(self, value):
        self.values.append(value)

    def compute(self):
        gathered = [self.values]
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            gathered *= torch.distributed.get_world_size()
            torch.distributed.all_gather_object(gathered, self.values)
        return self.function([value for values in gathered for value in values])
"""


def apply(tree: cst.Module, file: File) -> cst.Module:
    """Give the file's reducers what a ``torchmetrics.Metric`` has."""
    tree = tree.visit(_Reducers(file))
    return _with_function_metric(tree, file) if file.has_function_reducers else tree


def _with_function_metric(tree: cst.Module, file: File) -> cst.Module:
    file.imports.update(("import torch", "import torchmetrics"))
    body: list[cst.BaseStatement] = [*tree.body]
    kinds = (cst.ClassDef, cst.FunctionDef)
    at = next((i for i, line in enumerate(body) if isinstance(line, kinds)), len(body))
    made = statement(_FUNCTION_METRIC)
    blank = [cst.EmptyLine(indent=False)] * 2
    body.insert(at, made.with_changes(leading_lines=blank))
    return tree.with_changes(body=body)


class _Reducers(cst.CSTTransformer):
    def __init__(self, file: File) -> None:
        self._file = file

    def leave_ClassDef(
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.BaseStatement:
        name = updated_node.name.value
        if name not in self._file.reducers:
            return updated_node
        own = methods(updated_node)
        is_first = self._file.reducers[name]
        updating = _updating(own)
        if is_first and updating is None:
            return marked(updated_node, "a torchmetrics.Metric needs the method update()")
        body = [_method(line, is_first) for line in body_of(updated_node)]
        if is_first and updating != "update":
            body.append(statement(f"update = {updating}\n"))
        if is_first:
            if "__init__" not in own:
                at = 1 if has_docstring(body) else 0
                made = method("def __init__(self):\n    super().__init__()\n    self.reset()\n")
                lead = made if at else made.with_changes(leading_lines=[])
                body.insert(at, lead)
            body.append(method(_COMPUTE))
            self._file.imports.update(("import torch", "import torchmetrics"))
        return with_body(updated_node, body)


def _updating(own: dict[str, cst.FunctionDef]) -> str | None:
    """The method that takes the values of a batch: ``update``, or the only one of its kind."""
    rest = [n for n in own if n not in ("reset", *_REDUCING) and not n.startswith("_")]
    if "update" in rest:
        return "update"
    return rest[0] if len(rest) == 1 else None


def _method(line: cst.BaseStatement, is_first: bool) -> cst.BaseStatement:
    if not isinstance(line, cst.FunctionDef):
        return line
    name = line.name.value
    if name not in ("__init__", "reset") or (name == "__init__" and not is_first):
        return line
    call = f"super().{name}()"
    body = [*body_of(line)]
    if any(code(found) == call for found in map(call_of, body) if found is not None):
        return line
    body.insert(1 if has_docstring(body) else 0, statement(call))
    return with_body(line, body)
