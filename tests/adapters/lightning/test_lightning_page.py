"""``docs/lightning.md``: its rows are those of the installed Lightning, and each comes true."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from lightning_fabric import connector
from pytorch_lightning import callbacks, loggers, profilers, strategies
from pytorch_lightning.tuner import Tuner

from det_compat import to_lightning
from tests.adapters.trials import Linear, Normed, rows, same, trainer, weights
from tests.markdown import read

pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning warns of many a flag.

Check = Callable[[Any, pl.Trainer], object]


class Refused(typing.NamedTuple):
    """The words of the error, and the flags or the function that raise it."""

    words: str
    by: Any


class Predicts(to_lightning(Normed)):
    def predict_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        result: torch.Tensor = self.trial.model(batch[0])
        return result

    def predict_dataloader(self) -> Any:
        return torch.utils.data.DataLoader(rows(), batch_size=4)


@pytest.fixture(autouse=True)
def as_before(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Some flags set what torch does from then on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    yield
    torch.use_deterministic_algorithms(before[0])
    torch.backends.cudnn.benchmark = before[1]
    torch.autograd.set_detect_anomaly(False)


def made(module_cls: Any = None, **arguments: Any) -> Any:
    torch.manual_seed(3)
    hparams = {"global_batch_size": 4, "lr": 0.1}
    return (module_cls or to_lightning(Normed))(hparams, **arguments)


def fitted(module: Any = None, **flags: Any) -> tuple[Any, pl.Trainer]:
    module = module or made()
    used = trainer(**{"max_epochs": 2, **flags})
    used.fit(module)
    return module, used


@pytest.fixture(scope="module")
def plain() -> dict[str, torch.Tensor]:
    return weights(fitted()[0])


def trained(count: int) -> Check:
    return lambda module, _: module.trial.trained == [*range(count)]


def evaluated(count: int) -> Check:
    return lambda module, _: len(module.trial.evaluated) == count


def written(pattern: str) -> Check:
    return lambda *_: [*Path().rglob(pattern)] != []


def accumulates(module: Any, _: Any) -> bool:
    other = made(aggregation_frequency=2)
    return same(weights(module), weights(fitted(other)[0]))


def small_steps(module: Any, _: Any) -> bool:
    return not same(weights(module), weights(fitted()[0]))


def one_tested(module: Any, used: pl.Trainer) -> bool:
    module.trial.evaluated.clear()
    used.test(module, verbose=False)
    return module.trial.evaluated == [0]


class Stops(pl.Callback):
    def on_train_batch_end(self, used: Any, *_: Any) -> None:
        used.should_stop = True


SAME = "as without it"
BAREBONES = dict.fromkeys(
    ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
)

#: Flags with what has to come of them.
ARGUMENTS: dict[str, Any] = {
    "accelerator": ({"accelerator": "cpu"}, SAME),
    "strategy": ({"strategy": "auto"}, SAME),
    "devices": ({"devices": 1}, SAME),
    "num_nodes": ({"num_nodes": 1}, SAME),
    "precision": ({"precision": "32-true"}, SAME),
    "logger": ({"logger": True}, written("hparams.yaml")),
    "callbacks": ({"callbacks": [pl.Callback()]}, SAME),
    "fast_dev_run": ({"fast_dev_run": True}, trained(1)),
    "max_epochs": ({"max_epochs": 1}, trained(4)),
    "min_epochs": ({"min_epochs": 2, "callbacks": [Stops()]}, SAME),
    "max_steps": ({"max_steps": 3, "max_epochs": -1}, trained(3)),
    "min_steps": ({"min_steps": 3, "callbacks": [Stops()]}, trained(4)),
    "max_time": ({"max_time": "00:00:00:00"}, trained(0)),
    "limit_train_batches": ({"limit_train_batches": 3}, trained(6)),
    "limit_val_batches": ({"limit_val_batches": 1}, evaluated(2)),
    "limit_test_batches": ({"limit_test_batches": 1}, one_tested),
    "limit_predict_batches": (
        {"limit_predict_batches": 2},
        lambda _, used: len(used.predict(made(Predicts))) == 2,
    ),
    "overfit_batches": ({"overfit_batches": 2}, trained(4)),
    "val_check_interval": ({"val_check_interval": 2}, evaluated(8)),
    "check_val_every_n_epoch": ({"check_val_every_n_epoch": 2}, evaluated(2)),
    "num_sanity_val_steps": ({"num_sanity_val_steps": 2}, SAME),
    "log_every_n_steps": ({"log_every_n_steps": 2}, SAME),
    "enable_checkpointing": ({"enable_checkpointing": True}, written("*.ckpt")),
    "enable_progress_bar": ({"enable_progress_bar": True}, SAME),
    "enable_model_summary": ({"enable_model_summary": True}, SAME),
    "accumulate_grad_batches": ({"accumulate_grad_batches": 2}, accumulates),
    "gradient_clip_val": ({"gradient_clip_val": 1e-5}, small_steps),
    "gradient_clip_algorithm": (
        {"gradient_clip_val": 1e-5, "gradient_clip_algorithm": "value"},
        small_steps,
    ),
    "deterministic": ({"deterministic": True}, SAME),
    "benchmark": ({"benchmark": True}, SAME),
    "inference_mode": ({"inference_mode": True}, SAME),
    "use_distributed_sampler": ({"use_distributed_sampler": True}, SAME),
    "profiler": ({"profiler": "simple"}, SAME),
    "detect_anomaly": ({"detect_anomaly": True}, SAME),
    "barebones": ({"barebones": True, "log_every_n_steps": None, **BAREBONES}, SAME),
    "plugins": ({"plugins": [pl.plugins.TorchCheckpointIO()]}, SAME),
    "sync_batchnorm": ({"sync_batchnorm": True}, SAME),
    "reload_dataloaders_every_n_epochs": ({"reload_dataloaders_every_n_epochs": 1}, SAME),
    "default_root_dir": (
        {"default_root_dir": "here", "enable_checkpointing": True},
        written("here/**/*.ckpt"),
    ),
    "enable_autolog_hparams": ({"enable_autolog_hparams": False}, SAME),
}

PRECISIONS: dict[str, Any] = {
    "32-true": ({"precision": "32-true"}, SAME),
    **{
        name: ({"precision": name}, lambda module, _, t=dtype: dtypes_of(module) == {t})
        for name, dtype in {
            "64-true": torch.float64,
            "16-true": torch.float16,
            "bf16-true": torch.bfloat16,
            "16-mixed": torch.float32,
            "bf16-mixed": torch.float32,
        }.items()
    },
    **{
        name: Refused("transformer_engine", {"precision": name})
        for name in ("transformer-engine", "transformer-engine-float16")
    },
}


def dtypes_of(module: Any) -> set[torch.dtype]:
    return {parameter.dtype for parameter in module.parameters()}


def averaged(module: Any, used: Any) -> bool:
    [seen] = [c.seen for c in used.callbacks if isinstance(c, Sees)]
    expected = [torch.stack(values).mean(0) for values in zip(*seen, strict=True)]
    return all(map(torch.allclose, module.parameters(), expected))


def moving_average(module: Any, used: Any) -> bool:
    [seen] = [c.seen for c in used.callbacks if isinstance(c, Sees)]
    expected = seen[0]
    for values in seen[1:]:
        expected = [0.9 * old + 0.1 * new for old, new in zip(expected, values, strict=True)]
    return all(
        torch.allclose(*pair, atol=1e-6) for pair in zip(module.parameters(), expected, strict=True)
    )


class Sees(pl.Callback):
    """Keeps the weights after each batch."""

    def __init__(self) -> None:
        self.seen: list[list[torch.Tensor]] = []

    def on_train_batch_end(self, used: Any, module: Any, *_: Any) -> None:
        self.seen.append([value.detach().clone() for value in module.parameters()])


def pruned(module: Any, _: Any) -> bool:
    values = torch.cat([value.flatten() for value in module.parameters()])
    return bool((values == 0).float().mean() > 0.7)


class Finetunes(callbacks.BaseFinetuning):
    def freeze_before_training(self, module: Any) -> None:
        self.freeze(module.trial.model[1].inner)

    def finetune_function(self, module: Any, epoch: int, optimizer: Any) -> None:
        if epoch == 1:
            self.unfreeze_and_add_param_group(module.trial.model[1].inner, optimizer)


def frozen_first(module: Any, used: Any) -> bool:
    [seen] = [c.seen for c in used.callbacks if isinstance(c, Sees)]
    return torch.equal(seen[0][0], seen[3][0]) and not torch.equal(seen[3][0], seen[7][0])


class Writes(callbacks.BasePredictionWriter):
    def write_on_batch_end(self, used: Any, module: Any, prediction: Any, *_: Any) -> None:
        torch.save(prediction, f"{_[1]}.prediction")


def predicted(_: Any, used: pl.Trainer) -> bool:
    used.predict(made(Predicts))
    return bool(written("*.prediction")(_, used))


def fails() -> tuple[Any, pl.Trainer]:
    class Fails(pl.Callback):
        def on_train_epoch_end(self, *_: Any) -> None:
            raise ZeroDivisionError

    used = [callbacks.OnExceptionCheckpoint("."), Fails()]
    module = made()
    with pytest.raises(ZeroDivisionError):
        fitted(module, callbacks=used, enable_checkpointing=True)
    resumed = made()
    again = trainer(max_epochs=2)
    again.fit(resumed, ckpt_path="on_exception.ckpt")
    return resumed, again


def with_callback(callback: Any, check: Any = SAME, **flags: Any) -> Any:
    return {"callbacks": [callback, Sees()], **flags}, check


CALLBACKS: dict[str, Any] = {
    "Callback": with_callback(pl.Callback()),
    "LambdaCallback": with_callback(callbacks.LambdaCallback(on_fit_start=lambda *_: None)),
    "EarlyStopping": with_callback(
        callbacks.EarlyStopping("validation_loss", patience=1, stopping_threshold=1e9), trained(4)
    ),
    "ModelCheckpoint": (
        lambda: fitted(
            callbacks=callbacks.ModelCheckpoint(
                monitor="validation_loss", filename="{validation_loss}"
            ),
            enable_checkpointing=True,
        ),
        written("validation_loss=*.ckpt"),
    ),
    "Checkpoint": with_callback(callbacks.Checkpoint(), enable_checkpointing=True),
    "OnExceptionCheckpoint": (fails, SAME),
    "LearningRateMonitor": with_callback(callbacks.LearningRateMonitor(), logger=True),
    "DeviceStatsMonitor": with_callback(callbacks.DeviceStatsMonitor(), logger=True),
    "ThroughputMonitor": with_callback(callbacks.ThroughputMonitor(len), logger=True),
    "Timer": with_callback(callbacks.Timer(duration={"seconds": 0}), trained(0)),
    "ModelSummary": with_callback(callbacks.ModelSummary(), enable_model_summary=True),
    "RichModelSummary": with_callback(callbacks.RichModelSummary(), enable_model_summary=True),
    "ProgressBar": with_callback(callbacks.ProgressBar(), enable_progress_bar=True),
    "TQDMProgressBar": with_callback(callbacks.TQDMProgressBar(), enable_progress_bar=True),
    "RichProgressBar": with_callback(callbacks.RichProgressBar(), enable_progress_bar=True),
    "WeightAveraging": with_callback(callbacks.WeightAveraging(), averaged),
    "EMAWeightAveraging": with_callback(callbacks.EMAWeightAveraging(decay=0.9), moving_average),
    "LearningRateFinder": with_callback(
        callbacks.LearningRateFinder(num_training_steps=14),
        lambda module, _: module.hparams["hparams"]["lr"] != 0.1,
    ),
    "BatchSizeFinder": with_callback(
        callbacks.BatchSizeFinder(),
        lambda module, _: module.hparams["hparams"]["global_batch_size"] == 16,
    ),
    "ModelPruning": with_callback(callbacks.ModelPruning("l1_unstructured", amount=0.5), pruned),
    "BaseFinetuning": with_callback(Finetunes(), frozen_first),
    "BasePredictionWriter": with_callback(Writes(), predicted),
    **{
        name: Refused(words, {"callbacks": [callback]})
        for name, words, callback in [
            ("BackboneFinetuning", "BaseFinetuning", callbacks.BackboneFinetuning()),
            (
                "GradientAccumulationScheduler",
                "accumulate_grad_batches",
                callbacks.GradientAccumulationScheduler({1: 2}),
            ),
            ("SpikeDetection", "on_training_workload_end", callbacks.SpikeDetection()),
            (
                "StochasticWeightAveraging",
                "WeightAveraging",
                callbacks.StochasticWeightAveraging(0.1),
            ),
        ]
    },
}


class OwnLogger(loggers.CSVLogger):
    pass


class OwnProfiler(profilers.SimpleProfiler):
    pass


def by_mlflow() -> tuple[Any, pl.Trainer]:
    pytest.importorskip("mlflow", reason="mlflow is not installed")
    logger = loggers.MLFlowLogger(tracking_uri="sqlite:///mlflow.db")
    found = fitted(logger=logger)
    history = logger.experiment.get_metric_history(logger.run_id, "validation_loss")
    assert [metric.step for metric in history] == [4, 8]
    return found


def by_wandb() -> tuple[Any, pl.Trainer]:
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    logger = loggers.WandbLogger(save_dir=".", offline=True)
    found = fitted(logger=logger)
    assert logger.experiment.config["hparams"]["lr"] == 0.1
    wandb.finish()
    return found


LOGGERS: dict[str, Any] = {
    "Logger": ({"logger": OwnLogger(".")}, written("metrics.csv")),
    "CSVLogger": ({"logger": loggers.CSVLogger(".")}, written("metrics.csv")),
    "TensorBoardLogger": ({"logger": loggers.TensorBoardLogger(".")}, written("events*")),
    "MLFlowLogger": (by_mlflow, written("mlflow.db")),
    "WandbLogger": (by_wandb, written("*.wandb")),
}
PROFILERS: dict[str, Any] = {
    "Profiler": ({"profiler": OwnProfiler()}, SAME),
    "PassThroughProfiler": ({"profiler": None}, SAME),
    "SimpleProfiler": ({"profiler": "simple"}, SAME),
    "AdvancedProfiler": ({"profiler": "advanced"}, SAME),
    "PyTorchProfiler": ({"profiler": "pytorch"}, SAME),
    "XLAProfiler": Refused("torch_xla", {"profiler": "xla"}),
}
STRATEGIES: dict[str, Any] = {
    "auto": ({"strategy": "auto"}, SAME),
    "single_device": ({"strategy": strategies.SingleDeviceStrategy("cpu")}, SAME),
    **{
        name: Refused(words, {"strategy": name})
        for words, names in {
            "GPU": "fsdp fsdp_cpu_offload",
            "install -U deepspeed": "deepspeed deepspeed_stage_1 deepspeed_stage_2 "
            "deepspeed_stage_2_offload deepspeed_stage_3 deepspeed_stage_3_offload "
            "deepspeed_stage_3_offload_nvme",
            "torch_xla": "xla xla_debug",
        }.items()
        for name in names.split()
    },
    "ModelParallelStrategy": Refused(
        "ModelParallelStrategy .* strategy='ddp'",
        {"strategy": strategies.ModelParallelStrategy(), "accelerator": "auto"},
    ),
}


def tune(method: str, **settings: Any) -> Callable[[], Any]:
    def run() -> tuple[Any, pl.Trainer]:
        module, used = made(), trainer(max_epochs=2)
        getattr(Tuner(used), method)(module, **settings)
        used.fit(module)
        return module, used

    return run


TUNER: dict[str, Any] = {
    "lr_find": (tune("lr_find", num_training=14, update_attr=False), SAME),
    "scale_batch_size": (tune("scale_batch_size", max_trials=2, init_val=2), SAME),
}
METHODS: dict[str, Any] = {
    "fit": ({}, SAME),
    "validate": ({}, lambda module, used: used.validate(module, verbose=False)),
    "test": ({}, lambda module, used: used.test(module, verbose=False)),
    "predict": Refused("predict_dataloader", lambda: trainer().predict(made())),
}

SECTIONS: dict[str, dict[str, Any]] = {
    "Arguments of `pl.Trainer`": ARGUMENTS,
    "Strategies": STRATEGIES,
    "Precisions": PRECISIONS,
    "Callbacks": CALLBACKS,
    "Loggers": LOGGERS,
    "Profilers": PROFILERS,
    "`Tuner`": TUNER,
    "Methods": METHODS,
}
#: Rows whose tests need processes of their own.
ELSEWHERE = {name for name in strategies.StrategyRegistry.available_strategies() if "ddp" in name}
ELSEWHERE.add("fully_shard")
PAGE = read("docs/lightning.md")
ROW = re.compile(r"^\| `(\w[\w-]*)` \| (works|refused|unknown) \| (.*)\|$", re.M)


def rows_of(section: str) -> dict[str, str]:
    [text] = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    return {name: outcome for name, outcome, _ in ROW.findall(text)}


def names_there_are() -> dict[str, set[str]]:
    public = {name for name in vars(Tuner) if not name.startswith("_")}
    asked = {
        name
        for choice in typing.get_args(connector._PRECISION_INPUT)
        for name in typing.get_args(choice)
        if isinstance(name, str) and "-" in name
    }
    return {
        "Arguments of `pl.Trainer`": {*inspect.signature(pl.Trainer).parameters},
        "Strategies": {
            *strategies.StrategyRegistry.available_strategies(),
            "auto",
            "ModelParallelStrategy",
        },
        "Precisions": asked,
        "Callbacks": {*callbacks.__all__},
        "Loggers": {*loggers.__all__},
        "Profilers": {*profilers.__all__},
        "`Tuner`": public,
        "Methods": {"fit", "validate", "test", "predict"},
    }


@pytest.mark.parametrize("section", SECTIONS)
def test_the_page_has_every_name_of_the_installed_lightning(section: str) -> None:
    assert {*rows_of(section)} == names_there_are()[section]


CASES = [
    pytest.param(section, name, id=f"{section}-{name}".replace("`", ""))
    for section in SECTIONS
    for name, outcome in rows_of(section).items()
    if outcome != "unknown" and name not in ELSEWHERE
]


@pytest.mark.parametrize(("section", "name"), CASES)
def test_row(section: str, name: str, plain: dict[str, torch.Tensor]) -> None:
    case, outcome = SECTIONS[section][name], rows_of(section)[name]
    if isinstance(case, Refused):
        assert outcome == "refused"
        with pytest.raises(Exception, match=case.words):
            case.by() if callable(case.by) else fitted(made(to_lightning(Linear)), **case.by)
        assert not torch.distributed.is_initialized()
        return
    assert outcome == "works"
    how, check = case
    module, used = how() if callable(how) else fitted(**how)
    assert same(weights(module), plain) if check is SAME else check(module, used)
