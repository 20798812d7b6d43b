"""The names of the metrics that methods return."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import libcst as cst

from det_compat.analysis.classes import Hierarchy
from det_compat.analysis.scopes import Scope
from det_compat.migrate.shapes.returned import numbers
from det_compat.migrate.shapes.values import assigned, is_array, is_many, is_part
from det_compat.migrate.tree import syntax

if TYPE_CHECKING:
    from det_compat.migrate.to_lightning.class_facts import ClassFacts

_EVALUATIONS = ("evaluate_full_dataset", "evaluate_batch")
_Methods = Mapping[str, cst.FunctionDef]


def known_names(own: _Methods, name: str) -> frozenset[str]:
    """The names that a method is known to return, by itself or by methods that it calls.

    Args:
        own: the methods of its class.
        name: the one of it.
    """
    found = (name for name in _returned(own, name, ()) if not name.endswith("*"))
    return frozenset(found) - {"{}"}


def names_given(
    value: cst.BaseExpression, method: cst.FunctionDef, own: _Methods
) -> frozenset[str]:
    """The names that a dict which a method makes, or another one of its class, is known to have."""
    return frozenset(_names(value, method, own, ()))


def _returned(own: _Methods, name: str, above: tuple[str, ...], at: int = -1) -> Iterator[str]:
    """The names that a method returns, in the part of a tuple if ``at`` is its number."""
    method = own.get(name)
    for found in syntax.returns(method) if method is not None else ():
        value = found.value
        if at >= 0 and isinstance(value, cst.Tuple) and at < len(value.elements):
            value = value.elements[at].value
        elif at >= 0:
            continue
        if value is not None and method is not None:
            yield from _names(value, method, own, (*above, name))


def _names(
    value: cst.BaseExpression, method: cst.FunctionDef, own: _Methods, above: tuple[str, ...]
) -> Iterator[str]:
    if isinstance(value, cst.Dict):
        keys = (getattr(element, "key", None) for element in value.elements)
        yield from (str(key.evaluated_value) for key in keys if isinstance(key, cst.SimpleString))
        for entry in value.elements:
            if isinstance(entry, cst.StarredDictElement):
                yield from _names(entry.value, method, own, above)
    elif (items := _items_of(value)) is not None:
        yield from _names(items, method, own, above)
    elif (
        isinstance(value, cst.Name) and (text := f"{method.name.value}: {value.value}") not in above
    ):
        above = (*above, text)
        yield from _stored_keys(method, value.value)
        for line in syntax.find(method.body, cst.Assign):
            for target in line.targets:
                parts = [syntax.code(part) for part in syntax.parts(target.target)]
                if parts == [value.value] and not isinstance(line.value, cst.Name):
                    yield from _names(line.value, method, own, above)
                elif value.value in parts and isinstance(line.value, cst.Call):
                    called = _own_name(line.value, method)
                    if called not in above:
                        yield from _returned(own, called, above, parts.index(value.value))
    elif isinstance(value, cst.IfExp):
        for part in (value.body, value.orelse):
            yield from _names(part, method, own, above)
    elif isinstance(value, cst.Call) and (called := _own_name(value, method)) not in above:
        yield from _returned(own, called, above)
    elif isinstance(value, cst.Attribute) and (text := _of_own(value, method)) not in above:
        for each in own.values() if text else ():
            for line in syntax.find(each.body, cst.Assign):
                for to, made in syntax.pairs(line):
                    if _of_own(to, each) == text:
                        yield from _names(made, each, own, (*above, text))


def _of_own(node: cst.BaseExpression, method: cst.FunctionDef) -> str:
    """An attribute of its own object, as ``self.name``; ``""`` for anything else."""
    owner, _, name = syntax.code(node).partition(".")
    is_own = owner == syntax.self_name(method) and name.isidentifier()
    return f"self.{name}" if is_own else ""


def _own_name(call: cst.Call, method: cst.FunctionDef) -> str:
    """The method of its own object that a method calls; ``""`` for any other call."""
    owner, _, name = syntax.code(call.func).rpartition(".")
    return name if owner == syntax.self_name(method) else ""


def every_name(
    own: _Methods, name: str, given: Mapping[str, str] | None = None
) -> frozenset[str] | None:
    """All names that a method returns; None if some are not known.

    Args:
        own: the methods of its class.
        name: the one of it.
        given: the texts that it is called with, by parameter.
    """
    method = own.get(name)
    if method is None:
        return frozenset()
    keys = set[str]()
    for found in syntax.returns(method):
        inner = _every(found.value or cst.Dict([]), method, own, given or {}, assigned(method))
        if inner is None:
            return None
        keys.update(inner)
    return None if any("{" in key for key in keys) else frozenset(keys)


def _every(
    value: cst.BaseExpression,
    method: cst.FunctionDef,
    own: _Methods,
    given: Mapping[str, str],
    known: dict[str, Any],
) -> Collection[str] | None:
    """All names in a dict that a method returns, or makes one of that it returns."""
    keys = set[str]()
    inner: Collection[str] | None
    value = _items_of(value) or value
    if isinstance(value, cst.Name):
        if _is_changed_by_call(method, value.value):
            return None
        keys |= {*_stored_keys(method, value.value, known)}
    made = known.get(syntax.code(value)) or value
    if isinstance(value, cst.Attribute) and not isinstance(made, cst.Dict):
        # Other methods may have made it, too.
        made = value
    # What is made of another dict by its own name has no end.
    others = {name: each for name, each in known.items() if name != syntax.code(value)}
    made = _items_of(made) or made
    called = _own_name(made, method) if isinstance(made, cst.Call) else ""
    if called in own and own[called] is not method:
        theirs = {n: m for n, m in own.items() if m is not method}
        inner = every_name(theirs, called, _texts_given(made, own[called]))
        return None if inner is None else {*keys, *inner}
    if isinstance(made, cst.Name) and made is not value:
        inner = _every(made, method, own, given, others)
        return None if inner is None else {*keys, *inner}
    if not isinstance(made, cst.Dict):
        # A loss alone.
        return {*keys, "loss"} if syntax.code(value) in numbers(method, known) else None
    for each in made.elements:
        if isinstance(each, cst.StarredDictElement):
            inner = _every(each.value, method, own, given, others)
            if inner is None:
                return None
            keys.update(inner)
        else:
            key = _with_texts(getattr(each, "key", None), given)
            keys |= {*_logged_as(key, each.value, known)}
    return keys


def _texts_given(call: cst.BaseExpression, method: cst.FunctionDef) -> dict[str, str]:
    """The parameters of a method that a call gives texts."""
    found: dict[str, str] = {}
    names = [param.name.value for param in method.params.params[1:]]
    args = call.args if isinstance(call, cst.Call) else ()
    for at, arg in enumerate(args):
        name = arg.keyword.value if arg.keyword else names[at] if at < len(names) else ""
        if isinstance(arg.value, cst.SimpleString) and not arg.star:
            found[name] = str(arg.value.evaluated_value)
    changed = {syntax.code(each.target) for each in syntax.find(method.body, cst.AssignTarget)}
    return {name: text for name, text in found.items() if name not in changed}


def _with_texts(key: Any, given: Mapping[str, str]) -> Any:
    """A key as a text, where it is made of texts that are given."""
    text = ""
    for part in key.parts if isinstance(key, cst.FormattedString) else ():
        name = (
            syntax.code(part).strip("{}") if isinstance(part, cst.FormattedStringExpression) else ""
        )
        if isinstance(part, cst.FormattedStringText):
            text += part.value
        elif name in given:
            text += given[name]
        else:
            return key
    return cst.SimpleString(repr(text)) if text else key


def are_shared(own: _Methods, training: str, evaluation: str) -> bool:
    """Whether a validation returns nothing but what one call gives, and training the same call.

    Where one of them takes the result apart, it has what the other gets as a whole: models of
    detection return their losses alone in training, and their predictions beside them else.
    """
    if training not in own or evaluation not in own:
        return False
    trained = _call_returned(own[training], own, may_add=True)
    evaluated = _call_returned(own[evaluation], own, may_add=False)
    if trained is None or evaluated is None:
        return False
    parts = {trained[1], evaluated[1]}
    return trained[::2] == evaluated[::2] and (len(parts) == 1 or "" in parts)


def _call_returned(
    method: cst.FunctionDef, own: _Methods, *, may_add: bool
) -> tuple[str, str, str] | None:
    """The one call whose dict a method returns, with other values at most; None for else.

    It is what is called, which part of its result that is, and the texts among the arguments:
    with others it counts as another call, since they may be in names.
    """
    known, found = assigned(method), set[tuple[str, str, str]]()
    for each in syntax.returns(method):
        value, part = each.value, ""
        for _ in range(4):
            value = _items_of(value) or value
            name = syntax.code(value) if isinstance(value, cst.Name) else ""
            changed = name and (_is_changed_by_call(method, name) or [*_stored_keys(method, name)])
            if changed and not may_add:
                return None
            if name and known.get(name) is None:
                value, part = _taken_apart(method, name) or (value, "")
            value = known.get(name) or value
        if not isinstance(value, cst.Call):
            return None
        texts = [syntax.code(a.value) for a in value.args if isinstance(a.value, cst.BaseString)]
        is_own, called = _own_name(value, method) in own, syntax.code(value.func)
        if not is_own and "." not in called:
            return None
        found.add((called, part, " ".join(texts)))
    return found.pop() if len(found) == 1 else None


def _items_of(value: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """The dict of which another has all items, with other values; None for anything else."""
    loop = value.for_in if isinstance(value, cst.DictComp) else None
    if not isinstance(value, cst.DictComp) or loop is None or loop.ifs or loop.inner_for_in:
        return None
    key = next(iter(syntax.parts(loop.target)))
    if syntax.code(key) != syntax.code(value.key) or not isinstance(loop.iter, cst.Call):
        return None
    owner, _, method = syntax.code(loop.iter.func).rpartition(".")
    return syntax.expression(owner) if method == "items" else None


def _taken_apart(method: cst.FunctionDef, name: str) -> tuple[cst.BaseExpression, str] | None:
    """The call of whose result a variable is a part, and which."""
    found = [
        (line.value, str(parts.index(name)))
        for line in syntax.find(method.body, cst.Assign)
        for target in line.targets
        if name in (parts := [syntax.code(part) for part in syntax.parts(target.target)])
        and isinstance(line.value, cst.Call)
        and len(parts) > 1
    ]
    return found[0] if len(found) == 1 else None


def _stored_keys(
    method: cst.FunctionDef, name: str, known: dict[str, Any] | None = None
) -> Iterator[str]:
    """The keys that a method puts into a dict; what is no text is ``{}``."""
    for line in syntax.find(method.body, cst.Assign):
        for target, value in syntax.pairs(line):
            if isinstance(target, cst.Subscript) and syntax.code(target.value) == name:
                index = target.slice[0].slice
                yield from _logged_as(getattr(index, "value", None), value, known or {})


def _logged_as(key: Any, value: cst.BaseExpression, known: dict[str, Any]) -> Iterator[str]:
    """The name of a metric, which ends with ``*`` where each of several numbers has an index."""
    text = str(key.evaluated_value) if isinstance(key, cst.SimpleString) else "{}"
    yield text
    if is_many(value, known) or is_array(value, known) or is_part(value, known):
        yield f"{text}_*"


def _is_changed_by_call(method: cst.FunctionDef, name: str) -> bool:
    calls = syntax.find(method.body, cst.Call)
    return any(syntax.code(c.func) in (f"{name}.update", f"{name}.setdefault") for c in calls)


def shared_names(
    scope: Scope,
    hierarchy: Hierarchy,
    read: Collection[Scope],
    facts: Callable[[Scope], ClassFacts],
) -> frozenset[str]:
    """The names that validations of a family share with its training.

    Lightning has one curve, and one value, for one name. One class may train what another one
    evaluates, and callbacks of a base are told of all, so that these are one for a family.

    Args:
        scope: a class of it.
        hierarchy: of the project's classes.
        read: the classes that are trials, or their bases.
        facts: what is known of one of these.
    """

    def line(each: Scope) -> list[ClassFacts]:
        return [facts(s) for s in hierarchy.ancestors(each) if s in read]

    tops = hierarchy.ancestors(scope)
    family = {each for top in tops for each in hierarchy.relatives(top) if each in read}
    known, shared = set[str](), set[str]()
    for each in family:
        classes = line(each)
        validated = _named(classes, _EVALUATIONS)
        known |= validated
        shared |= validated & _named(classes, ("train_batch",))
    return frozenset() if any(f"val_{name}" in known for name in shared) else frozenset(shared)


def _named(classes: Collection[ClassFacts], methods: Collection[str]) -> set[str]:
    """The names that the method of a class returns, which it may have from a base.

    Args:
        classes: the class and its bases, nearest first.
        methods: the names of that method, of which a class has one at most.
    """
    is_training = "train_batch" in methods
    found = set[str]()
    for own in classes:
        if not any(name in own.methods for name in methods):
            continue
        found |= own.logged if is_training else own.validated
        # It may return what its base has returned.
        if (own.every_logged if is_training else own.every_validated) is not None:
            break
    return found
