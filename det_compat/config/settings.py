"""The small sections: optimizations, resources, environment, profiling."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from det_compat.config.document import Problems, chosen, section


@dataclass(frozen=True)
class Optimizations:
    """How gradients are aggregated and exchanged, and in what precision.

    ``mixed_precision`` is NVIDIA Apex's level: O0 (float32), O1, O2 or O3.
    """

    aggregation_frequency: int = 1
    gradient_compression: bool = False
    mixed_precision: str = "O0"
    average_aggregated_gradients: bool = True


@dataclass(frozen=True)
class Profiling:
    """Whether to profile, and which batches; ``end_after_batch`` None is to the end."""

    enabled: bool = False
    begin_on_batch: int = 0
    end_after_batch: int | None = None


@dataclass(frozen=True)
class Environment:
    """Environment variables: for every device, and by kind of device (cpu, cuda, rocm)."""

    variables: dict[str, str] = field(default_factory=dict, repr=False)
    by_device: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)

    def for_device(self, device: str) -> dict[str, str]:
        """The variables to set where ``device`` (cpu, cuda or rocm) trains."""
        return {**self.variables, **self.by_device.get(device, {})}


def parse_optimizations(config: Mapping[str, Any]) -> Optimizations:
    """The ``optimizations`` of a validated config."""
    given = section(config, "optimizations")
    return Optimizations(**chosen(given, *Optimizations.__dataclass_fields__))


def parse_profiling(config: Mapping[str, Any]) -> Profiling:
    """The ``profiling`` of a validated config."""
    given = section(config, "profiling")
    return Profiling(**chosen(given, *Profiling.__dataclass_fields__))


def check_settings(config: Mapping[str, Any], problems: Problems) -> None:
    """Note in ``problems`` what contradicts itself within a section."""
    profiling = section(config, "profiling")
    begin, end = profiling.get("begin_on_batch", 0), profiling.get("end_after_batch")
    if end is not None and begin > end:
        problems.add(("profiling", "end_after_batch"), f"at least begin_on_batch, {begin}")
    resources = section(config, "resources")
    slots, most = resources.get("slots_per_trial", 1), resources.get("max_slots")
    if most is not None and slots > most:
        problems.add(("resources", "max_slots"), f"at least slots_per_trial, {slots}")


def parse_environment(config: Mapping[str, Any], problems: Problems) -> Environment:
    """The environment variables of a config: a list, or a mapping by device or by name."""
    given = section(config, "environment").get("environment_variables")
    path = ("environment", "environment_variables")
    if isinstance(given, list):
        return Environment(variables=_assignments(given, path, problems))
    if not isinstance(given, dict):
        return Environment()
    variables: dict[str, str] = {}
    by_device: dict[str, dict[str, str]] = {}
    for name, value in given.items():
        device = {"gpu": "cuda"}.get(name, name)
        if device in ("cpu", "cuda", "rocm") and isinstance(value, (list, type(None))):
            by_device[device] = _assignments(value or [], (*path, name), problems)
        elif isinstance(value, (str, int, float)):
            variables[name] = str(value).lower() if isinstance(value, bool) else str(value)
        else:
            problems.add((*path, name), "a list of NAME=VALUE for cpu, cuda or rocm")
    return Environment(variables, by_device)


def _assignments(items: list[Any], path: tuple[str, ...], problems: Problems) -> dict[str, str]:
    variables = {}
    for i, item in enumerate(items):
        name, _, value = item.partition("=") if isinstance(item, str) else ("", "", "")
        if not name or "\0" in item:
            problems.add((*path, i), "NAME=VALUE", "something else")
        else:
            variables[name] = value
    return variables
