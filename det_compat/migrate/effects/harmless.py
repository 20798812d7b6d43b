"""What is known to change nothing: libraries' functions, and methods that only read.

Whatever is not in these lists is taken to change what it is given, or something that nobody sees.
"""

import ast
import re

from det_compat.analysis.expressions import words
from det_compat.migrate.effects.source import Project, dotted

#: The functions of these packages and modules change nothing but what they say they change.
_PURE = re.compile(
    r"(torch|torchvision|torchaudio|numpy|math|cmath|statistics|random|itertools|functools|collections"
    r"|copy|heapq|bisect|time|datetime|typing|re|string|einops|scipy|sklearn|skimage|PIL|cv2|tqdm|logging"
    r"|warnings|os\.path|os\.environ\.get|json|pprint|nltk|contextlib|dataclasses|enum|types|textwrap"
    r"|torchmetrics\.functional|determined|pedl|det_compat|abc|torch_geometric)\b"
)
#: These of theirs write files, or change what all code sees.
_IMPURE = re.compile(
    r"(.*\.)?(save\w*|dump|write\w*|manual_seed\w*|seed|set_\w+|use_deterministic\w*|simplefilter"
    r"|filterwarnings|basicConfig|register\w*|load_state_dict|imwrite|download\w*)$"
)
_IMPURE_BUT = words("set_grad_enabled set_detect_anomaly manual_seed seed manual_seed_all")
#: These change their first argument.
CHANGING_FIRST = words(
    """
    next heappush heappop heappushpop heapreplace heapify insort insort_left insort_right
    shuffle copyto at fill_diagonal put place putmask
    all_reduce broadcast reduce rectangle circle line putText drawContours fillPoly polylines
    """
)
#: These return their argument, a part of it, or something that shares its memory.
SHARING = words(
    """
    as_tensor asarray atleast_1d atleast_2d from_numpy ravel squeeze unsqueeze view view_as reshape
    transpose permute t T mT swapaxes expand expand_as narrow select detach data flatten chunk split
    unbind get values items keys parameters named_parameters modules named_modules children
    named_children buffers named_buffers state_dict to cpu cuda float double half long int bool
    contiguous type type_as numpy getattr vars iter partial tqdm trange nullcontext reversed
    enumerate zip __getitem__ module diagonal unfold real imag movedim moveaxis index_select copy
    """
)
#: Methods that change nothing of what they are called on.
READING = SHARING | words(
    """
    abs acos all allclose amax amin any append_axes argmax argmin argsort astype atan backward
    bfloat16 bincount bmm byte capitalize casefold ceil center char clamp clip clone compute
    copy corrcoef cos count count_nonzero cpu cross cuda cumprod cumsum decode device diag
    difference dim div dot dtype element_size encode endswith eq erf exp expand fill_value find
    flip floor fmod format fromkeys gather ge group groups gt hex histc index intersection
    inverse is_contiguous is_cuda is_floating_point isalpha isdigit isdisjoint isfinite isinf
    isnan isoformat issubset issuperset isupper item itemsize join kthvalue ldexp le lerp ljust
    log log10 log1p log2 log_softmax logical_and logical_not logical_or logical_xor logit
    logsumexp lower lstrip lt masked_fill masked_select match matmul max mean median min mm mode
    most_common mul multinomial mv nan_to_num ndim ndimension ne neg new_empty new_full new_ones
    new_tensor new_zeros nbytes nelement nonzero norm numel outer partition permute pow prod
    quantile reciprocal relu remainder repeat replace requires_grad rfind rjust roll round
    rpartition rsplit rsqrt rstrip scatter scatter_add search short shape sigmoid sign sin size
    softmax sort split splitlines sqrt square stack startswith std storage strftime strip sub
    sum swapcase take tan tanh tile title tobytes tolist topk total total_seconds trace tril
    triu trunc union unique upper var where zfill __len__ __contains__ __eq__ isinstance debug
    info warning warn error exception critical get_hparam get_hparams getEffectiveLevel
    isEnabledFor get_lr get_last_lr extra_repr __str__
    """
)
#: Methods that containers have which change them, and nothing else.
FILLING = words(
    """
    append appendleft extend insert add update setdefault pop popleft popitem remove discard clear
    sort reverse put get
    """
)
#: Classes of libraries whose objects only hold what they are given.
CONTAINERS = words("Counter OrderedDict Queue SimpleQueue defaultdict deque SimpleNamespace")
#: What these return calls what they are given.
WRAPPING = words("partial partialmethod vectorize vmap jit methodcaller compose")
#: These call the function that is their first argument, or that is given as their key.
CALLING = words("map filter reduce accumulate starmap takewhile dropwhile groupby vmap vectorize")
#: Classes of libraries whose objects are other ones after each draw.
DRAWING = words("Generator Random RandomState default_rng")
#: What these have made is used up as it is iterated over.
ITERATORS = words("iter cycle map filter zip enumerate chain islice count repeat")
#: Methods of libraries' models that may be more than a calculation.
_CHANGING_MODEL = re.compile(
    r"(set|add|update|register|reset|init|load|remove|push|enqueue|step|save|fit|log)(_|$)|\w*[a-z0-9]_$"
)
_WRITING = re.compile(r"(save\w*|write\w*|to_(csv|json|pickle|parquet|excel)|dump)$")
#: Python's own functions of which nothing is known, since they run code or write.
UNKNOWN_BUILTINS = words("exec eval globals locals __import__ open input compile breakpoint super")
_LAYERS = re.compile(
    r"torch\.nn\b(?!\.(utils|init)\b)|torchvision\.(models|ops)\b|torch_geometric\.nn\b"
)


def is_pure(path: str) -> bool:
    """Whether a library's function changes nothing but what its name or arguments say."""
    last = path.rpartition(".")[2]
    is_known = bool(_PURE.match(path)) and not path.startswith("torch.nn.init")
    return is_known and (last in _IMPURE_BUT or not _IMPURE.match(path))


def is_in_place(name: str) -> bool:
    """Whether a function says by its name that it changes its first argument."""
    return name.endswith("_") and not name.startswith("_")


def writes(method: str) -> bool:
    """Whether a method of anything new says by its name that it writes to a file."""
    return bool(_WRITING.match(method))


def is_layer(path: str) -> bool:
    """Whether a class of a library makes layers or losses."""
    return bool(_LAYERS.match(path))


def only_calculates(method: str) -> bool:
    """Whether a method of a model that a library has made, says by its name that it does."""
    return not _CHANGING_MODEL.match(method)


def is_pure_decorator(node: ast.expr, project: Project) -> bool:
    """Whether what a decorator makes of a function only calls it, or keeps what it returned."""
    made = node.func if isinstance(node, ast.Call) else node
    text = dotted(made) or ""
    if text.rpartition(".")[2] in _DECORATORS or text.startswith("__det_"):
        return True
    paths = project.paths(text)
    return bool(paths) and text not in project and all(map(is_pure, paths))


_DECORATORS = words("staticmethod classmethod property setter abstractmethod override")
