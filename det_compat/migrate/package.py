"""The package that migrated code has Lightning from: ``pytorch_lightning``, or ``lightning``."""

import ast
import symtable
from dataclasses import replace

import libcst as cst

from det_compat.migrate.results import FileResult
from det_compat.migrate.target import Problems
from det_compat.migrate.tree import syntax

PACKAGES = ("pytorch_lightning", "lightning")
_OLD, _NEW = "pytorch_lightning", "lightning.pytorch"
#: The statement that the passes write, and what stands for it: its users write it like this.
_MADE, _SHORT = "import pytorch_lightning as pl", "import lightning as L"


def in_package(result: FileResult, package: str) -> FileResult:
    """A migrated file with Lightning from ``package``."""
    if package == _OLD or not result.is_changed or _OLD.encode() not in result.after:
        return result
    problems = Problems()
    with problems.of(result.path):
        tree = cst.parse_module(result.after)
        is_own = _MADE.encode() in result.before
        is_short = not is_own and "L" not in _names(result.after)
        return replace(result, after=syntax.transformed(tree, _Renaming(is_short=is_short)).bytes)
    reason = problems[result.path].reason
    return FileResult(result.path, result.before, result.before, reason)


def _names(source: bytes) -> set[str]:
    """The names that a file uses anywhere."""
    table = symtable.symtable(source.decode("utf-8-sig", errors="replace"), "file", "exec")
    used = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    return used | {symbol.get_name() for symbol in table.get_symbols()}


class _Renaming(cst.CSTTransformer):
    def __init__(self, *, is_short: bool) -> None:
        super().__init__()
        self._is_short = is_short

    def leave_Import(self, original: cst.Import, updated: cst.Import) -> cst.BaseSmallStatement:
        if self._is_short and syntax.code(original) == _MADE:
            made = syntax.simple(syntax.statement(_SHORT))
            assert made is not None
            return made
        return updated

    def leave_Attribute(
        self, original: cst.Attribute, updated: cst.Attribute
    ) -> cst.BaseExpression:
        if self._is_short and syntax.is_name(original.value, "pl"):
            return updated.with_changes(value=cst.Name("L"))
        return updated

    def leave_ImportFrom(self, original: cst.ImportFrom, updated: cst.ImportFrom) -> cst.ImportFrom:
        if original.module is None or original.relative:
            return updated
        return updated.with_changes(module=_renamed(original.module))

    def leave_ImportAlias(
        self, original: cst.ImportAlias, updated: cst.ImportAlias
    ) -> cst.ImportAlias:
        # Without another name, `import pytorch_lightning.callbacks` binds the first part of it.
        return updated.with_changes(name=_renamed(original.name)) if original.asname else updated


def _renamed(module: cst.Attribute | cst.Name) -> cst.BaseExpression:
    text = syntax.code(module)
    is_old = text == _OLD or text.startswith(f"{_OLD}.")
    return syntax.expression(text.replace(_OLD, _NEW, 1)) if is_old else module
