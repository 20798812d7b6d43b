"""Names that nothing defines, and names that a file does not have any more."""

import ast
import builtins
import symtable
from collections.abc import Iterator

from det_compat.migrate.review.project import Code, Finding, Text

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
# Up to Python 3.11, a comprehension is a function of its own.
_COMPREHENSIONS = ("listcomp", "setcomp", "dictcomp", "genexpr")
_GIVEN = {*dir(builtins), "__file__", "__name__", "__path__", "__class__", "__annotations__"}


def undefined(before: Text, after: Text) -> Iterator[Finding]:
    """The names that nothing defines in a file, and that were defined, or not there, before."""
    known = {name for names in _undefined(before).values() for name in names}
    found = _undefined(after)
    for line, name, home in _names(after.tree, 0):
        if name in found.get(home, ()) and name not in known:
            yield Finding(line, f"nothing defines {name} here")


def _names(node: ast.AST, home: int) -> Iterator[tuple[int, str, int]]:
    """Each name with its line, and the line of the function or class that it is in."""
    if isinstance(node, ast.Name):
        yield node.lineno, node.id, home
    for field, value in ast.iter_fields(node):
        inner = node.lineno if isinstance(node, _SCOPES) and field == "body" else home
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _names(child, inner)


def _undefined(text: Text) -> dict[int, set[str]]:
    """The names that nothing defines, by the line of the function or class that they are in."""
    aliases = (getattr(node, "names", ()) for node in text.nodes if isinstance(node, _IMPORTS))
    if any(alias.name == "*" for names in aliases for alias in names):
        # Whatever is imported with a star may be what is missing.
        return {}
    top = symtable.symtable(
        text.source.decode("utf-8-sig", errors="replace"), str(text.path), "exec"
    )
    there = defined(text) | _GIVEN
    found: dict[int, set[str]] = {}
    tables = [(top, 0)]
    for table, home in tables:
        names = {s.get_name() for s in table.get_symbols() if _is_sought(s, table is top)}
        found.setdefault(home, set()).update(names - there)
        for child in table.get_children():
            is_own = child.get_name() not in _COMPREHENSIONS
            tables.append((child, child.get_lineno() if is_own else home))
    return found


def _is_sought(symbol: symtable.Symbol, is_top: bool) -> bool:
    return symbol.is_referenced() and (symbol.is_global() or is_top)


def defined(text: Text) -> set[str]:
    """The names that a file defines at its top level, or declares global."""
    top = symtable.symtable(
        text.source.decode("utf-8-sig", errors="replace"), str(text.path), "exec"
    )
    own = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()}
    own |= {table.get_name() for table in top.get_children()}
    declared = (node.names for node in text.nodes if isinstance(node, ast.Global))
    return own.union(*declared)


def too_early(before: Text, after: Text) -> Iterator[Finding]:
    """The classes and functions that a file needs, as it is imported, above their definitions."""
    known = {name for _, name in _needed_early(before)}
    for line, name in _needed_early(after):
        if name not in known:
            yield Finding(line, f"{name} is defined below")


def _needed_early(text: Text) -> Iterator[tuple[int, str]]:
    body = getattr(text.tree, "body", ())
    below = {node.name for node in body if isinstance(node, _DEFINITIONS)}
    for node in body:
        yield from ((n.lineno, n.id) for n in _read_at_once(node) if n.id in below)
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                below -= {each.id}
            elif isinstance(each, _DEFINITIONS):
                below -= {each.name}
            elif isinstance(each, _IMPORTS):
                below -= {alias.asname or alias.name for alias in each.names}


def _read_at_once(node: ast.AST) -> Iterator[ast.Name]:
    """The names that a statement reads when it runs, and not what it defines."""
    if isinstance(node, ast.Name):
        yield from [node] if isinstance(node.ctx, ast.Load) else []
    is_function = isinstance(node, (*_DEFINITIONS[:2], ast.Lambda))
    for field, value in ast.iter_fields(node):
        if is_function and field in ("body", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and field not in ("annotation", "returns"):
                yield from _read_at_once(child)


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
