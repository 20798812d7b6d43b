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
