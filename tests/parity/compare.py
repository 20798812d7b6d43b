"""Exact comparison of what two runs dumped, and where they part.

``compare.py DIR DIR`` prints the differences of all the dumps in two directories.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

# In this order, so that the first difference is the nearest to its cause.
WEIGHTS = ("models", "gradients", "optimizers", "schedulers", "rng")
SECTIONS = ("batches", "seen", "calls", "reports", "error", *WEIGHTS)


def load(path: Path) -> dict[str, Any]:
    """A dump of a driver."""
    found: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=False)
    return found


def report(reference: dict, ours: dict, sections: tuple[str, ...] = SECTIONS) -> str:
    """What differs, at most three places a section; empty if nothing does."""
    lines = []
    for section in sections:
        found = list(differences(section, reference[section], ours[section]))
        lines += found[:3]
        if len(found) > 3:
            lines.append(f"{section}: ... and {len(found) - 3} more differences")
    return "\n".join(lines)


def differences(where: str, a: Any, b: Any) -> Iterator[str]:
    """Lines that say where ``a`` (Determined's) and ``b`` are not the same, to the last bit."""
    if type(a) is not type(b):
        yield f"{where}: {_short(a)} is a {_name(a)}, but got {_short(b)}, a {_name(b)}"
    elif isinstance(a, dict):
        yield from _dict_differences(where, a, b)
    elif isinstance(a, list | tuple):
        yield from _sequence_differences(where, a, b)
    elif isinstance(a, torch.Tensor):
        yield from _tensor_differences(where, a, b)
    elif isinstance(a, np.ndarray | np.generic):
        yield from _array_differences(where, a, b)
    elif not (a == b or (a != a and b != b)):
        yield f"{where}: {_short(a)}, but got {_short(b)}"


def _dict_differences(where: str, a: dict, b: dict) -> Iterator[str]:
    if list(a) != list(b):
        yield f"{where}: keys {list(a)}, but got {list(b)}"
    for key in a:
        if key in b and key != "full":
            yield from differences(f"{where}[{key!r}]", a[key], b[key])


def _sequence_differences(where: str, a: Any, b: Any) -> Iterator[str]:
    for index, (x, y) in enumerate(zip(a, b, strict=False)):
        named = f"{where}[{index}]"
        if where.split("[")[0] in ("calls", "reports") and "[" not in where:
            named += f" {x[0]}"
        yield from differences(named, x, y)
    if len(a) != len(b):
        longer, word = (a, "misses") if len(a) > len(b) else (b, "has in excess")
        rest = _short(longer[min(len(a), len(b))])
        yield f"{where}: {len(a)} items, but got {len(b)}; the first that it {word}: {rest}"


def _tensor_differences(where: str, a: torch.Tensor, b: torch.Tensor) -> Iterator[str]:
    if a.requires_grad != b.requires_grad:
        yield f"{where}: requires_grad {a.requires_grad}, but got {b.requires_grad}"
    if a.dtype == torch.bfloat16 == b.dtype:
        a, b = a.float(), b.float()
    yield from _array_differences(where, a.detach().numpy(), b.detach().numpy())


def _array_differences(where: str, a: Any, b: Any) -> Iterator[str]:
    a, b = np.asarray(a), np.asarray(b)
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        yield f"{where}: {a.dtype}{list(a.shape)}, but got {b.dtype}{list(b.shape)}"
    elif a.tobytes() != b.tobytes():
        different = _different(a, b)
        if different.any():
            first = tuple(int(i) for i in np.argwhere(different)[0])
            share = f"{int(different.sum())} of {a.size} elements differ"
            yield f"{where}: {share}, first {list(first)}: {a[first]!r}, but got {b[first]!r}"


def _different(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a != b) & ~((a != a) & (b != b))


def _name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 160 else f"{text[:160]}..."


def main(reference: Path, ours: Path) -> None:
    """Print a table."""
    different = total = 0
    for path in sorted(reference.glob("*.pt")):
        total += 1
        other = ours / path.name
        if not other.exists():
            found = "no dump"
        else:
            mine = load(other)
            found = report(load(path), mine, SECTIONS if "calls" in mine else WEIGHTS)
        if found:
            different += 1
            print(f"--- {path.stem}\n{found}")
            if other.exists() and (error := load(other)["error"]):
                print(f"    ours ended with: {error['full'][-400:]}")
    print(f"{different} of {total} dumps differ")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
