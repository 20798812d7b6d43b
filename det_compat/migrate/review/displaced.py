"""What a module refuses, and a trial did not: another thing in the place of a model of torch's."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from det_compat.analysis.expressions import walked
from det_compat.migrate.review.project import Code, Finding, Text, methods, written

_MESSAGE = (
    "{0} is a model of torch's by then, and a LightningModule takes nothing else in its place: {1}"
)
_NO_MODELS = (
    *(ast.Lambda, ast.List, ast.Dict, ast.Tuple, ast.Set, ast.JoinedStr),
    *(ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp),
)
_OF_MODELS = ("parameters", "named_parameters", "state_dict", "load_state_dict")
_MOVING = ("to", "cuda", "cpu", "eval", "train", "half", "float")
_FUNCTIONAL = ("F.", "nn.functional.", "torch.nn.functional.")


class _Set(NamedTuple):
    """An assignment to an attribute of ``self``."""

    attribute: str
    value: ast.expr
    line: int
    method: ast.FunctionDef


def displaced(after: Code, text: Text) -> Iterator[Finding]:
    """The attributes of modules that keep a model of torch's, and later something else.

    A trial was no ``nn.Module``, so that it could keep a function where its base kept a loss.
    """
    families = [after.ancestors(node) for node in text.classes.values()]
    modules = [cls for bases, others in families if "pl.LightningModule" in others for cls in bases]
    for node in text.classes.values():
        # A mixin becomes part of a module, too.
        if node not in modules:
            continue
        bases, own = after.ancestors(node)[0], [*methods(node).values()]
        asked = {a for base in bases for a in _asked(base)}
        every = [each for base in bases for each in _sets(base)]
        kept = [each for each in every if _is_model(each.value, after, asked)]
        for each in _sets(node):
            same = [other for other in kept if other.attribute == each.attribute]
            is_kept = any(_comes_first(other, each, own) for other in same)
            if is_kept and _is_no_model(each.value, after):
                itself = f"self.{each.attribute}"
                is_used = any(written(found) == itself for found in ast.walk(each.value))
                way = "give one of them another name" if is_used else f"del {itself} before it"
                yield Finding(each.line, _MESSAGE.format(each.attribute, way))


def _sets(node: ast.ClassDef) -> Iterator[_Set]:
    for method in methods(node).values():
        for line in walked(method):
            targets = line.targets if isinstance(line, ast.Assign) else []
            if isinstance(line, ast.Assign) and len(targets) == 1:
                target = targets[0]
                if isinstance(target, ast.Attribute) and written(target.value) == "self":
                    yield _Set(target.attr, line.value, line.lineno, method)


def _asked(node: ast.ClassDef) -> set[str]:
    """The attributes that a class asks for what only models have."""
    found = (each for each in walked(node) if isinstance(each, ast.Attribute))
    return {written(each.value) for each in found if each.attr in _OF_MODELS}


def _is_model(value: ast.expr, after: Code, asked: set[str]) -> bool:
    if not isinstance(value, ast.Call):
        return False
    name = written(value.func)
    last = name.rpartition(".")[2]
    if isinstance(value.func, ast.Attribute) and value.func.attr in _MOVING:
        return _is_model(value.func.value, after, asked)
    if last == "deepcopy" and value.args:
        return written(value.args[0]) in asked
    if not name.startswith(("nn.", "torch.nn.")):
        return any(base.endswith("nn.Module") for base in after.bases_of(name))
    return last[:1].isupper()


def _is_no_model(value: ast.expr, after: Code) -> bool:
    if isinstance(value, ast.Call) and not written(value.func).count("."):
        bases = after.bases_of(written(value.func))
        return bool(bases) and bases <= {"object"}
    if isinstance(value, ast.Constant):
        return value.value is not None
    name = written(value)
    is_function = isinstance(value, ast.Name) and name in after.function_names
    return is_function or isinstance(value, _NO_MODELS) or name.startswith(_FUNCTIONAL)


def _comes_first(model: _Set, other: _Set, own: list[ast.FunctionDef]) -> bool:
    """Whether a model is kept before something else is: by a base, or by ``__init__``."""
    if model.method not in own:
        return True
    if model.method is not other.method:
        return model.method.name == "__init__"
    first, second = (_conditions(model.method, line) for line in (model.line, other.line))
    return model.line < other.line and not any((test, not is_so) in second for test, is_so in first)


def _conditions(method: ast.FunctionDef, line: int) -> set[tuple[str, bool]]:
    """The tests on the way to a line, each with its answer."""
    return {
        (ast.unparse(each.test), is_so)
        for each in ast.walk(method)
        if isinstance(each, ast.If)
        for body, is_so in ((each.body, True), (each.orelse, False))
        if body and body[0].lineno <= line <= (body[-1].end_lineno or 0)
    }
