"""What keeps models, for which torch's own cannot always stand: lists, dicts, other objects."""

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.optimization.kept import wrappings
from det_compat.migrate.to_lightning.taken.reserved import RESERVED
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line, Lines
from det_compat.migrate.tree.symbols import Symbols

#: What is said of models that are put into such a list or dict one by one.
UNSEEN = (
    "Lightning sees no model in {}, since no ModuleDict or ModuleList does what this does: give "
    "each to add_module(), too"
)
#: What lists and dicts are asked for that those of modules do not have.
_USE = (
    r"\.{0}\.(get|setdefault|copy|popitem|index|remove|sort|reverse|count|clear)\("
    r"|\*\*\w+\.{0}\b"
)
_TAKEN = RESERVED | words("keys values items update pop clear call forward")


def kept_plain(tree: cst.Module, symbols: Symbols) -> set[str]:
    """The attributes that stay a list or dict of models: a ModuleList or ModuleDict would fail."""
    text, names = tree.code, set()
    for method in syntax.find(tree, cst.FunctionDef):
        wrapped = (w for w in wrappings(method, symbols) if w.member == "wrap_model")
        names |= {w.attribute.partition("[")[0].removesuffix(".values()") for w in wrapped}
    assigned = [pair for line in syntax.find(tree, cst.Assign) for pair in syntax.pairs(line)]
    return {
        name
        for name in names
        if re.search(_USE.format(re.escape(name)), text)
        or not all(is_key for target, value in assigned for is_key in _keys(name, target, value))
    }


def _keys(name: str, target: cst.BaseExpression, value: cst.BaseExpression) -> Iterator[bool]:
    """Whether a ModuleDict takes each key that an assignment gives to an attribute."""
    if isinstance(target, cst.Subscript) and syntax.code(target.value).endswith(f".{name}"):
        index = target.slice[0].slice
        yield not isinstance(index, cst.Index) or _is_key(index.value)
    elif syntax.code(target).endswith(f".{name}"):
        if isinstance(value, cst.DictComp):
            yield from map(_is_key, _keys_of(value))
        for element in value.elements if isinstance(value, cst.Dict) else ():
            yield isinstance(element, cst.DictElement) and _is_key(element.key)


def _keys_of(made: cst.DictComp) -> list[cst.BaseExpression]:
    """The keys, if they are what a loop goes through; what makes them otherwise."""
    loop = made.for_in
    if syntax.code(loop.target) == syntax.code(made.key):
        if isinstance(loop.iter, (cst.List, cst.Tuple)):
            return [element.value for element in loop.iter.elements]
        if isinstance(loop.iter, cst.SimpleString):
            return [syntax.expression(repr(key)) for key in str(loop.iter.evaluated_value)]
    return [made.key]


def _is_key(key: cst.BaseExpression) -> bool:
    """Whether something is sure to be a text without dots that no module has for itself."""
    if isinstance(key, cst.SimpleString):
        text = str(key.evaluated_value)
        return "." not in text and text not in _TAKEN
    return isinstance(key, cst.FormattedString)


def seen(line: Line, target: str, value: cst.BaseExpression) -> Lines:
    """A statement that makes such a list or dict, and one that lets Lightning see its models."""
    values = f"{target}.values()" if isinstance(value, (cst.Dict, cst.DictComp)) else target
    text = f"{target}_seen = torch.nn.ModuleList({values})  # which Lightning knows\n"
    return cst.FlattenSentinel([line, syntax.statement(text)])


def of_object(line: Line, symbols: Symbols) -> str:
    """The statement that shows Lightning a model that an object of a trial keeps; ``""`` if none.

    It takes the place of one that wraps the model.
    """
    owner, _, name = (syntax.target_of(line) or "").rpartition(".")
    if symbols.method(syntax.call_of(line)) != "wrap_model" or owner.count(".") != 1:
        return ""
    me, _, kept = owner.partition(".")
    if not (kept.isidentifier() and name.isidentifier()):
        return ""
    return f'{me}.add_module("{kept}_{name}", {owner}.{name})  # which Lightning knows\n'


def hides(classes: Sequence[cst.ClassDef]) -> bool:
    """Whether the innermost class makes objects in which Lightning sees no models."""
    bases = classes[-1].bases if classes else ()
    return bool(classes) and not any(syntax.code(b.value).endswith("Module") for b in bases)
