"""PEDL's names become those of Determined, before trials are brought into the context API.

What only a run knows is handed on: ``pedl.get_hyperparameter`` becomes an item of a parameter
``hparams`` of the function or class that asked, and the context's answer in a trial.
"""

import ast
import re
from collections.abc import Sequence
from pathlib import Path

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.analysis.scopes import Name, Scope
from det_compat.catalog.support import home
from det_compat.migrate.target import Problems, Target
from det_compat.migrate.to_context.pedl_needs import (
    DATA_CONFIG,
    DATA_DIR,
    HPARAMS,
    Needs,
    getter,
    parameters,
)
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.facts import Analysis, Facts
from det_compat.migrate.tree.file import Line
from det_compat.migrate.tree.imports import added, bound_name, dropping, keeping
from det_compat.migrate.tree.transformers import LocatingTransformer, located, parsed, with_more

_IN_TRIAL = {
    HPARAMS: "{0}.context.get_hparams()",
    DATA_CONFIG: "{0}.context.get_data_config()",
    DATA_DIR: "{0}.download_data_dir",
}
_STEP_MODE = re.compile(r"\bStepMode\.\w+$")
_SCHEDULER = "det_compat.pedl.frameworks.pytorch.LRScheduler"
#: What its wrapper of schedulers took behind these, in order.
_FLAGS = ("step_every_batch", "step_every_epoch")


class PedlNames(Target):
    """Rewrites the files of one analysis that refer to ``pedl``."""

    def __init__(self, analysis: Analysis, sources: dict[Path, bytes], problems: Problems) -> None:
        super().__init__(analysis, sources, problems)
        self._needs = Needs(analysis)
        self._has_pedl = any(b"pedl" in source for source in sources.values())

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a file; None if it has nothing to do with PEDL."""
        facts, found = self.analysis.facts(path), self.analysis.code(path)
        source = self.sources[path]
        if facts is None or found is None or not self._has_pedl:
            return None
        asks = (getter(v) is not None or self._needs.called(v) for v in facts.all_values)
        if b"pedl" not in source and not any(asks):
            return None
        scopes = {
            scope.node.lineno: scope
            for scope in (*found.functions, *found.classes)
            if isinstance(scope.node, ast.stmt)
        }
        getters = _Getters(facts, self._needs, scopes)
        tree = located(parsed(source), getters)
        if not getters.has_changed and b"pedl" not in source:
            return None
        return with_error_rate(in_determined(tree), getters.error_rate).bytes


class _Getters(LocatingTransformer):
    def __init__(self, facts: Facts, needs: Needs, scopes: dict[int, Scope]) -> None:
        super().__init__()
        self._facts = facts
        self._needs = needs
        self._scopes = scopes
        self.has_changed = False
        self.error_rate = ""

    def _scope(self, node: cst.FunctionDef | cst.ClassDef) -> Scope | None:
        return self._scopes.get(self.span(node.name)[0])

    def leave_FunctionDef(
        self, original: cst.FunctionDef, updated: cst.FunctionDef
    ) -> cst.FunctionDef:
        scope = self._scope(original)
        needed = self._needs.of(scope) if scope is not None and not self.around else []
        return _with_parameters(updated, needed)

    def leave_ClassDef(self, original: cst.ClassDef, updated: cst.ClassDef) -> cst.ClassDef:
        scope = self._scope(original)
        if scope is None or self.around:
            return updated
        return _with_init(updated, self._needs.of(scope), self._needs.stored(scope))

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.Name:
        values = self._facts.values(self.span(original))
        paths = {home(value.path) for value in values if isinstance(value, Name)}
        if paths == {"det_compat.pedl.frameworks.pytorch.util.error_rate"}:
            self.error_rate = original.value
        return updated

    def leave_SimpleStatementLine(
        self, original: cst.SimpleStatementLine, updated: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        # A variable may have the name of the parameter that is what was asked for.
        is_new = syntax.is_idle(updated) and not syntax.is_idle(original)
        return cst.RemoveFromParent() if is_new else updated

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        values = self._facts.values(self.span(original.func))
        kind = getter(values)
        if kind is not None:
            return self._answer(kind, updated)
        if {home(value.path) for value in values if isinstance(value, Name)} == {_SCHEDULER}:
            return _with_flags(updated)
        target = self._needs.called(values)
        if target is None:
            return updated
        given = [(name, self._value(name)) for name in self._needs.of(target)]
        if any(value is None for _, value in given):
            return updated
        self.has_changed = True
        text = ", ".join(f"{name}={value}" for name, value in given)
        more = ensure_type(syntax.expression(f"f({text})"), cst.Call).args
        return with_more(updated, more)

    def _answer(self, kind: str, call: cst.Call) -> cst.BaseExpression:
        value = self._value(kind)
        if value is None:
            return call
        self.has_changed = True
        if kind != HPARAMS:
            return syntax.expression(value)
        name = syntax.argument(call, 0, "name")
        if name is None:
            return call
        if value.endswith(".get_hparams()"):
            return syntax.expression(f"{value.removesuffix('s()')}({syntax.code(name)})")
        return syntax.expression(f"{value}[{syntax.code(name)}]")

    def _value(self, kind: str) -> str | None:
        """The expression for what is asked for, where it is asked; None outside of functions."""
        scopes = [scope for node in self.around if (scope := self._scope(node)) is not None]
        scope = scopes[-1] if scopes else None
        if scope is None:
            return None
        unit = self._needs.unit_of(scope)
        if unit is not None and self._needs.is_left(unit):
            return None
        own = syntax.self_name(self.functions[0]) if self.functions else "self"
        if unit is None:
            return kind if kind in parameters(scope) else _IN_TRIAL[kind].format(own)
        if unit.kind == "class":
            in_init = any(found.name == "__init__" for found in scopes)
            return kind if in_init else f"{own}.{kind}"
        if kind == DATA_CONFIG and kind not in self._needs.of(unit):
            return 'experiment_config["data"]'
        return kind


def _with_flags(wrapper: cst.Call) -> cst.Call:
    """PEDL's wrapper of a scheduler with its flags by name: Determined's has a step mode there."""
    by_place = [arg for arg in wrapper.args if arg.keyword is None]
    if any(arg.star for arg in by_place):
        return wrapper
    named = dict(zip(by_place[1:], _FLAGS, strict=False))
    args = [
        arg.with_changes(keyword=cst.Name(named[arg]), equal=syntax.EQUAL) if arg in named else arg
        for arg in wrapper.args
    ]
    # Any step mode is true.
    args = [
        arg.with_changes(value=cst.Name("True"))
        if _STEP_MODE.search(syntax.code(arg.value))
        else arg
        for arg in args
    ]
    return wrapper.with_changes(args=args)


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
    keyword = syntax.without_commas([*params.kwonly_params, *own])
    return method.with_changes(params=params.with_changes(star_arg=star, kwonly_params=keyword))


def _parameter(name: str, is_annotated: bool) -> cst.Param:
    annotation = syntax.annotation("str" if name == DATA_DIR else "dict")
    return cst.Param(cst.Name(name), annotation if is_annotated else None)


def _with_more(params: Sequence[cst.Param], more: list[cst.Param]) -> list[cst.Param]:
    """Parameters with others behind them, on the line of the last one."""
    if not params:
        return more
    *first, last = params
    more[-1] = more[-1].with_changes(
        comma=last.comma, whitespace_after_param=last.whitespace_after_param
    )
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    after = cst.SimpleWhitespace("")
    return [*first, last.with_changes(comma=comma, whitespace_after_param=after), *more]


def _with_init(node: cst.ClassDef, needed: list[str], stored: list[str]) -> cst.ClassDef:
    if not needed:
        return node
    body = [*syntax.body_of(node)]
    init = syntax.methods(node).get("__init__")
    if init is None:
        if not stored:
            return node
        made = syntax.statement("def __init__(self):\n    super().__init__()\n")
        init = ensure_type(made, cst.FunctionDef)
        body = syntax.below_docstring(body, [init])
    changed = _storing(_with_parameters(init, needed), stored, node)
    return syntax.with_body(node, [changed if line is init else line for line in body])


def _storing(init: cst.FunctionDef, names: list[str], node: cst.ClassDef) -> cst.FunctionDef:
    """The method that keeps what others need, first of all: a base's ``__init__`` may call them."""
    if not names:
        return init
    own = syntax.self_name(init)
    body = [*syntax.body_of(init)]
    lines = syntax.statements("".join(f"{own}.{name} = {name}\n" for name in names))
    calls = [syntax.call_of(line) for line in body]
    if all(syntax.code(base.value).endswith("nn.Module") for base in node.bases):
        # That of a module calls no method that this class has.
        for at, call in enumerate(calls, 1):
            if call and syntax.code(call.func).endswith("__init__"):
                return syntax.with_body(init, [*body[:at], *lines, *body[at:]])
    return syntax.with_body(init, syntax.below_docstring(body, lines))


_MODULES = ("pedl.frameworks.pytorch", "pedl.frameworks.pytorch.data")
_ERROR_RATE = '''\
def {0}(predictions: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The share of predictions, one row each, whose largest column is not the label."""
    return (predictions.argmax(1) != labels).float().mean()
'''


def in_determined(tree: cst.Module) -> cst.Module:
    """The file with imports of ``determined.pytorch``, and of pedl only what is still used."""
    used = {
        name
        for line in tree.body
        if not isinstance(syntax.simple(line), (cst.Import, cst.ImportFrom))
        for name in syntax.names_in(line) | _quoted(line)
    }
    return dropping(tree, _Imports(used))


def _quoted(line: cst.CSTNode) -> set[str]:
    """Names in annotations that are texts."""
    return {
        name
        for found in syntax.find(line, cst.Annotation)
        for text in syntax.find(found, cst.SimpleString)
        for name in str(text.evaluated_value).replace(".", " ").split()
    }


class _Imports(cst.CSTTransformer):
    def __init__(self, used: set[str]) -> None:
        self._used = used

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.Attribute:
        if syntax.code(original) in _MODULES:
            return _PYTORCH.deep_clone()
        return updated

    def leave_SimpleStatementLine(
        self, original: Line, updated: Line
    ) -> Line | cst.RemovalSentinel:
        small = syntax.simple(updated)
        if isinstance(small, cst.Import):
            return self._plain(updated, small)
        old = syntax.simple(original)
        if not isinstance(old, cst.ImportFrom) or old.module is None or old.relative:
            return updated
        module = syntax.code(old.module)
        if module.partition(".")[0] != "pedl" or isinstance(old.names, cst.ImportStar):
            return updated
        if [f"{module}.{a.evaluated_name}" for a in old.names] == [_MODULES[1]]:
            text = f"from determined import pytorch as {bound_name(old.names[0])}"
            return updated.with_changes(body=[ensure_type(syntax.statement(text), Line).body[0]])
        gone = {"error_rate"} if module == "pedl.frameworks.pytorch.util" else set()
        if module == "pedl":
            gone = {a.evaluated_name for a in old.names if bound_name(a) not in self._used}
        return keeping(updated, [a for a in old.names if a.evaluated_name not in gone])

    def _plain(self, line: Line, small: cst.Import) -> Line | cst.RemovalSentinel:
        used = (a for a in small.names if a.evaluated_name != "pedl" or bound_name(a) in self._used)
        return keeping(line, [*used])


_PYTORCH = cst.Attribute(cst.Name("determined"), cst.Name("pytorch"))


def with_error_rate(tree: cst.Module, name: str) -> cst.Module:
    """The file with PEDL's ``error_rate`` as a function of its own, if it uses it."""
    if not name:
        return tree
    return added(syntax.with_definition(tree, _ERROR_RATE.format(name)), ["import torch"])
