from __future__ import annotations

import time
from typing import Any

import pytest

from det_compat.core import DummyDistributedContext, DummyProfilerContext, ProfilerContext
from det_compat.core.profiler import _average_metric_samples_depth_one

pytest.importorskip("psutil")


def test_the_load_of_the_machine_is_reported() -> None:
    reports: list[tuple[str, dict[str, Any]]] = []
    profiler = ProfilerContext(
        "here", lambda *report: reports.append(report), DummyDistributedContext()
    )
    profiler.on(sampling_interval=0.1, samples_per_report=1)
    profiler.on()
    while len(reports) < 4:
        time.sleep(0.02)
    profiler.off()
    profiler.off()
    found = {group: metrics["here"] for group, metrics in reports}
    assert {"cpu", "memory", "disk", "network"} <= set(found)
    assert found["memory"]["memory_free"] > 0
    assert found["disk"]["/"]["disk_util"] > 0
    before = len(reports)
    time.sleep(0.25)
    assert len(reports) == before


def test_means_are_determineds() -> None:
    reference = pytest.importorskip("determined.core._profiler")
    samples = [{"a": 1, "g": {"x": 2}}, {"a": 2, "g": {"x": 4}}]
    ours = _average_metric_samples_depth_one(samples)
    assert ours == reference._average_metric_samples_depth_one(samples)
    assert ours == {"a": 1.5, "g": {"x": 3.0}}


def test_arguments_are_checked_and_a_dummy_does_nothing() -> None:
    profiler = ProfilerContext("here", lambda *report: None, DummyDistributedContext())
    with pytest.raises(ValueError, match=r"> 0\.1"):
        profiler.on(sampling_interval=0)
    with pytest.raises(ValueError, match="samples_per_report"):
        profiler.on(samples_per_report=0)
    DummyProfilerContext().on()
    DummyProfilerContext().off()
