"""What a module refuses, and a trial did not: another thing in the place of a model of torch's."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from det_compat.analysis.expressions import walked
from det_compat.migrate.review.project import Code, Finding, Text, methods, written

_MESSAGE = (
    "{0} is a model of torch's by then, and a LightningModule takes nothing else in its place: "
    "del self.{0} before it"
)
_NO_MODELS = (
    *(ast.Lambda, ast.List, ast.Dict, ast.Tuple, ast.Set, ast.JoinedStr),
    *(ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp),
)
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
        kept = [each for base in bases for each in _sets(base) if _is_model(each.value)]
        for each in _sets(node):
            same = [other for other in kept if other.attribute == each.attribute]
            is_kept = any(_comes_first(other, each, own) for other in same)
            if is_kept and _is_no_model(each.value, after):
                yield Finding(each.line, _MESSAGE.format(each.attribute))


def _sets(node: ast.ClassDef) -> Iterator[_Set]:
    for method in methods(node).values():
        for line in walked(method):
            targets = line.targets if isinstance(line, ast.Assign) else []
            if isinstance(line, ast.Assign) and len(targets) == 1:
                target = targets[0]
                if isinstance(target, ast.Attribute) and written(target.value) == "self":
                    yield _Set(target.attr, line.value, line.lineno, method)


def _is_model(value: ast.expr) -> bool:
    name = written(value.func) if isinstance(value, ast.Call) else ""
    return name.startswith(("nn.", "torch.nn.")) and name.rpartition(".")[2][:1].isupper()


def _is_no_model(value: ast.expr, after: Code) -> bool:
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
    branches = (each for each in ast.walk(model.method) if isinstance(each, ast.If))
    return model.line < other.line and not any(
        _has(each.body, model.line) and _has(each.orelse, other.line) for each in branches
    )


def _has(body: list[ast.stmt], line: int) -> bool:
    return bool(body) and body[0].lineno <= line <= (body[-1].end_lineno or 0)
