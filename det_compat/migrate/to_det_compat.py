"""``--to det_compat``: imports of Determined become imports of det_compat."""

from __future__ import annotations

from pathlib import Path

import libcst as cst

from det_compat.catalog.names import MODULES, SINGLE_NAMES
from det_compat.catalog.support import home, is_determined
from det_compat.migrate.tree.facts import Analysis
from det_compat.migrate.tree.marks import marked
from det_compat.migrate.tree.symbols import Symbols, resolve
from det_compat.migrate.tree.syntax import code, names_in, simple, statement


class DetCompat:
    """Rewrites the imports of the files of one analysis, and nothing else."""

    def __init__(self, analysis: Analysis, sources: dict[Path, bytes]) -> None:
        self._analysis = analysis
        self._sources = sources
        self.problems: dict[Path, str] = {}

    def trials(self, path: Path) -> list[str]:
        """None: classes stay as they are."""
        return []

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a file; None if it has nothing to do with Determined.

        Raises:
            cst.ParserSyntaxError: LibCST cannot parse it.
        """
        facts = self._analysis.facts(path)
        if facts is None:
            return None
        tree, symbols = resolve(self._sources[path], facts)
        dotted = _DottedNames(symbols, _roots(tree))
        tree = tree.visit(dotted)
        return tree.visit(_Imports(dotted.kept, dotted.modules)).bytes


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

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        symbol = self._symbols.get(original_node)
        if symbol is None:
            return updated_node
        module = None if symbol.is_object else _module_of(symbol.path)
        if module is None or not names_in(symbol.original) & self._roots:
            self.kept |= names_in(symbol.original)
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
        small = simple(line)
        for each in small.names if isinstance(small, cst.Import) else ():
            name = code(each.name)
            if is_determined(name) and not _is_module(name, each):
                found.add(code(each.asname.name) if each.asname else name.partition(".")[0])
    return found


def _is_module(name: str, each: cst.ImportAlias) -> bool:
    """Whether an import binds a name to what is one module in det_compat."""
    return each.asname is not None and (home(name) or "") in _MODULES


class _Imports(cst.CSTTransformer):
    def __init__(self, kept: set[str], modules: set[str]) -> None:
        self._kept = kept
        self._modules = modules

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement] | cst.RemovalSentinel:
        small = simple(updated_node)
        if isinstance(small, cst.ImportFrom) and not small.relative and small.module:
            module = code(small.module)
            if is_determined(module):
                return _from(updated_node, small, module)
        if isinstance(small, cst.Import) and any(is_determined(code(a.name)) for a in small.names):
            return self._plain(updated_node, small)
        return updated_node

    def _plain(
        self, line: cst.SimpleStatementLine, small: cst.Import
    ) -> cst.FlattenSentinel[cst.BaseStatement] | cst.RemovalSentinel:
        made = [found for each in small.names for found in self._imported(each)]
        if not made:
            return cst.RemoveFromParent()
        leading = [*line.leading_lines, *getattr(made[0], "leading_lines", ())]
        made[0] = made[0].with_changes(leading_lines=leading)
        return cst.FlattenSentinel(made)

    def _imported(self, each: cst.ImportAlias) -> list[cst.BaseStatement]:
        name = code(each.name)
        text = code(each.with_changes(comma=cst.MaybeSentinel.DEFAULT))
        if not is_determined(name):
            return [statement(f"import {text}")]
        if _is_module(name, each):
            return [statement(f"import {home(name)} as {text.rpartition(' ')[2]}")]
        modules, self._modules = sorted(self._modules), set()
        made = [statement(f"import {module}") for module in modules]
        bound = code(each.asname.name) if each.asname else name.partition(".")[0]
        if bound in self._kept:
            message = f"{name} has no such place in det_compat"
            made.append(marked(statement(f"import {text}"), message))
        return made


def _from(
    line: cst.SimpleStatementLine, small: cst.ImportFrom, module: str
) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
    if isinstance(small.names, cst.ImportStar):
        return _moved(line, small, module, home(module))
    groups: dict[str | None, list[cst.ImportAlias]] = {}
    for each in small.names:
        where = home(f"{module}.{code(each.name)}")
        is_renamed = where is not None and where.rpartition(".")[2] != code(each.name)
        key = None if where is None or is_renamed else where.rpartition(".")[0]
        groups.setdefault(key, []).append(each)
    if len(groups) == 1:
        return _moved(line, small, module, next(iter(groups)))
    lines = [
        _moved(line, _with_names(small, names), module, where) for where, names in groups.items()
    ]
    lines[1:] = [other.with_changes(leading_lines=_marks(other)) for other in lines[1:]]
    return cst.FlattenSentinel(lines)


def _marks(line: cst.BaseStatement) -> list[cst.EmptyLine]:
    lines = getattr(line, "leading_lines", ())
    return [line for line in lines if line.comment and "MIGRATE" in line.comment.value]


def _with_names(small: cst.ImportFrom, names: list[cst.ImportAlias]) -> cst.ImportFrom:
    names[-1] = names[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    names = [
        name.with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
        for name in names[:-1]
    ] + names[-1:]
    return small.with_changes(names=names, lpar=None, rpar=None)


def _moved(
    line: cst.SimpleStatementLine, small: cst.ImportFrom, module: str, where: str | None
) -> cst.BaseStatement:
    if where is None:
        kept = line.with_changes(body=[small])
        return marked(kept, f"{module} has no such place in det_compat")
    return line.with_changes(body=[small.with_changes(module=_dotted(where))])


def _dotted(name: str) -> cst.Name | cst.Attribute:
    found = cst.parse_expression(name)
    assert isinstance(found, (cst.Name, cst.Attribute))
    return found
