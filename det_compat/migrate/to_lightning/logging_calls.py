"""What a method returned, logged instead."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from det_compat.migrate.tree.marks import above, comments_of, marked
from det_compat.migrate.tree.shapes import assigned, is_many, is_no_number, is_reduced_in_part
from det_compat.migrate.tree.syntax import body_of, code, expression, simple, statements, with_body


class Logged:
    """Turns the metrics that a method returns into calls of ``self.log``.

    Args:
        own: the method's name for its object.
        options: the keyword arguments of every call, as text that begins with a comma.
        loss: the name of the loss, which may be returned in place of a dict.
        renamed: metrics that are logged under another name.
        reduction: what the metrics of a batch that are several numbers are reduced by, as their
            batches are; ``""`` if they are not reduced, and so cannot be logged.
    """

    def __init__(
        self,
        own: str,
        options: str = "",
        loss: str = "",
        renamed: dict[str, str] | None = None,
        reduction: str = "mean",
    ) -> None:
        self._own = own
        self._options = options
        self._loss = loss
        self._renamed = renamed or {}
        self._reduction = reduction
        self._known: dict[str, cst.BaseExpression | None] = {}
        self._left_out: list[str] = []

    def in_method(self, method: cst.FunctionDef, last: str = "") -> cst.FunctionDef:
        """The method; ``last`` is a statement to end with."""
        self._known = assigned(method)
        body = [*body_of(method)]
        end = statements(f"{last}\n") if last else []
        if body and isinstance(simple(body[-1]), cst.Return):
            given = body.pop()
            lines = [*self._lines(given), *end]
            if lines:
                leading = given.leading_lines  # type: ignore[attr-defined]
                own = lines[0].leading_lines  # type: ignore[attr-defined]
                lines[0] = lines[0].with_changes(leading_lines=[*leading, *own])
            end = lines
        rest = cst.IndentedBlock(body).visit(_Returns(self))
        assert isinstance(rest, cst.IndentedBlock)
        return with_body(method, [*rest.body, *end])

    def _lines(self, line: cst.BaseStatement) -> list[cst.BaseStatement]:
        small = simple(line)
        assert isinstance(small, cst.Return)
        self._left_out = []
        text = self.text(small.value)
        lines = statements(f"{text}\n") if text else []
        if self._left_out and lines:
            names = ", ".join(self._left_out)
            lines[0] = marked(lines[0], f"Lightning logs numbers, and {names} is none")
        return lines

    def early(self, line: cst.SimpleStatementLine) -> list[cst.BaseStatement]:
        """What takes the place of a return before the end."""
        lines = self._lines(line)
        rest = statements("return\n")
        if not lines:
            return [above(rest[0], comments_of(line))]
        return [above(lines[0], comments_of(line)), *lines[1:], *rest]

    def text(self, metrics: cst.BaseExpression | None) -> str:
        """The call that logs ``metrics``; empty if there are none."""
        if metrics is None or code(metrics) in ("None", "{}", "dict()"):
            return ""
        if code(metrics) == self._loss:
            return f'{self._own}.log("loss", {self._loss}{self._options})'
        if not isinstance(metrics, cst.Dict):
            return f"{self._own}.log_dict({code(metrics)}{self._options})"
        named = [made for found in metrics.elements if (made := self._element(found)) is not None]
        if not named:
            return ""
        if len(named) < len(metrics.elements):
            named[-1] = named[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        if len(named) == 1 and isinstance(named[0], cst.DictElement):
            key, value = code(named[0].key), code(named[0].value)
            return f"{self._own}.log({key}, {value}{self._options})"
        return f"{self._own}.log_dict({code(metrics.with_changes(elements=named))}{self._options})"

    def _element(self, element: cst.BaseDictElement) -> cst.BaseDictElement | None:
        """An entry of the metrics as it is logged; None if it cannot be."""
        value, key = element.value, getattr(element, "key", None)
        if is_no_number(value) or (not self._reduction and is_many(value, self._known)):
            self._left_out.append(code(key) if key is not None else code(value))
            return None
        if is_many(value, self._known) or is_reduced_in_part(value):
            made = f"torch.as_tensor({code(value)}).float().{self._reduction or 'mean'}()"
            element = element.with_changes(value=expression(made))
        if not isinstance(key, cst.SimpleString) or key.evaluated_value not in self._renamed:
            return element
        name = self._renamed[str(key.evaluated_value)]
        return element.with_changes(key=cst.SimpleString(f'"{name}"'))


class _Returns(cst.CSTTransformer):
    def __init__(self, logged: Logged) -> None:
        self._logged = logged

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        return False

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        small = simple(updated_node)
        if not isinstance(small, cst.Return) or small.value is None:
            return updated_node
        return cst.FlattenSentinel(self._logged.early(updated_node))


def parameters(names: Sequence[str | cst.Param]) -> cst.Parameters:
    """Parameters, each by name or with its annotation."""
    return cst.Parameters(
        [name if isinstance(name, cst.Param) else cst.Param(cst.Name(name)) for name in names]
    )
