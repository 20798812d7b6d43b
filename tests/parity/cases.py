"""What is run on both sides. Importing this needs nothing but Python."""

from __future__ import annotations

from typing import Any

from case import Case, batches, epochs
from older_cases import determined_0_12

# For what Determined 0.38.1 refuses, or on two ranks fails or hangs on; and for what would repeat.
ONE = (1,)


def _basics() -> list[Case]:
    noisy = "basics:Noisy"
    three = {"max_length": epochs(3)}
    cases = [
        Case("noisy", noisy, fit=three, lightning=True),
        Case("workers", noisy, {"workers": 2}, three, lightning=True),
        Case("persistent-workers", noisy, {"workers": 1, "persistent": True}, three, ranks=ONE),
        Case("drop-last", noisy, {"drop_last": True}, three),
        Case("own-generator", "basics:OwnGenerator", fit=three, lightning=True),
        Case("own-generator-workers", "basics:OwnGenerator", {"workers": 2}, three, ranks=ONE),
        Case("own-sampler", "basics:OwnSampler", fit=three, lightning=True),
        Case("own-batch-sampler", "basics:OwnBatchSampler", fit=three),
        Case("twenty-epochs", noisy, fit={"max_length": epochs(20)}, lightning=True),
    ]
    for case in cases:
        case.hparams.setdefault("global_batch_size", 8)  # BatchNorm wants two rows or more
    return [*cases, Case("big-batch", "base:Classifier", {"global_batch_size": 64}, ranks=ONE)]


def _gans() -> list[Case]:
    return [
        Case("gan", "gan:Gan", lightning=True),
        Case("gan-aggregated", "gan:Gan", aggregation=2),
        Case("gan-alternating", "gan:AlternatingGan", lightning=True),
        Case("gan-critic", "gan:CriticGan", lightning=True),
        Case("gan-without-flags", "gan:FlagFreeGan"),
        Case("shared-optimizer", "gan:SharedOptimizer", lightning=True),
        Case("shared-optimizer-aggregated", "gan:SharedOptimizer", aggregation=3),
    ]


def _aggregation() -> list[Case]:
    modes = ("STEP_EVERY_EPOCH", "STEP_EVERY_BATCH", "MANUAL_STEP", "STEP_EVERY_OPTIMIZER_STEP")
    cases = []
    for mode in modes:
        short = mode.lower().replace("_", "-")
        for every in (1, 2, 3):
            hparams = {"step_mode": mode, "frequency": every, "by_hand": mode == "MANUAL_STEP"}
            for aggregation in (1, 3):
                cases.append(
                    Case(
                        f"{short}-{every}-aggregated-{aggregation}",
                        "aggregation:Scheduled",
                        hparams,
                        {"max_length": epochs(3)},
                        aggregation,
                        ranks=(1, 2) if every == 2 and aggregation == 3 else ONE,
                    )
                )
    clips: list[Case] = [
        Case(
            f"clip-{clip}-aggregated-{aggregation}",
            "aggregation:Scheduled",
            {"clip": clip},
            aggregation=aggregation,
            lightning=aggregation == 3,
        )
        for clip in ("norm", "value")
        for aggregation in (1, 3)
    ]
    long = {"max_length": epochs(3), "validation_period": batches(4)}
    return [
        *cases,
        *clips,
        Case("looks-at-gradients", "aggregation:LooksAtGradients"),
        Case("looks-at-gradients-aggregated", "aggregation:LooksAtGradients", aggregation=3),
        Case(
            "aggregated",
            "base:Classifier",
            fit={"max_length": epochs(4)},
            aggregation=3,
            lightning=True,
        ),
        Case("aggregated-noisy", "basics:Noisy", {"global_batch_size": 8}, long, aggregation=3),
        Case("summed", "aggregation:Summed", fit=long, aggregation=3),
        Case("two-schedules", "aggregation:TwoSchedules", fit=long, aggregation=1),
        Case("two-schedules-aggregated", "aggregation:TwoSchedules", fit=long, aggregation=3),
        Case("keeps-gradients-aggregated", "aggregation:KeepsGradients", aggregation=3),
        Case("aggregated-beyond-epoch", "base:Classifier", fit=long, aggregation=10),
    ]


def _reducers() -> list[Case]:
    often = {"validation_period": batches(4), "reporting_period": batches(3)}
    return [
        Case("reduced", "reducers:Reduced", fit=often),
        Case("reduced-aggregated", "reducers:Reduced", fit=often, aggregation=3),
        Case("nothing-but-reduced", "reducers:NothingButReduced", fit=often, ranks=ONE),
        Case("late-reducers", "reducers:LateReducers", fit=often),
        *(
            Case(f"reducer-{name.lower()}", "reducers:OneReducer", {"reducer": name})
            for name in ("AVG", "SUM", "MAX", "MIN")
        ),
        Case("each-its-reducer", "reducers:EachItsReducer"),
        Case("wrong-reducers", "reducers:WrongReducers", ranks=ONE),
        Case("reducer-without-name", "reducers:WithoutName", ranks=ONE),
    ]


def _evaluation() -> list[Case]:
    often = {"validation_period": batches(4), "reporting_period": batches(3)}
    names = {
        "full-dataset": "FullDataset",
        "full-dataset-reduced": "FullDatasetReduced",
        "batch-idx": "WithBatchIdx",
        "batch-idx-default": "WithDefaults",
        "returns-tensor": "ReturnsTensor",
        "takes-kwargs": "TakesKwargs",
        "odd-full-metrics": "OddFullMetrics",
        "reserved-names": "ReservedNames",
        "one-dict": "OneDict",
        "shared-memory": "SharedMemory",
    }
    failing = {
        "changing-names": ("ChangingNames", "raises ValueError, where Determined has its own type"),
        "changing-validation-names": ("ChangingValidationNames", ""),
        "both-evaluations": ("BothEvaluations", ""),
        "empty-validation": ("EmptyValidation", "is refused before training"),
    }
    return [
        *(Case(name, f"evaluation:{cls}", fit=often) for name, cls in names.items()),
        *(
            Case(name, f"evaluation:{cls}", ranks=ONE, differs=differs)
            for name, (cls, differs) in failing.items()
        ),
        Case("odd-metrics", "evaluation:OddMetrics", fit=often, ranks=ONE),
        Case("no-metrics", "evaluation:NoMetrics", fit=often, ranks=ONE),
        Case("odd-scalars", "evaluation:OddMetrics", {"extras": False}, often),
    ]


def _gradients() -> list[Case]:
    names = {
        "penalty": "Penalty",
        "retain-graph": "RetainGraph",
        "keeps-gradients": "KeepsGradients",
        "on-its-own": "OnItsOwn",
        "step-and-step-optimizer": "Mixed",
        "closure": "Closure",
        "sometimes-steps": "SometimesSteps",
        "several-steps": "SeveralSteps",
        "frozen": "Frozen",
    }
    aggregated = ("penalty", "retain-graph", "on-its-own", "several-steps")
    return [
        Case("create-graph-alone", "gradients:CreateGraph", {"retain": False}, ranks=ONE),
        Case("create-graph", "gradients:CreateGraph", ranks=ONE),
        *(
            Case(name, f"gradients:{cls}", lightning=name != "frozen")
            for name, cls in names.items()
        ),
        *(
            Case(f"{name}-aggregated", f"gradients:{names[name]}", aggregation=2)
            for name in aggregated
        ),
    ]


def _batches() -> list[Case]:
    names = {
        "numpy-batches": "NumpyBatches",
        "nested-batches": "NestedBatches",
        "own-batches": "OwnBatches",
        "unmeasured-batches": "UnmeasuredBatches",
        "stays-put": "StaysPut",
        "numpy-stays-put": "NumpyStaysPut",
    }
    return [Case(name, f"batches:{cls}", ranks=ONE) for name, cls in names.items()]


def _loaders() -> list[Case]:
    short = {"max_length": batches(9), "validation_period": batches(4)}
    return [
        Case("plain-loaders", "loaders:PlainLoaders"),
        Case("sample-samplers", "loaders:SampleSamplers"),
        Case("adapted-sampler", "loaders:AdaptedSampler"),
        Case("plain-shuffle", "loaders:PlainShuffle", fit={"max_length": epochs(1)}),
        Case("refused-loader", "loaders:Refused", ranks=ONE),
        Case("refused-validation-loader", "loaders:RefusedValidation", ranks=ONE),
        Case("refused-stream", "loaders:RefusedStream", ranks=ONE),
        Case("stream", "loaders:Streamed", fit=short),
        Case("stream-of-a-million", "loaders:Streamed", {"length": 1_000_000}, short),
        Case("built-twice", "loaders:BuiltTwice"),
        Case("shares-model", "loaders:SharesModel", ranks=ONE),
    ]


def _lengths() -> list[Case]:
    plain = "base:Classifier"
    fits: dict[str, dict[str, Any]] = {
        "batches-only": {"max_length": batches(8), "validation_period": None},
        "no-validation-period": {"max_length": epochs(1), "validation_period": None},
        "validation-every-4": {"max_length": batches(10), "validation_period": batches(4)},
        "validation-every-batch": {"max_length": batches(4), "validation_period": batches(1)},
        "validation-at": {"max_length": batches(14), "validation_period": batches([1, 5, 10])},
        "validation-at-epochs": {"max_length": epochs(4), "validation_period": epochs([1, 3])},
        "every-two-epochs": {"max_length": epochs(5), "validation_period": epochs(2)},
        "epochs-by-batches": {"max_length": batches(13), "validation_period": epochs(1)},
        "batches-by-epochs": {"max_length": epochs(2), "validation_period": batches(5)},
        "reporting-every-3": {"reporting_period": batches(3)},
        "reporting-every-batch": {"reporting_period": batches(1), "max_length": batches(5)},
        "reporting-at": {"reporting_period": batches([2, 3, 7])},
        "reporting-by-epoch": {"reporting_period": epochs(1), "max_length": epochs(3)},
        "checkpoint-every-3": {"checkpoint_period": batches(3), "checkpoint_policy": "none"},
        "checkpoint-at": {"checkpoint_period": batches([1, 5, 10]), "checkpoint_policy": "all"},
        "checkpoint-each-epoch": {"checkpoint_period": epochs(1), "checkpoint_policy": "none"},
        "checkpoint-best": {"checkpoint_policy": "best"},
        "all-at-once": {
            "max_length": batches(12),
            "validation_period": batches(3),
            "checkpoint_period": batches(2),
            "reporting_period": batches(4),
            "checkpoint_policy": "none",
        },
        "step-zero": {"step_zero_validation": True},
        "step-zero-no-checkpoint": {"step_zero_validation": True, "checkpoint_policy": "none"},
        "test-mode": {"test_mode": True, "max_length": epochs(3)},
        "test-mode-no-period": {
            "test_mode": True,
            "max_length": batches(100),
            "validation_period": None,
        },
        "test-mode-step-zero": {"test_mode": True, "step_zero_validation": True},
        "sets": {"validation_period": batches({2, 4}), "reporting_period": batches(range(0, 9, 3))},
        "zero-period": {"validation_period": batches(0), "max_length": batches(3)},
        "length-zero": {"max_length": batches(0)},
        "no-length": {"max_length": None},
        "bad-length": {"max_length": batches([1, 2])},
    }
    one_rank = ("test-mode-no-period", "sets", "no-length", "bad-length")
    return [
        *(
            Case(name, plain, fit=fit, ranks=ONE if name in one_rank else (1, 2))
            for name, fit in fits.items()
        ),
        Case("uneven-aggregated", plain, fit=fits["all-at-once"], aggregation=5),
        Case("test-mode-reduced", "reducers:Reduced", fit={"test_mode": True}),
        Case("test-mode-full", "evaluation:FullDataset", fit={"test_mode": True}),
        Case("reports-of-100", plain, {"global_batch_size": 2}, {"max_length": batches(230)}),
        Case("fits-twice", plain, fits=2),
        Case("fits-twice-aggregated", "basics:Noisy", {"global_batch_size": 8}, {}, 3, fits=2),
        Case("without-tensorboard", plain, tensorboard=False),
        Case("no-recorder", plain, recorder=False, fit=fits["validation-every-4"]),
    ]


def _endings() -> list[Case]:
    often = {
        "validation_period": batches(4),
        "checkpoint_period": batches(5),
        "reporting_period": batches(3),
        "checkpoint_policy": "none",
    }
    hooks = (
        "on_trial_startup",
        "build_training_data_loader",
        "on_training_start",
        "on_training_epoch_start",
        "train_batch",
        "on_training_epoch_end",
        "on_training_workload_end",
        "on_validation_start",
        "on_validation_epoch_start",
        "evaluate_batch",
        "on_validation_epoch_end",
        "on_validation_end",
        "on_checkpoint_save_start",
        "on_checkpoint_write_end",
        "on_checkpoint_upload_end",
    )
    stops = [("train_batch", 4), ("train_batch", 6), ("train_batch", 12), ("evaluate_batch", 5)]
    stops += [(hook, 1) for hook in hooks]
    stops += [("on_training_workload_end", 3), ("on_validation_end", 3)]
    # "stop" on the chief alone, and errors on one rank alone, leave the others waiting.
    chief_only = ("on_checkpoint_save_start", "on_checkpoint_write_end")
    both = ("train_batch", "on_validation_end", "on_training_epoch_end")
    cases = [
        Case(
            f"stop-{at.replace('_', '-')}-{count}",
            "endings:Ends",
            {"do": "stop", "at": at, "count": count},
            often,
            ranks=(1, 2) if at in both else ONE,
        )
        for at, count in stops
    ]
    for what in ("invalid", "error"):
        cases += [
            Case(
                f"{what}-{hook.replace('_', '-')}",
                "endings:Ends",
                {"do": what, "at": hook},
                often,
                ranks=(1, 2) if hook in both and hook not in chief_only else ONE,
            )
            for hook in hooks
        ]
    stop = {"do": "stop", "at": "train_batch", "count": 7}
    return [
        *cases,
        Case("invalid-later", "endings:Ends", {"do": "invalid", "at": "train_batch", "count": 7}),
        Case("error-on-trial-shutdown", "endings:Ends", {"do": "error", "at": "shutdown"}),
        Case("exit-train-batch", "endings:Ends", {"do": "exit", "at": "train_batch"}, ranks=ONE),
        Case("stop-checkpoint-all", "endings:Ends", stop, {**often, "checkpoint_policy": "all"}),
        Case("stop-aggregated", "endings:Ends", stop, often, aggregation=3),
        Case("stop-no-periods", "endings:Ends", stop, {"validation_period": None}),
    ]


def _refusals() -> list[Case]:
    names = {
        "no-model": "NoModel",
        "no-optimizer": "NoOptimizer",
        "strange-scheduler": "StrangeScheduler",
        "automatic-plateau": "AutomaticPlateau",
        "missing-hparam": "MissingHparam",
    }
    return [Case(name, f"refusals:{cls}", ranks=ONE) for name, cls in names.items()]


def _habits() -> list[Case]:
    often = {"validation_period": batches(4), "reporting_period": batches(3)}
    names = {
        "trains-in-validation": "callbacks:TrainsInValidation",
        "optimizer-first": "habits:OptimizerFirst",
        "teacher": "habits:Teacher",
        "frozen-teacher": "habits:FrozenTeacher",
        "mixin": "habits:Mixed",
        "hand-stepped": "habits:HandStepped",
        "plateau": "habits:Plateau",
        "own-scheduler": "habits:OwnScheduler",
        "drawing": "callbacks:Drawing",
        "reads-checkpoint": "callbacks:ReadsCheckpoint",
        "eval-mode": "callbacks:EvalMode",
        "leaves-eval": "callbacks:LeavesEval",
        "reads-context": "habits:ReadsContext",
        "old-callbacks": "callbacks:CallbacksOld",
        "attributes": "habits:Attributes",
        "use-amp": "amp:UseAmp",
        "own-scaler": "amp:OwnScaler",
        "enabled-scaler": "amp:EnabledScaler",
        "tensorboard": "habits:WritesTensorBoard",
        "hands-context-on": "habits:HandsContextOn",
    }
    aggregated = ("trains-in-validation", "hand-stepped", "use-amp", "reads-context")
    return [
        Case("wraps-loss", "habits:WrapsLoss", fit=often, ranks=ONE),
        *(Case(name, cls, fit=often) for name, cls in names.items()),
        *(Case(f"{name}-aggregated", names[name], fit=often, aggregation=2) for name in aggregated),
    ]


CASES: list[Case] = [
    *_basics(),
    *_gans(),
    *_aggregation(),
    *_reducers(),
    *_evaluation(),
    *_gradients(),
    *_batches(),
    *_loaders(),
    *_lengths(),
    *_endings(),
    *_refusals(),
    *_habits(),
    *determined_0_12(),
]

assert len({case.name for case in CASES}) == len(CASES), "case names must differ"
