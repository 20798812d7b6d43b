from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def local_ray() -> Iterator[None]:
    """A small Ray for all tests of a process."""
    ray = pytest.importorskip("ray", reason="needs det-compat[search]")
    from tests.fresh_python import environment

    paths = environment()["PYTHONPATH"]
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}},
    )
    yield
    ray.shutdown()
