"""PEDL's names become those of Determined, before trials are brought into the context API.

What only a run knows is handed on: ``pedl.get_hyperparameter`` becomes an item of a parameter
``hparams`` of the function or class that asked, and the context's answer in a trial.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from det_compat.analysis.scopes import Scope
from det_compat.analysis.values import Name
from det_compat.catalog.support import home
from det_compat.migrate.to_context.pedl_imports import in_determined, with_error_rate
from det_compat.migrate.to_context.pedl_needs import DATA_CONFIG, DATA_DIR, HPARAMS, Needs, getter
from det_compat.migrate.tree.facts import Analysis, Facts, Span
from det_compat.migrate.tree.syntax import (
    argument,
    body_of,
    call_of,
    code,
    expression,
    has_docstring,
    methods,
    self_name,
    statements,
    with_body,
)

_IN_TRIAL = {
    HPARAMS: "{0}.context.get_hparams()",
    DATA_CONFIG: "{0}.context.get_data_config()",
    DATA_DIR: "{0}.download_data_dir",
}


class PedlNames:
    """Rewrites the files of one analysis that refer to ``pedl``."""

    def __init__(self, analysis: Analysis, sources: dict[Path, bytes]) -> None:
        self._analysis = analysis
        self._sources = sources
        self._needs = Needs(analysis)
        self.problems: dict[Path, str] = {}

    def trials(self, path: Path) -> list[str]:
        """None: classes stay trials."""
        return []

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a file; None if it has nothing to do with PEDL.

        Raises:
            cst.ParserSyntaxError: LibCST cannot parse it.
        """
        facts, found = self._analysis.facts(path), self._analysis.code(path)
        source = self._sources[path]
        if facts is None or found is None:
            return None
        scopes = {
            scope.node.lineno: scope
            for scope in (*found.functions, *found.classes)
            if isinstance(scope.node, ast.stmt)
        }
        wrapper = MetadataWrapper(cst.parse_module(source))
        getters = _Getters(facts, self._needs, scopes)
        tree = wrapper.visit(getters)
        if not getters.has_changed and b"pedl" not in source:
            return None
        return with_error_rate(in_determined(tree), getters.error_rate).bytes


class _Getters(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, facts: Facts, needs: Needs, scopes: dict[int, Scope]) -> None:
        super().__init__()
        self._facts = facts
        self._needs = needs
        self._scopes = scopes
        self._around: list[Scope | None] = []
        self._selves: list[str] = []
        self.has_changed = False
        self.error_rate = ""

    def _span(self, node: cst.CSTNode) -> Span:
        found = self.get_metadata(PositionProvider, node)
        assert isinstance(found, CodeRange)
        return (found.start.line, found.start.column, found.end.line, found.end.column)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._around.append(self._scopes.get(self._span(node.name)[0]))
        self._selves.append(self_name(node))

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        scope = self._around.pop()
        self._selves.pop()
        needed = self._needs.of(scope) if scope is not None and not self._around else []
        return _with_parameters(updated_node, needed)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._around.append(self._scopes.get(self._span(node.name)[0]))

    def leave_ClassDef(
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.ClassDef:
        scope = self._around.pop()
        if scope is None or self._around:
            return updated_node
        return _with_init(updated_node, self._needs.of(scope), self._needs.stored(scope))

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        values = self._facts.values(self._span(original_node))
        paths = {home(value.path) for value in values if isinstance(value, Name)}
        if paths == {"det_compat.pedl.frameworks.pytorch.util.error_rate"}:
            self.error_rate = original_node.value
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        values = self._facts.values(self._span(original_node.func))
        kind = getter(values)
        if kind is not None:
            return self._answer(kind, updated_node)
        target = self._needs.called(values)
        if target is None:
            return updated_node
        given = [(name, self._value(name)) for name in self._needs.of(target)]
        if any(value is None for _, value in given):
            return updated_node
        self.has_changed = True
        args = [
            cst.Arg(expression(str(value)), keyword=cst.Name(name), equal=_EQUAL)
            for name, value in given
        ]
        return updated_node.with_changes(args=[*_with_commas(updated_node.args), *args])

    def _answer(self, kind: str, call: cst.Call) -> cst.BaseExpression:
        value = self._value(kind)
        if value is None:
            return call
        self.has_changed = True
        if kind != HPARAMS:
            return expression(value)
        name = argument(call, 0, "name")
        if name is None:
            return call
        if value.endswith(".get_hparams()"):
            return expression(f"{value.removesuffix('s()')}({code(name)})")
        return expression(f"{value}[{code(name)}]")

    def _value(self, kind: str) -> str | None:
        """What a place has of a kind; None if it has nothing."""
        scope = next((found for found in self._around[::-1] if found is not None), None)
        if scope is None:
            return None
        unit = self._needs.unit_of(scope)
        own = self._selves[0] if self._selves else "self"
        if unit is None:
            return kind if kind in _names(scope) else _IN_TRIAL[kind].format(own)
        if unit.kind == "class":
            in_init = any(found is not None and found.name == "__init__" for found in self._around)
            return kind if in_init else f"{own}.{kind}"
        if kind == DATA_CONFIG and kind not in self._needs.of(unit):
            return 'experiment_config["data"]'
        return kind


def _names(scope: Scope) -> list[str]:
    """The parameters of a function."""
    is_function = isinstance(scope.node, (ast.FunctionDef, ast.AsyncFunctionDef))
    return [argument.arg for argument in scope.node.args.args] if is_function else []  # type: ignore[union-attr]


_EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
_COMMA = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def _with_commas(args: object) -> list[cst.Arg]:
    return [arg.with_changes(comma=_COMMA) for arg in args]  # type: ignore[attr-defined]


def _with_parameters(method: cst.FunctionDef, names: list[str]) -> cst.FunctionDef:
    params = method.params
    there = {p.name.value for p in (*params.params, *params.kwonly_params)}
    names = [name for name in names if name not in there]
    if not names:
        return method
    is_annotated = method.returns is not None
    own = [_parameter(name, is_annotated) for name in names]
    is_plain = not any(p.default is not None for p in params.params)
    if is_plain and not params.kwonly_params and not isinstance(params.star_arg, cst.Param):
        params = params.with_changes(params=_with_more(params.params, own))
        return method.with_changes(params=params)
    star = params.star_arg if isinstance(params.star_arg, cst.Param) else cst.ParamStar()
    kept = [p.with_changes(comma=cst.MaybeSentinel.DEFAULT) for p in params.kwonly_params]
    return method.with_changes(
        params=params.with_changes(star_arg=star, kwonly_params=[*kept, *own])
    )


def _parameter(name: str, is_annotated: bool) -> cst.Param:
    annotation = cst.Annotation(cst.Name("str" if name == DATA_DIR else "dict"))
    return cst.Param(cst.Name(name), annotation if is_annotated else None)


def _with_more(params: Sequence[cst.Param], more: list[cst.Param]) -> list[cst.Param]:
    """Parameters with others behind them, on the line of the last one."""
    if not params:
        return more
    *first, last = params
    more[-1] = more[-1].with_changes(
        comma=last.comma, whitespace_after_param=last.whitespace_after_param
    )
    after = cst.SimpleWhitespace("")
    return [*first, last.with_changes(comma=_COMMA, whitespace_after_param=after), *more]


def _with_init(node: cst.ClassDef, needed: list[str], stored: list[str]) -> cst.ClassDef:
    if not needed:
        return node
    body = [*body_of(node)]
    init = methods(node).get("__init__")
    if init is None:
        if not stored:
            return node
        made = cst.parse_statement("def __init__(self):\n    super().__init__()\n")
        assert isinstance(made, cst.FunctionDef)
        init = made
        body.insert(1 if has_docstring(body) else 0, init)
    changed = _storing(_with_parameters(init, needed), stored)
    return with_body(node, [changed if line is init else line for line in body])


def _storing(init: cst.FunctionDef, names: list[str]) -> cst.FunctionDef:
    if not names:
        return init
    own = self_name(init)
    body = [*body_of(init)]
    calls = [call_of(line) for line in body]
    after = [i for i, call in enumerate(calls) if call and code(call.func).endswith("__init__")]
    at = after[0] + 1 if after else 1 if has_docstring(body) else 0
    lines = statements("".join(f"{own}.{name} = {name}\n" for name in names))
    return with_body(init, [*body[:at], *lines, *body[at:]])
