"""Values that are no numbers: texts, dicts and None."""

from collections.abc import Collection, Sequence

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.tree.syntax import body_of, code, find, names_in, parts
from det_compat.migrate.tree.trial_attributes import values_set

_NO_NUMBERS = words("str repr format join classification_report")


def is_no_number(node: cst.BaseExpression, texts: Collection[str] = ()) -> bool:
    """Whether a value is sure to be a text or None, given the variables that are."""
    if isinstance(node, cst.IfExp):
        return is_no_number(node.body, texts) and is_no_number(node.orelse, texts)
    if isinstance(node, cst.Name):
        return node.value == "None" or node.value in texts
    if isinstance(node, cst.Call):
        is_text = code(node.func).rpartition(".")[2] in _NO_NUMBERS
        return is_text or (isinstance(node.func, cst.Attribute) and _is_text(node.func.value))
    return _is_text(node) or isinstance(node, cst.Lambda)


def is_dict(node: cst.BaseExpression) -> bool:
    """Whether a value is sure to be a dict."""
    made_by = code(node.func) if isinstance(node, cst.Call) else ""
    return isinstance(node, (cst.Dict, cst.DictComp)) or made_by.endswith(("dict", "asdict"))


def texts(method: cst.FunctionDef) -> set[str]:
    """The local variables that are set to a text, and never to anything else but None."""
    loops = [code(each.target) for each in find(method.body, cst.For)]
    others = {*loops, *(param.name.value for param in find(method, cst.Param))}
    values: dict[str, list[cst.BaseExpression]] = {}
    for target, value in values_set(method.body):
        for part in parts(target):
            values.setdefault(code(part), []).append(value if part is target else part)
    are_texts = {
        name
        for name, found in values.items()
        if all(map(is_no_number, found)) and any(code(value) != "None" for value in found)
    }
    return are_texts - others


def _is_text(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.BinaryOperation):
        return _is_text(node.left)
    return isinstance(node, cst.BaseString)


def may_be_none(node: cst.BaseExpression, nones: Collection[str]) -> bool:
    """Whether a value is a text, a dict or None at times, given the variables that are."""
    if isinstance(node, cst.IfExp):
        return any(
            is_no_number(part) or is_dict(part) or may_be_none(part, nones)
            for part in (node.body, node.orelse)
        )
    return isinstance(node, cst.Name) and node.value in nones


def nones(method: cst.FunctionDef) -> set[str]:
    """The local variables that are set to a text, a dict or None somewhere, and may stay so."""
    lines = body_of(method)
    return {
        code(target)
        for at, line in enumerate(lines)
        for target, value in values_set(line)
        if isinstance(target, cst.Name)
        and (is_no_number(value) or is_dict(value) or may_be_none(value, ()))
        if not _is_set_anew(target.value, lines[at + 1 :])
    }


def _is_set_anew(name: str, lines: Sequence[cst.BaseStatement]) -> bool:
    """Whether a variable gets another value on each way to what is returned below."""
    for line in lines:
        if any(find(line, cst.Return)):
            return False
        if isinstance(line, cst.SimpleStatementLine) and any(
            code(target) == name and name not in names_in(value)
            for target, value in values_set(line)
        ):
            return True
    return False
