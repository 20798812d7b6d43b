"""What a method returned, logged instead."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from det_compat.migrate.marks import above, comments_of
from det_compat.migrate.syntax import body_of, code, simple, statements, with_body


class Logged:
    """Turns the metrics that a method returns into calls of ``self.log``.

    Args:
        own: the method's name for its object.
        options: the keyword arguments of every call, as text that begins with a comma.
        loss: the name of the loss, which may be returned in place of a dict.
        renamed: metrics that are logged under another name.
    """

    def __init__(
        self, own: str, options: str = "", loss: str = "", renamed: dict[str, str] | None = None
    ) -> None:
        self._own = own
        self._options = options
        self._loss = loss
        self._renamed = renamed or {}

    def in_method(self, method: cst.FunctionDef, last: str = "") -> cst.FunctionDef:
        """The method; ``last`` is a statement to end with."""
        body = [*body_of(method)]
        end = statements(f"{last}\n") if last else []
        if body and isinstance(simple(body[-1]), cst.Return):
            given = body.pop()
            lines = [*self._lines(given), *end]
            if lines:
                leading = given.leading_lines  # type: ignore[attr-defined]
                lines[0] = lines[0].with_changes(leading_lines=leading)
            end = lines
        rest = cst.IndentedBlock(body).visit(_Returns(self))
        assert isinstance(rest, cst.IndentedBlock)
        return with_body(method, [*rest.body, *end])

    def _lines(self, line: cst.BaseStatement) -> list[cst.BaseStatement]:
        small = simple(line)
        assert isinstance(small, cst.Return)
        text = self.text(small.value)
        return statements(f"{text}\n") if text else []

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
        named = [self._element(element) for element in metrics.elements]
        if len(named) == 1 and isinstance(named[0], cst.DictElement):
            key, value = code(named[0].key), code(named[0].value)
            return f"{self._own}.log({key}, {value}{self._options})"
        return f"{self._own}.log_dict({code(metrics.with_changes(elements=named))}{self._options})"

    def _element(self, element: cst.BaseDictElement) -> cst.BaseDictElement:
        key = getattr(element, "key", None)
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
