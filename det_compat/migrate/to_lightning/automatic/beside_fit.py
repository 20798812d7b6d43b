"""The validations that a script has beside ``fit()``: of the last batch, and before the first one.

They were part of Determined's ``fit()``, and are calls of ``Trainer.validate`` now.
"""

import re
from collections.abc import Container

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.file import Line, Lines
from det_compat.migrate.tree.marks import above

_COMPARED = re.compile(r'((?:\w+\.)?trainer)\.state\.fn (==|!=) "fit"')
_KEPT = "fit_callbacks"
_SAID = "# the validations beside fit() have the callbacks that it had"


def begins_with_validation(elsewhere: Elsewhere) -> bool:
    """Whether some script has one before the first batch."""
    given = [fit.get("step_zero_validation") for fit in elsewhere.fits]
    return any(getattr(each, "value", each) not in (None, False) for each in given)


def with_kept_callbacks(method: cst.FunctionDef, elsewhere: Elsewhere) -> cst.FunctionDef:
    """A ``configure_callbacks`` that makes them anew for each ``fit()`` alone.

    Lightning asks for them in each call of the Trainer, and those that it gets take the place of
    those that had followed the training.
    """
    if not elsewhere.fits:
        return method
    name = f"{syntax.self_name(method)}.{_KEPT}"
    test = f'hasattr({syntax.self_name(method)}, "{_KEPT}")'
    if not begins_with_validation(elsewhere):
        test = f'{syntax.self_name(method)}.trainer.state.fn != "fit" and {test}'
    first = syntax.statement(f"if {test}:\n    return {name}\n")
    made = method.with_changes(body=syntax.transformed(method.body, _Keeping(name)))
    said = above(first, [cst.EmptyLine(comment=cst.Comment(_SAID))])
    return syntax.with_body(made, syntax.below_docstring(syntax.body_of(made), [said]))


class _Keeping(cst.CSTTransformer):
    """Keeps in an attribute what a method returns, wherever it does."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def visit_FunctionDef(self, node: cst.FunctionDef | cst.ClassDef) -> bool:
        return False

    visit_ClassDef = visit_FunctionDef

    def leave_Return(
        self, original: cst.Return, updated: cst.Return
    ) -> cst.Return | cst.FlattenSentinel[cst.BaseSmallStatement]:
        name = syntax.expression(self._name)
        if updated.value is None:
            return updated
        return cst.FlattenSentinel([syntax.assignment(name, updated.value), cst.Return(name)])

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        if len(updated.body) == len(original.body):
            return updated
        *before, last = updated.body
        kept = updated.with_changes(body=before)
        return cst.FlattenSentinel([kept, cst.SimpleStatementLine([last])])


def with_last_validation(tree: cst.Module, before: cst.Module, elsewhere: Elsewhere) -> cst.Module:
    """The file, whose new conditions hold in the validation that a script has below ``fit()``, too.

    The last batch is validated there, which was part of Determined's ``fit()``.
    """
    if not elsewhere.fits:
        return tree
    there = {syntax.code(each) for each in syntax.find(before, cst.Comparison)}
    return syntax.transformed(tree, _Counting(there))


#: The parentheses around a condition on a line of its own, where one line is too long for both.
_LONG = 50
_OPENING = cst.LeftParen(
    cst.ParenthesizedWhitespace(indent=True, last_line=cst.SimpleWhitespace("    "))
)
_CLOSING = cst.RightParen(cst.ParenthesizedWhitespace(indent=True))


class _Counting(cst.CSTTransformer):
    """Has conditions hold behind steps, too: the Trainer of another validation has made none."""

    def __init__(self, there: Container[str]) -> None:
        super().__init__()
        self._there = there
        self._is_long = False

    def visit_If(self, node: cst.If) -> None:
        self._is_long = len(syntax.code(node.test)) > _LONG

    def leave_Comparison(
        self, original: cst.Comparison, updated: cst.Comparison
    ) -> cst.BaseExpression:
        text = syntax.code(updated)
        found = None if text in self._there else _COMPARED.fullmatch(text)
        if found is None:
            return updated
        if found[2] == "!=":
            return syntax.expression(f"{text} and not {found[1]}.global_step")
        made = syntax.expression(f"({text} or {found[1]}.global_step > 0)")
        assert isinstance(made, cst.BooleanOperation)
        return made.with_changes(lpar=[_OPENING], rpar=[_CLOSING]) if self._is_long else made

    def leave_If(self, original: cst.If, updated: cst.If) -> cst.If:
        is_other = updated.test is not original.test
        if is_other and isinstance(original.test, cst.Comparison):
            return updated.with_changes(test=updated.test.with_changes(lpar=[], rpar=[]))
        return updated
