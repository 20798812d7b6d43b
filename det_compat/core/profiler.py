"""Samples of the machine's load."""

from __future__ import annotations

from typing import Any

from det_compat.core.distributed import DistributedContext


class ProfilerContext:
    def __init__(self, agent_id: str, metrics: Any, distributed: DistributedContext) -> None:
        pass

    def on(self, sampling_interval: int = 1, samples_per_report: int = 10) -> None:
        pass

    def off(self) -> None:
        pass


class DummyProfilerContext(ProfilerContext):
    def __init__(self) -> None:
        pass
