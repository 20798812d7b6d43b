"""Annotations of Determined's classes that are texts, as they are where nothing may be imported."""

import ast
import builtins
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import libcst as cst

from det_compat.catalog.support import is_determined
from det_compat.migrate.target import Target
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import parsed

_QUOTED = re.compile(rb"(:|->)\s*(\w+\[)*['\"]")


class Unquoted(Target):
    """Writes ``context: "PyTorchTrialContext"`` without quotes, which the next steps know."""

    @classmethod
    def is_needed(cls, texts: Iterable[bytes]) -> bool:
        """Whether some file may have such annotations."""
        return any(map(_QUOTED.search, texts))

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a file; None if it has no such annotation."""
        source = self.sources[path]
        if not _QUOTED.search(source):
            return None
        tree = parsed(source)
        own, others = _imported(tree)
        texts = {text for node in ast.walk(tree) for text in _texts(node)}
        # What is no text any more is looked up at once, but for files that say otherwise.
        known = None if "annotations" in _futures(tree) else {*own, *others, *dir(builtins)}
        chosen = {text for text in texts if _is_one(text, own, known)}
        if not chosen:
            return None
        return syntax.transformed(cst.parse_module(source), _Unquoting(chosen)).bytes


def _imported(tree: ast.Module) -> tuple[set[str], set[str]]:
    """The names that a file has from Determined, and those of its other imports that it runs."""
    own, others = set[str](), set[str]()
    for node in ast.walk(tree):
        names = node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ()
        for alias in names:
            level = getattr(node, "level", 0)
            module = getattr(node, "module", None) or alias.name
            is_own = not level and is_determined(module)
            if is_own or node in tree.body:
                (own if is_own else others).add(alias.asname or alias.name.partition(".")[0])
    return own, others


def _futures(tree: ast.Module) -> set[str]:
    lines = (line for line in tree.body if isinstance(line, ast.ImportFrom))
    return {alias.name for line in lines if line.module == "__future__" for alias in line.names}


def _texts(node: ast.AST) -> Iterator[str]:
    """The texts in an annotation of a node."""
    for name in ("annotation", "returns"):
        inside = getattr(node, name, None)
        for each in ast.walk(inside) if isinstance(inside, ast.AST) else ():
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield each.value


def _is_one(text: str, own: Collection[str], known: Collection[str] | None) -> bool:
    """Whether a text is an annotation with something of Determined's, all of which is there."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return False
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return not names.isdisjoint(own) and (known is None or names <= {*known})


class _Unquoting(cst.CSTTransformer):
    shown_kinds = (cst.Annotation, cst.Subscript)

    def __init__(self, texts: Collection[str]) -> None:
        super().__init__()
        self._texts = texts
        self._around: list[bool] = []

    def visit_Annotation(self, node: cst.Annotation) -> None:
        self._around.append(True)

    def leave_Annotation(self, original: cst.Annotation, updated: cst.Annotation) -> cst.Annotation:
        self._around.pop()
        return updated

    def visit_Subscript(self, node: cst.Subscript) -> None:
        # The texts of a Literal are values.
        is_literal = syntax.code(node.value).rpartition(".")[2] == "Literal"
        self._around.append(not is_literal and self._around[-1:] == [True])

    def leave_Subscript(self, original: cst.Subscript, updated: cst.Subscript) -> cst.Subscript:
        self._around.pop()
        return updated

    def leave_SimpleString(
        self, original: cst.SimpleString, updated: cst.SimpleString
    ) -> cst.BaseExpression:
        text = updated.evaluated_value
        is_one = self._around[-1:] == [True] and text in self._texts
        return syntax.expression(str(text).strip()) if is_one else updated
