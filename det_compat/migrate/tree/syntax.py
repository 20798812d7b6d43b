"""Small parts of syntax trees: made from text, told apart, and looked for."""

import io
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Generic, TypeAlias, TypeVar

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.tree.walking import Left, below, children, has, left

#: What most transformations make.
Expression: TypeAlias = cst.BaseExpression

_Node = TypeVar("_Node", bound=cst.CSTNode)
_Tree = TypeVar("_Tree", bound=cst.CSTNode)
_Change: TypeAlias = Callable[
    [_Node], cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.BaseStatement]
]

_PRIMARY = (cst.Attribute, cst.Call, cst.Subscript)
_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")
#: The sign between a keyword and its value.
EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def code(node: cst.CSTNode) -> str:
    """The text of a node."""
    # Most of what is asked is a plain name.
    return node.value if type(node) is cst.Name else _code(node)


@lru_cache(maxsize=1 << 15)
def _code(node: cst.CSTNode) -> str:
    if isinstance(node, _PRIMARY) and node.lpar:
        # Its brackets say nothing, and it is looked for without.
        node = node.with_changes(lpar=[], rpar=[])
    text = cst.Module([]).code_for_node(node)
    # What goes on in the next line, as it may in brackets, could not do so where the text comes.
    return _on_its_own(text) if "\n" in text and isinstance(node, cst.BaseExpression) else text


def _on_its_own(text: str) -> str:
    """The text of an expression with no end of a line outside its own brackets."""
    lines, depth = text.splitlines(keepends=True), 0
    ends: list[tuple[int, int]] = []
    for token in tokenize.generate_tokens(io.StringIO(f"({text})").readline):
        depth += (token.string in _OPENING) - (token.string in _CLOSING)
        if token.type == tokenize.COMMENT and depth == 1:
            return f"({text})"
        if token.type == tokenize.NL and depth == 1:
            ends.append(token.start)
    for row, _ in reversed(ends):
        rest = lines.pop(row).lstrip()
        lines[row - 1] = lines[row - 1].rstrip() + ("" if rest.startswith(".") else " ") + rest
    return "".join(lines)


@lru_cache(maxsize=1 << 10)
def looked_at(text: str) -> cst.Module:
    """The tree of a text that is only looked at: who changes or keeps nodes needs its own.

    Each trial of a project asks for the same functions and classes around it.
    """
    return cst.parse_module(text)


def expression(text: str) -> cst.BaseExpression:
    """The expression that ``text`` is, in parentheses if it has several lines and needs them."""
    return cst.parse_expression(whole(text))


def whole(text: str) -> str:
    """The text of an expression as it can stand anywhere, also if it was in brackets before."""
    if "\n" not in text:
        return text
    try:
        cst.parse_expression(text)
    except cst.ParserSyntaxError:
        return f"({text})"
    return text


def annotation(text: str) -> cst.Annotation:
    """The annotation of a parameter or result that ``text`` is."""
    return cst.Annotation(expression(text))


def statement(text: str) -> cst.BaseStatement:
    """The statement that ``text`` is, a method or class for example."""
    return statements(text)[0]


def statements(text: str) -> list[cst.BaseStatement]:
    """The statements that ``text`` is, the first with the comments above it."""
    module = cst.parse_module(_laid_out(text))
    # What is above all code is a file's to LibCST, and no statement's.
    said = [line for line in module.header if line.comment is not None]
    if not said or not module.body:
        return [*module.body]
    lines = [*said, *getattr(module.body[0], "leading_lines", ())]
    return [module.body[0].with_changes(leading_lines=lines), *module.body[1:]]


def _laid_out(text: str) -> str:
    """New lines of code, with what goes on below a line at the depth of that line.

    What was put into them may be the code of an expression of several lines, which knows no depth.
    """
    rows = text.split("\n")
    if len(rows) < 3:
        return text
    start, inside = 0, set[int]()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            (first, column), (last, _) = token.start, token.end
            # Lines within a text are none of code.
            inside.update(range(first + 1, last + 1) if token.type not in _LAYOUT else ())
            if start == 0 and token.type not in _LAYOUT:
                start, depth = first, column
            if token.type == tokenize.NEWLINE:
                below = [n for n in range(start, last) if rows[n].strip() and n + 1 not in inside]
                if any(len(rows[n]) - len(rows[n].lstrip()) < depth for n in below):
                    for n in below:
                        rows[n] = " " * depth + rows[n]
                start = 0
    except (tokenize.TokenError, SyntaxError):
        return text
    return "\n".join(rows)


_LAYOUT = (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT)


def simple(node: cst.CSTNode) -> cst.BaseSmallStatement | None:
    """The small statement of a line that has one, as in ``x = 1``."""
    if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1:
        return node.body[0]
    return None


def call_of(node: cst.CSTNode | None) -> cst.Call | None:
    """The call of an expression statement or of the value of an assignment."""
    small = simple(node) if isinstance(node, cst.SimpleStatementLine) else node
    value = getattr(small, "value", None) if not isinstance(small, cst.Call) else small
    return value if isinstance(value, cst.Call) else None


def is_name(node: object, *names: str) -> bool:
    """Whether something is one of these names, a variable for example."""
    return isinstance(node, cst.Name) and node.value in names


def appended(line: cst.CSTNode) -> tuple[cst.BaseExpression, cst.Arg] | None:
    """The list that a statement does nothing but append to, and what it appends."""
    call = lone_call(line)
    if call is None or not call.args or not isinstance(call.func, cst.Attribute):
        return None
    return (call.func.value, call.args[0]) if call.func.attr.value == "append" else None


def lone_call(line: cst.CSTNode) -> cst.Call | None:
    """The call that is all of a statement, whose result is dropped."""
    return call_of(line) if isinstance(simple(line), cst.Expr) else None


def target_of(node: cst.CSTNode) -> str | None:
    """The one target of an assignment, as text."""
    small = simple(node)
    if isinstance(small, cst.Assign) and len(small.targets) == 1:
        return code(small.targets[0].target)
    if isinstance(small, cst.AnnAssign) and small.value is not None:
        return code(small.target)
    return None


def is_idle(line: cst.CSTNode) -> bool:
    """Whether a statement sets something to itself, as ``x = x`` does."""
    small = simple(line)
    return isinstance(small, cst.Assign) and target_of(line) == code(small.value)


def assignment(target: cst.BaseExpression, value: cst.BaseExpression) -> cst.Assign:
    """The statement that sets ``target`` to ``value``."""
    # LibCST has one type of names for what is set, and another for what is read.
    return cst.Assign([cst.AssignTarget(target)], value)  # type: ignore[arg-type]


def parts(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The elements of a tuple; anything else is the one part that it has."""
    return [e.value for e in node.elements] if isinstance(node, cst.Tuple) else [node]


def pairs(line: cst.Assign) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Each target of an assignment with its value, or with the one value of several targets."""
    for target in line.targets:
        # A variable that is set to a tuple of one element is that tuple.
        is_part = isinstance(target.target, (cst.Tuple, cst.List))
        targets, values = parts(target.target), parts(line.value) if is_part else [line.value]
        if len(targets) != len(values):
            values = [line.value] * len(targets)
        yield from zip(targets, values, strict=True)


def without_commas(items: Iterable[_Node]) -> list[_Node]:
    """Arguments, parameters, elements or imported names; LibCST puts the commas between them."""
    return [item.with_changes(comma=cst.MaybeSentinel.DEFAULT) for item in items]


def argument(call: cst.Call, position: int, name: str) -> cst.BaseExpression | None:
    """An argument of a call by position or name; None if it is not given."""
    for index, given in enumerate(call.args):
        if given.keyword is not None:
            if given.keyword.value == name:
                return given.value
        elif index == position and not given.star:
            return given.value
    return None


def body_of(
    node: cst.FunctionDef | cst.ClassDef | cst.If | cst.Else | cst.With | cst.For,
) -> Sequence[cst.BaseStatement]:
    """The statements of a block; those of one line get lines of their own."""
    if isinstance(node.body, cst.IndentedBlock):
        return node.body.body
    parts = (part for part in node.body.body if isinstance(part, cst.BaseSmallStatement))
    return [cst.SimpleStatementLine([part]) for part in parts]


def with_body(node: _Node, body: Iterable[cst.BaseStatement]) -> _Node:
    """The function, class or branch with other statements."""
    lines = [*body] or [statement("pass")]
    # mypy has no type for whatever has a body.
    block = node.body  # type: ignore[attr-defined]
    if isinstance(block, cst.IndentedBlock):
        return node.with_changes(body=block.with_changes(body=lines))
    small = simple(lines[0]) if len(lines) == 1 else None
    if small is not None and len(block.body) == 1 and small.deep_equals(block.body[0]):
        # What stands in the line of the header stays there.
        return node
    return node.with_changes(body=cst.IndentedBlock(lines))


def below_docstring(
    body: Sequence[cst.BaseStatement], lines: Iterable[cst.BaseStatement]
) -> list[cst.BaseStatement]:
    """The statements of a block with others in front of them, but for a docstring."""
    at = 1 if has_docstring(body) else 0
    return [*body[:at], *lines, *body[at:]]


def with_definition(
    tree: cst.Module,
    text: str,
    kinds: tuple[type[cst.CSTNode], ...] = (cst.ClassDef, cst.FunctionDef),
) -> cst.Module:
    """The file with one more class or function, above what uses it.

    That is above the first that it has of these ``kinds``, or a table that names it before.
    """
    body: list[cst.BaseStatement] = [*tree.body]
    blank = [cst.EmptyLine(indent=False)] * 2
    made = statement(text).with_changes(leading_lines=blank)
    name = getattr(made, "name", cst.Name("_")).value

    def is_first(line: cst.BaseStatement) -> bool:
        small = simple(line)
        is_table = isinstance(small, (cst.Assign, cst.AnnAssign)) and name in names_in(small)
        return isinstance(line, kinds) or is_table

    at = next((i for i, line in enumerate(body) if is_first(line)), len(body))
    body.insert(at, made)
    return tree.with_changes(body=body)


def methods(node: cst.ClassDef) -> dict[str, cst.FunctionDef]:
    """The methods of a class by name."""
    return {s.name.value: s for s in body_of(node) if isinstance(s, cst.FunctionDef)}


def self_name(method: cst.FunctionDef) -> str:
    """What a method calls its object."""
    given = [*method.params.posonly_params, *method.params.params]
    return given[0].name.value if given else "self"


def local_names(method: cst.FunctionDef) -> set[str]:
    """The parameters of a method without its object, and what it assigns to, with the owners.

    What it defines or imports by itself is among them, too.
    """
    targets = [found.target for found in find(method.body, cst.AssignTarget)]
    targets += [found.target for found in find(method.body, cst.AnnAssign)]
    targets += [found.target for found in find(method.body, cst.For)]
    targets += [found.name for found in find(method.body, cst.AsName)]
    assigned = {name for target in targets for name in names_in(target)}
    assigned |= {found.name.value for found in find(method.body, cst.FunctionDef)}
    assigned |= {found.name.value for found in find(method.body, cst.ClassDef)}
    for alias in find(method.body, cst.ImportAlias):
        assigned.add(alias.evaluated_alias or alias.evaluated_name.partition(".")[0])
    given = {param.name.value for param in find(method.params, cst.Param)}
    return assigned | (given - {self_name(method)})


def has_docstring(body: Sequence[cst.BaseStatement]) -> bool:
    """Whether the first statement is a docstring."""
    small = simple(body[0]) if body else None
    return isinstance(small, cst.Expr) and isinstance(
        small.value, (cst.SimpleString, cst.ConcatenatedString)
    )


def each(tree: _Tree, kind: type[_Node], change: _Change[_Node]) -> _Tree:
    """The tree with each node of a kind changed, from the innermost one outwards."""
    return transformed(tree, _Each(kind, change))


class _Each(cst.CSTTransformer, Generic[_Node]):
    def __init__(self, kind: type[_Node], change: _Change[_Node]) -> None:
        super().__init__()
        self.shown_kinds = (kind,)
        self._change = change

    def on_visit(self, node: cst.CSTNode) -> bool:
        return True

    def on_leave(self, original: cst.CSTNodeT, updated: cst.CSTNodeT) -> Left[cst.CSTNodeT]:
        # It is shown nodes of the kind alone, which mypy does not follow.
        return self._change(updated)  # type: ignore[arg-type, return-value]


def transformed(tree: _Tree, transformer: cst.CSTTransformer) -> _Tree:
    """The tree as a transformer makes it, of the same type; see ``left``."""
    return ensure_type(left(tree, transformer), type(tree))


def find(node: cst.CSTNode, kind: type[_Node]) -> Iterator[_Node]:
    """Every node of a kind below ``node``, itself included, in order; no whitespace or commas."""
    # Most of what is asked has none, and says so at once.
    return iter(_found(node, kind)) if has(node, kind) else iter(())


@lru_cache(maxsize=1 << 14)
def _found(node: cst.CSTNode, kind: type[_Node]) -> tuple[_Node, ...]:
    return tuple(each for each in below(node) if type(each) is kind)


def returns(function: cst.FunctionDef) -> list[cst.Return]:
    """The statements by which a function returns, without those of functions that it defines."""
    return returns_in([function.body])


def returns_in(nodes: Iterable[cst.CSTNode]) -> list[cst.Return]:
    """The statements by which a function returns that has these nodes."""
    every = [each for node in nodes for each in below(node)]
    inner = [each for each in every if type(each) is cst.FunctionDef]
    skipped = {id(each) for function in inner for each in below(function)}
    return [each for each in every if type(each) is cst.Return and id(each) not in skipped]


def names_in(node: cst.CSTNode) -> set[str]:
    """Every name below ``node``, but for attributes and keywords."""
    # isinstance takes long for LibCST's kinds of nodes, which are abstract classes.
    if type(node) is cst.Name:
        return {node.value}
    if type(node) is cst.Attribute or type(node) is cst.Arg:
        return names_in(node.value)
    return {name for child in children(node) for name in names_in(child)}


def has_attribute(node: cst.CSTNode, name: str) -> bool:
    """Whether an attribute of this name, of whatever object, is read or set below ``node``."""
    return any(found.attr.value == name for found in find(node, cst.Attribute))


def mentions(node: cst.CSTNode, text: str) -> bool:
    """Whether an expression below ``node`` is exactly ``text``, a name or dotted name."""
    if type(node) in (cst.Name, cst.Attribute) and code(node) == text:
        return True
    return any(mentions(child, text) for child in children(node))


def with_node(
    tree: _Tree, old: cst.CSTNode, new: cst.CSTNode | cst.FlattenSentinel[cst.BaseStatement]
) -> _Tree:
    """The tree with other nodes in the place of one below its top, which keeps its type."""
    return transformed(tree, _Putting(old, new))


class _Putting(cst.CSTTransformer):
    def __init__(
        self, old: cst.CSTNode, new: cst.CSTNode | cst.FlattenSentinel[cst.BaseStatement]
    ) -> None:
        super().__init__()
        self.shown_kinds = (type(old),)
        self._old = old
        self._new = new

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node is not self._old

    def on_leave(self, original: cst.CSTNodeT, updated: cst.CSTNodeT) -> Left[cst.CSTNodeT]:
        # What may stand in the place of a node is known to who asks.
        return self._new if original is self._old else updated  # type: ignore[return-value]


class _Replacement(cst.CSTTransformer):
    def __init__(self, old: str, new: str) -> None:
        self._old = old
        self._new = expression(new)

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.BaseExpression:
        return self._new.deep_clone() if original.value == self._old else updated

    def leave_Attribute(
        self, original: cst.Attribute, updated: cst.Attribute
    ) -> cst.BaseExpression:
        if code(original) == self._old:
            return self._new.deep_clone()
        return updated.with_changes(attr=original.attr)

    def leave_Arg(self, original: cst.Arg, updated: cst.Arg) -> cst.Arg:
        return updated.with_changes(keyword=original.keyword)


def replaced(node: _Node, old: str, new: str) -> _Node:
    """``node`` with every name or dotted name ``old`` in it replaced by an expression."""
    # Where ``node`` is the name itself, another expression comes back.
    return left(node, _Replacement(old, new))  # type: ignore[return-value]


def method(text: str) -> cst.FunctionDef:
    """The function that ``text`` is, below a blank line."""
    made = ensure_type(statement(text), cst.FunctionDef)
    return made.with_changes(leading_lines=[cst.EmptyLine(indent=False)])
