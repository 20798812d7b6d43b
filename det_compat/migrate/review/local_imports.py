"""Files that were not named, and that migrated ones import, which still use Determined."""

import ast
from collections.abc import Iterator
from pathlib import Path

from det_compat.analysis.tree import SKIPPED
from det_compat.catalog.support import is_determined
from det_compat.migrate.review.project import Code, imports, paths

#: More are not followed: whoever names one file of a large tree waits for it alone.
_MOST_FILES = 200


def left_out(code: Code) -> dict[Path, Path]:
    """The files that still use Determined and were not read, each with one that imports it."""
    found: dict[Path, Path] = {}
    waiting = [(path, text.tree, path) for path, text in code.files.items()]
    known = {path.absolute() for path in code.files}
    for path, tree, asking in waiting:
        if path not in code.files and _uses_determined(tree):
            found[path] = asking
        for other in _imported(tree, path):
            if other.absolute() not in known and len(waiting) < len(code.files) + _MOST_FILES:
                known.add(other.absolute())
                parsed = _tree(other)
                waiting += [(other, parsed, path)] if parsed is not None else []
    return found


def _uses_determined(tree: ast.Module) -> bool:
    return any(is_determined(module) for _, module, level in imports(ast.walk(tree)) if not level)


def _imported(tree: ast.Module, path: Path) -> Iterator[Path]:
    """The files beside a file, and above it, that its imports name."""
    for node, module, level in imports(ast.walk(tree)):
        names = [module]
        if isinstance(node, ast.ImportFrom):
            names += [f"{module}.{alias.name}".lstrip(".") for alias in node.names]
        for name in names:
            there = next((found for found in paths(path, name, level) if found.is_file()), None)
            if there is not None and SKIPPED.isdisjoint(there.parts):
                yield there


def _tree(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
