"""Metrics that a callback adds at the end of a validation, which Determined reported."""

import libcst as cst

from det_compat.migrate.to_lightning.optimization.gradients import with_gradients
from det_compat.migrate.tree import syntax

_ENDS = ("on_validation_end", "on_validation_step_end")
#: Lightning logs nothing in the hook after this one.
_LOGGING = "on_validation_epoch_end"
_NUMBERS = ("float", "int", "len", "abs", "round")


def with_logging_hook(node: cst.ClassDef) -> tuple[cst.ClassDef, str]:
    """A callback whose hook at the end of a validation only adds numbers to the metrics.

    It logs them, at the end of what it does at the end of the validation's epoch.

    Returns:
        The callback, and the name of the hook that it has for that: ``""`` if it has none.
    """
    own = syntax.methods(node)
    ends = [own[name] for name in _ENDS if name in own]
    earlier = own.get(_LOGGING)
    if len(ends) != 1 or (earlier is not None and _asks(earlier)):
        return node, ""
    lines = _logging(ends[0])
    if lines is None:
        return node, ""
    before = syntax.body_of(earlier) if earlier is not None else ()
    header = f"def {_LOGGING}({syntax.self_name(ends[0])}, trainer, pl_module):\n    pass\n"
    made = with_gradients(syntax.with_body(syntax.method(header), [*before, *lines]))
    body = [
        made.with_changes(leading_lines=ends[0].leading_lines) if line is ends[0] else line
        for line in syntax.body_of(node)
        if line is not earlier
    ]
    return syntax.with_body(node, body), _LOGGING


def _asks(method: cst.FunctionDef) -> bool:
    """Whether a hook uses what it is given, or may return early."""
    given = {param.name.value for param in method.params.params[1:]}
    return bool(given & syntax.names_in(method.body)) or bool(syntax.returns(method))


def _logging(method: cst.FunctionDef) -> list[cst.BaseStatement] | None:
    """The statements of a hook that log what it adds; None if it does more with the metrics."""
    names = [param.name.value for param in method.params.params[1:]]
    lines: list[cst.BaseStatement] = []
    for line in syntax.body_of(method):
        small = syntax.simple(line)
        target = small.targets[0].target if isinstance(small, cst.Assign) else None
        if (
            isinstance(small, cst.Assign)
            and isinstance(target, cst.Subscript)
            and [syntax.code(target.value)] == names
            and _is_number(small.value)
        ):
            key = syntax.code(target.slice[0].slice)
            text = f"pl_module.log({key}, {syntax.code(small.value)})"
            line = line.with_changes(body=[cst.Expr(syntax.expression(text))])
        lines.append(line)
    uses = any(set(names) & syntax.names_in(line) for line in lines)
    is_adding = len(names) == 1 and names[0] in syntax.names_in(method.body)
    return lines if is_adding and not uses else None


def _is_number(value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.Call):
        is_plain = syntax.code(value.func) in _NUMBERS
        return is_plain or syntax.code(value.func).endswith(".item")
    return isinstance(value, (cst.Integer, cst.Float))
