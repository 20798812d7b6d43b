"""Whether a process may fork, and whether its forks are as new processes."""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

# jemalloc, which PyArrow brings, holds its locks while a process forks, and does without in forks.
_READY_FOR_FORKS = {"jemalloc_bg_thd"}


def why_not_to_fork() -> str:
    """Why forks of this process would not work as new processes do; "" if they do."""
    if not sys.platform.startswith("linux"):
        return f"forks are not safe on {sys.platform}"
    process = os.fork()
    if process == 0:
        os._exit(int(_is_cuda_lost()))
    if os.waitpid(process, 0)[1] != 0:
        return "CUDA is initialized"
    # Libraries that are ready for forks, as OpenBLAS is, have ended their threads for this one.
    names = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]
    others = [name for name in names if name not in _READY_FOR_FORKS]
    return f"threads run: {', '.join(others)}" if len(others) > 1 else ""


def _is_cuda_lost() -> bool:
    # torch 2.4 to 2.14 have no public name for it.
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda is not None and bool(cuda._is_in_bad_fork())


def traces() -> dict[str, Any]:
    """What an import must leave alone if it is to come before a request, and not in it."""
    found: dict[str, Any] = {
        "random numbers": random.getstate(),
        "the working directory": os.getcwd(),
        "signal handlers": [signal.getsignal(number) for number in signal.valid_signals()],
    }
    if numpy := sys.modules.get("numpy"):
        found["random numbers of NumPy"] = str(numpy.random.get_state(legacy=False))
    if torch := sys.modules.get("torch"):
        found["random numbers of torch"] = torch.get_rng_state().tolist()
        found["settings of torch"] = (
            torch.get_default_dtype(),
            torch.get_num_threads(),
            torch.is_grad_enabled(),
            torch.are_deterministic_algorithms_enabled(),
        )
    return found
