"""Whether there is what the tests of this folder need."""

from __future__ import annotations

import os

import pytest
import torch

ON_CPU = os.environ.get("GPU_TESTS_ON") == "cpu"


def skip_without_gpu(*, but_on_cpu: bool = False) -> None:
    """Skip the module that is being imported, all its tests at once."""
    if not torch.cuda.is_available() and not (ON_CPU and but_on_cpu):
        reason = "there is no CUDA device: `make test-gpu` runs this on a machine with one"
        pytest.skip(reason, allow_module_level=True)
