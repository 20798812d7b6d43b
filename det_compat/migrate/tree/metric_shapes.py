"""What is known of the shape of metrics without running anything."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.tree.syntax import (
    argument,
    body_of,
    code,
    find,
    names_in,
    pairs,
    parts,
    self_name,
)
from det_compat.migrate.tree.trial_attributes import values_set

_SCALAR_METHODS = words("mean sum item max min norm prod std var numel size dim")
_SCALAR_FUNCTIONS = words("float int len round abs error_rate perf_counter time")
_LOSSES = words(
    "cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss binary_cross_entropy kl_div "
    "binary_cross_entropy_with_logits huber_loss"
)
_NO_NUMBERS = words("str repr format join classification_report")
_MANY = words(
    "stack cat concatenate tolist split get_last_lr get_lr bincount diagonal diag histc softmax "
    "unique nonzero arange linspace confusion_matrix zeros_like ones_like full_like"
)
#: Methods whose results have as many numbers as what they are called on.
_ELEMENTWISE = words(
    "detach clone cpu cuda to float double half long int bool abs sqrt exp log sigmoid"
)
#: Methods that compare each number of a tensor with others.
_COMPARISONS = words("eq ne lt le gt ge isclose")
_REDUCTIONS = words("mean sum std var prod amax amin argmax argmin nanmean logsumexp")
_LIBRARIES = ("torch", "np", "numpy")
_COLLECTIONS = words("list tuple set frozenset sorted reversed range map filter zip")
_RATES = ("get_last_lr", "get_lr")
#: Functions of libraries that make one number of all that they are given.
_OF_ALL = words(
    "mean sum std var prod max min median norm nanmean nansum nanstd nanmax nanmin average "
    "count_nonzero trace dist logsumexp"
)
_OF_EACH = _ELEMENTWISE | words("tensor as_tensor array asarray float32 float64")
_ARITHMETIC = words("add sub mul div true_divide add_ sub_ mul_ div_ clamp clip pow")
#: Those of sklearn, unless they are told to give one for each class.
_SCORES = words(
    "accuracy_score balanced_accuracy_score precision_score recall_score f1_score fbeta_score "
    "jaccard_score roc_auc_score average_precision_score matthews_corrcoef cohen_kappa_score "
    "mean_squared_error mean_absolute_error r2_score log_loss auc"
)
_SIZE = re.compile(r"(?s).*\.(shape|size\(\)|get_last_lr\(\))\[-?\d\]")
_FILLED = words("zeros ones full empty rand randn")
_OF_LAYERS = ("weight", "bias")
_ARRAYS = words("np.array np.asarray numpy.array numpy.asarray")
Known: TypeAlias = dict[str, cst.BaseExpression | None]
#: What stands for what a function returns.
ONE, _SEVERAL = cst.Integer("0"), cst.List([])


def assigned(method: cst.FunctionDef) -> Known:
    """What each local variable of a method is; None if it is set more than once."""
    found: dict[str, cst.BaseExpression | None] = {}
    for line in find(method.body, cst.Assign):
        for target, value in pairs(line):
            # Of one value that is taken apart, no part is known.
            is_part = value is line.value and all(target is not t.target for t in line.targets)
            found[code(target)] = None if is_part or code(target) in found else value
    for changed in find(method.body, cst.AugAssign):
        found[code(changed.target)] = None
    return found


@dataclass(frozen=True)
class Shapes:
    """What is known of metrics where they are made.

    Attributes:
        own: the methods of a class.
        near: the functions and methods of its file, by name.
        far: the functions of other files.
        imported: the paths that each name is imported from.
        texts: the functions and classes of all files, by name.
    """

    own: Mapping[str, cst.FunctionDef] = field(default_factory=dict)
    near: Mapping[str, cst.FunctionDef] = field(default_factory=dict)
    far: Mapping[str, cst.FunctionDef] = field(default_factory=dict)
    imported: Mapping[str, frozenset[str]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)

    def known(self, method: cst.FunctionDef, deep: int = 2) -> Known:
        """What a method knows: its variables, attributes that are set once, what it calls.

        So many calls are followed as ``deep`` says.
        """
        me = self_name(method)
        found = {f"{me}.{name}": value for name, value in _attributes(self.own).items()}
        found.update(assigned(method))
        for call in find(method.body, cst.Call) if deep else ():
            called, inner = self.reached(call, method)
            if called is not None and called is not method:
                shape = _returned_shape(called, inner.known(called, deep - 1))
                found[f"{code(call.func)}()"] = shape
        return found

    def reached(
        self, call: cst.Call, method: cst.FunctionDef
    ) -> tuple[cst.FunctionDef | None, "Shapes"]:
        """What a method calls, None if it is not known, and what that knows."""
        owner, _, name = code(call.func).rpartition(".")
        if owner == self_name(method):
            return self.own.get(name) or self.near.get(name), self
        is_near = owner.partition(".")[0] not in self.imported
        called = self.near.get(name) if is_near else None
        return called or self.far.get(name), replace(self, own={})

    def odd_kinds(self, method: cst.FunctionDef) -> frozenset[str]:
        """As ``odd_kinds``, with all that is known."""
        return odd_kinds(method, self.known(method))


def _attributes(own: Mapping[str, cst.FunctionDef]) -> Known:
    """What each attribute of an object is; None if it is set more than once."""
    found: Known = {}
    for method in own.values():
        me = self_name(method)
        for line in find(method.body, cst.Assign):
            for target in line.targets:
                owner, _, name = code(target.target).partition(".")
                if owner == me:
                    found[name] = line.value if name not in found else None
    return found


def _returned_shape(function: cst.FunctionDef, known: Known) -> cst.BaseExpression | None:
    """What stands for the results of a function; None if they may be anything."""
    values = [found.value for found in find(function.body, cst.Return) if found.value is not None]
    if any(isinstance(value, cst.Tuple) for value in values):
        return None
    if any(is_many(value, known) for value in values):
        return _SEVERAL
    return ONE if values and all(is_scalar(value, known) for value in values) else None


def is_scalar(node: cst.BaseExpression, known: Known, deep: int = 5) -> bool:
    """Whether a value is sure to be one number, a tensor of one element included."""
    if isinstance(node, (cst.Integer, cst.Float)):
        return True
    if isinstance(node, (cst.Name, cst.Attribute)):
        value = known.get(code(node))
        return value is not None and deep > 0 and is_scalar(value, known, deep - 1)
    if isinstance(node, cst.BinaryOperation):
        return is_scalar(node.left, known, deep) and is_scalar(node.right, known, deep)
    if isinstance(node, cst.UnaryOperation):
        return is_scalar(node.expression, known, deep)
    if isinstance(node, cst.IfExp):
        return is_scalar(node.body, known, deep) and is_scalar(node.orelse, known, deep)
    if isinstance(node, cst.Subscript):
        is_size = re.fullmatch(
            r".*\.(shape|size\(\)|get_last_lr\(\))\[-?\d\]", code(node), re.DOTALL
        )
        return bool(is_size) or code(node) in ('losses["loss"]', "losses['loss']")
    return isinstance(node, cst.Call) and _returns_scalar(node, known, deep)


def _returns_scalar(call: cst.Call, known: Known, deep: int) -> bool:
    name = code(call.func).rpartition(".")[2]
    if (result := known.get(f"{code(call.func)}()")) is not None:
        return result is ONE
    if name in _LOSSES:
        return argument(call, 99, "reduction") is None
    if name in _SCORES:
        given = (argument(call, 99, option) for option in ("average", "multioutput"))
        return all(each is None or code(each) != "None" for each in given)
    values = [arg.value for arg in call.args]
    are_scalar = all(is_scalar(value, known, deep) for value in values)
    if not isinstance(call.func, cst.Attribute):
        return name in _SCALAR_FUNCTIONS or (
            name in ("max", "min") and len(values) > 1 and are_scalar
        )
    owner = code(call.func.value)
    if owner in _LIBRARIES:
        is_one = len(call.args) == 1 and call.args[0].keyword is None
        return is_one and (name in _OF_ALL or (name in _OF_EACH and are_scalar))
    if owner == "math":
        return True
    if not values:
        return name in _SCALAR_METHODS or is_scalar(call.func.value, known, deep)
    if name == "size":
        return len(values) == 1
    is_kept = name in _ELEMENTWISE or (name in _ARITHMETIC and are_scalar)
    return is_kept and is_scalar(call.func.value, known, deep)


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


def is_many(node: cst.BaseExpression, known: Known, deep: int = 5) -> bool:
    """Whether a value is no single number: a list, a tensor made of one, or what may be a row."""
    if isinstance(node, (cst.List, cst.Tuple, cst.Set, cst.BaseSimpleComp)):
        return True
    if isinstance(node, cst.IfExp):
        return is_many(node.body, known, deep) or is_many(node.orelse, known, deep)
    if isinstance(node, cst.BinaryOperation):
        return is_many(node.left, known, deep) or is_many(node.right, known, deep)
    if isinstance(node, (cst.Name, cst.Attribute)):
        value = known.get(code(node))
        if value is None or deep == 0:
            return isinstance(node, cst.Attribute) and node.attr.value in _OF_LAYERS
        return is_many(value, known, deep - 1)
    if isinstance(node, cst.Comparison):
        compared = [node.left, *(each.comparator for each in node.comparisons)]
        return any(is_many(each, known, deep) or _may_be_row(each, known) for each in compared)
    if not isinstance(node, cst.Call):
        return False
    if (inner := _elements_of(node)) is not None:
        return is_many(inner, known, deep)
    owner, _, name = code(node.func).rpartition(".")
    if (result := known.get(f"{code(node.func)}()")) is not None:
        return result is _SEVERAL
    if name in _COMPARISONS and owner not in _LIBRARIES:
        return bool(node.args)
    if name in _FILLED and node.args:
        return code(node.args[0].value) not in ("1", "()", "[]", "(1,)", "[1]")
    reduction = argument(node, 99, "reduction")
    if reduction is not None and name in _LOSSES:
        return code(reduction).strip("\"'") == "none"
    if name in ("tensor", "array", "as_tensor") and node.args:
        return is_many(node.args[0].value, known, deep)
    return name in _MANY or code(node.func) in _COLLECTIONS or _is_reduced_in_part(node)


def _may_be_row(node: cst.BaseExpression, known: Known) -> bool:
    """Whether a part of a comparison is computed, and not known to be one number."""
    is_local = isinstance(node, cst.Name) and node.value in known
    return (is_local or isinstance(node, cst.Call)) and not is_scalar(node, known)


def _is_reduced_in_part(call: cst.Call) -> bool:
    """Whether it is a mean or sum over one dimension, which may leave others."""
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _REDUCTIONS:
        return False
    tensors = int(code(call.func.value) in _LIBRARIES)
    dimension = argument(call, tensors, "dim") or argument(call, tensors, "axis")
    return dimension is not None


def _elements_of(call: cst.Call) -> cst.BaseExpression | None:
    """What the numbers of a call are made of, one by one; None if that is not known."""
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _ELEMENTWISE:
        return None
    if code(call.func.value) not in _LIBRARIES:
        return call.func.value
    return call.args[0].value if call.args else None


def is_list(node: cst.BaseExpression, known: Known) -> bool:
    """Whether a value is a list of numbers, as far as it can be seen."""
    if isinstance(node, cst.Name) and (value := known.get(node.value)) is not None:
        return not isinstance(value, cst.Name) and is_list(value, known)
    if isinstance(node, cst.Call):
        return code(node.func).rpartition(".")[2] in _RATES
    return isinstance(node, (cst.List, cst.Tuple, cst.ListComp)) and node is not _SEVERAL


def is_array(node: cst.BaseExpression, known: Known) -> bool:
    """Whether a value is an array of NumPy's, which Lightning does not log."""
    if isinstance(node, cst.Name) and (value := known.get(node.value)) is not None:
        return not isinstance(value, cst.Name) and is_array(value, known)
    if not isinstance(node, cst.Call):
        return False
    func = code(node.func)
    return func in _ARRAYS or (func.endswith(".numpy") and not node.args)


def without_numpy(node: cst.BaseExpression, known: Known) -> cst.BaseExpression:
    """A number as it was before NumPy made an array of it; anything else as it is."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or node.args:
        return node
    is_made = node.func.attr.value == "numpy" and is_scalar(node.func.value, known)
    return node.func.value if is_made else node


def is_part(node: cst.BaseExpression, known: Known) -> bool:
    """Whether a value is a part of several, which may be several numbers itself, or a text."""
    if isinstance(node, cst.Name) and (value := known.get(node.value)) is not None:
        return not isinstance(value, cst.Name) and is_part(value, known)
    if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Call):
        # Of the values that are found by ``x.max(1)``, for example.
        return bool(node.value.args)
    if not isinstance(node, cst.Subscript):
        return False
    if isinstance(node.value, cst.Call) and isinstance(node.slice[0].slice, cst.Index):
        # One of the learning rates that a scheduler tells is a number.
        return not is_list(node.value, known)
    # What is found by a number that is computed may be a name in a table.
    is_found = any([*find(part, cst.Call)] for part in node.slice) or code(node.value).isupper()
    return is_found or isinstance(node.value, cst.Call) or is_many(node.value, known)


def is_odd(node: cst.BaseExpression, known: Known) -> bool:
    """Whether a metric is known to be several numbers, or to be a part of such."""
    is_other = is_array(node, known) or is_part(node, known) or is_dict(node)
    return is_other or is_many(node, known)


def is_no_number(node: cst.BaseExpression, texts: Collection[str] = ()) -> bool:
    """Whether a value is sure to be a text or None, given the variables that are."""
    if isinstance(node, cst.IfExp):
        return is_no_number(node.body, texts) and is_no_number(node.orelse, texts)
    if isinstance(node, cst.Name):
        return node.value == "None" or node.value in texts
    if isinstance(node, cst.Call):
        is_text = code(node.func).rpartition(".")[2] in _NO_NUMBERS
        return is_text or (isinstance(node.func, cst.Attribute) and _is_text(node.func.value))
    return _is_text(node) or isinstance(node, cst.Lambda)


def is_dict(node: cst.BaseExpression) -> bool:
    """Whether a value is sure to be a dict."""
    made_by = code(node.func) if isinstance(node, cst.Call) else ""
    return isinstance(node, (cst.Dict, cst.DictComp)) or made_by.endswith(("dict", "asdict"))


def texts(method: cst.FunctionDef) -> set[str]:
    """The local variables that are set to a text, and never to anything else but None."""
    loops = [code(each.target) for each in find(method.body, cst.For)]
    others = {*loops, *(param.name.value for param in find(method, cst.Param))}
    values: dict[str, list[cst.BaseExpression]] = {}
    for target, value in values_set(method.body):
        for part in parts(target):
            values.setdefault(code(part), []).append(value if part is target else part)
    are_texts = {
        name
        for name, found in values.items()
        if all(map(is_no_number, found)) and any(code(value) != "None" for value in found)
    }
    return are_texts - others


def _is_text(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.BinaryOperation):
        return _is_text(node.left)
    return isinstance(node, cst.BaseString)


def may_be_none(node: cst.BaseExpression, nones: Collection[str]) -> bool:
    """Whether a value is a text, a dict or None at times, given the variables that are."""
    if isinstance(node, cst.IfExp):
        return any(
            is_no_number(part) or is_dict(part) or may_be_none(part, nones)
            for part in (node.body, node.orelse)
        )
    return isinstance(node, cst.Name) and node.value in nones


def nones(method: cst.FunctionDef) -> set[str]:
    """The local variables that are set to a text, a dict or None somewhere, and may stay so."""
    lines = body_of(method)
    return {
        code(target)
        for at, line in enumerate(lines)
        for target, value in values_set(line)
        if isinstance(target, cst.Name)
        and (is_no_number(value) or is_dict(value) or may_be_none(value, ()))
        if not _is_set_anew(target.value, lines[at + 1 :])
    }


def _is_set_anew(name: str, lines: Sequence[cst.BaseStatement]) -> bool:
    """Whether a variable gets another value on each way to what is returned below."""
    for line in lines:
        if any(find(line, cst.Return)):
            return False
        if isinstance(line, cst.SimpleStatementLine) and any(
            code(target) == name and name not in names_in(value)
            for target, value in values_set(line)
        ):
            return True
    return False


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
