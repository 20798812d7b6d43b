"""Trials of Determined 0.12.12, which built themselves and were given their model all the same."""

import libcst as cst

from det_compat.migrate.to_context.batch_methods import without_model
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import File, FileTransformer
from det_compat.migrate.tree.symbols import Symbols

_NAMES = {
    "Model": "wrap_model",
    "Optimizer": "wrap_optimizer",
    "LRScheduler": "wrap_lr_scheduler",
    "backward": "backward",
    "step_optimizer": "step_optimizer",
    "configure_apex_amp": "configure_apex_amp",
    "to_device": "to_device",
}
_ATTRIBUTES = {
    "wrap_model": "model",
    "wrap_optimizer": "optimizer",
    "wrap_lr_scheduler": "lr_scheduler",
}
_GETTERS = {f"get_{attribute}": wrap for wrap, attribute in _ATTRIBUTES.items()}


def builds_itself(node: cst.ClassDef, symbols: Symbols) -> bool:
    """Whether a trial class wraps its models by itself."""
    return any(_name(call, symbols) == "wrap_model" for call in syntax.find(node, cst.Call))


def _name(call: cst.CSTNode | None, symbols: Symbols) -> str:
    """What a call of the context's is called today, if it wraps, steps and so on."""
    name = symbols.method(call)
    return name if name.startswith("wrap_") else _NAMES.get(name.removeprefix("_"), "")


def with_names_of_today(node: cst.ClassDef, file: File) -> cst.ClassDef:
    """The class with the context's names of today; what is wrapped is kept on the trial."""
    kept: dict[str, str] = {}
    body = [_keeping(line, kept, file.symbols) for line in syntax.body_of(node)]
    body = [
        without_model(line, kept["wrap_model"])
        if isinstance(line, cst.FunctionDef) and "wrap_model" in kept and _is_given(line)
        else line
        for line in body
    ]
    return syntax.transformed(syntax.with_body(node, body), _Names(file, kept))


def with_attributes(node: cst.ClassDef, file: File, kept: dict[str, str]) -> cst.ClassDef:
    """The class with the attributes that keep what it wraps where it asks the context for that."""
    return syntax.transformed(node, _Names(file, kept))


def _is_given(line: cst.FunctionDef) -> bool:
    return line.name.value in ("train_batch", "evaluate_batch", "evaluate_full_dataset")


def _keeping(line: cst.BaseStatement, kept: dict[str, str], symbols: Symbols) -> cst.BaseStatement:
    if not isinstance(line, cst.FunctionDef):
        return line
    own = syntax.self_name(line)
    return syntax.with_body(
        line, [_kept(inner, own, kept, symbols) for inner in syntax.body_of(line)]
    )


def _kept(
    line: cst.BaseStatement, own: str, kept: dict[str, str], symbols: Symbols
) -> cst.BaseStatement:
    """A statement that wraps something, which is set to an attribute if it is not yet."""
    small = syntax.simple(line)
    value = syntax.call_of(line)
    name = _name(value, symbols)
    if value is None or name not in _ATTRIBUTES:
        return line
    if isinstance(small, cst.Assign):
        goal = small.targets[0].target
        if isinstance(goal, cst.Attribute) and isinstance(goal.value, cst.Name):
            kept.setdefault(name, goal.attr.value)
            return line
    elif not isinstance(small, cst.Expr) or name in kept:
        return line
    attribute = kept.setdefault(name, _ATTRIBUTES[name])
    target = cst.AssignTarget(cst.Attribute(cst.Name(own), cst.Name(attribute)))
    others = small.targets if isinstance(small, cst.Assign) else ()
    return line.with_changes(body=[cst.Assign([target, *others], value)])


class _Names(FileTransformer[File]):
    def __init__(self, file: File, kept: dict[str, str]) -> None:
        super().__init__(file)
        self._kept = kept

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> syntax.Expression:
        member = self.symbols.method(original)
        func = updated.func
        if not member or not isinstance(func, cst.Attribute):
            return updated
        attribute = self._kept.get(_GETTERS.get(member, ""))
        if attribute is not None and self.functions:
            return cst.Attribute(cst.Name(syntax.self_name(self.functions[0])), cst.Name(attribute))
        name = _name(original, self.symbols)
        if not name:
            return updated
        return updated.with_changes(func=func.with_changes(attr=cst.Name(name)))
