"""The global random number generators: Python's, NumPy's and torch's on the CPU.

Importing Lightning 2.6.6 draws from Python's ``random``. A script that has set its seeds must not
notice that det_compat imports Lightning later than that.
"""

import contextlib
import random
import struct
import sys
from collections.abc import Iterator
from typing import Any

RandomState = dict[str, Any]


def set_seed(seed: int) -> None:
    """Seed all of them, and torch's on every GPU, as Determined 0.38.1 seeded every rank.

    NumPy takes 32 bits of the seed.
    """
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def random_state() -> RandomState:
    """The states of those generators whose library is imported, by the library's name.

    The words of Python's generator are one string of hexadecimal digits, little-endian, 4 bytes
    each: checkpoints have several states, and as objects their words took most of the time to save
    and to load. ``torch.load(weights_only=True)`` of torch 2.4 refuses bytes.
    """
    version, words, gauss = random.getstate()
    state: RandomState = {"python": (version, struct.pack(f"<{len(words)}I", *words).hex(), gauss)}
    if numpy := sys.modules.get("numpy"):
        state["numpy"] = numpy.random.get_state()
    if torch := sys.modules.get("torch"):
        state["torch"] = torch.random.get_rng_state()
    return state


def set_random_state(state: RandomState) -> None:
    """Put back what ``random_state`` returned, or what a file has kept of it.

    Files of older versions and Determined's have the words of Python's generator as numbers or as
    bytes. Files have lists for tuples, and a list or a tensor for NumPy's array.
    """
    version, words, gauss = state["python"]
    if isinstance(words, str):
        words = bytes.fromhex(words)
    if isinstance(words, bytes):
        words = struct.unpack(f"<{len(words) // 4}I", words)
    random.setstate((version, tuple(words), gauss))
    if "numpy" in state:
        numpy = sys.modules["numpy"]
        kind, words, *rest = state["numpy"]
        numpy.random.set_state((kind, numpy.asarray(words).astype(numpy.uint32), *rest))
    if "torch" in state:
        sys.modules["torch"].random.set_rng_state(state["torch"])


def without_array(rng_state: Any, *, as_list: bool = False) -> Any:
    """``rng_state`` of a checkpoint with a tensor of integers, or a list, for NumPy's array.

    ``torch.load(weights_only=True)`` takes that as it is. What has another form is returned.
    """
    import numpy as np
    import torch

    match rng_state:
        case {"np_rng_state": (kind, np.ndarray() | list() as words, *rest)}:
            numbers = np.asarray(words, dtype=np.int64)
            plain = numbers.tolist() if as_list else torch.from_numpy(numbers)
            return {**rng_state, "np_rng_state": (kind, plain, *rest)}
    return rng_state


@contextlib.contextmanager
def preserved_random_state() -> Iterator[None]:
    """Put the states back at the end."""
    state = random_state()
    try:
        yield
    finally:
        set_random_state(state)
