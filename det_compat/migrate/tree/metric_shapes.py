"""What is known of the shape of metrics without running anything."""

from collections.abc import Collection, Iterator, Mapping

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.tree.syntax import argument, code, find, names_in, self_name

_SCALAR_METHODS = words("mean sum item max min norm prod std var numel size dim")
_SCALAR_FUNCTIONS = words("float int len round abs error_rate perf_counter time")
_LOSSES = words(
    "cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss binary_cross_entropy kl_div "
    "binary_cross_entropy_with_logits huber_loss"
)
_TEXTS = ("str", "repr", "format", "join")
_MANY = words("stack cat concatenate tolist split numpy get_last_lr get_lr bincount diagonal diag")


def assigned(method: cst.FunctionDef) -> dict[str, cst.BaseExpression | None]:
    """What each local variable of a method is; None if it is set more than once."""
    found: dict[str, cst.BaseExpression | None] = {}
    for line in find(method.body, cst.Assign):
        for target in line.targets:
            names = [n.value for n in find(target.target, cst.Name)]
            for name in names:
                value = line.value if code(target.target) == name else None
                found[name] = value if name not in found else None
    for changed in find(method.body, cst.AugAssign):
        found[code(changed.target)] = None
    return found


def is_scalar(
    node: cst.BaseExpression, known: dict[str, cst.BaseExpression | None], deep: int = 5
) -> bool:
    """Whether a value is sure to be one number, a tensor of one element included."""
    if isinstance(node, (cst.Integer, cst.Float)):
        return True
    if isinstance(node, cst.Name):
        value = known.get(node.value)
        return value is not None and deep > 0 and is_scalar(value, known, deep - 1)
    if isinstance(node, cst.BinaryOperation):
        return is_scalar(node.left, known, deep) and is_scalar(node.right, known, deep)
    if isinstance(node, cst.UnaryOperation):
        return is_scalar(node.expression, known, deep)
    if isinstance(node, cst.Subscript):
        return code(node) in ('losses["loss"]', "losses['loss']")
    return isinstance(node, cst.Call) and _returns_scalar(node, known, deep)


def _returns_scalar(call: cst.Call, known: dict[str, cst.BaseExpression | None], deep: int) -> bool:
    name = code(call.func).rpartition(".")[2]
    if name in _LOSSES:
        return argument(call, 99, "reduction") is None
    if not isinstance(call.func, cst.Attribute):
        return name in _SCALAR_FUNCTIONS
    is_known = name in _SCALAR_METHODS or is_scalar(call.func.value, known, deep)
    return not call.args and is_known


def is_many(
    node: cst.BaseExpression, known: dict[str, cst.BaseExpression | None], deep: int = 5
) -> bool:
    """Whether a value is sure to be no single number: a list, or a tensor made of one."""
    if isinstance(node, (cst.List, cst.Tuple, cst.ListComp)):
        return True
    if isinstance(node, cst.Name):
        value = known.get(node.value)
        return value is not None and deep > 0 and is_many(value, known, deep - 1)
    if not isinstance(node, cst.Call):
        return False
    name = code(node.func).rpartition(".")[2]
    reduction = argument(node, 99, "reduction")
    if reduction is not None and name in _LOSSES:
        return code(reduction).strip("\"'") == "none"
    if name in ("tensor", "array", "as_tensor") and node.args:
        return is_many(node.args[0].value, known, deep)
    return name in _MANY


def is_no_number(node: cst.BaseExpression) -> bool:
    """Whether a value is sure to be a text, a dict or None."""
    if isinstance(node, cst.Name):
        return node.value == "None"
    if isinstance(node, cst.Call):
        return code(node.func).rpartition(".")[2] in _TEXTS
    texts = (cst.SimpleString, cst.FormattedString, cst.ConcatenatedString)
    return isinstance(node, (cst.Dict, cst.DictComp, *texts))


def may_be_none(node: cst.BaseExpression, nones: Collection[str]) -> bool:
    """Whether a value is a text, a dict or None at times, given the variables that are."""
    if isinstance(node, cst.IfExp):
        return any(
            is_no_number(part) or may_be_none(part, nones) for part in (node.body, node.orelse)
        )
    return isinstance(node, cst.Name) and node.value in nones


def nones(method: cst.FunctionDef) -> set[str]:
    """The local variables that are set to a text, a dict or None somewhere."""
    return {
        code(target.target)
        for line in find(method.body, cst.Assign)
        for target in line.targets
        if is_no_number(line.value) and isinstance(target.target, cst.Name)
    }


def is_reduced_in_part(node: cst.BaseExpression) -> bool:
    """Whether a value is a mean or sum over one dimension, which may leave others."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    is_reduction = node.func.attr.value in ("mean", "sum")
    owner = code(node.func.value)
    return is_reduction and len(node.args) == 1 and owner not in ("torch", "np", "numpy")


def returned(method: cst.FunctionDef) -> list[cst.BaseExpression]:
    """What a method returns, at each of its returns; variables as what they were set to."""
    known = assigned(method)
    values = [found.value for found in find(method.body, cst.Return)]
    return [known.get(code(value)) or value for value in values if value is not None]


def all_scalar(method: cst.FunctionDef) -> bool:
    """Whether each metric of the dicts that a method returns is sure to be one number."""
    known, values = assigned(method), returned(method)
    dicts = [value for value in values if isinstance(value, cst.Dict)]
    elements = [element for found in dicts for element in found.elements]
    is_known = bool(dicts) and len(dicts) == len(values)
    return is_known and all(is_scalar(element.value, known) for element in elements)


def odd_kinds(method: cst.FunctionDef) -> frozenset[str]:
    """What a method is known to return beside single numbers.

    ``many`` stands for a metric, or a result, that is several numbers, ``none`` for a metric that
    is a text, a dict or None.
    """
    known = assigned(method)
    found: set[str] = set()
    for value in returned(method):
        found |= {"many"} if _is_many(value, known) else set()
    for value in _metrics(method):
        found |= {"many"} if _is_many(value, known) else set()
        found |= {"none"} if is_no_number(value) else set()
    return frozenset(found)


def _is_many(value: cst.BaseExpression, known: dict[str, cst.BaseExpression | None]) -> bool:
    variable = known.get(value.value) if isinstance(value, cst.Name) else None
    return is_many(value, known) or any(map(is_reduced_in_part, (value, variable or value)))


def _metrics(method: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
    """The metrics in the dicts that a method returns, or puts into a variable that it returns."""
    names = {name for value in _returns(method) for name in names_in(value)}
    dicts = [found for value in _returns(method) for found in _dicts(value)]
    for line in find(method.body, cst.Assign):
        for target in line.targets:
            if isinstance(target.target, cst.Name) and target.target.value in names:
                dicts += _dicts(line.value)
            elif isinstance(target.target, cst.Subscript) and code(target.target.value) in names:
                yield line.value
    for found in dicts:
        yield from (e.value for e in found.elements if isinstance(e, cst.DictElement))


def _returns(method: cst.FunctionDef) -> list[cst.BaseExpression]:
    return [found.value for found in find(method.body, cst.Return) if found.value is not None]


def _dicts(value: cst.BaseExpression) -> list[cst.Dict]:
    """The dicts that a value is, or takes the metrics of."""
    if isinstance(value, cst.IfExp):
        return [*_dicts(value.body), *_dicts(value.orelse)]
    return [value] if isinstance(value, cst.Dict) else []


def changed_in_place(method: cst.FunctionDef, own: Mapping[str, cst.FunctionDef]) -> list[str]:
    """The metrics of a method that are tensors of its object which the class changes in place."""
    me = self_name(method)
    returned_ones = {code(value).removeprefix(f"{me}.") for value in _metrics(method)}
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


def unknown_shape(
    method: cst.FunctionDef, functions: Mapping[str, cst.FunctionDef], deep: int = 3
) -> bool:
    """Whether metrics that a method returns come from where nobody knows what they are.

    Args:
        method: the method.
        functions: those of its file, methods among them, by name.
        deep: how many calls are followed.
    """
    return any(_is_unknown(value, method, functions, deep) for value in _returns(method))


def _is_unknown(
    value: cst.BaseExpression,
    method: cst.FunctionDef,
    functions: Mapping[str, cst.FunctionDef],
    deep: int,
) -> bool:
    if isinstance(value, cst.Dict):
        starred = [e.value for e in value.elements if isinstance(e, cst.StarredDictElement)]
        return any(_is_unknown(each, method, functions, deep) for each in starred)
    if isinstance(value, cst.IfExp):
        return any(_is_unknown(v, method, functions, deep) for v in (value.body, value.orelse))
    if isinstance(value, cst.DictComp):
        return not is_scalar(value.value, {})
    if isinstance(value, cst.Name):
        if deep == 0 or value.value == "None":
            return deep == 0
        set_to = [
            line.value
            for line in find(method.body, cst.Assign)
            if value.value in (code(target.target) for target in line.targets)
        ]
        return not set_to or any(_is_unknown(v, method, functions, deep - 1) for v in set_to)
    if not isinstance(value, cst.Call) or deep == 0:
        # A single value is the loss.
        return isinstance(value, cst.Call)
    return _returns_unknown(value, functions, deep)


def _returns_unknown(call: cst.Call, functions: Mapping[str, cst.FunctionDef], deep: int) -> bool:
    name = code(call.func).rpartition(".")[2]
    if code(call.func).startswith("super("):
        # What a base returns is looked at there.
        return False
    if name == "dict":
        return any(arg.keyword is None for arg in call.args)
    called = functions.get(name)
    return called is None or unknown_shape(called, functions, deep - 1)
