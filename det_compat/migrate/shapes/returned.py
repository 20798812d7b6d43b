"""What methods return: numbers, and dicts of metrics."""

from collections.abc import Iterator

import libcst as cst

from det_compat.migrate.shapes.texts import is_no_number, may_be_none, nones, texts
from det_compat.migrate.shapes.values import ONE, Known, assigned, is_many, is_odd, is_scalar
from det_compat.migrate.tree.syntax import code, find, names_in, pairs
from det_compat.migrate.tree.trial_attributes import values_set


def returned(method: cst.FunctionDef) -> list[cst.BaseExpression]:
    """What a method returns, at each of its returns; variables as what they were set to."""
    known = assigned(method)
    values = [found.value for found in find(method.body, cst.Return)]
    return [known.get(code(value)) or value for value in values if value is not None]


def gives_dicts(method: cst.FunctionDef) -> bool:
    """Whether a method is sure to return dicts, and nothing else."""
    values = returned(method)
    return bool(values) and all(isinstance(value, cst.Dict | cst.DictComp) for value in values)


def all_scalar(method: cst.FunctionDef) -> bool:
    """Whether each metric of the dicts that a method returns is sure to be one number."""
    known, values = assigned(method), returned(method)
    dicts = [value for value in values if isinstance(value, cst.Dict)]
    elements = [element for found in dicts for element in found.elements]
    is_known = bool(dicts) and len(dicts) == len(values)
    return is_known and all(is_scalar(element.value, known) for element in elements)


def odd_kinds(method: cst.FunctionDef, known: Known | None = None) -> frozenset[str]:
    """What a method is known to return beside single numbers.

    ``many`` stands for a metric, or a result, that is several numbers or at times none, ``none``
    for one that is a text or None. ``known`` is what the method knows, or its variables.
    """
    known = assigned(method) if known is None else known
    found: set[str] = set()
    for value in returned(method):
        found |= {"many"} if is_many(value, known) else set()
    for value in metrics_of(method):
        is_other = is_odd(value, known) or may_be_none(value, nones(method))
        found |= {"many"} if is_other else set()
        found |= {"none"} if is_no_number(value, texts(method)) else set()
    return frozenset(found)


def metrics_of(method: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
    """The metrics in the dicts that a method returns, or puts into a variable that it returns."""
    names = {name for value in _returns(method) for name in names_in(value)}
    set_to = [*values_set(method)]
    for _ in range(3):
        names |= {code(v) for t, v in set_to if code(t) in names and isinstance(v, cst.Name)}
    yield from (entry for value in _returns(method) for entry in _entries(value))
    added = ((line.target, line.value) for line in find(method.body, cst.AugAssign))
    for target, value in (*set_to, *added):
        if isinstance(target, cst.Name) and target.value in names:
            yield from _entries(value)
        elif isinstance(target, cst.Subscript) and code(target.value) in names:
            yield value
    for call in find(method.body, cst.Call):
        owner, _, called = code(call.func).rpartition(".")
        if called in ("update", "setdefault") and owner in names:
            yield from _given(call)


def _returns(method: cst.FunctionDef) -> list[cst.BaseExpression]:
    return [found.value for found in find(method.body, cst.Return) if found.value is not None]


def _given(call: cst.Call) -> Iterator[cst.BaseExpression]:
    """The metrics that ``dict(...)``, and what is added to a dict, is given."""
    named = [arg.value for arg in call.args if arg.keyword is not None]
    others = [arg.value for arg in call.args if arg.keyword is None]
    yield from named
    if code(call.func).endswith("setdefault"):
        yield from others[1:]
    yield from (entry for value in others for entry in _entries(value))


def _entries(value: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The metrics in the dicts that a value is, or takes them of."""
    if isinstance(value, cst.IfExp):
        yield from (*_entries(value.body), *_entries(value.orelse))
    elif isinstance(value, cst.BinaryOperation):
        yield from (*_entries(value.left), *_entries(value.right))
    elif isinstance(value, cst.Call) and code(value.func) == "dict":
        yield from _given(value)
    elif isinstance(value, cst.Dict):
        yield from (e.value for e in value.elements if isinstance(e, cst.DictElement))


def numbers(method: cst.FunctionDef, known: Known) -> frozenset[str]:
    """What a method returns that is sure to be no dict, but a number or a tensor."""
    return frozenset(code(v) for v in _returns(method) if _is_number(v, method, known))


def _is_number(node: cst.BaseExpression, method: cst.FunctionDef, known: Known) -> bool:
    if isinstance(node, cst.Name):
        lines = find(method.body, cst.Assign)
        values = [v for line in lines for name, v in pairs(line) if code(name) == node.value]
        # A loss may become an entry of a dict where it was none.
        is_dict = any(isinstance(v, (cst.Dict, cst.IfExp)) and [*find(v, cst.Dict)] for v in values)
        others = [v for v in values if not isinstance(v, cst.Name)]
        last = f"{code(others[-1].func)}()" if others and isinstance(others[-1], cst.Call) else ""
        # As may what a function of the project has made of it last.
        is_dict |= known.get(last, ONE) is None
        return not is_dict and any(_is_number(v, method, known) for v in others)
    is_sum = isinstance(node, cst.BinaryOperation) and not isinstance(node.operator, cst.BitOr)
    return is_sum or is_scalar(node, known)
