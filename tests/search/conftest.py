from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    """A small Ray for all tests of a process, whose workers are forked: see ``tests.preloaded``."""
    # Ray would replace print() and the handler of SIGTERM for the tests that follow it.
    os.environ["RAY_TQDM_PATCH_PRINT"] = "0"
    handler = signal.getsignal(signal.SIGTERM)
    ray = pytest.importorskip("ray", reason="needs det-compat[search]")
    from det_compat.search.tune.engine import NO_DASHBOARD
    from tests.fresh_python import environment
    from tests.preloaded import executable, python

    # The raylet waits for its agents for 15 seconds, and the first fork for many imports.
    python("-c", "pass", cwd=Path.cwd())
    paths = environment()["PYTHONPATH"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "executable", executable())
        # Workers inherit these; given by a runtime_env, they would cost each one a process more.
        for name, value in {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **NO_DASHBOARD}.items():
            patched.setenv(name, value)
        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    signal.signal(signal.SIGTERM, handler)
    # Ray sets it, and a fork stands for no interpreter that has such a variable.
    os.environ.pop("PYTHONBREAKPOINT", None)
    yield
    ray.shutdown()
    signal.signal(signal.SIGTERM, handler)
