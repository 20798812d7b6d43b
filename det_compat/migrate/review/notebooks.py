"""Notebooks, none of which is rewritten: those that somebody has to look at."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from det_compat.analysis.source import Source
from det_compat.catalog.support import is_determined
from det_compat.check import scripts
from det_compat.migrate.results import FileResult
from det_compat.migrate.review.project import imports

_WORD = re.compile(rb"\b(determined|pedl|det_compat)\b")


def using(notebooks: Iterable[Source], results: Iterable[FileResult]) -> list[Path]:
    """The notebooks that use Determined, or the file of a trial that is rewritten.

    One of which a cell cannot be read is among them as soon as it names Determined at all.
    """
    modules = {result.path.stem for result in results if result.trials}
    return [notebook.path for notebook in notebooks if _uses(notebook, modules)]


def _uses(notebook: Source, modules: set[str]) -> bool:
    if notebook.unreadable and _WORD.search(notebook.path.read_bytes()):
        return True
    if any(any(scripts.references(text)) for _, text in notebook.shell):
        return True
    return any(
        is_determined(name) or not modules.isdisjoint(name.split("."))
        for tree in notebook.trees
        for name in _imported(tree)
    )


def _imported(tree: ast.Module) -> Iterator[str]:
    """What a cell imports, with the names that it takes from modules."""
    for node, module, _ in imports(ast.walk(tree)):
        yield from (f"{module}.{a.name}" for a in node.names if isinstance(node, ast.ImportFrom))
        yield module
