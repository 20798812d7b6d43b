"""Every key that an experiment config of PEDL or Determined 0.12 to 0.38 may have."""

from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from typing import Any

from det_compat.config.keys.kinds import (
    ANYTHING,
    BOOLEAN,
    LENGTH,
    LIST,
    MAPPING,
    NUMBER,
    PERIOD,
    SECTION,
    STEPS,
    TEXT,
    UNITS,
    Kind,
    either,
    integer,
    list_of,
    number_above,
    one_of,
)

#: The default of a key that Determined's master left out where a config does not give it.
ABSENT = object()


class Fate(Enum):
    """What happens to a key on one machine."""

    MAPPED = "mapped"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True)
class Key:
    """A key of a config, or of one of its sections.

    Attributes:
        fate: whether it has its effect here.
        kind: the type of its value.
        becomes: what it becomes here, or why it is ignored or refused.
        versions: the first version that is known to have it, and the last if it was taken away.
        default: what Determined 0.38's master filled in where a config does not give it.
    """

    fate: Fate
    kind: Kind
    becomes: str
    versions: str = "0.12"
    default: Any = ABSENT


mapped = partial(Key, Fate.MAPPED)
ignored = partial(Key, Fate.IGNORED)
refused = partial(Key, Fate.REFUSED)

#: The name of each searcher, and the name of the one that does its work now.
SUCCESSORS = {
    "single": "single",
    "random": "random",
    "grid": "grid",
    "async_halving": "async_halving",
    "asha": "async_halving",
    "adaptive_asha": "adaptive_asha",
    "adaptive_simple": "adaptive_asha",
    "adaptive": "adaptive_asha",
    "sync_halving": "async_halving",
    "pbt": "pbt",
    "custom": "custom",
}
#: The types of checkpoint storage, and what each cannot do without.
STORAGE_REQUIRES = {
    "shared_fs": ("host_path",),
    "directory": ("container_path",),
    "s3": ("bucket",),
    "gcs": ("bucket",),
    "azure": ("container",),
    "hdfs": (),
}
HDFS_REFUSAL = "hdfs storage is not supported: Determined itself gave it up"

_HOROVOD = "tuned Horovod; gradients are exchanged by torch's DistributedDataParallel"
_PBT = "of the pbt searcher, which `det-compat search` does not run"
_PBT_VERSIONS = "0.12 to 0.17"
_BUDGET = "batches, records or epochs that all trials have together"
_NEEDS_MASTER = "only a Determined master knows what it names: pass the checkpoint's path instead"
_IN_CONTAINER = "where a container of the cluster had it"
_SCHEDULER = "for the cluster's scheduler"
_CONTAINER = "no container is started"
_INSTALLED = "install what the trial needs into this environment"
# These keys are remembered, and are in no source that could still be read.
_UNVERIFIED = "PEDL, unverified"

_EXPERIMENT: dict[str, Key] = {
    "name": mapped(
        TEXT,
        "name of the run directory, `runs/NAME/NNN`, and logged with the run",
        "0.16",
        default=None,
    ),
    "description": mapped(
        TEXT, "logged with the run; its name where there is no `name`", default=None
    ),
    "labels": mapped(
        either(list_of(TEXT), MAPPING), "logged with the run's hyperparameters", default=[]
    ),
    "data": mapped(MAPPING, "what `context.get_data_config()` returns", default={}),
    "entrypoint": mapped(
        either(TEXT, list_of(TEXT)),
        "the trial class (`module:Class`), or the script or command to run",
        default=None,
    ),
    "entrypoints": mapped(
        MAPPING, "the trial class and the functions that load its data (`module:name` each)", "PEDL"
    ),
    "hyperparameters": mapped(
        MAPPING,
        "what `context.get_hparams()` returns; ranges are what `det-compat search` samples from",
    ),
    "records_per_epoch": mapped(
        integer(0),
        "converts epochs to batches where no data loader says how long an epoch is",
        "0.13",
        default=0,
    ),
    "scheduling_unit": mapped(
        integer(1),
        "training metrics are reported every so many batches (100 by default)",
        "0.13",
        default=100,
    ),
    "batches_per_step": mapped(
        integer(1),
        "batches in a step (100), the unit of bare numbers; `scheduling_unit` since 0.13",
        "PEDL to 0.12",
    ),
    "min_validation_period": mapped(
        PERIOD,
        "validation every so often (a bare number counts steps, 0 is never), and at the end",
        default={"batches": 0},
    ),
    "min_checkpoint_period": mapped(
        PERIOD,
        "a checkpoint every so often (a bare number counts steps, 0 is never), and at the end",
        default={"batches": 0},
    ),
    "validation_period": mapped(PERIOD, "`min_validation_period`"),
    "checkpoint_period": mapped(PERIOD, "`min_checkpoint_period`"),
    "perform_initial_validation": mapped(BOOLEAN, "a validation before training", default=False),
    "checkpoint_policy": mapped(
        one_of("best", "all", "none"),
        "whether a validation is followed by a checkpoint: if it was the best yet, always, never",
        default="best",
    ),
    "max_restarts": mapped(
        integer(0),
        "times that a failed run is restarted from its last checkpoint; 0 where the file does not "
        "say it (5 on a cluster), and under torchrun or SLURM, which restart by themselves",
        default=5,
    ),
    "debug": mapped(BOOLEAN, "log level DEBUG", default=False),
    "reproducibility": mapped(SECTION, "seeds", default={}),
    "optimizations": mapped(SECTION, "gradient aggregation and precision", default={}),
    "profiling": mapped(
        SECTION, "Lightning's profiler, unless `--trainer.profiler` is given", "0.15", default={}
    ),
    "integrations": mapped(MAPPING, "logged with the run's hyperparameters", "after 0.20"),
    "integration": mapped(MAPPING, "`integrations`", "after 0.20"),
    "internal": ignored(ANYTHING, "how the Native API submitted the script"),
    "searcher": mapped(SECTION, "how many trials, how long, and by which metric", default={}),
    "checkpoint_storage": mapped(
        SECTION, "where checkpoints go, and how many are kept", default={}
    ),
    "tensorboard_storage": ignored(ANYTHING, "event files go to the run directory"),
    "data_layer": ignored(ANYTHING, "cached the data of TensorFlow trials"),
    "resources": mapped(SECTION, "number of devices", default={}),
    "environment": mapped(SECTION, "environment variables", default={}),
    "bind_mounts": ignored(
        LIST, "no container is started: the trial sees this machine's own paths", default=[]
    ),
    "slurm": ignored(MAPPING, _SCHEDULER, "0.20"),
    "pbs": ignored(MAPPING, _SCHEDULER, "0.20"),
    "preemption_timeout": ignored(integer(0), _SCHEDULER, "after 0.20"),
    "log_policies": ignored(ANYTHING, "acted on the cluster's log", "after 0.20"),
    "log_pattern_policies": ignored(ANYTHING, "acted on the cluster's log", "after 0.20"),
    "retention_policy": ignored(MAPPING, "of the cluster's log", "after 0.20"),
    "workspace": ignored(TEXT, "groups experiments in the cluster's web page", "0.18"),
    "project": ignored(TEXT, "groups experiments in the cluster's web page", "0.18"),
    "security": ignored(ANYTHING, "has had no effect since before 0.12"),
}
_SEARCHER: dict[str, Key] = {
    "name": mapped(
        one_of(*SUCCESSORS),
        "single trains once; the others run under `det-compat search`, adaptive and "
        "adaptive_simple as adaptive_asha, sync_halving as async_halving; pbt and custom are "
        "refused",
    ),
    "metric": mapped(TEXT, "the validation metric that is watched and decides the best"),
    "smaller_is_better": mapped(
        BOOLEAN, "whether the best is the smallest (true by default)", default=True
    ),
    "max_length": mapped(
        LENGTH, "how long a trial trains; a bare number is in the script's own unit", "0.13"
    ),
    "max_steps": mapped(STEPS, "`max_length` in steps of 100 batches", "PEDL to 0.12"),
    "target_trial_steps": mapped(STEPS, "`max_length` in steps", "PEDL to 0.12"),
    "max_time": mapped(integer(1), "how long a trial trains, in `time_metric`", "0.38"),
    "time_metric": mapped(
        TEXT, "unit of `max_time`: batches, epochs, or a metric that the script reports", "0.38"
    ),
    "unit": mapped(one_of(*UNITS), "unit of a bare `max_length`", "0.20"),
    "max_trials": mapped(integer(1), "number of trials"),
    "max_concurrent_trials": mapped(
        integer(0), "trials that run at once (16 by default; 0 for no limit)", "0.13"
    ),
    "mode": mapped(
        one_of("aggressive", "standard", "conservative"), "how early adaptive_asha stops trials"
    ),
    "divisor": mapped(number_above(1), "1/divisor of the trials go on (4)"),
    "max_rungs": mapped(integer(1), "most rungs of a bracket (5)"),
    "num_rungs": mapped(integer(1), "rungs of async_halving"),
    "bracket_rungs": mapped(list_of(integer(1)), "the brackets, by their rungs"),
    "stop_once": mapped(BOOLEAN, "has the effect that ASHA has since 0.38", "0.15"),
    "train_stragglers": mapped(
        BOOLEAN, "no effect: asynchronous halving waits for no trial", "PEDL to 0.12"
    ),
    "budget": mapped(LENGTH, _BUDGET, "0.13"),
    "step_budget": mapped(STEPS, f"`budget` in steps: {_BUDGET}", "PEDL to 0.12"),
    "source_trial_id": refused(integer(0), _NEEDS_MASTER),
    "source_checkpoint_uuid": refused(TEXT, _NEEDS_MASTER),
    "population_size": refused(integer(1), _PBT, _PBT_VERSIONS),
    "num_rounds": refused(integer(1), _PBT, _PBT_VERSIONS),
    "length_per_round": refused(LENGTH, _PBT, _PBT_VERSIONS),
    "steps_per_round": refused(STEPS, _PBT, _PBT_VERSIONS),
    "replace_function": refused(either(MAPPING, TEXT), _PBT, _PBT_VERSIONS),
    "explore_function": refused(either(MAPPING, TEXT), _PBT, _PBT_VERSIONS),
}
_CHECKPOINT_STORAGE: dict[str, Key] = {
    "type": mapped(
        one_of(*STORAGE_REQUIRES),
        "kind of storage, reached through fsspec; without one, checkpoints go to the run "
        "directory; hdfs is refused",
    ),
    "save_experiment_best": mapped(integer(0), "best checkpoints kept of all trials", default=0),
    "save_trial_best": mapped(integer(0), "best checkpoints kept of a trial (1)", default=1),
    "save_trial_latest": mapped(integer(0), "latest checkpoints kept of a trial (1)", default=1),
    "host_path": mapped(TEXT, "directory of shared_fs"),
    "storage_path": mapped(TEXT, "directory in `host_path`"),
    "container_path": mapped(TEXT, f"path of directory; with shared_fs ignored: {_IN_CONTAINER}"),
    "checkpoint_path": ignored(TEXT, _IN_CONTAINER, "0.12 to 0.17"),
    "tensorboard_path": ignored(TEXT, _IN_CONTAINER, "0.12 to 0.17"),
    "propagation": ignored(TEXT, "of the container's mount"),
    "bucket": mapped(TEXT, "bucket of s3 or gcs"),
    "prefix": mapped(TEXT, "path in the bucket", "0.18"),
    "access_key": mapped(TEXT, "credential of s3, never shown"),
    "secret_key": mapped(TEXT, "credential of s3, never shown"),
    "endpoint_url": mapped(TEXT, "address of an s3 that is not Amazon's"),
    "container": mapped(TEXT, "container of azure", "0.17"),
    "connection_string": mapped(TEXT, "credential of azure, never shown", "0.17"),
    "account_url": mapped(TEXT, "account of azure", "0.17"),
    "credential": mapped(TEXT, "credential of azure, never shown", "0.17"),
    "hdfs_url": refused(TEXT, HDFS_REFUSAL),
    "hdfs_path": refused(TEXT, HDFS_REFUSAL),
    "user": refused(TEXT, HDFS_REFUSAL),
}
_OPTIMIZATIONS: dict[str, Key] = {
    "aggregation_frequency": mapped(
        integer(1), "batches whose gradients are added up before an optimizer step", default=1
    ),
    "average_aggregated_gradients": mapped(
        BOOLEAN,
        "whether the sum of gradients is divided by `aggregation_frequency` (true by default)",
        default=True,
    ),
    "average_training_metrics": ignored(
        BOOLEAN, "training metrics are always averaged over processes", default=True
    ),
    "mixed_precision": mapped(
        one_of("O0", "O1", "O2", "O3"),
        "O0 is float32; the Apex levels O1 to O3 become torch's float16 autocast on a GPU, unless "
        "the trial or `--trainer.precision` sets a precision; a CPU trains in float32",
        default="O0",
    ),
    "gradient_compression": mapped(
        BOOLEAN,
        "gradients are exchanged between processes in float16 (torch's `fp16_compress_hook`)",
        default=False,
    ),
    "grad_updates_size_file": ignored(TEXT, _HOROVOD, default=None),
    "tensor_fusion_threshold": ignored(integer(0), _HOROVOD, default=64),
    "tensor_fusion_cycle_time": ignored(integer(0), _HOROVOD, default=1),
    "auto_tune_tensor_fusion": ignored(BOOLEAN, _HOROVOD, default=False),
}
_RESOURCES: dict[str, Key] = {
    "slots_per_trial": mapped(integer(0), "devices that a trial trains on", default=1),
    "slots": ignored(integer(0), _SCHEDULER),
    "max_slots": ignored(integer(0), _SCHEDULER, default=None),
    "weight": ignored(NUMBER, _SCHEDULER, default=1),
    "priority": ignored(integer(1, 99), _SCHEDULER, "0.13", default=None),
    "resource_pool": ignored(TEXT, _SCHEDULER, "0.13", default=""),
    "agent_label": ignored(TEXT, _SCHEDULER),
    "native_parallel": ignored(BOOLEAN, _SCHEDULER, default=False),
    "is_single_node": ignored(BOOLEAN, _SCHEDULER, "after 0.20"),
    "shm_size": ignored(either(integer(0), TEXT), _CONTAINER, default=None),
    "devices": ignored(LIST, _CONTAINER, "0.15"),
}
_ENVIRONMENT: dict[str, Key] = {
    "environment_variables": mapped(
        either(list_of(TEXT), MAPPING),
        "set before the trial is imported; of a mapping by device, those of this machine; values "
        "are never shown",
        default=[],
    ),
    "image": ignored(either(TEXT, MAPPING), _CONTAINER),
    "force_pull_image": ignored(BOOLEAN, _CONTAINER, default=False),
    "registry_auth": ignored(MAPPING, _CONTAINER),
    "ports": ignored(MAPPING, _CONTAINER),
    "proxy_ports": ignored(LIST, _CONTAINER, "0.20"),
    "add_capabilities": ignored(list_of(TEXT), _CONTAINER, "0.15"),
    "drop_capabilities": ignored(list_of(TEXT), _CONTAINER, "0.15"),
    "pod_spec": ignored(MAPPING, _CONTAINER),
    "slurm": ignored(ANYTHING, _SCHEDULER, "0.18 to 0.19"),
    "pbs": ignored(ANYTHING, _SCHEDULER, "0.18 to 0.19"),
    "runtime_packages": ignored(ANYTHING, _INSTALLED, "PEDL to 0.12"),
    "runtime_commands": ignored(ANYTHING, _INSTALLED, "PEDL to 0.12"),
    "os": ignored(ANYTHING, _CONTAINER, _UNVERIFIED),
    "python": ignored(ANYTHING, _INSTALLED, _UNVERIFIED),
    "tensorflow": ignored(ANYTHING, _INSTALLED, _UNVERIFIED),
    "keras": ignored(ANYTHING, _INSTALLED, _UNVERIFIED),
    "pytorch": ignored(ANYTHING, _INSTALLED, _UNVERIFIED),
    "cuda": ignored(ANYTHING, _INSTALLED, _UNVERIFIED),
}
_PROFILING: dict[str, Key] = {
    "enabled": mapped(
        BOOLEAN,
        "whether to profile: times of each step, in the run directory",
        "0.15",
        default=False,
    ),
    "begin_on_batch": mapped(
        integer(0), "first batch of the profile, which is then torch's own", "0.15", default=0
    ),
    "end_after_batch": mapped(
        integer(0), "last batch of the profile, which is then torch's own", "0.15"
    ),
    "sync_timings": ignored(
        BOOLEAN, "Lightning's profiler waits for no stream", "0.15", default=True
    ),
}
_REPRODUCIBILITY: dict[str, Key] = {
    "experiment_seed": mapped(
        integer(0, 2**32 - 1),
        "seed of all random number generators and of `context.get_trial_seed()`, which a cluster "
        "drew from it; without one, a seed is drawn and kept in the run directory",
    ),
}

#: The keys of each section by name; those of the config itself for "".
SECTIONS = {
    "": _EXPERIMENT,
    "searcher": _SEARCHER,
    "checkpoint_storage": _CHECKPOINT_STORAGE,
    "optimizations": _OPTIMIZATIONS,
    "resources": _RESOURCES,
    "environment": _ENVIRONMENT,
    "profiling": _PROFILING,
    "reproducibility": _REPRODUCIBILITY,
}


@cache
def keys() -> dict[str, Key]:
    """All keys by dotted path, each section before the keys in it."""
    found: dict[str, Key] = {}
    for name, key in _EXPERIMENT.items():
        found[name] = key
        found |= {f"{name}.{inner}": other for inner, other in SECTIONS.get(name, {}).items()}
    return found
