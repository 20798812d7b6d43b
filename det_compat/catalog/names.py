"""The names that modules of det_compat have for those of Determined, and what is different.

With the tables of ``det_compat.alias``, which say which module leads where and what is refused,
this is all that ``check`` knows about modules; ``members`` knows what is in their classes. Tests
hold both against the code. Keys are names in det_compat.
"""

from __future__ import annotations

from det_compat.check.findings import Status, Support


def different(note: str, heading: str) -> Support:
    """Works, but not in every respect as in Determined 0.38.1."""
    return Support(Status.DIFFERENT, note, f"MIGRATION.md#{heading}")


def refused(note: str, heading: str) -> Support:
    """Raises an error."""
    return Support(Status.REFUSED, note, f"MIGRATION.md#{heading}")


SAME = Support(Status.SAME)

_PERIOD = different("its value is checked when it is made", "periods-that-are-not-an-int")
_NO_PASSES = different(
    "raises RuntimeError where the sampler it repeats yields nothing", "samplers-that-yield-nothing"
)
_STEPS = (
    "step modes under gradient aggregation are those of Determined's code, not of its documents"
)
_NONE = different(
    "returns None but in a script that `det-compat fit CONFIG.yaml` runs", "determined"
)
_EXCEPTION = different("derives from Exception and not from BaseException", "exceptions")
_OLD = different("of Determined 0.12, and there", "determined-012")

#: What each module has, under the names of Determined.
EXPORTS: dict[str, dict[str, Support]] = {
    "det_compat.common": {"set_logger": SAME},
    "det_compat.core": {
        "CheckpointContext": SAME,
        "Context": SAME,
        "DistributedContext": SAME,
        "DummyDistributedContext": SAME,
        "EarlyExitReason": SAME,
        "PreemptContext": SAME,
        "TrainContext": SAME,
    },
    "det_compat.errors": {
        "InternalException": SAME,
        "InvalidCheckpointException": SAME,
        "InvalidConfigurationException": _EXCEPTION,
        "InvalidDataTypeException": _EXCEPTION,
        "InvalidExperimentException": _EXCEPTION,
        "InvalidHP": SAME,
        "InvalidModelException": _EXCEPTION,
        "StopLoadingImplementation": SAME,
    },
    "det_compat.horovod": {
        "hvd": different(
            "has rank, size, local_rank, local_size and allreduce, over torch.distributed",
            "determinedhorovod",
        )
    },
    "det_compat.import_path": {
        "import_from_path": different("forgets submodules after its block too", "determined"),
    },
    "det_compat.info": {
        "ClusterInfo": SAME,
        "RendezvousInfo": SAME,
        "ResourcesInfo": SAME,
        "TrialInfo": SAME,
        "get_cluster_info": _NONE,
    },
    "det_compat.pedl": {
        "Constant": SAME,
        "Experiment": different("create() trains one trial in this process", "pedl"),
        "get_data_config": different("answers only during a run", "pedl"),
        "get_download_data_dir": different("answers only during a run", "pedl"),
        "get_hyperparameter": different("answers only during a run", "pedl"),
    },
    "det_compat.pedl.frameworks.pytorch": {
        "LRScheduler": SAME,
        "PyTorchTrial": SAME,
        "Reducer": SAME,
        "reset_parameters": SAME,
    },
    "det_compat.pedl.frameworks.pytorch.data": {"DataLoader": SAME, "TorchData": SAME},
    "det_compat.pedl.frameworks.pytorch.util": {"error_rate": SAME},
    "det_compat.pytorch": {
        "Batch": _PERIOD,
        "CheckpointLoadContext": SAME,
        "ClipGradsL2Norm": _OLD,
        "ClipGradsL2Value": _OLD,
        "DataLoader": SAME,
        "Epoch": _PERIOD,
        "LRScheduler": different(_STEPS, "step-modes-and-gradient-aggregation"),
        "MetricReducer": SAME,
        "PyTorchCallback": SAME,
        "PyTorchExperimentalContext": SAME,
        "PyTorchTrial": SAME,
        "PyTorchTrialContext": SAME,
        "Reducer": SAME,
        "TorchData": SAME,
        "TrainUnit": _PERIOD,
        "Trainer": SAME,
        "adapt_batch_sampler": SAME,
        "data_length": SAME,
        "init": different("distributes under torchrun", "pytorchinit-under-torchrun"),
        "load_trial_from_checkpoint_path": different(
            "a checkpoint's code folder holds source files only", "a-checkpoints-code-folder"
        ),
        "reset_parameters": _OLD,
        "samplers": SAME,
        "to_device": SAME,
    },
    "det_compat.pytorch.samplers": {
        "DistributedBatchSampler": SAME,
        "DistributedSampler": SAME,
        "RepeatBatchSampler": _NO_PASSES,
        "RepeatSampler": _NO_PASSES,
        "ReproducibleShuffleBatchSampler": SAME,
        "ReproducibleShuffleSampler": SAME,
        "SkipBatchSampler": SAME,
        "SkipSampler": SAME,
    },
    "det_compat.tensorboard.metric_writers.pytorch": {"TorchWriter": SAME},
    "det_compat.util": {
        "download_gcs_blob_with_backoff": different(
            "needs google-cloud-storage; failures are RuntimeErrors", "determinedutil"
        ),
        "get_member_func": SAME,
        "has_param": SAME,
        "humanize_float": SAME,
        "is_overridden": SAME,
        "json_encode": SAME,
    },
    # what `determined` itself has from elsewhere
    "det_compat": {"LOG_FORMAT": SAME},
    "det_compat.alias": {
        "DETERMINED_VERSION": different(
            "is that of the release whose behaviour is kept, 0.38.1", "determined"
        )
    },
}

_MOVED = "names-that-are-not-there"

#: Names of other releases that are not there, for which there is more to say than the alias does.
ADVICE: dict[str, Support] = {
    **{
        f"determined.pytorch.{name}": refused(
            f"since Determined 0.13 it is determined.pytorch.samplers.{name}", _MOVED
        )
        for name in ("DistributedBatchSampler", "RepeatBatchSampler", "SkipBatchSampler")
    },
    "determined.pytorch._lightning": refused(
        "PLAdapter is not supported: give the LightningModule to pl.Trainer", "determinedlightning"
    ),
    "determined.InvalidHPException": refused("write determined.InvalidHP", _MOVED),
    "determined.Trial": refused("derive from determined.pytorch.PyTorchTrial", _MOVED),
    "determined.NativeContext": refused(
        "the native API of 0.12 is not there: train with pytorch.init() and pytorch.Trainer", _MOVED
    ),
    "determined.create": refused(
        "the native API of 0.12 is not there: train with pytorch.init() and pytorch.Trainer", _MOVED
    ),
    "determined.experimental.create": refused(
        "the native API of 0.12 is not there: `det-compat run` runs a script with pytorch.Trainer",
        "determinedexperimental",
    ),
    "determined.load": refused(
        "load a checkpoint with pytorch.load_trial_from_checkpoint_path(path)",
        "determinedexperimental",
    ),
    "determined.pytorch.PyTorchTrialController": refused(
        "it is a part of Determined's own trial runner: use pytorch.Trainer", "private-names"
    ),
    **{
        f"determined.{name}": refused(
            "hyperparameters are searched by a cluster: give the trial constants", _MOVED
        )
        for name in ("Categorical", "Constant", "Double", "Integer", "Log")
    },
}
