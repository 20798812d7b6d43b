"""Methods that Determined called, and that nothing calls any more."""

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


def idle(after: Code, text: Text) -> Iterator[Finding]:
    """The hooks of Determined's in modules and callbacks that neither Lightning nor code calls."""
    for node in text.classes.values():
        _, others = after.ancestors(node)
        if not others & _LIGHTNINGS:
            continue
        for name, method in methods(node).items():
            if name in _CALLED and name not in after.read_names:
                yield Finding(method.lineno, f"Lightning does not call {name}")
