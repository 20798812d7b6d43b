"""The description of a checkpoint as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_UNKNOWN = "unknown"


def as_text(description: dict[str, Any]) -> str:
    """What ``describe`` tells, a fact a line."""
    return "\n".join(_lines(description))


def _lines(description: dict[str, Any]) -> Iterator[str]:
    yield str(description["path"])
    for title, value in _facts(description):
        yield f"  {title + ':':<18} {value}"
    yield "  models:"
    for index, model in enumerate(description["models"]):
        yield f"    {index}: {model['parameters']:,} parameters in {model['tensors']} tensors"
    yield "  files:"
    for name, size in description["files"].items():
        yield f"    {name} ({size:,} bytes)"
    yield from _safety(description)


def _facts(description: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "layout", description["layout"]
    if "determined_version" in description:
        yield "Determined", description["determined_version"] or _UNKNOWN
        yield "framework", description["framework"] or _UNKNOWN
    yield "trial", description["trial"] or _UNKNOWN
    yield "batches trained", _count(description["batches_trained"])
    yield "epochs trained", _count(description["epochs_trained"])
    yield "hparams", json.dumps(description["hparams"])
    yield "optimizers", "; ".join(map(_optimizer, description["optimizers"])) or "none"
    yield "LR schedulers", description["lr_schedulers"]
    yield "callbacks", ", ".join(description["callbacks"]) or "none"


def _count(value: Any) -> Any:
    return _UNKNOWN if value is None else value


def _optimizer(optimizer: dict[str, Any]) -> str:
    return f"{optimizer['groups']} groups, lr {', '.join(map(str, optimizer['lr']))}"


def _safety(description: dict[str, Any]) -> Iterator[str]:
    if description["safe"]:
        yield "  safe to load: yes"
        return
    yield "  safe to load: NO, not without --trust (trust=True), which lets these be run:"
    for name, asked in description["asks_for"].items():
        yield f"    {name}: {', '.join(asked)}"
