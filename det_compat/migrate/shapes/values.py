"""Values: whether they are one number, several, or a part of several."""

import re
from typing import TypeAlias

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.shapes.texts import is_dict
from det_compat.migrate.tree.syntax import argument, code, find, pairs, parts

_SCALAR_METHODS = words("mean sum item max min norm prod std var numel size dim")
_SCALAR_FUNCTIONS = words("float int len error_rate perf_counter time")
#: Built-in functions of numbers that tensors have, too, element by element.
_OF_NUMBERS = ("abs", "round")
_LOSSES = words(
    "cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss binary_cross_entropy kl_div "
    "binary_cross_entropy_with_logits huber_loss"
)
_MANY = words(
    "stack vstack hstack dstack column_stack cat concat concatenate tolist split chunk get_last_lr "
    "get_lr bincount diagonal diag histc softmax log_softmax unique nonzero arange linspace "
    "logspace confusion_matrix zeros_like ones_like full_like rand_like randn_like randperm eye "
    "topk sort argsort cumsum cumprod repeat expand tile one_hot cov corrcoef tril triu outer "
    "roc_curve precision_recall_curve precision_recall_fscore_support matmul mm bmm mv cdist "
    "cosine_similarity pairwise_distance"
)
#: Methods whose results have as many numbers as what they are called on.
_ELEMENTWISE = words(
    "detach clone cpu cuda to float double half bfloat16 long int short bool type type_as "
    "contiguous numpy abs absolute neg negative sign sqrt rsqrt square reciprocal exp exp2 expm1 "
    "log log2 log10 log1p sigmoid logit tanh relu sin cos tan erf ceil floor trunc frac round "
    "nan_to_num isnan isinf isfinite logical_not masked_fill flatten ravel view reshape squeeze "
    "unsqueeze transpose permute flip roll"
)
#: Methods that compare each number of a tensor with others.
_COMPARISONS = words("eq ne lt le gt ge isclose")
_REDUCTIONS = words("mean sum std var prod amax amin argmax argmin nanmean logsumexp norm any all")
_FUNCTIONAL = words("F nn.functional torch.nn.functional")
_LIBRARIES = _FUNCTIONAL | words("torch np numpy torch.linalg np.linalg torch.special")
_COLLECTIONS = words("list tuple set frozenset sorted reversed range map filter zip")
_RATES = ("get_last_lr", "get_lr")
#: Functions of libraries that make one number of all that they are given.
_OF_ALL = words(
    "mean sum std var prod max min median norm nanmean nansum nanstd nanmax nanmin average "
    "count_nonzero trace dist logsumexp"
)
#: Those that make one number, too, though of more than one argument, or not of floats.
_OF_SEVERAL = words(
    "dot vdot det trapz trapezoid ptp amax amin argmax argmin any all equal allclose array_equal "
    "numel size ndim nanmedian vector_norm matrix_norm"
)
#: Those that choose or compute element by element, of several.
_PAIRWISE = words(
    "maximum minimum fmax fmin where remainder fmod atan2 lerp hypot power divide multiply subtract"
)
#: Those that give a number for each share or percentage that they are asked for.
_SHARES = words("quantile nanquantile percentile nanpercentile")
_OF_EACH = _ELEMENTWISE | words("tensor as_tensor array asarray float32 float64")
_ARITHMETIC = words("add sub mul div true_divide add_ sub_ mul_ div_ clamp clip pow")
#: Those of sklearn, unless they are told to give one for each class.
_SCORES = words(
    "accuracy_score balanced_accuracy_score precision_score recall_score f1_score fbeta_score "
    "jaccard_score roc_auc_score average_precision_score matthews_corrcoef cohen_kappa_score "
    "mean_squared_error mean_absolute_error r2_score log_loss auc"
)
_SIZE = re.compile(r"(?s).*\.(shape|size\(\)|get_last_lr\(\))\[-?\d\]")
#: What ``COCOeval`` of pycocotools has summed up is a row of numbers.
_COCO = re.compile(r"(?i)(\w+\.)*\w*coco\w*(\[[^\]]*\])?\.stats(\.tolist\(\))?")
_FILLED = words("zeros ones full empty rand randn")
_OF_LAYERS = ("weight", "bias")
_ARRAYS = words("np.array np.asarray numpy.array numpy.asarray")
#: Shapes of one number.
_OF_ONE = ("()", "[]", "(1,)", "[1]")
_STEPS = words("train_batch evaluate_batch training_step validation_step")
Known: TypeAlias = dict[str, cst.BaseExpression | None]
#: What stands for what a function returns.
ONE, SEVERAL = cst.Integer("0"), cst.List([])


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


def rows(method: cst.FunctionDef) -> set[str]:
    """The variables of a method that are a batch, or what it consists of, and are set once."""
    params = [each.name.value for each in method.params.params]
    given = {"batch"} & {*params}
    if method.name.value in _STEPS:
        given |= {*params[1:2]}
    lines = [*find(method.body, cst.Assign)]
    names = [code(part) for line in lines for t in line.targets for part in parts(t.target)]
    of_batch = [
        code(part)
        for line in lines
        for target in line.targets
        if isinstance(target.target, cst.Tuple) and code(_moved(line.value)) in given
        for part in parts(target.target)
    ]
    return {name for name in (*given, *of_batch) if names.count(name) <= (name not in given)}


def _moved(value: cst.BaseExpression) -> cst.BaseExpression:
    """What is moved to a device, or is a value as it is."""
    is_moved = isinstance(value, cst.Call) and code(value.func).endswith("to_device")
    return value.args[0].value if isinstance(value, cst.Call) and is_moved and value.args else value


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
        is_size = _SIZE.fullmatch(code(node)) or _is_coco_s(node, known)
        return bool(is_size) or code(node) in ('losses["loss"]', "losses['loss']")
    return isinstance(node, cst.Call) and _returns_scalar(node, known, deep)


def _is_coco_s(node: cst.Subscript, known: Known) -> bool:
    """Whether a value is one of the numbers that an evaluation of pycocotools ends with."""
    row = known.get(code(node.value)) or node.value
    index = node.slice[0].slice
    is_one = isinstance(index, cst.Index) and isinstance(index.value, cst.Integer)
    return is_one and len(node.slice) == 1 and bool(_COCO.fullmatch(code(row)))


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
        if name in _OF_NUMBERS and values:
            return not is_many(values[0], known, deep)
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
    if isinstance(node, cst.Subscript):
        return known.get(code(node.value)) is SEVERAL
    if isinstance(node, cst.Comparison):
        compared = [node.left, *(each.comparator for each in node.comparisons)]
        return any(is_many(each, known, deep) or _may_be_row(each, known) for each in compared)
    if not isinstance(node, cst.Call):
        return False
    if (inner := _elements_of(node)) is not None:
        return is_many(inner, known, deep)
    owner, _, name = code(node.func).rpartition(".")
    if (result := known.get(f"{code(node.func)}()")) is not None:
        return result is SEVERAL
    if name in _COMPARISONS and owner not in _LIBRARIES:
        return bool(node.args)
    if name in _FILLED and node.args:
        return code(node.args[0].value) not in ("1", *_OF_ONE)
    reduction = argument(node, 99, "reduction")
    if reduction is not None and name in _LOSSES:
        return code(reduction).strip("\"'") == "none"
    if name in ("tensor", "array", "as_tensor") and node.args:
        return is_many(node.args[0].value, known, deep)
    if name in _SHARES:
        share = argument(node, int(owner in _LIBRARIES), "q")
        return share is not None and not is_scalar(share, known)
    if owner in _LIBRARIES - _FUNCTIONAL and name in _PAIRWISE:
        return any(is_many(arg.value, known, deep) for arg in node.args)
    if name in _MANY or code(node.func) in _COLLECTIONS or _is_reduced_in_part(node):
        return True
    # What a library makes of tensors is several numbers unless it is known to be one.
    is_computed = owner in _LIBRARIES - _FUNCTIONAL and bool(node.args)
    is_computed &= all(code(arg.value) not in _OF_ONE for arg in node.args)
    return (
        is_computed and name not in _OF_ALL | _OF_SEVERAL | _OF_EACH and not name.endswith("_loss")
    )


def _may_be_row(node: cst.BaseExpression, known: Known) -> bool:
    """Whether a part of a comparison is computed, and not known to be one number."""
    is_local = isinstance(node, cst.Name) and node.value in known
    return (is_local or isinstance(node, cst.Call)) and not is_scalar(node, known)


def _is_reduced_in_part(call: cst.Call) -> bool:
    """Whether it is a mean or sum over one dimension, which may leave others."""
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _REDUCTIONS:
        return False
    # The order of a norm comes before its dimension.
    tensors = int(code(call.func.value) in _LIBRARIES) + int(call.func.attr.value == "norm")
    dimension = argument(call, tensors, "dim") or argument(call, tensors, "axis")
    return dimension is not None


def _elements_of(call: cst.Call) -> cst.BaseExpression | None:
    """What the numbers of a call are made of, one by one; None if that is not known."""
    owner, _, name = code(call.func).rpartition(".")
    if name not in (_ELEMENTWISE | _ARITHMETIC if owner else _OF_NUMBERS):
        return None
    if isinstance(call.func, cst.Attribute) and owner not in _LIBRARIES:
        return call.func.value
    return call.args[0].value if call.args else None


def is_list(node: cst.BaseExpression, known: Known) -> bool:
    """Whether a value is a list of numbers, as far as it can be seen."""
    if isinstance(node, cst.Name) and (value := known.get(node.value)) is not None:
        return not isinstance(value, cst.Name) and is_list(value, known)
    if isinstance(node, cst.Call):
        return code(node.func).rpartition(".")[2] in _RATES
    return isinstance(node, (cst.List, cst.Tuple, cst.ListComp)) and node is not SEVERAL


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
    if not isinstance(node, cst.Subscript) or _is_coco_s(node, known):
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
