"""The modules of Determined and their names: where det_compat has them, and what it refuses.

``det_compat.alias`` answers imports by these tables, and ``support`` looks names up in them for
``check`` and ``migrate``; ``members`` has what is in the classes. Tests hold the tables against the
code of det_compat and against Determined 0.38.1; names of other releases are those that were read
in the sources of Determined 0.12.3 to 0.38.1 and of PEDL.

This module is imported whenever ``det_compat.alias`` is, so it imports little itself.
"""

from det_compat.catalog.status import Support, each, refused, verdicts

#: Packages that the alias answers for.
ALIASED = ("determined", "determined_common", "pedl")
#: Those, and packages that came with Determined and are not aliased.
PACKAGES = (*ALIASED, "determined_cli", "determined_deploy", "model_hub")

_WRITERS = "determined.tensorboard.metric_writers"

#: The modules that are aliased, each with the module of det_compat that has its names. A module
#: with None has the names of SINGLE_NAMES and nothing else. The underscored modules are those of
#: Determined 0.38.1 that trials import from, and that pickles made under Determined name.
MODULES: dict[str, str | None] = {
    **each("determined determined._trial_context pedl.frameworks", None),
    **each("determined._execution determined.errors", "det_compat.errors"),
    "determined._import": "det_compat.import_path",
    "determined._info": "det_compat.info",
    "determined.common": "det_compat.common",
    **each(
        "determined.core determined.core._checkpoint determined.core._context "
        "determined.core._distributed determined.core._preempt determined.core._train",
        "det_compat.core",
    ),
    "determined.horovod": "det_compat.horovod",
    **each(
        "determined.pytorch determined.pytorch._callback determined.pytorch._data "
        "determined.pytorch._experimental determined.pytorch._load "
        "determined.pytorch._lr_scheduler determined.pytorch._pytorch_context "
        "determined.pytorch._pytorch_trial determined.pytorch._reducer "
        "determined.pytorch._trainer determined.pytorch._trainer_utils",
        "det_compat.pytorch",
    ),
    "determined.pytorch.samplers": "det_compat.pytorch.samplers",
    "determined.tensorboard": "det_compat.tensorboard",
    _WRITERS: "det_compat.tensorboard.metric_writers",
    f"{_WRITERS}.pytorch": "det_compat.tensorboard.metric_writers.pytorch",
    "determined.util": "det_compat.util",
    "pedl": "det_compat.pedl",
    "pedl.frameworks.pytorch": "det_compat.pedl.frameworks.pytorch",
    "pedl.frameworks.pytorch.data": "det_compat.pedl.frameworks.pytorch.data",
    "pedl.frameworks.pytorch.util": "det_compat.pedl.frameworks.pytorch.util",
}

#: Names that det_compat has in another module than the one that MODULES names.
SINGLE_NAMES = {
    "determined.ClusterInfo": "det_compat.info.ClusterInfo",
    "determined.InvalidHP": "det_compat.errors.InvalidHP",
    "determined.LOG_FORMAT": "det_compat.LOG_FORMAT",
    "determined.RendezvousInfo": "det_compat.info.RendezvousInfo",
    "determined.ResourcesInfo": "det_compat.info.ResourcesInfo",
    "determined.TrialContext": "det_compat.pytorch.PyTorchTrialContext",
    "determined.TrialInfo": "det_compat.info.TrialInfo",
    "determined.__version__": "det_compat.alias.DETERMINED_VERSION",
    "determined._trial_context.TrialContext": "det_compat.pytorch.PyTorchTrialContext",
    "determined.get_cluster_info": "det_compat.info.get_cluster_info",
    "determined.import_from_path": "det_compat.import_path.import_from_path",
}

#: What each module of det_compat has, under the names of Determined 0.38.1; names that only 0.12
#: or PEDL had say so.
EXPORTS: dict[str, dict[str, Support]] = {
    "det_compat.common": verdicts(same="set_logger"),
    "det_compat.core": verdicts(
        same="CheckpointContext Context DistributedContext DummyDistributedContext EarlyExitReason "
        "PreemptContext TrainContext",
    ),
    "det_compat.errors": verdicts(
        same="InternalException InvalidCheckpointException InvalidHP StopLoadingImplementation",
        different={
            (
                "InvalidConfigurationException InvalidDataTypeException "
                "InvalidExperimentException InvalidModelException"
            ): "derives from Exception and not from BaseException #exceptions",
        },
    ),
    "det_compat.horovod": verdicts(
        different={
            "hvd": "has rank, size, local_rank, local_size and allreduce, over torch.distributed "
            "#determinedhorovod",
        },
    ),
    "det_compat.import_path": verdicts(
        different={
            "import_from_path": "forgets submodules after its block too #determined",
        },
    ),
    "det_compat.info": verdicts(
        same="ClusterInfo RendezvousInfo ResourcesInfo TrialInfo",
        different={
            "get_cluster_info": "returns None but in a script that `det-compat fit CONFIG.yaml` "
            "runs #determined",
        },
    ),
    "det_compat.pedl": verdicts(
        same="Constant",
        different={
            "Experiment": "create() trains one trial in this process #pedl",
            "get_data_config get_download_data_dir get_hyperparameter": "answers only during a "
            "run #pedl",
        },
    ),
    "det_compat.pedl.frameworks.pytorch": verdicts(
        same="LRScheduler PyTorchTrial Reducer reset_parameters"
    ),
    "det_compat.pedl.frameworks.pytorch.data": verdicts(same="DataLoader TorchData"),
    "det_compat.pedl.frameworks.pytorch.util": verdicts(same="error_rate"),
    "det_compat.pytorch": verdicts(
        same="CheckpointLoadContext DataLoader MetricReducer PyTorchCallback "
        "PyTorchExperimentalContext PyTorchTrial PyTorchTrialContext Reducer TorchData "
        "Trainer adapt_batch_sampler data_length samplers to_device",
        different={
            "Batch Epoch TrainUnit": "its value is checked when it is made "
            "#periods-that-are-not-an-int",
            "ClipGradsL2Norm ClipGradsL2Value reset_parameters": "of Determined 0.12, and there "
            "#determined-012",
            "LRScheduler": "step modes under gradient aggregation are those of Determined's code, "
            "not of its documents #step-modes-and-gradient-aggregation",
            "init": "distributes under torchrun #pytorchinit-under-torchrun",
            "load_trial_from_checkpoint_path": "a checkpoint's code folder holds source files "
            "only #a-checkpoints-code-folder",
        },
    ),
    "det_compat.pytorch.samplers": verdicts(
        same="DistributedBatchSampler DistributedSampler ReproducibleShuffleBatchSampler "
        "ReproducibleShuffleSampler SkipBatchSampler SkipSampler",
        different={
            "RepeatBatchSampler RepeatSampler": "raises RuntimeError where the sampler it repeats "
            "yields nothing #samplers-that-yield-nothing",
        },
    ),
    "det_compat.tensorboard.metric_writers.pytorch": verdicts(same="TorchWriter"),
    "det_compat.util": verdicts(
        same="get_member_func has_param humanize_float is_overridden json_encode",
        different={
            "download_gcs_blob_with_backoff": "needs google-cloud-storage; failures are "
            "RuntimeErrors #determinedutil",
        },
    ),
    "det_compat": verdicts(same="LOG_FORMAT"),
    "det_compat.alias": verdicts(
        different={
            "DETERMINED_VERSION": "is that of the release whose behaviour is kept, 0.38.1 "
            "#determined",
        },
    ),
}

#: What there is none of, with what to do instead; an entry holds for all that is below its name.
REFUSED: dict[str, Support] = verdicts(
    refused={
        (
            "determined.EnvContext determined.ExperimentConfig determined.LegacyTrial "
            "determined.TrialController determined.layers"
        ): "it is a part of Determined's own trial runner: use `determined.pytorch`, and "
        "`context.get_experiment_config()`, which is a plain dict here #names-that-are-not-there",
        (
            "determined.Categorical determined.Constant determined.Double determined.Integer "
            "determined.Log"
        ): "hyperparameters are searched by a cluster: give the trial constants "
        "#names-that-are-not-there",
        "determined.InvalidHPException": "write determined.InvalidHP #names-that-are-not-there",
        "determined.Trial": "derive from determined.pytorch.PyTorchTrial #names-that-are-not-there",
        "determined.NativeContext determined.create": "the native API of 0.12 is not there: train "
        "with pytorch.init() and pytorch.Trainer #names-that-are-not-there",
        "determined.load": "load a checkpoint with pytorch.load_trial_from_checkpoint_path(path) "
        "#determinedexperimental",
        (
            "determined.cli determined.common determined.deploy determined.exec "
            "determined_cli determined_deploy"
        ): "it talks to a Determined cluster, and there is none "
        "#determinedcommon-determinedcli-determineddeploy",
        "determined.core": "the Core API needs a Determined cluster: train with `pytorch.init()` "
        "and `pytorch.Trainer` #determinedcore",
        (
            "determined.estimator determined.keras "
            "determined.tensorboard.metric_writers.tensorflow pedl.frameworks.keras "
            "pedl.frameworks.tensorflow pedl.frameworks.tensorpack"
        ): "Keras and TensorFlow are not supported: only PyTorchTrial is #determinedkeras",
        "determined.experimental": "it is the client of a Determined cluster: checkpoints and "
        "metrics are local files here #determinedexperimental",
        "determined.experimental.create": "the native API of 0.12 is not there: `det-compat run` "
        "runs a script with pytorch.Trainer #determinedexperimental",
        "determined.horovod": "leave Horovod out: under torchrun a plain `pytorch.init()` "
        "distributes the trial #determinedhorovod",
        "determined.launch": "start the script with `torchrun --nproc_per_node=N --no-python "
        "det-compat run SCRIPT` #determinedlaunch",
        "determined.lightning": "Lightning runs your LightningModule as it is: give it to "
        "`pl.Trainer` #determinedlightning",
        "determined.pytorch.PyTorchTrialController": "it is a part of Determined's own trial "
        "runner: use pytorch.Trainer #private-names",
        "determined.pytorch._lightning": "PLAdapter is not supported: give the LightningModule to "
        "pl.Trainer #determinedlightning",
        "determined.pytorch.deepspeed determined.pytorch.dsat": "DeepSpeed trials are not "
        "supported: write it as a PyTorchTrial, or use Lightning's DeepSpeedStrategy "
        "#determinedpytorchdeepspeed",
        "determined.pytorch.experimental": "torch_batch_process is not supported: iterate over a "
        "torch DataLoader, or use `pl.Trainer().predict` #determinedpytorchexperimental",
        "determined.pytorch.lightning": "LightningAdapter is not supported: give the "
        "LightningModule to `pl.Trainer` #determinedlightning",
        "determined.transformers": "use the `transformers.Trainer` without DetCallback "
        "#determinedtransformers",
        "determined_common": "it came with the first releases of Determined: write `assert a == b` "
        "for `check.eq(a, b)`, and so on #determined_common",
        "model_hub": "model_hub is a package of its own that does not load any more: write out "
        "what the trial inherits from it #model_hub",
        "pedl.Categorical pedl.Double pedl.Integer pedl.Log": "Experiment.create() trains one "
        "trial, and searches no hyperparameters: use `pedl.Constant(value=..., name=...)` #pedl",
        **{
            f"determined.pytorch.{name}": "since Determined 0.13 it is "
            f"determined.pytorch.samplers.{name} #names-that-are-not-there"
            for name in ("DistributedBatchSampler", "RepeatBatchSampler", "SkipBatchSampler")
        },
    }
)

_UNKNOWN = refused("if your code needs it, replace it as described", "names-that-are-not-there")


def refusal(name: str) -> Support:
    """What to do without ``name``: the word of REFUSED on it, or on the nearest of its parents."""
    parent = name
    while parent and parent not in REFUSED:
        parent = parent.rpartition(".")[0]
    return REFUSED.get(parent, _UNKNOWN)
