"""The callbacks of a trial, which Determined had in a dict, and Lightning has in a list."""

import functools
import re
from collections.abc import Collection, Iterator

import libcst as cst

from det_compat.migrate.to_lightning.automatic.beside_fit import with_kept_callbacks
from det_compat.migrate.to_lightning.plan import LightningFile, TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line
from det_compat.migrate.tree.marks import marked

#: What a base gives, as it was called and as it is now, which is a list.
_ASKED = re.compile(r"super\([^()]*\)\.build_callbacks\(\)")
_BASE = re.compile(r"super\([^()]*\)\.configure_callbacks\(\)")
_OTHERWISE = "super().configure_callbacks() gives a list, and this was a dict"


class _Adding(cst.CSTTransformer):
    """Writes what adds callbacks to those of the base as what adds to a list.

    Attributes:
        lists: the variables that are lists now.
        keys: what the added ones were called, as code.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lists: list[str] = []
        self.keys: list[str] = []

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        if not _ASKED.fullmatch(syntax.code(updated)):
            return updated
        text = syntax.code(updated).replace(".build_callbacks", ".configure_callbacks")
        made = syntax.expression(text)
        assert isinstance(made, cst.Call)
        return made

    def leave_Dict(self, original: cst.Dict, updated: cst.Dict) -> cst.BaseExpression:
        made = _listed(updated) if _has_base(updated) else updated
        if isinstance(made, cst.List):
            self.keys += _keys(updated)
        return made

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Line:
        small, call = syntax.simple(updated), syntax.call_of(updated)
        target = syntax.target_of(updated) or ""
        value = getattr(small, "value", None)
        if call is not None and syntax.code(call.func) == "dict" and len(call.args) == 1:
            value = call.args[0].value
        text = "" if value is None else syntax.code(value)
        is_list = bool(_BASE.fullmatch(text)) or (isinstance(value, cst.List) and _has_base(value))
        if target.isidentifier() and is_list and small is not None:
            self.lists.append(target)
            own = syntax.expression(f"[*{text}]" if _BASE.fullmatch(text) else text)
            return updated.with_deep_changes(small, value=own)
        owner, _, rest = target.partition("[")
        if rest and owner in self.lists and value is not None:
            self.keys.append(rest.removesuffix("]"))
            return updated.with_changes(body=[_call(f"{owner}.append", value)])
        lone = syntax.lone_call(updated)
        called = "" if lone is None else syntax.code(lone.func)
        owner, _, name = called.rpartition(".")
        given = lone.args[0].value if lone is not None and len(lone.args) == 1 else None
        if owner in self.lists and name == "update" and isinstance(given, cst.Dict):
            self.keys += _keys(given)
            return updated.with_changes(body=[_call(f"{owner}.extend", _listed(given))])
        return updated


def _call(name: str, value: cst.BaseExpression) -> cst.Expr:
    return cst.Expr(cst.Call(syntax.expression(name), [cst.Arg(value)]))


def _has_base(value: cst.Dict | cst.List) -> bool:
    return any(_BASE.fullmatch(syntax.code(each.value)) for each in value.elements)


def _keys(made: cst.Dict) -> list[str]:
    return [syntax.code(e.key) for e in made.elements if isinstance(e, cst.DictElement)]


def _with_those_of_base(
    line: cst.FunctionDef, plan: TrialPlan, file: LightningFile
) -> tuple[cst.FunctionDef, list[str]]:
    """A method that asks its base for a list, and the variables that are lists in it.

    It has a mark if it does with that what only a dict can, or has another of the same name.
    """
    if not any(_ASKED.fullmatch(syntax.code(call)) for call in syntax.find(line, cst.Call)):
        return line, []
    adding = _Adding()
    made = syntax.transformed(line, adding)
    texts = [file.elsewhere.texts.get(each.own.name, "") for each in plan.ancestors[1:]]
    replaces = any(key in text for key in adding.keys for text in texts)
    text = syntax.code(made.body)
    known = len(re.findall(rf"(?:\*|return ){_BASE.pattern}", text))
    # A variable is set, added to and returned.
    lists = "|".join(adding.lists)
    plain = re.compile(rf"(?:return )?({lists})(?: = .*|\.(?:append|extend)\(.*)?")
    lines = [line.strip() for line in text.splitlines()]
    used = [line for line in lines if lists and re.search(rf"\b({lists})\b", line)]
    is_plain = all(map(plain.fullmatch, used))
    if replaces or len(_BASE.findall(text)) > known or not is_plain:
        made = marked(made, _OTHERWISE)
    return made, adding.lists


def configure_callbacks(
    line: cst.FunctionDef, node: cst.ClassDef, plan: TrialPlan, file: LightningFile
) -> cst.FunctionDef:
    """What becomes of build_callbacks, which returned a dict of them."""
    line, lists = _with_those_of_base(line, plan, file)
    body = syntax.transformed(line.body, _ListReturns(lists))
    returns = None if line.returns is None else syntax.annotation("list[pl.Callback]")
    made = line.with_changes(name=cst.Name("configure_callbacks"), body=body, returns=returns)
    made = with_kept_callbacks(made, file.elsewhere)
    unread = (name for name in _makers(line, node, file) if file.elsewhere.is_unread(name))
    return functools.reduce(marked, map(_UNREAD.format, dict.fromkeys(unread)), made)


_UNREAD = "{0} is in none of these files, and has to be a callback of Lightning"


def _makers(line: cst.FunctionDef, node: cst.ClassDef, file: LightningFile) -> Iterator[str]:
    """What is called to make the callbacks, but for what is marked, since it takes a context."""
    pairs = [each for found in syntax.find(node, cst.Assign) for each in syntax.pairs(found)]
    local = [each for found in syntax.find(line, cst.Assign) for each in syntax.pairs(found)]
    kept = [value for target, value in local if isinstance(target, cst.Subscript)]
    kept += [entry.value for entry in syntax.find(line, cst.DictElement)]
    for value in kept:
        made = [v for target, v in pairs if syntax.code(target) == syntax.code(value)] or [value]
        for call in made:
            if isinstance(call, cst.Call) and not any(map(file.symbols.is_context, _given(call))):
                yield syntax.code(call.func)


def _given(call: cst.Call) -> Iterator[cst.BaseExpression]:
    return (arg.value for arg in call.args)


class _ListReturns(cst.CSTTransformer):
    def __init__(self, lists: Collection[str]) -> None:
        super().__init__()
        # The variables that are lists already.
        self._lists = lists

    def visit_FunctionDef(self, node: cst.FunctionDef | cst.ClassDef) -> bool:
        return False

    visit_ClassDef = visit_FunctionDef

    def leave_Return(self, original: cst.Return, updated: cst.Return) -> cst.Return:
        value = updated.value
        if value is None or syntax.code(value) in self._lists or isinstance(value, cst.List):
            return updated
        if _BASE.fullmatch(syntax.code(value)):
            return updated
        return updated.with_changes(value=_listed(value))


def _listed(value: cst.BaseExpression) -> cst.BaseExpression:
    """The list of the values of a dict."""
    if isinstance(value, cst.IfExp):
        return value.with_changes(body=_listed(value.body), orelse=_listed(value.orelse))
    elements = value.elements if isinstance(value, cst.Dict) else ()
    if isinstance(value, cst.Dict) and all(
        isinstance(e, cst.DictElement) or _BASE.fullmatch(syntax.code(e.value)) for e in elements
    ):
        kinds = (
            cst.Element if isinstance(e, cst.DictElement) else cst.StarredElement for e in elements
        )
        return cst.List(
            [kind(e.value, comma=e.comma) for kind, e in zip(kinds, elements, strict=True)],
            lbracket=cst.LeftSquareBracket(value.lbrace.whitespace_after),
            rbracket=cst.RightSquareBracket(value.rbrace.whitespace_before),
        )
    is_plain = isinstance(value, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
    text = syntax.code(value) if is_plain else f"({syntax.code(value)})"
    return syntax.expression(f"list({text}.values())")
