"""Methods that Determined called and nothing calls any more, and those that a module has itself."""

import ast
from collections.abc import Iterator

from det_compat.analysis.expressions import walked
from det_compat.catalog.members import MEMBERS
from det_compat.migrate.review.project import Code, Finding, Text, methods

_LIGHTNINGS = {"pl.LightningModule", "pl.Callback"}
#: Lightning calls these, too, or calls nothing in their place by purpose.
_BOTH = {
    "on_validation_start",
    "on_validation_epoch_start",
    "on_validation_epoch_end",
    "on_validation_end",
    "on_before_optimizer_step",
    "on_after_backward",
    "state_dict",
    "load_state_dict",
}
_CALLED = {
    name
    for owner in ("PyTorchTrial", "PyTorchCallback")
    for name in MEMBERS[f"det_compat.pytorch.{owner}"]
} - _BOTH
#: A module finds and keeps its parts by these, and is called by the last of them.
_MODULES = ("__getattr__", "__getattribute__", "__setattr__", "__delattr__", "__call__")


def called_by_hand(after: Code, text: Text) -> Iterator[Finding]:
    """The calls of callbacks' hooks by code of the project, with what Determined gave them."""
    classes = (node for each in after.files.values() for node in each.classes.values())
    told = {
        name
        for node in classes
        if "pl.Callback" in after.ancestors(node)[1]
        for name, method in methods(node).items()
        if name in _BOTH
        and [each.arg for each in method.args.args[1:3]] == ["trainer", "pl_module"]
    }
    for call in text.nodes if told else ():
        func = call.func if isinstance(call, ast.Call) else None
        if isinstance(call, ast.Call) and isinstance(func, ast.Attribute) and func.attr in told:
            given = [*map(ast.unparse, call.args), *(each.arg or "*" for each in call.keywords)]
            if not any("trainer" in each or "*" in each for each in given):
                said = f"{func.attr} of a callback takes trainer and pl_module first now"
                yield Finding(call.lineno, said)


def restored_too_early(after: Code, text: Text) -> Iterator[Finding]:
    """What a callback's ``load_state_dict`` asks of what is only set when a loader is made.

    Lightning gives callbacks their state before it makes the loaders, and Determined did after.
    """
    late = _set_by_loaders(after)
    for node in text.classes.values() if late else ():
        method = methods(node).get("load_state_dict")
        if method is None or "pl.Callback" not in after.ancestors(node)[1]:
            continue
        own = {name for each in methods(node).values() for name in _kept(each)}
        for each in walked(method):
            if isinstance(each, ast.Attribute) and each.attr in late - own:
                yield Finding(
                    each.lineno,
                    f"Lightning calls this before it makes the loaders, which set {each.attr}",
                )


def _set_by_loaders(after: Code) -> set[str]:
    """The attributes of modules that making a loader sets, and nothing sets before."""
    found: set[str] = set()
    for node in (each for text in after.files.values() for each in text.classes.values()):
        ancestors, others = after.ancestors(node)
        if "pl.LightningModule" in others:
            own = {n: m for each in reversed(ancestors) for n, m in methods(each).items()}
            early = {name for each in _called(own, ["__init__"]) for name in _kept(each)}
            late = _called(own, ["train_dataloader", "val_dataloader"])
            found |= {name for each in late for name in _kept(each)} - early
    return found


def _called(own: dict[str, ast.FunctionDef], starts: list[str]) -> list[ast.FunctionDef]:
    """Some methods of a class, and those that they call of their object."""
    names = [name for name in starts if name in own]
    for name in names:
        nodes = (each for each in walked(own[name]) if isinstance(each, ast.Attribute))
        names += dict.fromkeys(n.attr for n in nodes if n.attr in own and n.attr not in names)
    return [own[name] for name in names]


def _kept(method: ast.FunctionDef) -> Iterator[str]:
    """The attributes of its object that a method sets to something."""
    own = method.args.args[0].arg if method.args.args else ""
    for line in walked(method):
        if isinstance(line, (ast.Assign, ast.AnnAssign)) and not _is_none(line.value):
            targets = line.targets if isinstance(line, ast.Assign) else [line.target]
            for each in (n for target in targets for n in ast.walk(target)):
                if isinstance(each, ast.Attribute) and getattr(each.value, "id", "") == own:
                    yield each.attr


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def hidden(after: Code, text: Text) -> Iterator[Finding]:
    """The methods of modules that hide those which torch's modules need."""
    for node in text.classes.values():
        own = methods(node)
        if not own.keys() & {*_MODULES} or "pl.LightningModule" not in after.ancestors(node)[1]:
            continue
        for name in (name for name in _MODULES if name in own):
            calls = {each.attr for each in ast.walk(own[name]) if isinstance(each, ast.Attribute)}
            if name not in calls:
                yield Finding(
                    own[name].lineno, f"a module needs its own {name}: call super().{name}"
                )


def idle(after: Code, text: Text) -> Iterator[Finding]:
    """The hooks of Determined's in modules and callbacks that neither Lightning nor code calls.

    So are those of a copy of Determined that a project has changed, and methods that nobody hands
    the context that they take.
    """
    hooks = _CALLED | (after.copies.asked_of_trials - _BOTH)
    for node in text.classes.values() if text.path in after.own.files else ():
        _, bases = after.ancestors(node)
        if not bases & _LIGHTNINGS:
            continue
        for name, method in methods(node).items():
            takes_context = "context" in [arg.arg for arg in method.args.args]
            is_hook = name in hooks or (takes_context and bases <= _LIGHTNINGS)
            is_python = name.startswith("__") and name.endswith("__")
            if is_hook and name not in after.own.read_names and not is_python:
                yield Finding(method.lineno, f"Lightning does not call {name}")
