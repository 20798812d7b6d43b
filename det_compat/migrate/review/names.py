"""Names that nothing defines, and names that a file does not have any more."""

import ast
import builtins
import symtable
from collections.abc import Iterator

from det_compat.migrate.review.project import Code, Finding, Text

_GIVEN = {*dir(builtins), "__file__", "__name__", "__path__", "__class__", "__annotations__"}


def undefined(before: Text, after: Text) -> Iterator[Finding]:
    """The names that nothing defines in a file, and that were defined, or not there, before."""
    new = _undefined(after) - _undefined(before)
    for node in after.nodes:
        if isinstance(node, ast.Name) and node.id in new:
            yield Finding(node.lineno, f"nothing defines {node.id} here")


def _undefined(text: Text) -> set[str]:
    if any(
        alias.name == "*"
        for node in text.nodes
        for alias in getattr(node, "names", ())
        if isinstance(alias, ast.alias)
    ):
        # Whatever is imported with a star may be what is missing.
        return set()
    top = symtable.symtable(text.source.decode(errors="replace"), str(text.path), "exec")
    tables = [top]
    for table in tables:
        tables += table.get_children()
    used = {
        symbol.get_name()
        for table in tables
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (symbol.is_global() or table is top)
    }
    return used - defined(text) - _GIVEN


def defined(text: Text) -> set[str]:
    """The names that a file defines at its top level, or declares global."""
    top = symtable.symtable(text.source.decode(errors="replace"), str(text.path), "exec")
    own = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()}
    own |= {table.get_name() for table in top.get_children()}
    declared = (node.names for node in text.nodes if isinstance(node, ast.Global))
    return own.union(*declared)


def not_there(before: Code, after: Code, text: Text) -> Iterator[Finding]:
    """The names that a file imports from another one, which had them before."""
    for node in text.nodes:
        if not isinstance(node, ast.ImportFrom):
            continue
        path = after.lookup(text.path, node.module or "", node.level)
        if path is None or path not in before.files:
            continue
        missing = defined(before.files[path]) - defined(after.files[path])
        for alias in node.names:
            if alias.name in missing:
                yield Finding(node.lineno, f"{path.name} has no {alias.name} any more")
