"""One file that is migrated, and transformers that replace its placeholders."""

import symtable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Generic, TypeAlias, TypeVar

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.imports import ImportEdits
from det_compat.migrate.tree.marks import marked
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.transformers import ScopedTransformer
from det_compat.migrate.tree.walking import Left

#: A line of one or more small statements, and what it may become.
Line: TypeAlias = cst.SimpleStatementLine
Lines: TypeAlias = cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement] | cst.RemovalSentinel


@dataclass(frozen=True)
class File:
    """What all transformers of a file share.

    Attributes:
        symbols: what the placeholders in its tree stand for.
        imports: what becomes of its imports.
        elsewhere: what the code around trials does.
    """

    symbols: Symbols
    imports: ImportEdits = field(default_factory=ImportEdits, kw_only=True)
    elsewhere: Elsewhere = field(default_factory=Elsewhere, kw_only=True)


_File = TypeVar("_File", bound=File)


class FileTransformer(ScopedTransformer, Generic[_File]):
    """A transformer of a file, which leaves comments above what it cannot rewrite."""

    #: The statements that get comments: the innermost one around what is marked.
    marked_statements: ClassVar[tuple[type[cst.CSTNode], ...]] = (cst.SimpleStatementLine,)

    def __init__(self, file: _File) -> None:
        super().__init__()
        self.file = file
        self.symbols = file.symbols
        self._marks: list[dict[str, str]] = []
        self.shown_kinds = (*self.shown_kinds, *self.marked_statements)

    def mark(self, message: str, link: str = "") -> None:
        """Leave a comment above the statement around what is visited."""
        if self._marks:
            self._marks[-1][message] = link

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Collect comments for a statement, and visit it."""
        if type(node) in self.marked_statements:
            self._marks.append({})
        return super().on_visit(node)

    def on_leave(self, original: cst.CSTNodeT, updated: cst.CSTNodeT) -> Left[cst.CSTNodeT]:
        """Transform a statement, and put its comments above it."""
        left = super().on_leave(original, updated)
        if type(original) in self.marked_statements:
            for message, link in self._marks.pop().items():
                if isinstance(left, cst.BaseStatement):
                    left = marked(left, message, link)
        return left


def function_names(tree: cst.Module) -> set[str]:
    """The names that are functions wherever they stand, and never variables, which may be None."""
    lines = [*syntax.find(tree, cst.Assign)]
    made = [line for line in lines if isinstance(line.value, cst.Lambda)]
    set_to = [each.target for line in lines if line not in made for each in line.targets]
    set_to += [node.target for node in syntax.find(tree, cst.For)]
    set_to += [node.name for node in syntax.find(tree, cst.Param)]
    variables = {name for node in set_to for name in (*syntax.names_in(node), _last(node))}
    functions = {node.name.value for node in syntax.find(tree, cst.FunctionDef)}
    functions |= {_last(each.target) for line in made for each in line.targets}
    return functions - variables


def _last(target: cst.BaseExpression) -> str:
    return syntax.code(target).rpartition(".")[2]


def bound_names(source: bytes, path: Path) -> set[str]:
    """The names that a file binds at its top level."""
    table = symtable.symtable(source.decode("utf-8-sig", errors="replace"), str(path), "exec")
    return {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()}
