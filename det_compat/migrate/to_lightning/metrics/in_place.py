"""Metrics that are tensors of an object which change while Lightning keeps them."""

from collections.abc import Iterator, Mapping

import libcst as cst

from det_compat.migrate.shapes.returned import metrics_of
from det_compat.migrate.tree.syntax import code, find, self_name


def changed_in_place(method: cst.FunctionDef, own: Mapping[str, cst.FunctionDef]) -> list[str]:
    """The metrics of a method that are tensors of its object which the class changes in place."""
    me = self_name(method)
    returned_ones = {code(value).removeprefix(f"{me}.") for value in metrics_of(method)}
    return sorted(returned_ones & {name for each in own.values() for name in _in_place(each, own)})


def _in_place(method: cst.FunctionDef, own: Mapping[str, cst.FunctionDef]) -> Iterator[str]:
    me = self_name(method)
    for changing in find(method.body, cst.AugAssign):
        name = code(changing.target).removeprefix(f"{me}.")
        # A number is another one afterwards, a tensor the same one.
        if any(_is_tensor(each, name) for each in own.values()):
            yield name
    for call in find(method.body, cst.Call):
        owner, _, called = code(call.func).rpartition(".")
        if called.endswith("_") and not called.endswith("__"):
            yield owner.removeprefix(f"{me}.")


def _is_tensor(method: cst.FunctionDef, attribute: str) -> bool:
    """Whether a method sets an attribute to what a function of torch's returns."""
    target = f"{self_name(method)}.{attribute}"
    return any(
        isinstance(line.value, cst.Call) and code(line.value.func).startswith("torch.")
        for line in find(method.body, cst.Assign)
        if target in (code(each.target) for each in line.targets)
    )
