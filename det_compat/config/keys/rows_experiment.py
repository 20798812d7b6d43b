"""The keys of an experiment config that say what is trained, and how."""

from __future__ import annotations

from det_compat.config.keys.kinds import (
    ANYTHING,
    BOOLEAN,
    MAPPING,
    PERIOD,
    SECTION,
    TEXT,
    either,
    integer,
    list_of,
    one_of,
)
from det_compat.config.keys.table import Key, ignored, mapped

_HOROVOD = "tuned Horovod; gradients are exchanged by torch's DistributedDataParallel"

ROWS: tuple[Key, ...] = (
    mapped(
        "name", TEXT, "0.16", "name of the run directory, `runs/NAME/NNN`, and logged with the run"
    ),
    mapped("description", TEXT, "0.12", "logged with the run; its name where there is no `name`"),
    mapped(
        "labels",
        either(list_of(TEXT), MAPPING),
        "0.12",
        "logged with the run's hyperparameters",
    ),
    mapped("data", MAPPING, "0.12", "what `context.get_data_config()` returns"),
    mapped(
        "entrypoint",
        either(TEXT, list_of(TEXT)),
        "0.12",
        "the trial class (`module:Class`), or the script or command to run",
    ),
    mapped(
        "entrypoints",
        MAPPING,
        "PEDL",
        "the trial class and the functions that load its data (`module:name` each)",
    ),
    mapped(
        "hyperparameters",
        MAPPING,
        "0.12",
        "what `context.get_hparams()` returns; ranges are what `det-compat search` samples from",
    ),
    mapped(
        "records_per_epoch",
        integer(0),
        "0.13",
        "converts epochs to batches where no data loader says how long an epoch is",
    ),
    mapped(
        "scheduling_unit",
        integer(1),
        "0.13",
        "training metrics are reported every so many batches (100 by default)",
    ),
    mapped(
        "batches_per_step",
        integer(1),
        "PEDL to 0.12",
        "batches in a step (100), the unit of bare numbers; `scheduling_unit` since 0.13",
    ),
    mapped(
        "min_validation_period",
        PERIOD,
        "0.12",
        "validation every so often (a bare number counts steps, 0 is never), and at the end",
    ),
    mapped(
        "min_checkpoint_period",
        PERIOD,
        "0.12",
        "a checkpoint every so often (a bare number counts steps, 0 is never), and at the end",
    ),
    mapped("validation_period", PERIOD, "0.12", "`min_validation_period`"),
    mapped("checkpoint_period", PERIOD, "0.12", "`min_checkpoint_period`"),
    mapped("perform_initial_validation", BOOLEAN, "0.12", "a validation before training"),
    mapped(
        "checkpoint_policy",
        one_of("best", "all", "none"),
        "0.12",
        "whether a validation is followed by a checkpoint: if it was the best yet, always, never",
    ),
    mapped(
        "max_restarts",
        integer(0),
        "0.12",
        "times that a failed run is restarted from its last checkpoint; 0 where the file does not "
        "say it (5 on a cluster), and under torchrun or SLURM, which restart by themselves",
    ),
    mapped("debug", BOOLEAN, "0.12", "log level DEBUG"),
    mapped("reproducibility", SECTION, "0.12", "seeds"),
    mapped(
        "reproducibility.experiment_seed",
        integer(0, 2**32 - 1),
        "0.12",
        "seed of all random number generators and of `context.get_trial_seed()`, which a cluster "
        "drew from it; without one, a seed is drawn and kept in the run directory",
    ),
    mapped("optimizations", SECTION, "0.12", "gradient aggregation and precision"),
    mapped(
        "optimizations.aggregation_frequency",
        integer(1),
        "0.12",
        "batches whose gradients are added up before an optimizer step",
    ),
    mapped(
        "optimizations.average_aggregated_gradients",
        BOOLEAN,
        "0.12",
        "whether the sum of gradients is divided by `aggregation_frequency` (true by default)",
    ),
    ignored(
        "optimizations.average_training_metrics",
        BOOLEAN,
        "0.12",
        "training metrics are always averaged over processes",
    ),
    mapped(
        "optimizations.mixed_precision",
        one_of("O0", "O1", "O2", "O3"),
        "0.12",
        "O0 is float32; the Apex levels O1 to O3 become torch's float16 autocast on a GPU, unless "
        "the trial or `--trainer.precision` sets a precision; a CPU trains in float32",
    ),
    mapped(
        "optimizations.gradient_compression",
        BOOLEAN,
        "0.12",
        "gradients are exchanged between processes in float16 (torch's `fp16_compress_hook`)",
    ),
    ignored("optimizations.grad_updates_size_file", TEXT, "0.12", _HOROVOD),
    ignored("optimizations.tensor_fusion_threshold", integer(0), "0.12", _HOROVOD),
    ignored("optimizations.tensor_fusion_cycle_time", integer(0), "0.12", _HOROVOD),
    ignored("optimizations.auto_tune_tensor_fusion", BOOLEAN, "0.12", _HOROVOD),
    mapped(
        "profiling", SECTION, "0.15", "Lightning's profiler, unless `--trainer.profiler` is given"
    ),
    mapped(
        "profiling.enabled",
        BOOLEAN,
        "0.15",
        "whether to profile: times of each step, in the run directory",
    ),
    mapped(
        "profiling.begin_on_batch",
        integer(0),
        "0.15",
        "first batch of the profile, which is then torch's own",
    ),
    mapped(
        "profiling.end_after_batch",
        integer(0),
        "0.15",
        "last batch of the profile, which is then torch's own",
    ),
    ignored("profiling.sync_timings", BOOLEAN, "0.15", "Lightning's profiler waits for no stream"),
    mapped("integrations", MAPPING, "after 0.20", "logged with the run's hyperparameters"),
    mapped("integration", MAPPING, "after 0.20", "`integrations`"),
    ignored("internal", ANYTHING, "0.12", "how the Native API submitted the script"),
)
