"""Samples of the machine's load: ``core_context.profiler``."""

from __future__ import annotations

import functools
import itertools
import logging
import operator
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from det_compat.core.distributed import DistributedContext

try:
    import psutil
except ImportError:
    psutil = None
try:
    import pynvml
except ImportError:
    pynvml = None

logger = logging.getLogger("determined.core")

#: Takes a group of metrics and what was measured of it.
Report = Callable[[str, dict[str, Any]], None]


class ProfilerContext:
    """Reports the load of processors, memory, disks, network and GPUs, as Determined 0.38.1 did.

    Needs the package ``psutil``, and ``pynvml`` for GPUs.

    Args:
        agent_id: a name for this machine.
        metrics: takes the reports.
        distributed: the ranks; the first process of each machine measures.
    """

    def __init__(self, agent_id: str, metrics: Report, distributed: DistributedContext) -> None:
        self._agent_id = agent_id
        self._metrics = metrics
        self._distributed = distributed
        self._collector: _Collector | None = None

    def on(self, sampling_interval: int = 1, samples_per_report: int = 10) -> None:
        """Measure from now on; nothing happens if that is so already.

        Args:
            sampling_interval: seconds between two samples.
            samples_per_report: of how many samples the mean is reported.

        Raises:
            ValueError: an argument is too small.
        """
        if self._collector is not None or self._distributed.local_rank != 0:
            return
        if sampling_interval < 0.1:
            raise ValueError(f"Sampling interval must be > 0.1, got {sampling_interval}.")
        if not isinstance(samples_per_report, int) or samples_per_report < 1:
            raise ValueError(
                f"samples_per_report must be an int of 1 or more, got {samples_per_report!r}"
            )
        if psutil is None:
            logger.warning("the profiler needs the package psutil: nothing is measured")
            return
        logger.info("Starting system metrics profiling.")
        self._collector = _Collector(self._report, sampling_interval, samples_per_report)
        self._collector.start()

    def _report(self, group: str, measured: dict[str, Any]) -> None:
        self._metrics(group, {self._agent_id: measured})

    def off(self) -> None:
        """Measure no more; nothing happens if that is so already."""
        if self._collector is not None:
            logger.info("Stopping system metrics profiling.")
            self._collector.stop()
            self._collector = None


class DummyProfilerContext(ProfilerContext):
    """Measures nothing."""

    def __init__(self) -> None:
        pass

    def on(self, sampling_interval: int = 1, samples_per_report: int = 10) -> None:
        """Do nothing."""

    def off(self) -> None:
        """Do nothing."""


def _average_metric_samples_depth_one(metric_samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The sums of samples over their number, key by key, one level of dictionaries included.

    Raises:
        ValueError: there are dictionaries in those dictionaries.
    """
    return _mean(metric_samples, len(metric_samples), levels=1)


def _mean(samples: Sequence[dict[str, Any]], count: int, levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in dict.fromkeys(itertools.chain.from_iterable(samples)):
        values = [sample[name] for sample in samples if name in sample]
        if not isinstance(values[0], dict):
            # sum() rounds otherwise from Python 3.12 on.
            found[name] = functools.reduce(operator.add, values, 0) / count
        elif levels:
            found[name] = _mean(values, count, levels - 1)
        else:
            raise ValueError(f"{name}: only one level of dictionaries is averaged")
    return found


class _Meter:
    """Measures one kind of load."""

    group: str

    def __init__(self) -> None:
        self.metric_samples: list[dict[str, Any]] = []

    def measure(self) -> dict[str, Any]:
        """What there is to measure now."""
        raise NotImplementedError

    def sample_metrics(self) -> None:
        """Take a sample."""
        self.metric_samples.append(self.measure())

    def aggregate(self) -> dict[str, Any]:
        """The mean of the samples."""
        return _average_metric_samples_depth_one(self.metric_samples)

    def reset(self) -> None:
        """Forget the samples."""
        self.metric_samples = []


class _Rates:
    """What counters gain a second, from one look at them to the next.

    Args:
        count: returns the counters.
    """

    def __init__(self, count: Callable[[], Any]) -> None:
        self._count = count
        self._at, self._before = time.time(), count()

    def since(self, *counters: tuple[str, ...]) -> list[float]:
        """What each sum of counters has gained a second since the last look."""
        now, counted = time.time(), self._count()
        seconds, before = now - self._at, self._before
        self._at, self._before = now, counted
        if counted is None or before is None or not seconds:
            return [0.0 for _ in counters]
        return [
            sum(getattr(counted, name) - getattr(before, name) for name in names) / seconds
            for names in counters
        ]


class _Network(_Meter):
    group = "network"

    def __init__(self) -> None:
        super().__init__()
        self._rates = _Rates(psutil.net_io_counters)

    def measure(self) -> dict[str, Any]:
        sent, received = self._rates.since(("bytes_sent",), ("bytes_recv",))
        return {"net_throughput_sent": sent, "net_throughput_recv": received}


class _Disk(_Meter):
    group = "disk"
    _disk_paths = ("/", "/determined_shared_fs")

    def __init__(self) -> None:
        super().__init__()
        self._rates = _Rates(psutil.disk_io_counters)
        self._paths = [path for path in self._disk_paths if self._is_there(path)]

    @staticmethod
    def _is_there(path: str) -> bool:
        try:
            psutil.disk_usage(path)
        except OSError:
            return False
        return True

    def measure(self) -> dict[str, Any]:
        iops, read, written = self._rates.since(
            ("read_count", "write_count"), ("read_bytes",), ("write_bytes",)
        )
        rates = {
            "disk_iops": iops,
            "disk_throughput_read": read,
            "disk_throughput_write": written,
        }
        used = {path: {"disk_util": psutil.disk_usage(path).percent} for path in self._paths}
        return {**rates, **used}


class _Memory(_Meter):
    group = "memory"

    def measure(self) -> dict[str, Any]:
        return {"memory_free": psutil.virtual_memory().available}


class _CPU(_Meter):
    group = "cpu"

    def measure(self) -> dict[str, Any]:
        return {"cpu_util_simple": psutil.cpu_percent()}


class _GPU(_Meter):
    group = "gpu"

    def __init__(self) -> None:
        super().__init__()
        self._handles: dict[str, Any] = {}
        if pynvml is None:
            return
        try:
            self._handles = self._found()
        except pynvml.NVMLError as error:
            logger.info(f"Error accessing NVML {error}. GPU metrics will not be collected.")

    @staticmethod
    def _found() -> dict[str, Any]:
        """The GPUs that can be asked, by their UUIDs."""
        pynvml.nvmlInit()
        handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
        found = {str(pynvml.nvmlDeviceGetUUID(handle)): handle for handle in handles}
        for handle in found.values():
            pynvml.nvmlDeviceGetMemoryInfo(handle)
            pynvml.nvmlDeviceGetUtilizationRates(handle)
        return found

    def measure(self) -> dict[str, Any]:
        return {
            uuid: {
                "gpu_util": pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,
                "gpu_free_memory": pynvml.nvmlDeviceGetMemoryInfo(handle).free,
            }
            for uuid, handle in self._handles.items()
        }


class _Collector(threading.Thread):
    """Takes samples until it is stopped, and reports the means of so many of them."""

    def __init__(self, report: Report, interval: float, samples_per_report: int) -> None:
        super().__init__(daemon=True, name="det_compat profiler")
        self._report = report
        self._interval = interval
        self._samples_per_report = samples_per_report
        self._meters: list[_Meter] = [_GPU(), _CPU(), _Memory(), _Disk(), _Network()]
        self._is_to_end = threading.Event()

    def run(self) -> None:
        taken = 0
        while not self._is_to_end.wait(self._interval):
            for meter in self._meters:
                meter.sample_metrics()
            taken += 1
            if taken % self._samples_per_report == 0:
                self._report_all()

    def _report_all(self) -> None:
        for meter in self._meters:
            if measured := meter.aggregate():
                self._report(meter.group, measured)
            meter.reset()

    def stop(self) -> None:
        """End, after the sample that is being taken."""
        self._is_to_end.set()
        self.join()
