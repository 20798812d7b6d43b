"""Models that a trial has and has not wrapped: which of its attributes may be one.

Determined left these in their mode in a validation. Lightning puts whatever is a module, and an
attribute of one, into evaluation mode.
"""

import ast
import builtins
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import libcst as cst

from det_compat.migrate.to_lightning.class_facts import WrappedModel
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.trial_attributes import (
    VALIDATING,
    attributes_read,
    attributes_set,
    layers_of_wrapped,
    reachable,
)

_MODAL = re.compile(
    r"BatchNorm|InstanceNorm|[dD]ropout|RReLU|nn\.Transformer|MultiheadAttention|[sS]pectral_?[nN]orm"
    r"|deepcopy\((?!.*state_dict)|AveragedModel|EMA|Ema|\bself\.training\b"
)
#: What the functions and classes of these return has no modes, or is no model.
_WITHOUT_MODES = re.compile(
    r"(torch|torch(vision|audio)\.(transforms|datasets|utils|io)|numpy|pandas|scipy|sklearn|skimage|PIL|cv2"
    r"|albumentations|torchmetrics|tqdm|yaml|omegaconf|attrdict|wandb|tensorboardX?|matplotlib"
    r"|datasets|evaluate|nltk|pycocotools|sacrebleu|requests|boto3|tokenizers|sentencepiece"
    r"|h5py|joblib|loguru|networkx|nibabel|polars|pyarrow|pydicom|seaborn|tifffile|xarray|zarr"
    r"|filelock|determined|pedl|det_compat)\b"
    r"|transformers\.(.*\bfrom_pretrained$|[gs]et_\w+$|\w*(Config|Processor|Extractor|Tokenizer(Fast)?)\b)"
)
#: Values that are no models: literals, and what the context returns.
_NO_MODEL = re.compile(r"[\[{\"'\d]|__det_")
#: A context returns what it moves to the device.
_MOVING = re.compile(r"__det_\d+__\.to_device\(")
#: What is wrapped is what has been handed over, under another name, or no model.
_WRAPPED = re.compile(r"wrap_(?:model|optimizer|lr_scheduler)\(\s*(?:\w+ *= *)?self\.(\w+)\s*[,)]")
#: What a loader goes through are data.
_LOADED = re.compile(
    r"(?:\bDataLoader\(\s*(?:dataset\s*=\s*)?self\.(\w+)\s*[,)]"
    r"|__det_\d+__\(\s*(?:dataset\s*=\s*)?self\.(\w+),[^()]*\bbatch_size\b)"
)
_TORCHS_MODELS = re.compile(r"torch\.(hub\.(load|_)|jit|load|package|export|ao|quantization)\b")


def keeps_modes(
    family: Sequence[Mapping[str, cst.FunctionDef]],
    wrapped: Iterable[WrappedModel],
    around: Elsewhere,
    has_heirs: bool = False,
) -> bool:
    """Whether validations may use a model that Determined left in its mode, being not wrapped.

    Lightning puts all of a module into evaluation mode.

    Args:
        family: the methods of a trial class and of its bases, nearest last.
        wrapped: the models that are.
        around: the code of which others may be.
        has_heirs: whether others derive from it: what it has of them alone is looked at there.
    """
    every = {name: method for own in family for name, method in own.items()}
    known = {model.attribute.removeprefix("*") for model in wrapped}
    validating = [own[name] for own in (*family, every) for name in reachable(own, *VALIDATING)]
    used = {name for method in validating for name in attributes_read(method)}
    methods = [method for own in family for method in own.values()]
    # Something else may use in a validation what it is handed.
    code = "\n".join(map(syntax.code, methods))
    known |= {*_WRAPPED.findall(code), *(name for pair in _LOADED.findall(code) for name in pair)}
    known |= {name for method in methods for name in layers_of_wrapped(method)}
    handed = {name for method in methods for name in _handed(method, around)}
    in_use = {name for method in validating for name in _called_attributes(method)}
    names = sorted((used | handed) - known - every.keys())
    values, whole = ({name: list[str]() for name in names} for _ in range(2))
    for method in methods:
        for name, value, is_whole in attributes_set(method):
            if name in values:
                value = _MOVING.sub("(", value)
                values[name].append(value)
                whole[name] += [value] if is_whole else []
    others = [method for method in methods if method not in validating]
    before = "\n".join(map(syntax.code, others))
    training = [method for method in others if method.name.value != "__init__"]
    trained = {name for method in training for name in attributes_read(method)}
    makers, aliases = Makers(every, around), {f"self.{name}" for name in known}
    for name, own_values in values.items():
        given = [around.given[name]] if name in around.given else []
        if f".{name}.eval()" in code and f".{name}.train(" not in code:
            if f".{name}.eval()" in before or name not in trained | handed:
                # It is in evaluation mode wherever it is used.
                continue
            return True
        moved = re.compile(_MOVED.format(name), re.DOTALL)
        kept = [v for v in own_values if not moved.fullmatch(v)] or own_values
        kept = [value for value in kept if makers.may_be_module(value)]
        if whole[name] and not any(value in kept for value in whole[name]):
            # What is put into something that is no model is no part of a model.
            kept = []
        texts = [t for t in (*kept, *given) if ".eval()" not in t and "wrap_model" not in t]
        texts = [text for text in texts if text not in aliases and not _NO_MODEL.match(text)]
        if any(map(makers.have_modes, texts)):
            return True
        is_there = own_values or given or has_heirs
        if name in in_use and (any(map(makers.are_unknown, texts)) or not is_there):
            return True
    return False


#: What is moved, such as ``self.loss = self.loss.cuda()``, is what it was before.
_MOVED = r"self\.{}\.(cuda|cpu|to|float|double|half)\([^()]*\)(\n.*)?"


class Makers:
    """What the attributes of a trial class are made by.

    Attributes:
        own: the text of each of its methods.
        around: the code that these call.
    """

    def __init__(self, every: Mapping[str, cst.FunctionDef], around: Elsewhere) -> None:
        self._own = {name: syntax.code(method) for name, method in every.items()}
        self._around = around

    def may_be_module(self, text: str) -> bool:
        """Whether a value may have a mode: no text, shape or data has, and no plain object.

        Its text has that of variables below it.
        """
        try:
            first = _tree(text).body[0]
        except (SyntaxError, IndexError):
            return True
        if not isinstance(first, ast.Expr):
            return True
        return not _NO_MODEL.match(text) and self._gives_module(first.value, {}, ())

    def _gives_module(
        self, node: ast.expr, local: Mapping[str, Sequence[ast.expr]], seen: tuple[str, ...]
    ) -> bool:
        """Whether an expression may give a model, or several in a row.

        Args:
            node: the expression.
            local: all that the variables around it may be.
            seen: the functions that are gone through already.
        """
        func = node.func if isinstance(node, ast.Call) else None
        first = func.value if isinstance(func, ast.Attribute) else node
        if isinstance(first, (ast.Constant, ast.JoinedStr)) or isinstance(node, ast.Dict):
            return False
        if isinstance(node, ast.IfExp):
            node = ast.Tuple([node.body, node.orelse])
        if isinstance(node, (ast.Tuple, ast.BoolOp)):
            parts = node.elts if isinstance(node, ast.Tuple) else node.values
            return any(self._gives_module(each, local, seen) for each in parts)
        if isinstance(node, ast.Name):
            # A variable that is set to itself, or to what is made of it, is followed once.
            others = {name: values for name, values in local.items() if name != node.id}
            values = local.get(node.id)
            return values is None or any(self._gives_module(v, others, seen) for v in values)
        owner = node.value if isinstance(node, ast.Subscript) else node
        if isinstance(owner, ast.Attribute) and owner.attr == "shape":
            return False
        name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if not _DOTTED.fullmatch(name):
            return True
        root, _, rest = name.partition(".")
        paths = self._around.imported.get(root, frozenset())
        if name in _PLAIN or (paths and all(_DATA.match(f"{path}.{rest}") for path in paths)):
            return False
        last = name.rpartition(".")[2]
        if name == f"self.{last}":
            text = self._own.get(last, "")
        else:
            is_named = name == last or (paths and rest == last)
            text = self._around.texts.get(last, "") if is_named else ""
        made = _returned(text)
        if made is None or last in seen:
            return last not in seen and self._may_be(name)
        inner = _variables(text)
        return any(self._gives_module(value, inner, (*seen, last)) for value in made)

    def have_modes(self, text: str) -> bool:
        """Whether code makes layers with modes, or calls a library that may; calls are followed."""
        return any(
            _MODAL.search(part) or any(self._is_foreign(each.name) for each in self._models(part))
            for part in self.texts(text)
        )

    def texts(self, text: str) -> Iterator[str]:
        """Some code, and that which makes what it has in it; calls are followed."""
        known: set[str] = set()
        waiting = [text]
        while waiting:
            yield (part := waiting.pop())
            names = {name for each in self._models(part) for name in each.name.split(".")} - known
            known |= names
            waiting += [found for name in sorted(names) if (found := self._text(name))]

    def _models(self, text: str) -> list["_Made"]:
        return [each for each in _made(text) if each.is_asked or self._may_be(each.name)]

    def are_unknown(self, text: str) -> bool:
        """Whether nothing tells what a value is which is called like a model."""
        start = _START.match(text.lstrip("("))
        root, rest = (start["root"], start["rest"]) if start else ("", "")
        if root in _KNOWN or (root == "self" and rest.startswith(("context.", "hparams"))):
            return False
        names = {root, *rest.rstrip("(").split(".")}
        if names & self._around.texts.keys() or (root == "self" and names & self._own.keys()):
            return False
        paths = self._around.imported.get(root, frozenset())
        return not paths or any(_may_have_modes(f"{path}.{rest}") for path in paths)

    def _text(self, name: str) -> str:
        own = self._own.get(name, "") if name != "__init__" else ""
        found = self._around.texts.get(name, own)
        # What it wraps is known by its own attribute.
        return "" if "wrap_model" in found else found

    def _may_be(self, name: str, *heirs: str) -> bool:
        """Whether what is called may be a class of models, or anything but a class of the tree.

        Lightning puts models into a mode, and nothing that other objects keep.
        """
        last = name.rpartition(".")[2]
        bases = _bases(self._around.texts.get(last, ""))
        if bases is None or last in heirs:
            return True
        return any(
            self._may_be(base, last, *heirs)
            if base.rpartition(".")[2] in self._around.texts
            else base.rpartition(".")[2] not in _KNOWN and self._is_model(base)
            for base in bases
        )

    def _is_model(self, base: str) -> bool:
        """Whether a class that no file of the tree defines may be one of models."""
        root, _, rest = base.partition(".")
        paths = self._around.imported.get(root, frozenset({""}))
        return any(
            not path or _LAYERS.match(f"{path}.{rest}") or _may_have_modes(f"{path}.{rest}")
            for path in paths
        )

    def _is_foreign(self, call: str) -> bool:
        root, _, rest = call.partition(".")
        if any(name in self._around.texts for name in call.split(".")):
            return False
        paths = self._around.imported.get(root, frozenset())
        return any(_may_have_modes(f"{path}.{rest}".rstrip(".")) for path in paths)


#: What these make is no model: texts and numbers, metrics, and the data of some libraries.
_PLAIN = {"str", "int", "float", "bool", "len", "range", "dict", "open"}
_DATA = re.compile(
    r"(os|pathlib|json|glob|math|time|datetime|tempfile|numpy|pandas|scipy|sklearn|skimage|PIL|cv2"
    r"|cvxopt|pycocotools|torchmetrics)\."
)


@cache
def _returned(text: str) -> tuple[ast.expr, ...] | None:
    """What functions return, or what their annotations name; None if the code is none of these."""
    functions = _tree(text).body
    found: list[ast.expr] = []
    for function in functions:
        if not isinstance(function, ast.FunctionDef) or function.decorator_list:
            return None
        said = ast.unparse(function.returns) if function.returns is not None else ""
        if said in _PLAIN:
            continue
        nodes = [*ast.walk(function)]
        if any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in nodes):
            return None
        returns = (node.value for node in nodes if isinstance(node, ast.Return))
        found += [value for value in returns if value is not None]
    return tuple(found) if functions else None


@cache
def _variables(text: str) -> Mapping[str, Sequence[ast.expr]]:
    """All that the variables of functions are set to, of those for which that is seen."""
    found: dict[str, list[ast.expr]] = {}
    nodes = [*ast.walk(_tree(text))]
    seen = set[int]()
    for node in nodes:
        for target in node.targets if isinstance(node, ast.Assign) else ():
            for each in target.elts if isinstance(target, ast.Tuple) else (target,):
                if isinstance(each, ast.Name) and isinstance(node, ast.Assign):
                    seen.add(id(each))
                    found.setdefault(each.id, []).append(node.value)
    stored = {
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in seen
    }
    stored |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    return {name: values for name, values in found.items() if name not in stored}


#: Names that are no models, and what they are called on is none.
_KNOWN = {*dir(builtins), "lambda", "context", "hparams"} - {"getattr", "eval", "next"}
_START = re.compile(r"(?P<root>[A-Za-z_]\w*)\b\.?(?P<rest>[\w.]*\(?)")
_LAYERS = re.compile(r"torch\.nn\b(?!\.(functional|init|utils|parameter|Parameter)\b)")


class _Made(NamedTuple):
    """A dotted name that code calls; whether something of the result is asked for."""

    name: str
    is_asked: bool


@cache
def _made(text: str) -> tuple[_Made, ...]:
    """What code calls, and the bases of its classes; anything, of a part that cannot be parsed."""
    try:
        nodes = [*ast.walk(_tree(text))]
    except SyntaxError:
        return tuple(_Made(name, True) for name in re.findall(r"([A-Za-z_][\w.]*)\(", text))
    asked = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    calls = [(node.func, id(node) in asked) for node in nodes if isinstance(node, ast.Call)]
    bases = [(base, False) for n in nodes if isinstance(n, ast.ClassDef) for base in n.bases]
    named = ((ast.unparse(node), is_asked) for node, is_asked in [*calls, *bases])
    return tuple(_Made(name, is_asked) for name, is_asked in named if _DOTTED.fullmatch(name))


_DOTTED = re.compile(r"[A-Za-z_][\w.]*")


def _bases(text: str) -> list[str] | None:
    """The bases of the classes that are all that a text has; None for any other text."""
    body = _tree(text).body if text.startswith("class ") else []
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    if not classes or len(classes) < len(body):
        return None
    return [ast.unparse(base) for node in classes for base in node.bases]


@cache
def _tree(text: str) -> ast.Module:
    return ast.parse(textwrap.dedent(text))


def _may_have_modes(path: str) -> bool:
    return bool(_TORCHS_MODELS.match(path)) or (
        path.partition(".")[0] not in sys.stdlib_module_names and not _WITHOUT_MODES.match(path)
    )


def _handed(method: cst.FunctionDef, around: Elsewhere) -> Iterator[str]:
    """The attributes that a method hands to something which may call them."""
    own = f"{syntax.self_name(method)}."
    for call in syntax.find(method, cst.Call):
        root, _, rest = syntax.code(call.func).partition(".")
        paths = around.imported.get(root, frozenset((root,)))
        # Wrapped is what the trial knows; loaders, and Python itself, only pass on what they get.
        if called(call).startswith("wrap_") or all(_PASSING.match(f"{p}.{rest}") for p in paths):
            continue
        for text in (syntax.code(arg.value) for arg in call.args):
            name = text.removeprefix(own)
            if name != text and name.isidentifier():
                yield name


_PYTHONS = "|".join(sorted({*dir(builtins)} - {"map", "filter"}))
_LOADERS = r"(torch\.utils\.data|determined|det_compat)\."
_PASSING = re.compile(rf"{_DATA.pattern}|{_LOADERS}|({_PYTHONS})\.|__det_")


def _called_attributes(method: cst.FunctionDef) -> Iterator[str]:
    """The attributes that a method calls itself, entries of them among it, or names otherwise."""
    own = f"{syntax.self_name(method)}."
    nodes = [call.func for call in syntax.find(method, cst.Call)]
    nodes += [line.value for line in syntax.find(method, cst.Assign)]
    nodes += [loop.iter for loop in syntax.find(method, cst.For)]
    for node in nodes:
        while isinstance(node, cst.Subscript):
            node = node.value
        name = syntax.code(node).removeprefix(own)
        if name.isidentifier() and isinstance(node, cst.Attribute):
            yield name


def called(call: cst.Call) -> str:
    """The name of the method that is called; ``""`` for a function."""
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
