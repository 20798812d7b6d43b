"""The global random number generators: Python's, NumPy's and torch's on the CPU.

Importing Lightning 2.6.6 draws from Python's ``random``. A script that has set its seeds must not
notice that det_compat imports Lightning later than that.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator
from typing import Any

RandomState = dict[str, Any]


def random_state() -> RandomState:
    """The states of those generators whose library is imported, by the library's name."""
    state: RandomState = {"python": random.getstate()}
    if numpy := sys.modules.get("numpy"):
        state["numpy"] = numpy.random.get_state()
    if torch := sys.modules.get("torch"):
        state["torch"] = torch.random.get_rng_state()
    return state


def set_random_state(state: RandomState) -> None:
    """Put back what ``random_state`` returned."""
    random.setstate(state["python"])
    if "numpy" in state:
        sys.modules["numpy"].random.set_state(state["numpy"])
    if "torch" in state:
        sys.modules["torch"].random.set_rng_state(state["torch"])


def set_seed(seed: int) -> None:
    """Seed all of them, and torch's on every GPU, as Determined 0.38.1 seeded every rank."""
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


@contextlib.contextmanager
def preserved_random_state() -> Iterator[None]:
    """Put the states back at the end."""
    state = random_state()
    try:
        yield
    finally:
        set_random_state(state)
