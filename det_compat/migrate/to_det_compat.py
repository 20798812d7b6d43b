"""``--to det_compat``: imports of Determined become imports of det_compat."""

from pathlib import Path

import libcst as cst
from libcst.helpers import get_absolute_module_for_import

from det_compat.catalog.names import MODULES, SINGLE_NAMES
from det_compat.catalog.support import home, is_determined
from det_compat.migrate.target import Target
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line, Lines
from det_compat.migrate.tree.imports import bound_name
from det_compat.migrate.tree.marks import above, marked, marks_of
from det_compat.migrate.tree.symbols import Symbols, resolve


class DetCompat(Target):
    """Rewrites the imports of the files of one analysis, and nothing else."""

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a file; None if it has nothing to do with Determined."""
        facts = self.analysis.facts(path)
        if facts is None:
            return None
        tree, symbols = resolve(self.sources[path], facts)
        tree = symbols.with_held(tree)
        dotted = _DottedNames(symbols, _roots(tree))
        tree = syntax.transformed(tree, dotted)
        return syntax.transformed(tree, _Imports(dotted.kept, dotted.modules)).bytes


class _DottedNames(cst.CSTTransformer):
    """``det.InvalidHP``, under the name that it has in det_compat.

    Attributes:
        modules: what has to be imported for that.
        kept: names of imports that something still needs.
    """

    def __init__(self, symbols: Symbols, roots: set[str]) -> None:
        self._symbols = symbols
        self._roots = roots
        self.modules: set[str] = set()
        self.kept: set[str] = set()

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.BaseExpression:
        symbol = self._symbols.get(original)
        if symbol is None:
            return updated
        module = None if symbol.is_object else _module_of(symbol.path)
        if module is None or not syntax.names_in(symbol.original) & self._roots:
            self.kept |= syntax.names_in(symbol.original)
            return symbol.original.deep_clone()
        self.modules.add(module)
        return cst.parse_expression(symbol.path)


def _module_of(path: str) -> str | None:
    """The module of det_compat that a name is in; None if it is in none."""
    while path and path not in _MODULES:
        path = path.rpartition(".")[0]
    return path or None


_MODULES = {
    *(module for module in MODULES.values() if module),
    *(name.rpartition(".")[0] for name in SINGLE_NAMES.values()),
}


def _roots(tree: cst.Module) -> set[str]:
    """The names by which ``import determined`` and the like is used with dots."""
    found = set()
    for line in tree.body:
        small = syntax.simple(line)
        for each in small.names if isinstance(small, cst.Import) else ():
            name = each.evaluated_name
            if is_determined(name) and not _is_module(name, each):
                found.add(bound_name(each))
    return found


def _is_module(name: str, each: cst.ImportAlias) -> bool:
    """Whether an import binds a name to what is one module in det_compat."""
    return each.asname is not None and (home(name) or "") in _MODULES


class _Imports(cst.CSTTransformer):
    def __init__(self, kept: set[str], modules: set[str]) -> None:
        self._kept = kept
        self._modules = modules

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        small = syntax.simple(updated)
        if isinstance(small, cst.ImportFrom):
            module = get_absolute_module_for_import(None, small) or ""
            if is_determined(module):
                return _from(updated, small, module)
        names = small.names if isinstance(small, cst.Import) else ()
        if not any(is_determined(each.evaluated_name) for each in names):
            return updated
        made = [found for each in names for found in self._imported(each)]
        return cst.FlattenSentinel(
            [above(made[0], updated.leading_lines), *made[1:]] if made else []
        )

    def _imported(self, each: cst.ImportAlias) -> list[cst.BaseStatement]:
        name = each.evaluated_name
        text = syntax.code(*syntax.without_commas([each]))
        if not is_determined(name):
            return [syntax.statement(f"import {text}")]
        if _is_module(name, each):
            return [syntax.statement(f"import {home(name)} as {text.rpartition(' ')[2]}")]
        modules, self._modules = sorted(self._modules), set()
        made = [syntax.statement(f"import {module}") for module in modules]
        if bound_name(each) in self._kept:
            message = f"{name} has no such place in det_compat"
            made.append(marked(syntax.statement(f"import {text}"), message))
        return made


def _from(line: Line, small: cst.ImportFrom, module: str) -> Lines:
    if isinstance(small.names, cst.ImportStar):
        return _moved(line, small, module, home(module))
    groups: dict[str | None, list[cst.ImportAlias]] = {}
    for each in small.names:
        where = home(f"{module}.{each.evaluated_name}")
        is_renamed = where is not None and where.rpartition(".")[2] != each.evaluated_name
        key = None if where is None or is_renamed else where.rpartition(".")[0]
        groups.setdefault(key, []).append(each)
    if len(groups) == 1:
        return _moved(line, small, module, next(iter(groups)))
    bare = small.with_changes(lpar=None, rpar=None)
    lines = [
        _moved(line, bare.with_changes(names=syntax.without_commas(names)), module, where)
        for where, names in groups.items()
    ]
    lines[1:] = [other.with_changes(leading_lines=marks_of(other)) for other in lines[1:]]
    return cst.FlattenSentinel(lines)


def _moved(line: Line, small: cst.ImportFrom, module: str, where: str | None) -> Line:
    if where is None:
        kept = line.with_changes(body=[small])
        return marked(kept, f"{module} has no such place in det_compat")
    return line.with_changes(body=[small.with_changes(module=syntax.expression(where))])
