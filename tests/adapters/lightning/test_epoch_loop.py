from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger
from pytorch_lightning.profilers import PassThroughProfiler, SimpleProfiler
from pytorch_lightning.strategies import SingleDeviceStrategy
from torch import nn

from det_compat import to_lightning
from det_compat.adapters.lightning.epoch_loop import Listeners, replaces
from det_compat.pytorch import DataLoader
from tests.adapters.trials import Gan, Linear, rows, trainer, weights

BATCHES = 8  # of two epochs


class Counts(pl.Callback):
    """Counts Lightning's hooks for batches; the methods are added by ``counting``."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []


def counting(*hooks: str, module: str = "pytorch_lightning.of_a_test") -> Counts:
    def method(hook: str) -> Callable[..., None]:
        def noted(self: Counts, trainer: Any, pl_module: Any, *args: Any) -> None:
            self.calls.append((hook, args[-1], trainer.global_step))

        return noted

    methods = {hook: method(hook) for hook in hooks}
    cls: Any = type("Counting", (Counts,), {**methods, "__module__": module})
    counts: Counts = cls()
    return counts


def is_shortened(loop: Any, name: str) -> bool:
    return name in vars(loop)


class Watches(pl.Callback):
    """Whether the loops were shortened, seen from an epoch's end and a validation's."""

    def __init__(self) -> None:
        self.training: list[bool] = []
        self.validation: list[bool] = []

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.training.append(is_shortened(trainer.fit_loop.epoch_loop, "advance"))

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # Lightning's own loop makes a fetcher for each of its runs.
        self.validation.append(trainer.fit_loop.epoch_loop.val_loop._data_fetcher is None)


def fitted(trial_cls: type = Linear, cls: Any = None, **flags: Any) -> tuple[pl.Trainer, Any]:
    torch.manual_seed(3)
    module = (cls or to_lightning(trial_cls))(hparams={})
    found = trainer(**{"max_epochs": 2, **flags})
    found.fit(module)
    return found, module


def shortened(**kwargs: Any) -> tuple[bool, bool]:
    """Whether the loops of training and validation were shortened in a run."""
    watches = Watches()
    fitted(**{**kwargs, "callbacks": [watches, *kwargs.get("callbacks", [])]})
    assert len({*watches.training}) == len({*watches.validation}) == 1
    return watches.training[0], watches.validation[0]


def test_loops_are_shortened_for_the_run_and_then_as_before() -> None:
    assert shortened() == (True, True)
    found, _ = fitted()
    loop = found.fit_loop.epoch_loop
    assert not any(is_shortened(loop, name) for name in ("advance", "on_advance_end"))
    assert not is_shortened(loop.val_loop, "run")


@pytest.mark.parametrize("trial_cls", [Linear, Gan])
def test_the_run_is_the_same_as_on_lightnings_own_loops(trial_cls: type) -> None:
    short, module = fitted(trial_cls)
    whole, other = fitted(trial_cls, profiler=SimpleProfiler())
    for name, value in weights(module).items():
        assert torch.equal(value, weights(other)[name]), name
    assert module.trial.recorder.calls == other.trial.recorder.calls
    assert short.callback_metrics == whole.callback_metrics
    assert short.global_step == whole.global_step == BATCHES
    assert short.fit_loop.state_dict() == whole.fit_loop.state_dict()


def test_a_profiler_sees_lightnings_own_loops() -> None:
    assert shortened(profiler="simple") == (False, False)


@pytest.mark.parametrize(
    "hook", ["on_train_epoch_start", "on_train_batch_start", "on_train_batch_end"]
)
def test_what_a_callback_logs_arrives_when_it_did(hook: str) -> None:
    def log(self: Any, trainer: Any, pl_module: Any, *args: Any) -> None:
        pl_module.log("mine", float(args[-1] if args else 7), on_step=bool(args), on_epoch=True)

    def look(self: Any, trainer: Any, pl_module: Any, *args: Any) -> None:
        self.seen.append({**trainer.callback_metrics})

    found = []
    for profiler in (None, "simple"):
        looks = type("Looks", (pl.Callback,), {"on_train_batch_end": look, "seen": []})()
        callbacks = [type("Logs", (pl.Callback,), {hook: log})(), looks]
        run, _ = fitted(callbacks=callbacks, profiler=profiler)
        found.append([*looks.seen, run.callback_metrics])
    assert found[0] == found[1]
    assert any(name.startswith("mine") for name in found[0][-1])


def test_what_the_trial_logs_through_its_module_arrives() -> None:
    class Logs(Linear):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            module.log("of the trial", float(batch_idx))
            return super().train_batch(batch, epoch_idx, batch_idx)

    module = to_lightning(Logs)(hparams={})
    trainer().fit(module)
    assert module.trainer.callback_metrics["of the trial"] == BATCHES / 2 - 1


# Validations within an epoch


def _ask(found: pl.Trainer) -> None:
    found.should_stop = True


def _have_sigterm(found: pl.Trainer) -> None:
    found._signal_connector.received_sigterm = True


@pytest.mark.parametrize("ending", [None, _ask, _have_sigterm])
@pytest.mark.parametrize(
    "flags",
    [
        {"val_check_interval": 3, "check_val_every_n_epoch": None},
        {"val_check_interval": 3, "check_val_every_n_epoch": None, "max_steps": 6},
        {"val_check_interval": 3, "check_val_every_n_epoch": None, "min_epochs": 2},
        {"val_check_interval": 4, "check_val_every_n_epoch": None},
        {"val_check_interval": 3, "check_val_every_n_epoch": None, "limit_val_batches": 0},
        {"val_check_interval": 2, "check_val_every_n_epoch": 2},
        {"val_check_interval": 0.5},
        {"val_check_interval": "00:00:00:00"},
    ],
)
def test_validations_in_an_epoch_are_those_of_lightnings_own_loop(
    flags: dict[str, Any], ending: Callable[[pl.Trainer], None] | None
) -> None:
    def at_end(self: Any, found: Any, module: Any) -> None:
        self.at.append((found.global_step, found.current_epoch, found.fit_loop.state_dict()))
        if ending is not None and len(self.at) == 2:
            ending(found)

    runs = []
    for profiler in (None, "simple"):
        ends = type("Ends", (pl.Callback,), {"on_validation_epoch_end": at_end, "at": []})()
        torch.manual_seed(3)
        module = to_lightning(Linear)(hparams={})
        found = trainer(**{"max_epochs": 3, **flags}, callbacks=[ends], profiler=profiler)
        status = None
        try:
            found.fit(module)
        except SystemExit as error:
            status = error.code
        runs.append((ends.at, module.trial.recorder.calls, status, found.fit_loop.state_dict()))
    assert runs[0] == runs[1]
    assert bool(runs[0][0]) == (flags.get("limit_val_batches") != 0)


# Batches of a validation that nobody hears of


class Evaluates(Linear):
    """Six validation batches; ``at`` is what happens in each."""

    at: Callable[[pl.Trainer, Any, int], None]
    module: Any

    def build_validation_data_loader(self) -> Any:
        return DataLoader(rows(24, seed=1), batch_size=4)

    def evaluate_batch(self, batch: Any, batch_idx: int) -> Any:
        type(self).at(self.module.trainer, self.module, batch_idx)
        return {"validation_loss": self.loss(batch)}


Seen = tuple[Any, dict[str, Any], dict[str, Any]]


def evaluated(at: Callable[..., None], profiler: str | None, **flags: Any) -> Seen:
    """The batches evaluated, the loops' state and the metrics of a run."""
    cls = type("Evaluates", (Evaluates,), {"at": staticmethod(at)})
    torch.manual_seed(3)
    module = to_lightning(cls)(hparams={})
    Evaluates.module = module
    found = trainer(max_epochs=2, profiler=profiler, **flags)
    error = None
    try:
        found.fit(module)
    except ZeroDivisionError as raised:
        error = raised
    return error is None, found.fit_loop.state_dict(), {**found.callback_metrics}


def _nothing(*_: Any) -> None:
    pass


def _logs(_: pl.Trainer, module: Any, batch_idx: int) -> None:
    if batch_idx == 3:
        module.log("of the trial", 5.0, on_step=True, on_epoch=True)


def _fails(_: pl.Trainer, module: Any, batch_idx: int) -> None:
    if batch_idx == 3:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("at", "flags"),
    [(_nothing, {}), (_nothing, {"limit_val_batches": 4}), (_logs, {}), (_fails, {})],
)
def test_a_validation_is_the_same_as_on_lightnings_own_loop(at: Any, flags: Any) -> None:
    assert evaluated(at, None, **flags) == evaluated(at, "simple", **flags)


@pytest.mark.parametrize("profiler", [None, "simple"])
def test_a_callback_that_comes_within_a_validation_hears_of_the_rest(profiler: Any) -> None:
    counts = counting("on_validation_batch_start", "on_validation_batch_end")
    counts.calls.clear()

    def comes(found: Any, _: Any, batch_idx: int) -> None:
        if batch_idx == 3 and counts not in found.callbacks:
            found.callbacks.append(counts)

    evaluated(comes, profiler, limit_train_batches=1, num_sanity_val_steps=0)
    heard = [(hook.removeprefix("on_validation_batch_"), step) for hook, _, step in counts.calls]
    rest = [("start", 1), ("end", 1)] * 2
    assert heard[: len(rest) + 1] in ([("end", 1), *rest], [*rest, ("start", 2)])


@pytest.mark.parametrize("stage", ["fit", "validate", "test"])
def test_hooks_and_their_surroundings_are_those_of_lightnings_own_loop(stage: str) -> None:
    seen: list[Any] = []

    def hook(name: str) -> Callable[..., None]:
        def noted(self: Any, found: Any, module: Any, *args: Any) -> None:
            loop = found._evaluation_loop
            progress, grad = loop.batch_progress, torch.is_grad_enabled()
            state = (str(found.state), found.sanity_checking, module._current_fx_name, grad)
            models = [model.training for model in module.context.models]
            shown = sorted(found.callback_metrics), sorted(found.progress_bar_metrics)
            seen.append((name, state, models, progress.state_dict(), loop._has_run, shown, args))

        return noted

    stages = ("test",) if stage == "test" else ("validation",)
    names = [
        f"on_{name}_{moment}"
        for name in stages
        for moment in ("start", "epoch_start", "batch_start", "batch_end", "epoch_end", "end")
    ]
    runs = []
    for profiler in (None, "simple"):
        seen.clear()
        callback = type("Notes", (pl.Callback,), {name: hook(name) for name in names})()
        torch.manual_seed(3)
        module = to_lightning(Linear)(hparams={})
        found = trainer(max_epochs=2, callbacks=[callback], profiler=profiler)
        returned = getattr(found, stage)(module)
        noted = [(*entry[:-1], repr(entry[-1])) for entry in seen]
        runs.append((noted, module.trial.recorder.calls, returned, {**found.callback_metrics}))
    assert runs[0] == runs[1]
    assert {entry[0] for entry in runs[0][0]} == {*names}


@pytest.mark.parametrize("hook", ["on_validation_epoch_start", "on_validation_epoch_end"])
@pytest.mark.parametrize("stage", ["fit", "validate"])
def test_what_a_callback_logs_in_a_validation_arrives(
    hook: str, stage: str, tmp_path: Path
) -> None:
    def log(self: Any, trainer: Any, pl_module: Any) -> None:
        pl_module.log("mine", 7.0, prog_bar=True)

    found = []
    for profiler in (None, "simple"):
        torch.manual_seed(3)
        logger = CSVLogger(tmp_path, name=str(profiler))
        callback = type("Logs", (pl.Callback,), {hook: log})()
        flags = {"callbacks": [callback], "logger": logger, "max_epochs": 2}
        run = trainer(profiler=profiler, **flags)
        returned = getattr(run, stage)(to_lightning(Linear)(hparams={}))
        rows_ = [sorted(row.items()) for row in logger.experiment.metrics]
        shown = {**run.progress_bar_metrics}, {**run.callback_metrics}.keys()
        found.append((returned, rows_, shown[0].keys(), shown[1]))
    assert found[0] == found[1]
    assert "mine" in found[0][3]


def test_a_loader_of_ones_own_is_evaluated_by_lightnings_own_loop() -> None:
    def look(self: Any, found: Any, _: Any) -> None:
        self.fetchers.append(found.validate_loop._data_fetcher)

    looks = type("Looks", (pl.Callback,), {"on_validation_epoch_end": look, "fetchers": []})()
    found, module = trainer(callbacks=[looks]), to_lightning(Linear)(hparams={})
    found.validate(module)
    found.validate(module, torch.utils.data.DataLoader(rows(8, seed=1), batch_size=4))
    assert [fetcher is None for fetcher in looks.fetchers] == [True, False]


def test_a_strategy_and_a_profiler_of_ones_own_are_asked() -> None:
    class Moves(SingleDeviceStrategy):
        def batch_to_device(self, *args: Any, **kwargs: Any) -> Any:
            return super().batch_to_device(*args, **kwargs)

    class Watches(PassThroughProfiler):
        """Somebody's."""

    assert shortened(strategy=Moves(), accelerator="cpu") == (False, False)
    assert shortened(profiler=Watches()) == (False, False)


@pytest.mark.parametrize("method", ["train_batch", "evaluate_batch"])
def test_an_iterator_of_the_trial_that_runs_out_is_an_error(method: str) -> None:
    class RunsOut(Linear):
        pass

    def runs_out(self: Any, *args: Any, **kwargs: Any) -> Any:
        return next(iter(()))

    setattr(RunsOut, method, runs_out)
    with pytest.raises(RuntimeError, match=rf"{method}\(\) raised StopIteration"):
        trainer().fit(to_lightning(RunsOut)(hparams={}))


@pytest.mark.parametrize("hook", ["on_train_batch", "on_validation_batch"])
def test_lightnings_callbacks_hear_of_the_same_batches(hook: str) -> None:
    calls = []
    for profiler in (None, "simple"):
        counts = counting(f"{hook}_start", f"{hook}_end")
        fitted(callbacks=[counts], profiler=profiler)
        calls.append(counts.calls)
    assert calls[0] == calls[1] != []


# The weights after the optimizer step are what is wanted.
@pytest.mark.filterwarnings("ignore:Using ModelCheckpoint with manual optimization")
def test_checkpoints_after_batches(tmp_path: Path) -> None:
    checkpoint = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=3, save_top_k=-1)
    assert shortened(callbacks=[checkpoint], enable_checkpointing=True) == (True, True)
    assert {path.name for path in tmp_path.iterdir()} == {"step=3.ckpt", "step=6.ckpt"}


@pytest.mark.parametrize(
    ("hook", "expected"),
    [
        ("on_train_batch_start", (False, True)),
        ("training_step", (False, True)),
        ("on_before_batch_transfer", (False, False)),
        ("validation_step", (True, False)),
    ],
)
def test_a_subclass_with_a_hook_of_its_own_is_asked(hook: str, expected: Any) -> None:
    calls: list[Any] = []
    base = to_lightning(Linear)

    def own(self: Any, *args: Any) -> Any:
        calls.append(args)
        return getattr(base, hook)(self, *args)

    assert shortened(cls=type("Own", (base,), {hook: own})) == expected
    assert len(calls) >= 2


def test_a_limit_of_batches_ends_each_epoch() -> None:
    found, module = fitted(limit_train_batches=3)
    assert len(module.trial.trained) == found.global_step == 6


@pytest.mark.parametrize("period", [2, 3])
def test_validation_within_and_across_epochs(period: int) -> None:
    counts = []
    for profiler in (None, "simple"):
        _, module = fitted(
            val_check_interval=period, check_val_every_n_epoch=None, profiler=profiler
        )
        counts.append(module.trial.recorder.hooks().count("on_validation_start"))
    assert counts[0] == counts[1] == BATCHES // period


def test_should_stop_ends_the_run_at_once() -> None:
    class Stops(Linear):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            metrics = super().train_batch(batch, epoch_idx, batch_idx)
            if batch_idx == 1:
                module.trainer.should_stop = True
            return metrics

    module = to_lightning(Stops)(hparams={})
    trainer(max_epochs=5, limit_val_batches=0).fit(module)
    assert len(module.trial.trained) == 2


# Who hears of a hook

HOOKS = ("on_train_batch_start", "on_train_batch_end")


class Own(pl.Callback):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *args: Any) -> None:
        self.seen.append((pl_module._current_fx_name, *args))


def test_a_method_of_the_class_or_the_object_overrides() -> None:
    plain, own = pl.Callback(), Own()
    assert not replaces(plain, pl.Callback, "on_train_batch_end")
    assert replaces(own, pl.Callback, "on_train_batch_end")
    vars(plain)["on_train_batch_end"] = print
    assert replaces(plain, pl.Callback, "on_train_batch_end")
    assert replaces(mock.Mock(spec=pl.Callback()), pl.Callback, "on_train_batch_end")


def test_callbacks_are_told_with_the_name_of_the_hook_set() -> None:
    own, module = Own(), pl.LightningModule()
    flags = {"callbacks": [own, ModelCheckpoint()], "enable_checkpointing": True}
    found: Any = trainer(**flags)
    found.strategy.connect(module)
    listeners = Listeners(found, HOOKS)
    module._current_fx_name = "on_train_start"
    with mock.patch.object(ModelCheckpoint, "on_train_batch_end") as checkpoints:
        listeners.refresh()
        listeners.tell("on_train_batch_end", 1, 2)
        listeners.tell("on_train_batch_start", 1, 2)
    assert own.seen == [("on_train_batch_end", 1, 2)]
    assert checkpoints.call_count == 1
    assert module._current_fx_name == "on_train_start"


def test_a_callback_that_comes_later_is_told_too() -> None:
    found: Any = trainer()
    found.strategy.connect(pl.LightningModule())
    listeners, own = Listeners(found, HOOKS), Own()
    listeners.tell("on_train_batch_end", 1)
    found.callbacks.append(own)
    listeners.tell("on_train_batch_end", 2)
    assert own.seen == [("on_train_batch_end", 2)]


# Profilers and attributes


def test_a_profiler_that_was_asked_for_still_profiles() -> None:
    profiler = SimpleProfiler()
    assert fitted(profiler=profiler)[0].profiler is profiler
    assert any("training_step" in name for name in profiler.recorded_durations)


def test_other_attributes_of_a_module_are_set_as_ever() -> None:
    module: Any = to_lightning(Linear)()
    module.layer = nn.Linear(1, 1)
    module.weight = nn.Parameter(torch.ones(1))
    assert {"layer.weight", "weight"} <= {name for name, _ in module.named_parameters()}


def test_few_assignments_go_through_the_slow_way(monkeypatch: Any) -> None:
    names: list[str] = []
    slow = nn.Module.__setattr__

    def counted(self: nn.Module, name: str, value: Any) -> None:
        names.append(name)
        slow(self, name, value)

    monkeypatch.setattr(nn.Module, "__setattr__", counted)
    fitted(max_epochs=3)
    assert "_current_fx_name" not in names
