"""What keeps models, for which torch's own cannot always stand: lists, dicts, other objects."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.optimization.kept import wrappings
from det_compat.migrate.to_lightning.taken.reserved import RESERVED
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import values_of, values_set

#: What lists and dicts are asked for that those of modules do not have.
_ASKED = words("get setdefault copy popitem index remove sort reverse count clear")
_SPREAD = re.compile(r"\w+\.(\w+)")
_Values = Mapping[str, Sequence[cst.BaseExpression]]
_TAKEN = RESERVED | words("keys values items update pop clear call forward")


def kept_plain(tree: cst.Module, symbols: Symbols) -> set[str]:
    """The attributes that stay a list or dict of models: a ModuleList or ModuleDict would fail."""
    names = set[str]()
    for method in syntax.find(tree, cst.FunctionDef):
        wrapped = (w for w in wrappings(method, symbols) if w.member == "wrap_model")
        names |= {w.attribute.partition("[")[0].removesuffix(".values()") for w in wrapped}
    if not names:
        return names
    plain = {*_used_plain(tree)}
    assigned, values = [*values_set(tree)], values_of(tree)
    return {
        name
        for name in names
        if name in plain
        or not all(is_key for pair in assigned for is_key in _keys(name, *pair, values))
    }


def _used_plain(tree: cst.Module) -> Iterator[str]:
    """The attributes that are used as only lists and dicts of Python's can be."""
    for call in syntax.find(tree, cst.Call):
        owner, _, method = syntax.code(call.func).rpartition(".")
        yield from [owner.rpartition(".")[2]] if method in _ASKED and "." in owner else []
    spread = [each.value for each in syntax.find(tree, cst.Arg) if each.star == "**"]
    spread += [each.value for each in syntax.find(tree, cst.StarredDictElement)]
    found = (_SPREAD.match(syntax.code(value)) for value in spread)
    yield from (each[1] for each in found if each)


def _keys(
    name: str, target: cst.BaseExpression, value: cst.BaseExpression, values: _Values
) -> Iterator[bool]:
    """Whether a ModuleDict takes each key that an assignment gives to an attribute."""
    if isinstance(target, cst.Subscript) and syntax.code(target.value).endswith(f".{name}"):
        index = target.slice[0].slice
        yield not isinstance(index, cst.Index) or _is_key(index.value)
    elif syntax.code(target).endswith(f".{name}"):
        if isinstance(value, cst.DictComp):
            yield from map(_is_key, _keys_of(value, values))
        yield from map(_is_key, _elements(value) if isinstance(value, cst.Dict) else ())


def _keys_of(made: cst.DictComp, values: _Values) -> Sequence[cst.BaseExpression | None]:
    """The keys, if they are what a loop goes through; what makes them otherwise."""
    every: cst.BaseExpression = made.for_in.iter
    first, *more = syntax.parts(made.for_in.target)
    asked = ".items()" if more else ".keys()"
    if syntax.code(every).endswith(asked):
        every = syntax.expression(syntax.code(every).removesuffix(asked))
    elif more:
        return [made.key]
    found = values.get(syntax.code(every), [every])
    if syntax.code(first) != syntax.code(made.key) or not all(map(_is_display, found)):
        return [made.key]
    return [key for each in found for key in _elements(each)]


def _is_display(value: cst.BaseExpression) -> bool:
    return isinstance(value, (cst.List, cst.Tuple, cst.Dict, cst.SimpleString))


def _elements(value: cst.BaseExpression) -> list[cst.BaseExpression | None]:
    """What a loop goes through: of a dict, the keys; None for those that are in another one."""
    if isinstance(value, cst.SimpleString):
        return [syntax.expression(repr(key)) for key in str(value.evaluated_value)]
    if isinstance(value, cst.Dict):
        return [e.key if isinstance(e, cst.DictElement) else None for e in value.elements]
    return [e.value for e in getattr(value, "elements", ())]


def _is_key(key: cst.BaseExpression | None) -> bool:
    """Whether something is sure to be a text without dots that no module has for itself."""
    if isinstance(key, cst.SimpleString):
        text = str(key.evaluated_value)
        return "." not in text and text not in _TAKEN
    return isinstance(key, cst.FormattedString)


#: What becomes a ModuleList or ModuleDict.
_SEEN = (cst.List, cst.ListComp, cst.Dict, cst.DictComp)


def hidden(
    node: cst.ClassDef,
    symbols: Symbols,
    values: _Values,
    plain: Collection[str],
) -> set[cst.Call]:
    """The calls of a trial that wrap models which no attribute, list or dict of it shows Lightning.

    Args:
        node: the class.
        symbols: of its file.
        values: what the variables and attributes of the file are set to.
        plain: the attributes that stay a list or dict.
    """
    own = syntax.methods(node)
    found = {*symbols.calls(node, "wrap_model")}
    for name, method in own.items() if found else ():
        me = syntax.self_name(method)
        lines = syntax.find(method, cst.SimpleStatementLine)
        below = [syntax.call_of(line) for line in lines if of_object(line, symbols)]
        for each in wrappings(method, symbols):
            owner = each.attribute.partition("[")[0].removesuffix(".values()")
            made = values.get(f"{me}.{owner}", ())
            # What an object of the trial keeps is shown below the one statement that wraps it.
            is_own = "." not in owner or each.call in below
            is_alone = each.attribute == owner and not each.is_list and is_own
            if is_alone or (made and all(_is_seen(value, owner in plain) for value in made)):
                found.discard(each.call)
        pairs = [*values_set(method)]
        # What is put into an entry of something stays in this.
        kept = {
            syntax.code(value)
            for target, value in pairs
            if syntax.code(target).removeprefix(f"{me}.").isidentifier()
            and isinstance(target, cst.Attribute)
        }
        kept |= _returned(method) if _keeps(node, name) else set()
        found -= {*_shown(method, kept, symbols, me)}
    return found


def _is_seen(value: cst.BaseExpression, is_plain: bool) -> bool:
    """Whether Lightning sees the models in a list or dict: torch's, or what becomes one."""
    name = syntax.code(value.func).rpartition(".")[2] if isinstance(value, cst.Call) else ""
    is_torchs = name in ("ModuleDict", "ModuleList", "Sequential")
    return is_torchs or (isinstance(value, _SEEN) and not is_plain)


def handed_out(function: cst.FunctionDef, symbols: Symbols) -> set[cst.Call]:
    """The calls of a function that wrap models which it neither returns nor gives to an object."""
    found = {*symbols.calls(function, "wrap_model")}
    return found - {*_shown(function, _returned(function), symbols)} if found else found


def _shown(
    function: cst.FunctionDef, kept: Collection[str], symbols: Symbols, own: str = ""
) -> Iterator[cst.Call]:
    """The calls that wrap what an attribute has, or one of the values that are ``kept``."""
    for line in syntax.find(function, cst.SimpleStatementLine):
        target = syntax.target_of(line) or ""
        for call in symbols.calls(line, "wrap_model"):
            model = syntax.argument(call, 0, "model")
            text = "" if model is None else syntax.code(model)
            is_own = bool(own) and text.removeprefix(f"{own}.").isidentifier() and "." in text
            is_set = syntax.call_of(line) is call and (
                target in kept or (not own and "." in target)
            )
            if is_own or is_set or {text, syntax.code(call)} & {*kept}:
                yield call


def _returned(function: cst.FunctionDef) -> set[str]:
    """What a function returns, each of several values by itself."""
    values = (each.value for each in syntax.returns(function))
    return {syntax.code(part) for value in values if value for part in syntax.parts(value)}


def _keeps(node: cst.ClassDef, name: str) -> bool:
    """Whether a class keeps in attributes, one for each, all that a method of it returns."""
    for method in syntax.methods(node).values():
        me = syntax.self_name(method)
        lines = syntax.find(method, cst.Assign)
        kept = [line.value for line in lines if _is_of_own(line.targets[0].target, me)]
        calls = [c for c in syntax.find(method, cst.Call) if syntax.code(c.func) == f"{me}.{name}"]
        if any(call not in kept for call in calls):
            return False
    return name != "__init__"


def _is_of_own(target: cst.BaseExpression, own: str) -> bool:
    parts = map(syntax.code, syntax.parts(target))
    return all(part.startswith(f"{own}.") for part in parts)


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
