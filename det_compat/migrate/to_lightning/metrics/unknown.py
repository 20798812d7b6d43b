"""Metrics of which nobody knows what they are before a run has made them."""

import re
from collections.abc import Collection

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.metric_shapes import Shapes, is_scalar

#: What these return is numbers by name.
_NUMBERS = re.compile(
    r"transformers\.(.*\.)?(glue_compute_metrics|xnli_compute_metrics|squad_evaluate)"
)


def are_unknown(
    method: cst.FunctionDef, shapes: Shapes, losses: Collection[str] = frozenset()
) -> bool:
    """Whether metrics that a method returns come from where nobody knows what they are.

    Args:
        method: the method.
        shapes: what is known of what it calls.
        losses: the variables of which there is a backward pass: each is one number.
    """
    values = [found.value for found in syntax.returns(method)]
    known = _summed(method, losses)
    return any(_is_unknown(v, method, shapes, known, 5) for v in values if v is not None)


def _summed(method: cst.FunctionDef, losses: Collection[str]) -> set[str]:
    """The dicts of which all that is in them is added up to one number, as each of it is then."""
    found = set[str]()
    # What is asked for its item is one number, too.
    losses = {*losses, *re.findall(r"\b(\w+)\.item\(\)", syntax.code(method))}
    for line in syntax.find(method.body, cst.Assign):
        for target, value in syntax.pairs(line):
            text = syntax.code(value)
            if syntax.code(target) in losses and text.startswith("sum("):
                found.update(re.findall(r"\b(\w+)\.values\(\)", text))
    return found


def _is_unknown(
    value: cst.BaseExpression,
    method: cst.FunctionDef,
    shapes: Shapes,
    summed: Collection[str],
    deep: int,
) -> bool:
    if isinstance(value, cst.Dict):
        starred = [e.value for e in value.elements if isinstance(e, cst.StarredDictElement)]
        return any(_is_unknown(each, method, shapes, summed, deep) for each in starred)
    if isinstance(value, cst.IfExp):
        return any(_is_unknown(v, method, shapes, summed, deep) for v in (value.body, value.orelse))
    if isinstance(value, cst.BinaryOperation):
        return any(_is_unknown(v, method, shapes, summed, deep) for v in (value.left, value.right))
    if isinstance(value, cst.DictComp):
        return not is_scalar(value.value, {})
    if isinstance(value, cst.Name):
        if deep == 0 or value.value == "None":
            return deep == 0
        lines = syntax.find(method.body, cst.Assign)
        set_to = [
            n.value for n in lines if value.value in (syntax.code(t.target) for t in n.targets)
        ]
        set_to += [
            arg.value
            for call in syntax.find(method.body, cst.Call)
            for arg in call.args
            if syntax.code(call.func) == f"{value.value}.update" and arg.keyword is None
        ]
        if value.value in summed:
            set_to = [made for made in set_to if not isinstance(made, cst.Call)] or [cst.Dict([])]
        return not set_to or any(_is_unknown(v, method, shapes, summed, deep - 1) for v in set_to)
    if not isinstance(value, cst.Call) or deep == 0:
        # A single value is the loss; what an expression sets within is not followed.
        return isinstance(value, cst.Call | cst.NamedExpr)
    return _returns_unknown(value, shapes, deep)


def _returns_unknown(call: cst.Call, shapes: Shapes, deep: int) -> bool:
    name = syntax.code(call.func).rpartition(".")[2]
    if syntax.code(call.func).startswith("super("):
        # What a base returns is looked at there.
        return False
    if name == "dict":
        return any(arg.keyword is None for arg in call.args)
    called = shapes.called(name)
    if called is None:
        root, _, rest = syntax.code(call.func).partition(".")
        paths = (f"{path}.{rest}".rstrip(".") for path in shapes.imported.get(root, (root,)))
        return not all(map(_NUMBERS.fullmatch, paths))
    values = [r.value for r in syntax.returns(called) if r.value is not None]
    return any(_is_unknown(value, called, shapes, (), deep - 1) for value in values)
