"""What both loaders of a trial do, and only the first time."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_LOADERS = ("build_training_data_loader", "build_validation_data_loader")


def leave_out_shared(methods: Mapping[str, _Function]) -> None:
    """Take away what both loaders begin with, and only the one that is made first does.

    Which of the two that is makes no difference to ``if not self.done: ...; self.done = True``.
    """
    if not {*_LOADERS} <= methods.keys():
        return
    training, validation = (methods[name] for name in _LOADERS)
    at, start = (ast.get_docstring(each) is not None for each in (training, validation))
    for line in validation.body[start:]:
        shared = [*map(_text, training.body[at : at + 1])]
        if [_text(line)] != shared or not all(
            _is_done_once(each, validation.args.args, methods) for each in _called(line, methods)
        ):
            return
        del training.body[at]


def _called(line: ast.stmt, methods: Mapping[str, _Function]) -> list[ast.stmt]:
    """What a statement does: that of a method which it calls with nothing, and that it is."""
    call = line.value if isinstance(line, ast.Expr) else None
    if not isinstance(call, ast.Call) or call.args or call.keywords:
        return [line]
    owner, _, name = ast.unparse(call.func).rpartition(".")
    found = methods.get(name)
    if found is None or [owner] != [each.arg for each in found.args.args]:
        return [line]
    return found.body[ast.get_docstring(found) is not None :]


def _text(line: ast.stmt) -> str:
    """The code of a statement, in which each placeholder that is asked as a context is the same."""
    return re.sub(r"\b__det_\d+__(?=\.get_)", "context", ast.unparse(line))


def _is_done_once(
    line: ast.stmt, given: Sequence[ast.arg], methods: Mapping[str, _Function]
) -> bool:
    """Whether a statement is done once by itself, and sets no variable of the method.

    A method that it calls may end before with nothing done.
    """
    if not isinstance(line, ast.If) or line.orelse or len(given) != 1:
        return False
    flag = re.fullmatch(rf"not ({given[0].arg}\.\w+)", ast.unparse(line.test))
    done = _called(line.body[-1], methods)
    is_set = flag is not None and ast.unparse(done[-1]) == f"{flag[1]} = True"
    while done and any(isinstance(node, ast.Return) for each in done for node in ast.walk(each)):
        is_set &= _is_idle(done.pop(0))
    binding = (ast.Return, ast.Import, ast.ImportFrom)
    return is_set and not any(
        isinstance(node, binding)
        or (isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load))
        for node in ast.walk(line)
    )


def _is_idle(line: ast.stmt) -> bool:
    """Whether a statement only sets variables, or looks for a reason to return."""
    nodes = [*ast.walk(line)]
    calls = (ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call))
    stores = (n for n in nodes if isinstance(n, (ast.Attribute, ast.Subscript)))
    is_storing = any(not isinstance(node.ctx, ast.Load) for node in stores)
    return not is_storing and all(map(_LOOKING.fullmatch, calls))


_LOOKING = re.compile(r".*\.get(_data_config|_hparams?)?|os\.path\.\w+")


def is_text(value: ast.expr) -> bool:
    """Whether a value is known to be a text, which is never changed but replaced by another."""
    if isinstance(value, ast.BinOp):
        return is_text(value.left) or is_text(value.right)
    if isinstance(value, ast.Call):
        return ast.unparse(value.func) == "str"
    is_constant = isinstance(value, ast.Constant) and isinstance(value.value, str)
    return is_constant or isinstance(value, ast.JoinedStr)
