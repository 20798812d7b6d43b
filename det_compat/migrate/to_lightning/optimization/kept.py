"""The calls that wrap something, each with the attribute that keeps what it wraps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from det_compat.migrate.shapes.values import assigned
from det_compat.migrate.to_lightning.optimization.step_modes import kept_mode
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line
from det_compat.migrate.tree.symbols import Symbols

#: What names are made from that a dict has as its keys.
BY_KEY = "its keys"
_CASTS = ("cast", "typing.cast")


@dataclass(frozen=True)
class Wrapping:
    """A call that wraps something, and the attribute that keeps it.

    Attributes:
        member: ``wrap_optimizer``, for example.
        call: the call.
        attribute: without ``self.``.
        is_list: whether the attribute is a list of such.
        loop: what the list is made from, as in ``i in range(3)``; ``""`` if it is no comprehension.
            It ends in BY_KEY for the dict whose keys are all that its names are made from.
        is_conditional: whether the statement may not run, and nothing else sets the attribute; so
            may those of other methods than ``__init__``.
        is_branch: whether its method may come by without setting the attribute.
        keeps_mode: whether another statement keeps the step mode of a scheduler.
    """

    member: str
    call: cst.Call
    attribute: str
    is_list: bool = False
    loop: str = ""
    is_conditional: bool = False
    is_branch: bool = False
    keeps_mode: bool = False

    def is_kept(self, member: str) -> bool:
        """Whether this is such a call, and all of what it is called is known."""
        name = syntax.argument(self.call, 1, "name") if member.endswith("reducer") else None
        has_name = name is not None and syntax.code(name) != "None"
        return self.member == member and (not self.is_list or not has_name or bool(self.loop))

    @property
    def starred(self) -> str:
        """The attribute, with a star in front if it is a list."""
        return f"*{self.attribute}" if self.is_list else self.attribute


def wrappings(method: cst.FunctionDef, symbols: Symbols) -> Iterator[Wrapping]:
    """What a method wraps and keeps on its object."""
    found = [*_wrappings(method, symbols)]
    for number, (line, wrapping) in enumerate(found):
        later = [at for at, other in found[number + 1 :] if other.attribute == wrapping.attribute]
        # Of several that follow each other, the attribute keeps the last.
        if all(_are_exclusive(method, line, other) for other in later):
            yield wrapping


def _are_exclusive(method: cst.FunctionDef, line: Line, other: Line) -> bool:
    """Whether two statements are one, or in two branches of which one runs."""
    for each in syntax.find(method, cst.If):
        both = [*syntax.find(each, cst.SimpleStatementLine)]
        then = [*syntax.find(each.body, cst.SimpleStatementLine)]
        if line in both and other in both and (line in then) != (other in then):
            return True
        # A branch that ends is the last one.
        is_end = isinstance(syntax.simple(then[-1]), (cst.Return, cst.Raise)) if then else False
        if is_end and then[-1] is syntax.body_of(each)[-1] and line in then and other not in then:
            return True
    return line is other


def _wrappings(method: cst.FunctionDef, symbols: Symbols) -> Iterator[tuple[Line, Wrapping]]:
    own = syntax.self_name(method)
    set_to = (pair for line in syntax.find(method, cst.Assign) for pair in syntax.pairs(line))
    modes = {syntax.code(target) for target, _ in set_to}
    variables = assigned(method)
    again = {*looped(method)}
    for line in syntax.find(method, cst.SimpleStatementLine):
        for value, attribute, is_list, loop in _kept(line):
            if line in again and not is_list and "[" not in attribute:
                # Of several that a loop makes, this one attribute keeps the last.
                continue
            if isinstance(value, cst.Name):
                value = variables.get(value.value)
            call = _without_cast(value)
            member = symbols.method(call)
            if call is not None and member.rpartition(".")[2].startswith("wrap_"):
                target = f"{own}.{attribute}"
                loop = loop or _key_in_loop(line, call, method)
                is_branch = not _always_sets(syntax.body_of(method), target, line)
                found = Wrapping(
                    member,
                    call,
                    attribute,
                    is_list,
                    loop,
                    is_conditional=is_branch or method.name.value != "__init__",
                    is_branch=is_branch,
                    keeps_mode=f"{own}.{kept_mode(attribute)}" in modes,
                )
                yield line, found


def looped(method: cst.FunctionDef) -> Iterator[Line]:
    """The statements of a method that may run more than once."""
    for kind in (cst.For, cst.While):
        for loop in syntax.find(method, kind):
            yield from syntax.find(loop, cst.SimpleStatementLine)


def called_for_sure(own: Mapping[str, cst.FunctionDef]) -> set[str]:
    """The methods of a class that its ``__init__`` runs to their end, and ``__init__`` itself."""
    found = ["__init__"] if "__init__" in own else []
    for name in found:
        for line in syntax.body_of(own[name]):
            if any(syntax.find(line, cst.Return)):
                break
            call = syntax.call_of(line)
            func = "" if call is None else syntax.code(call.func)
            owner, _, called = func.rpartition(".")
            inner = own.get(called) if owner == syntax.self_name(own[name]) else None
            if inner is not None and called not in found and not _may_end_early(inner):
                found.append(called)
    return {*found}


def _may_end_early(method: cst.FunctionDef) -> bool:
    body = syntax.body_of(method)
    return any(any(syntax.find(line, cst.Return)) for line in body[:-1])


def called_often(own: Mapping[str, cst.FunctionDef]) -> set[str]:
    """The methods of a class that its ``__init__`` and what this calls may call more than once."""
    calls: list[str] = []
    for method in own.values():
        for node, times in [(method, 1), *((line, 2) for line in looped(method))]:
            for call in syntax.find(node, cst.Call):
                owner, _, name = syntax.code(call.func).rpartition(".")
                calls += [name] * times if owner == syntax.self_name(method) else []
    return {name for name in own if calls.count(name) > 1}


def _always_sets(
    body: Sequence[cst.BaseStatement], target: str, line: cst.BaseStatement | None
) -> bool:
    """Whether a block is sure to come by ``line``, or else to set ``target`` to something."""
    for each in body:
        small = syntax.simple(each)
        is_set = line is None and syntax.target_of(each) == target
        if each is line or isinstance(small, cst.Raise) or (is_set and not _is_none(small)):
            return True
        if isinstance(each, cst.With) and _always_sets(_block(each.body), target, line):
            return True
        if isinstance(each, cst.If) and each.orelse is not None:
            parts = [_block(each.body), _otherwise(each.orelse)]
            if all(_always_sets(part, target, None) for part in parts):
                return True
    return False


def _is_none(small: cst.BaseSmallStatement | None) -> bool:
    return syntax.is_name(getattr(small, "value", None), "None")


def _otherwise(orelse: cst.If | cst.Else) -> Sequence[cst.BaseStatement]:
    return [orelse] if isinstance(orelse, cst.If) else _block(orelse.body)


def _block(suite: cst.BaseSuite) -> Sequence[cst.BaseStatement]:
    return suite.body if isinstance(suite, cst.IndentedBlock) else ()


def _kept(line: Line) -> Iterator[tuple[cst.BaseExpression | None, str, bool, str]]:
    """The values that a statement keeps: each with its attribute, as in a Wrapping."""
    small = syntax.simple(line)
    value = getattr(small, "value", None)
    targets = small.targets if isinstance(small, cst.Assign) else ()
    target = targets[0].target if len(targets) == 1 else None
    if isinstance(target, (cst.Tuple, cst.List)):
        names = [_attribute(syntax.code(element.value)) for element in target.elements]
        values = (
            [e.value for e in value.elements] if isinstance(value, (cst.Tuple, cst.List)) else []
        )
        if isinstance(value, (cst.ListComp, cst.GeneratorExp)):
            values = [value.elt] * len(names)
        yield from (
            (each, name, False, "") for each, name in zip(values, names, strict=False) if name
        )
        return
    attribute = _attribute(syntax.target_of(line) or "")
    if attribute and isinstance(value, cst.ListComp):
        inner = value.for_in
        is_plain = not inner.ifs and inner.inner_for_in is None
        loop = f"{syntax.code(inner.target)} in {syntax.code(inner.iter)}"
        yield value.elt, attribute, True, loop if is_plain else ""
    elif attribute and isinstance(value, (cst.List, cst.Tuple)):
        yield from ((element.value, attribute, True, "") for element in value.elements)
    elif attribute and isinstance(value, cst.DictComp):
        yield value.value, f"{attribute}.values()", True, _names_of(value)
    elif attribute and isinstance(value, cst.Dict):
        for each in value.elements:
            key = syntax.code(each.key) if isinstance(each, cst.DictElement) else ""
            name = _attribute(f"self.{attribute}[{key}]")
            yield each.value, name, name.endswith(".values()"), ""
    elif attribute.endswith(".values()"):
        yield value, attribute, True, ""
    elif attribute:
        yield value, attribute, False, ""
    elif appended := syntax.appended(line):
        owner = syntax.code(appended[0])
        if "." in owner:
            yield appended[1].value, owner.partition(".")[2], True, ""


def _names_of(made: cst.DictComp) -> str:
    """How the reducers in a dict are found with their names, as in a Wrapping."""
    call = _without_cast(made.value)
    name = syntax.argument(call, 1, "name") if call is not None else None
    if name is None:
        return ""
    if syntax.code(name) == syntax.code(made.key):
        return f"{syntax.code(made.key)} in {BY_KEY}"
    inner, key, variables = made.for_in, syntax.code(made.key), set[str]()
    loop: cst.CompFor | None = inner
    while loop is not None:
        variables |= syntax.names_in(loop.target)
        loop = loop.inner_for_in
    if isinstance(made.key, cst.Name) and syntax.names_in(name) & variables <= {key}:
        return f"{key} in {BY_KEY}"
    # Where two have one key, the dict has one of them and what it is made from has both.
    is_plain = not inner.ifs and inner.inner_for_in is None
    parts = [*syntax.find(made.key, cst.FormattedStringExpression)]
    is_number = [syntax.code(part.expression) for part in parts] == [syntax.code(inner.target)]
    values = syntax.code(inner.iter)
    is_distinct = is_plain and is_number and values.startswith("range(")
    return f"{syntax.code(inner.target)} in {values}" if is_distinct else ""


def _key_in_loop(line: Line, call: cst.Call, method: cst.FunctionDef) -> str:
    """How reducers that a loop puts into a dict are found with their names, as in a Wrapping."""
    small, name = syntax.simple(line), syntax.argument(call, 1, "name")
    target = small.targets[0].target if isinstance(small, cst.Assign) else None
    index = target.slice[0].slice if isinstance(target, cst.Subscript) else None
    if name is None or not isinstance(index, cst.Index) or not isinstance(index.value, cst.Name):
        return ""
    key = index.value.value
    varying = syntax.names_in(name) & syntax.local_names(method)
    return f"{key} in {BY_KEY}" if varying <= {key} else ""


def _attribute(target: str) -> str:
    """What follows the object in a target; for an entry of a dict by a variable, all of its values.

    It is ``""`` for a variable.
    """
    attribute = target.partition(".")[2]
    owner, bracket, key = attribute.partition("[")
    key = key.removesuffix("]")
    is_known = key.isdigit() or (key[:1] in ("'", '"') and key[-1:] == key[:1])
    return f"{owner}.values()" if bracket and not is_known else attribute


def _without_cast(value: cst.BaseExpression | None) -> cst.Call | None:
    """The call that a value is, without a cast around it."""
    if isinstance(value, cst.Call) and syntax.code(value.func) in _CASTS and len(value.args) == 2:
        value = value.args[1].value
    return value if isinstance(value, cst.Call) else None


def by_attributes(
    moved: Sequence[cst.BaseStatement], names: Mapping[str, str]
) -> list[cst.BaseStatement]:
    """Statements that ask for attributes in place of variables."""
    lines = [*moved]
    for name, attribute in names.items():
        lines = [syntax.replaced(line, name, attribute) for line in lines]
    return lines
