"""Metrics of torchmetrics that a trial keeps: Lightning moves them to the device with the module.

Determined moved what it had wrapped, so they stayed on the CPU, and trials gave them what was
there, too.
"""

import re
from collections.abc import Mapping

import libcst as cst

from det_compat.migrate.shapes.values import assigned
from det_compat.migrate.tree import syntax

_LIBRARY = "torchmetrics"
#: What Lightning finds modules in.
_CONTAINERS = re.compile(r"(torch\.)?nn\.Module(Dict|List)")
_UPDATES = ("", "update", "forward")
#: What makes tensors on the CPU.
_MAKERS = re.compile(r"\btorch\.(tensor|as_tensor|from_numpy|Tensor)\(")


def with_metrics_moved(node: cst.ClassDef, imported: Mapping[str, frozenset[str]]) -> cst.ClassDef:
    """A trial that gives its metrics, and takes from them, what is on the module's device.

    Args:
        node: the class.
        imported: the paths that each name of the project is imported from.
    """
    kept = {
        name.removeprefix(f"{syntax.self_name(method)}.")
        for method in syntax.methods(node).values()
        for name, value in assigned(method).items()
        if name.startswith(f"{syntax.self_name(method)}.") and _is_metric(value, imported)
    }
    return syntax.each(node, cst.FunctionDef, lambda method: _moved(method, kept)) if kept else node


def _is_metric(value: cst.BaseExpression | None, imported: Mapping[str, frozenset[str]]) -> bool:
    """Whether a value is such a metric, or is of several that Lightning finds."""
    if not isinstance(value, cst.Call):
        return False
    root = syntax.code(value.func).partition(".")[0]
    if any(f"{path}.".startswith(f"{_LIBRARY}.") for path in imported.get(root, ())):
        return True
    is_container = _CONTAINERS.fullmatch(syntax.code(value.func)) is not None
    inner = (call for arg in value.args for call in syntax.find(arg, cst.Call))
    return is_container and any(_is_metric(call, imported) for call in inner)


def _moved(method: cst.FunctionDef, kept: set[str]) -> cst.FunctionDef:
    me, known = syntax.self_name(method), assigned(method)

    def is_of_metric(node: cst.BaseExpression, *names: str) -> bool:
        """Whether a call is one of a metric itself, or of one of these methods of it."""
        func = node.func if isinstance(node, cst.Call) else cst.Name("_")
        owners = [func] if "" in names else []
        if isinstance(func, cst.Attribute) and func.attr.value in names:
            owners.append(func.value)
        paths = (syntax.code(owner).partition("[")[0] for owner in owners)
        return any(path.startswith(f"{me}.") and path[len(me) + 1 :] in kept for path in paths)

    def given(arg: cst.Arg) -> cst.Arg:
        made = syntax.each(arg, cst.Call, _without_cpu)
        text = syntax.code(known.get(syntax.code(made.value)) or made.value)
        if made is arg and (_MAKERS.search(text) or ".cpu()" in text):
            owner = syntax.whole(syntax.code(made.value))
            return arg.with_changes(value=syntax.expression(f"{owner}.to({me}.device)"))
        return made

    def moved(call: cst.Call) -> cst.Call:
        if is_of_metric(call, *_UPDATES):
            return call.with_changes(args=[given(arg) for arg in call.args])
        func = call.func
        asked = func.value if isinstance(func, cst.Attribute) else cst.Name("_")
        if syntax.code(func).endswith(".numpy") and is_of_metric(asked, *_UPDATES, "compute"):
            return syntax.with_node(call, asked, _on_cpu(asked))
        return call

    return syntax.each(method, cst.Call, moved)


def _on_cpu(node: cst.BaseExpression) -> cst.BaseExpression:
    return cst.Call(cst.Attribute(node, cst.Name("cpu")))


def _without_cpu(call: cst.Call) -> cst.BaseExpression:
    func = call.func
    if isinstance(func, cst.Attribute) and func.attr.value == "cpu" and not call.args:
        return func.value
    return call
