"""Walking through the nodes of a syntax tree, to find some of them or to change some."""

import dataclasses
import itertools
import operator
import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import TypeAlias

import libcst as cst

#: What may come of a node.
Left: TypeAlias = cst.CSTNodeT | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNodeT]


@lru_cache(maxsize=1 << 13)
def below(node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """Every node below ``node``, as ``find`` does. Passes ask for the same ones again and again."""
    found: list[cst.CSTNode] = []
    _collect(node, found)
    return tuple(found)


def _collect(node: cst.CSTNode, found: list[cst.CSTNode]) -> None:
    # What ``children`` yields is written out here, and in ``_kinds_below``, which run most often.
    found.append(node)
    for name in _fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, (list, tuple)):
            for child in value:
                # A pass changes some functions of a class, and leaves the others as they are.
                if type(child) is cst.FunctionDef:
                    found.extend(below(child))
                else:
                    _collect(child, found)
        elif type(value) not in _NO_NODES:
            _collect(value, found)


def children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What a node consists of, in the order of the text, without whitespace and punctuation."""
    for name in _fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, (list, tuple)):
            yield from value
        elif type(value) not in _NO_NODES:
            yield value


#: What the fields of nodes hold beside nodes, since it takes long to ask what is a node.
_NO_NODES = frozenset((str, bool, type(None), cst.MaybeSentinel))
_PUNCTUATION = re.compile(
    "(l|r)(par|brace|bracket)|comma|semicolon|equal|dot|colon|operator|star|header|footer|indent|"
    "leading_lines|lines_after_decorators|newline|trailing_whitespace|whitespace_.*|comment|"
    ".*_whitespace|posonly_ind|first_colon|second_colon|relative|asynchronous|bar|separator"
)
#: The fields that stand in the text in another order than LibCST lists them in.
_ORDERS = {
    cst.Arg: ("keyword", "value"),
    cst.IfExp: ("body", "test", "orelse"),
    cst.FunctionDef: ("decorators", "name", "type_parameters", "params", "returns", "body"),
    cst.ClassDef: ("decorators", "name", "type_parameters", "bases", "keywords", "body"),
    cst.ExceptHandler: ("type", "name", "body"),
    cst.MatchCase: ("pattern", "guard", "body"),
    cst.Parameters: ("posonly_params", "params", "star_arg", "kwonly_params", "star_kwarg"),
}


@cache
def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    """The fields of a kind of nodes that hold nodes, in the order of the text."""
    names = [each.name for each in dataclasses.fields(kind) if each.type is not str]
    names = [name for name in _ORDERS.get(kind, names) if name in names]
    return tuple(name for name in names if not _PUNCTUATION.fullmatch(name))


def has(node: cst.CSTNode, *kinds: type[cst.CSTNode]) -> bool:
    """Whether there is a node of one of these kinds below ``node``, itself included."""
    return bool(_kinds_below(node) & _bits(kinds))


def left(node: cst.CSTNode, transformer: cst.CSTTransformer) -> Left[cst.CSTNode]:
    """What a transformer leaves of a node; it is shown the kinds of nodes that it has methods for.

    LibCST's own ``visit`` shows it every node, and makes each anew, which took most of the time of
    a migration. Here a node stays the same as long as nothing in it has changed, what has no node
    to show in it is passed over, and a transformer whose ``on_visit`` or ``on_leave`` need others
    names them in ``shown_kinds``.
    """
    methods = _kinds_with_methods(type(transformer))
    return _left(node, transformer, methods | _bits((*getattr(transformer, "shown_kinds", ()),)))


def _left(node: cst.CSTNode, transformer: cst.CSTTransformer, shown: int) -> Left[cst.CSTNode]:
    is_shown = _bit(type(node)) & shown
    changes: dict[str, object] = {}
    for name in _fields(type(node)) if not is_shown or transformer.on_visit(node) else ():
        old = getattr(node, name)
        if isinstance(old, (list, tuple)):
            if not any(_kinds_below(child) & shown for child in old):
                continue
            several = [each for child in old for each in _several(child, transformer, shown)]
            if len(several) != len(old) or any(map(operator.is_not, several, old)):
                changes[name] = several
        elif type(old) not in _NO_NODES and _kinds_below(old) & shown:
            made = _left(old, transformer, shown)
            if made is not old:
                assert isinstance(made, cst.CSTNode), f"{name} must be one node"
                changes[name] = made
    made = node.with_changes(**changes) if changes else node
    after = transformer.on_leave(node, made) if is_shown else made
    # What is known of a node, and of all around it, is known of one that is the same.
    return node if after is not made and made is node and _is_same(node, after) else after


def _is_same(node: cst.CSTNode, other: object) -> bool:
    """Whether a node was made anew of the parts that another has."""
    return type(node) is type(other) and all(
        _are_same(getattr(node, name), getattr(other, name)) for name in type(node).__slots__
    )


def _are_same(part: object, other: object) -> bool:
    # LibCST says of two nodes that they are equal if they are one.
    if isinstance(part, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(part) == len(other) and all(map(operator.is_, part, other))
    return part is other or part == other


def _several(
    node: cst.CSTNode, transformer: cst.CSTTransformer, shown: int
) -> Iterable[cst.CSTNode]:
    """What is left of one of several nodes; a line goes with the last of its statements."""
    made = _left(node, transformer, shown) if _kinds_below(node) & shown else node
    if made is node:
        return (node,)
    if isinstance(made, cst.RemovalSentinel):
        return ()
    found = made if isinstance(made, cst.FlattenSentinel) else (made,)
    return [each for each in found if not isinstance(each, cst.SimpleStatementLine) or each.body]


@cache
def _bit(kind: type[cst.CSTNode]) -> int:
    """A kind of nodes as one bit of a number, which says quickly what several kinds share."""
    return 1 << next(_POSITIONS)


@cache
def _bits(kinds: tuple[type[cst.CSTNode], ...]) -> int:
    return sum({_bit(kind) for kind in kinds})


@cache
def _kinds_with_methods(transformer: type[cst.CSTTransformer]) -> int:
    """The kinds of nodes that a transformer visits or leaves by methods of its own."""
    own = {
        name.partition("_")[2]
        for name in dir(transformer)
        if name.startswith(("visit_", "leave_"))
        and getattr(transformer, name) is not getattr(cst.CSTTransformer, name, None)
    }
    return _bits(tuple(getattr(cst, name) for name in own if hasattr(cst, name)))


def _kinds_below(node: cst.CSTNode) -> int:
    """The kinds of nodes below ``node``, itself included. Passes change little, and ask again."""
    known = _KINDS_BELOW.get(id(node))
    if known is None:
        kinds = _bit(type(node))
        for name in _fields(type(node)):
            value = getattr(node, name)
            if isinstance(value, (list, tuple)):
                for child in value:
                    kinds |= _kinds_below(child)
            elif type(value) not in _NO_NODES:
                kinds |= _kinds_below(value)
        if len(_KINDS_BELOW) > 1 << 17:
            _KINDS_BELOW.clear()
        # The node is kept with them, so that no other can have its place in memory.
        known = _KINDS_BELOW[id(node)] = (node, kinds)
    return known[1]


_KINDS_BELOW: dict[int, tuple[cst.CSTNode, int]] = {}
_POSITIONS = itertools.count()
