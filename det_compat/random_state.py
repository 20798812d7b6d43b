"""The global random number generators, which imports must leave as they are.

Importing Lightning 2.6.6 draws from Python's ``random``. A script that has set its seeds must not
notice that det_compat imports Lightning later than that.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def preserved_random_state() -> Iterator[None]:
    """Put the states of Python's, NumPy's and torch's global CPU generators back at the end."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    python_state = random.getstate()
    numpy_state = numpy.random.get_state() if numpy else None
    torch_state = torch.random.get_rng_state() if torch else None
    try:
        yield
    finally:
        random.setstate(python_state)
        if numpy:
            numpy.random.set_state(numpy_state)
        if torch:
            torch.random.set_rng_state(torch_state)
