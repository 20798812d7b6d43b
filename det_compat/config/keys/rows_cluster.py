"""The keys that say where on a cluster a trial runs, and in which container."""

from __future__ import annotations

from det_compat.config.keys.kinds import (
    ANYTHING,
    BOOLEAN,
    MAPPING,
    NUMBER,
    SECTION,
    TEXT,
    Kind,
    either,
    integer,
    list_of,
)
from det_compat.config.keys.table import Key, ignored, mapped

_SCHEDULER = "for the cluster's scheduler"
_CONTAINER = "no container is started"
_INSTALLED = "install what the trial needs into this environment"
# remembered, and in no source that could still be read
_UNVERIFIED = "PEDL, unverified"
_LIST = Kind("a list", lambda value: isinstance(value, list))
_VARIABLES = either(list_of(TEXT), MAPPING)


def _resources(name: str, kind: Kind, versions: str) -> Key:
    return ignored(f"resources.{name}", kind, versions, _SCHEDULER)


def _environment(name: str, kind: Kind, versions: str, why: str = _CONTAINER) -> Key:
    return ignored(f"environment.{name}", kind, versions, why)


ROWS: tuple[Key, ...] = (
    mapped("resources", SECTION, "0.12", "number of devices"),
    mapped("resources.slots_per_trial", integer(0), "0.12", "devices that a trial trains on"),
    _resources("slots", integer(0), "0.12"),
    _resources("max_slots", integer(0), "0.12"),
    _resources("weight", NUMBER, "0.12"),
    _resources("priority", integer(1, 99), "0.13"),
    _resources("resource_pool", TEXT, "0.13"),
    _resources("agent_label", TEXT, "0.12"),
    _resources("native_parallel", BOOLEAN, "0.12"),
    _resources("is_single_node", BOOLEAN, "after 0.20"),
    ignored("resources.shm_size", either(integer(0), TEXT), "0.12", _CONTAINER),
    ignored("resources.devices", _LIST, "0.15", _CONTAINER),
    mapped("environment", SECTION, "0.12", "environment variables"),
    mapped(
        "environment.environment_variables",
        _VARIABLES,
        "0.12",
        "set before the trial is imported; of a mapping by device, those of this machine; values "
        "are never shown",
    ),
    _environment("image", either(TEXT, MAPPING), "0.12"),
    _environment("force_pull_image", BOOLEAN, "0.12"),
    _environment("registry_auth", MAPPING, "0.12"),
    _environment("ports", MAPPING, "0.12"),
    _environment("proxy_ports", _LIST, "0.20"),
    _environment("add_capabilities", list_of(TEXT), "0.15"),
    _environment("drop_capabilities", list_of(TEXT), "0.15"),
    _environment("pod_spec", MAPPING, "0.12"),
    _environment("slurm", ANYTHING, "0.18 to 0.19", _SCHEDULER),
    _environment("pbs", ANYTHING, "0.18 to 0.19", _SCHEDULER),
    _environment("runtime_packages", ANYTHING, "PEDL to 0.12", _INSTALLED),
    _environment("runtime_commands", ANYTHING, "PEDL to 0.12", _INSTALLED),
    _environment("os", ANYTHING, _UNVERIFIED, _CONTAINER),
    _environment("python", ANYTHING, _UNVERIFIED, _INSTALLED),
    _environment("tensorflow", ANYTHING, _UNVERIFIED, _INSTALLED),
    _environment("keras", ANYTHING, _UNVERIFIED, _INSTALLED),
    _environment("pytorch", ANYTHING, _UNVERIFIED, _INSTALLED),
    _environment("cuda", ANYTHING, _UNVERIFIED, _INSTALLED),
    ignored(
        "bind_mounts",
        _LIST,
        "0.12",
        "no container is started: the trial sees this machine's own paths",
    ),
    ignored("slurm", MAPPING, "0.20", _SCHEDULER),
    ignored("pbs", MAPPING, "0.20", _SCHEDULER),
    ignored("preemption_timeout", integer(0), "after 0.20", _SCHEDULER),
    ignored("log_policies", ANYTHING, "after 0.20", "acted on the cluster's log"),
    ignored("log_pattern_policies", ANYTHING, "after 0.20", "acted on the cluster's log"),
    ignored("retention_policy", MAPPING, "after 0.20", "of the cluster's log"),
    ignored("workspace", TEXT, "0.18", "groups experiments in the cluster's web page"),
    ignored("project", TEXT, "0.18", "groups experiments in the cluster's web page"),
    ignored("security", ANYTHING, "0.12", "has had no effect since before 0.12"),
)
