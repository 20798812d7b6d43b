"""Methods that Determined called and nothing calls any more, and those that a module has itself."""

import ast
from collections.abc import Iterator

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
    """The hooks of Determined's in modules and callbacks that neither Lightning nor code calls."""
    for node in text.classes.values():
        _, others = after.ancestors(node)
        if not others & _LIGHTNINGS:
            continue
        for name, method in methods(node).items():
            if name in _CALLED and name not in after.read_names:
                yield Finding(method.lineno, f"Lightning does not call {name}")
