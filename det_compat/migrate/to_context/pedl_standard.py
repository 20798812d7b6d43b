"""PEDL's Standard Model Definition: the batch around a trial's losses and metrics."""

from __future__ import annotations

import libcst as cst

from det_compat.migrate.to_context.older_batches import steps
from det_compat.migrate.tree.shapes import all_scalar, returned
from det_compat.migrate.tree.syntax import code, method

_FORWARD = """\
    inputs, labels = batch
    predictions = self.model(inputs)
"""
# one number for each row was a metric as well
_AS_NUMBERS = (
    "    return {name: torch.as_tensor(value).float().mean() for name, value in metrics.items()}\n"
)


def batch_methods(
    own: dict[str, cst.FunctionDef], optimizer: str, clip: str
) -> list[cst.BaseStatement]:
    """``train_batch`` and ``evaluate_batch`` of a trial with these methods."""
    made = [method(_train_batch(own, optimizer, clip))]
    if "validation_metrics" in own:
        made.append(method(_evaluate_batch(own)))
    return [*made]


def _train_batch(own: dict[str, cst.FunctionDef], optimizer: str, clip: str) -> str:
    kind = _kind(own["losses"])
    name = "loss" if kind == "tensor" else "losses"
    lines = [f"{name} = self.losses(predictions, labels)"]
    metrics = ""
    if "training_metrics" in own:
        lines.append(f"metrics = self.training_metrics(predictions, labels, {name})")
        metrics = "**metrics, "
    if kind == "unknown":
        lines.append('losses = losses if isinstance(losses, dict) else {"loss": losses}')
    if kind != "tensor":
        lines.append('loss = losses["loss"]')
    lines += steps("self", optimizer, clip).splitlines()
    if kind == "tensor":
        lines.append(f'return {{{metrics}"loss": loss}}')
    else:
        lines.append(f"return {{{metrics}**losses}}" if metrics else "return losses")
    body = "".join(f"    {line}\n" for line in lines)
    return f"def train_batch(self, batch, epoch_idx, batch_idx):\n{_FORWARD}{body}"


def _evaluate_batch(own: dict[str, cst.FunctionDef]) -> str:
    name = "loss" if _kind(own["losses"]) == "tensor" else "losses"
    made = f"self.validation_metrics(predictions, labels, {name})"
    start = f"{_FORWARD}    {name} = self.losses(predictions, labels)\n"
    header = "def evaluate_batch(self, batch):\n"
    if all_scalar(own["validation_metrics"]):
        return f"{header}{start}    return {made}\n"
    return f"{header}{start}    metrics = {made}\n{_AS_NUMBERS}"


def _kind(losses: cst.FunctionDef) -> str:
    """What ``losses`` returns: a ``tensor``, a ``dict`` or ``unknown``."""
    values = returned(losses)
    if values and all(isinstance(value, cst.Dict) for value in values):
        return "dict"
    annotation = code(losses.returns.annotation) if losses.returns is not None else ""
    return "tensor" if annotation.endswith("Tensor") or _are_tensors(values) else "unknown"


def _are_tensors(values: list[cst.BaseExpression]) -> bool:
    """Whether all are calls of torch's functions, or sums of such."""
    return bool(values) and all(_is_tensor(value) for value in values)


def _is_tensor(value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.BinaryOperation):
        return _is_tensor(value.left) or _is_tensor(value.right)
    return isinstance(value, cst.Call) and code(value.func).startswith(
        ("torch.", "nn.", "F.", "functional.")
    )
