"""Clocks of some processes that are not those of the others, as those of machines are not."""

from __future__ import annotations

import os
from pathlib import Path

from tests.attacks.started import ROOT

_AHEAD = "ATTACK_AHEAD"
# What else has the time of the system, such as that of files, is left; and so are torchrun's
# agents, which compare their clocks.
_SHIFT = f"""
import os, sys, time

def shifted(clock, by):
    return lambda: clock() + by

seconds = int(os.environ.get("{_AHEAD}", 0))
if seconds and "torch.distributed.run" not in sys.orig_argv:
    time.time, time.time_ns = shifted(time.time, seconds), shifted(time.time_ns, seconds * 10**9)
"""


def clocks(folder: Path) -> dict[str, str]:
    """Variables under which that of ``ahead`` counts; ``folder``, which is made, gets the code."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_SHIFT)
    return {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}


def ahead(seconds: int) -> dict[str, str]:
    """A variable under which Python is so many seconds ahead."""
    return {_AHEAD: str(seconds)}
