from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

_RAY = contextlib.ExitStack()
# Ray would start a worker in advance for each that is taken: each imports Ray, and many do nothing.
NO_SPARES = {"RAY_enable_worker_prestart": "0", "RAY_prestart_worker_first_driver": "0"}


@pytest.fixture
def local_ray() -> None:
    """A small Ray for tests that follow each other, whose workers are forked: ``tests.preloaded``.

    It ends with the last of them. A process in which Ray runs has threads, for whose locks the
    workers of a loader in a later test would wait, and Ray's own processes are never at rest.
    """
    # Ray would replace print() for the tests that follow.
    os.environ["RAY_TQDM_PATCH_PRINT"] = "0"
    ray = pytest.importorskip("ray", reason="needs det-compat[search]")
    if not ray.is_initialized():
        _start(ray)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """End Ray if the next test does not need it."""
    if "local_ray" not in getattr(nextitem, "fixturenames", ()):
        _RAY.close()


def _start(ray: Any) -> None:
    from det_compat.search.tune.engine import NO_DASHBOARD
    from tests.fresh_python import environment
    from tests.preloaded import executable, python

    # The raylet waits for its agents for 15 seconds, and the first fork for many imports.
    python("-c", "pass", cwd=Path.cwd())
    paths = environment()["PYTHONPATH"]
    handler = signal.getsignal(signal.SIGTERM)  # Ray replaces it at its start and its end.
    _RAY.callback(signal.signal, signal.SIGTERM, handler)
    _RAY.callback(ray.shutdown)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "executable", executable())
        # Workers inherit these; given by a runtime_env, they would cost each one a process more.
        given = {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **NO_DASHBOARD, **NO_SPARES}
        for name, value in given.items():
            patched.setenv(name, value)
        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    signal.signal(signal.SIGTERM, handler)
    # Ray sets it, and a fork stands for no interpreter that has such a variable.
    os.environ.pop("PYTHONBREAKPOINT", None)
