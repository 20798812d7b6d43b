"""Transformers that know where in a file they are."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, ClassVar

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider, ProviderT

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.facts import Span
from det_compat.migrate.tree.syntax import transformed
from det_compat.migrate.tree.walking import Left


class CannotRewriteError(Exception):
    """A file cannot be rewritten, and why: it is not det_compat's fault."""


def parsed(source: bytes) -> MetadataWrapper:
    """The tree of a file, with the place of each node.

    Raises:
        CannotRewriteError: LibCST cannot parse the file, which Python can.
    """
    try:
        # Nobody else has the tree that is parsed here, so it need not be copied first.
        return _Wrapper(cst.parse_module(source), unsafe_skip_copy=True)
    except cst.ParserSyntaxError as error:
        raise CannotRewriteError(f"LibCST cannot parse it: {error.message}") from error
    except UnicodeDecodeError as error:
        # Python's parser does not look into comments, its import does.
        raise CannotRewriteError(f"it is not in its encoding: {error}") from error


def with_brackets(tree: cst.Module) -> cst.Module:
    """The file with brackets around what goes on in the next line, and was in those of a call."""
    return transformed(tree, _Bracketing())


class _Bracketing(cst.CSTTransformer):
    _FIELDS: ClassVar[dict[type[cst.CSTNode], str]] = {
        cst.Assign: "value",
        cst.AnnAssign: "value",
        cst.AugAssign: "value",
        cst.Return: "value",
        cst.Expr: "value",
        cst.Assert: "test",
        cst.Raise: "exc",
        cst.If: "test",
        cst.While: "test",
        cst.For: "iter",
        cst.WithItem: "item",
    }
    shown_kinds = tuple(_FIELDS)

    def on_visit(self, node: cst.CSTNode) -> bool:
        return True

    def on_leave(self, original: cst.CSTNodeT, updated: cst.CSTNodeT) -> Left[cst.CSTNodeT]:
        field = self._FIELDS[type(updated)]
        value = getattr(updated, field)
        if not isinstance(value, cst.BaseExpression) or not _goes_on(value):
            return updated
        laid = value.visit(_Laying())
        assert isinstance(laid, cst.BaseExpression)
        made = laid.with_changes(lpar=[cst.LeftParen(_DEEPER)], rpar=[cst.RightParen(_AS_DEEP)])
        return updated.with_changes(**{field: made})


class _Laying(cst.CSTTransformer):
    """Has the lines of an expression one step deeper than its statement; not those in brackets."""

    def on_visit(self, node: cst.CSTNode) -> bool:
        return not (isinstance(node, _BRACKETED) or _has_brackets(node))

    def on_leave(self, original: cst.CSTNodeT, updated: cst.CSTNodeT) -> Left[cst.CSTNodeT]:
        if isinstance(original, cst.ParenthesizedWhitespace):
            return updated.with_changes(indent=True, last_line=cst.SimpleWhitespace(" " * 4))
        # What is in the brackets of a call stays where it is.
        own = {name: getattr(original, name) for name in _INNER.get(type(original), ())}
        return updated.with_changes(**own) if own else updated


_INNER: dict[type[cst.CSTNode], tuple[str, ...]] = {
    cst.Call: ("whitespace_before_args", "args"),
    cst.Subscript: ("lbracket", "slice", "rbracket"),
}
_DEEPER = cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace(" " * 4))
_AS_DEEP = cst.ParenthesizedWhitespace(indent=True)
#: What has brackets of its own around all that is in it.
_BRACKETED: tuple[type[cst.CSTNode], ...] = (
    *(cst.Dict, cst.DictComp, cst.FormattedString, cst.List, cst.ListComp, cst.Set, cst.SetComp),
    cst.SimpleString,
)


def _has_brackets(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.BaseExpression) and bool(node.lpar)


def _goes_on(node: cst.CSTNode) -> bool:
    """Whether a node has the end of a line outside its own brackets."""
    if isinstance(node, cst.ParenthesizedWhitespace):
        return True
    if isinstance(node, _BRACKETED) or _has_brackets(node):
        return False
    if isinstance(node, (cst.Call, cst.Subscript)):
        return _goes_on(node.func if isinstance(node, cst.Call) else node.value)
    return any(map(_goes_on, node.children)) or any(
        isinstance(getattr(node, name, None), cst.ParenthesizedWhitespace) for name in _AROUND
    )


#: Where nodes have whitespace, which is none of their children where there is none.
_AROUND = (
    "whitespace_before",
    "whitespace_after",
    "whitespace_after_func",
    "whitespace_after_value",
)


class _Wrapper(MetadataWrapper):
    """One that nobody goes through in vain: LibCST does for providers that do not ask it to."""

    def visit_batched(
        self, visitors: Iterable[cst.BatchableCSTVisitor], *args: Any, **kwargs: Any
    ) -> cst.CSTNode:
        every = [*visitors]
        return super().visit_batched(every, *args, **kwargs) if every else self.module


class ScopedTransformer(cst.CSTTransformer):
    """A transformer that knows what is around the node that it visits.

    Attributes:
        around: the classes and functions, as they were, outermost first.
        depth: how many indented blocks there are.
    """

    #: What it notes; see ``syntax.left``.
    shown_kinds: tuple[type[cst.CSTNode], ...] = (
        cst.ClassDef,
        cst.FunctionDef,
        cst.IndentedBlock,
    )

    def __init__(self) -> None:
        super().__init__()
        self.around: list[cst.ClassDef | cst.FunctionDef] = []
        self.depth = 0

    @property
    def classes(self) -> list[cst.ClassDef]:
        """The classes around, outermost first."""
        return [node for node in self.around if isinstance(node, cst.ClassDef)]

    @property
    def functions(self) -> list[cst.FunctionDef]:
        """The functions around, outermost first."""
        return [node for node in self.around if isinstance(node, cst.FunctionDef)]

    @property
    def method(self) -> cst.FunctionDef | None:
        """The method of the innermost class, from whichever function of it; None outside of one."""
        found = None
        for node in self.around:
            found = None if isinstance(node, cst.ClassDef) else found or node
        return found

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Note what is entered, and visit it."""
        # LibCST's kinds of nodes are abstract classes, and isinstance takes long for them.
        kind = type(node)
        if kind is cst.ClassDef or kind is cst.FunctionDef:
            # The kind was compared, which mypy does not follow.
            self.around.append(node)  # type: ignore[arg-type]
        elif kind is cst.IndentedBlock:
            self.depth += 1
        return super().on_visit(node)

    def on_leave(self, original: cst.CSTNodeT, updated: cst.CSTNodeT) -> Left[cst.CSTNodeT]:
        """Note what is left, and transform it."""
        kind = type(original)
        if kind is cst.ClassDef or kind is cst.FunctionDef:
            self.around.pop()
        elif kind is cst.IndentedBlock:
            self.depth -= 1
        return super().on_leave(original, updated)


class LocatingTransformer(ScopedTransformer):
    """A transformer that knows where in the text a node was; it visits what ``parsed`` gives."""

    METADATA_DEPENDENCIES: ClassVar[Collection[ProviderT]] = (PositionProvider,)

    def span(self, node: cst.CSTNode) -> Span:
        """Where a node was."""
        found = self.get_metadata(PositionProvider, node)
        assert isinstance(found, CodeRange)
        return (found.start.line, found.start.column, found.end.line, found.end.column)


def located(wrapper: MetadataWrapper, transformer: LocatingTransformer) -> cst.Module:
    """The tree that ``parsed`` gives, as a transformer makes it."""
    with transformer.resolve(wrapper):
        return transformed(wrapper.module, transformer)


class _Quoting(cst.CSTTransformer):
    """Gives texts inside of f-strings other quotes than those around, as Python did before 3.12."""

    def __init__(self) -> None:
        super().__init__()
        self._around: list[str] = []

    def visit_FormattedString(self, node: cst.FormattedString) -> None:
        self._around.append(node.end)

    def leave_FormattedString(
        self, original: cst.FormattedString, updated: cst.FormattedString
    ) -> cst.FormattedString:
        self._around.pop()
        return updated

    def leave_SimpleString(
        self, original: cst.SimpleString, updated: cst.SimpleString
    ) -> cst.SimpleString:
        quote = updated.quote
        if quote not in self._around or len(quote) > 1:
            return updated
        other = "'" if quote == '"' else '"'
        is_known = other not in self._around and not {other, "\\"} & {*updated.raw_value}
        return (
            cst.SimpleString(f"{updated.prefix}{other}{updated.raw_value}{other}")
            if is_known
            else updated
        )


def with_quotes(tree: cst.Module) -> cst.Module:
    """The file with texts inside of f-strings in other quotes than those around."""
    return transformed(tree, _Quoting())


def with_more(call: cst.Call, more: Sequence[cst.Arg]) -> cst.Call:
    """A call with other arguments behind those that it has, in lines as these are."""
    if not call.args:
        return call.with_changes(args=more)
    *first, last = call.args
    known = [each.comma for each in first[-1:]]
    if isinstance(call.whitespace_before_args, cst.ParenthesizedWhitespace):
        is_below = isinstance(last.comma, cst.Comma) and not first
        is_below |= any(isinstance(c, cst.Comma) and "#" in syntax.code(c) for c in known)
        known = [cst.Comma(whitespace_after=call.whitespace_before_args)] if is_below else known
    plain = [c for c in known if isinstance(c, cst.Comma) and "#" not in syntax.code(c)]
    comma = plain[0] if plain else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    behind = [
        arg.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace(""))
        for arg in [last, *more]
    ]
    end = {"comma": last.comma, "whitespace_after_arg": last.whitespace_after_arg}
    return call.with_changes(args=[*first, *behind[:-1], behind[-1].with_changes(**end)])
