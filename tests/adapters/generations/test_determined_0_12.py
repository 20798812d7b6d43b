from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from det_compat import to_lightning
from det_compat.adapters.lightning import sources
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch import (
    Batch,
    ClipGradsL2Norm,
    ClipGradsL2Value,
    DataLoader,
    LRScheduler,
    PyTorchCallback,
    PyTorchTrial,
    Reducer,
    Trainer,
    init,
    load_trial_from_checkpoint_path,
)
from tests.adapters.trials import rows, same, trainer, weights

EPOCH = LRScheduler.StepMode.STEP_EVERY_EPOCH
LEVELS = {"optimizations": {"mixed_precision": "O1"}}


class Old(PyTorchTrial):
    """A trial of Determined 0.12: four batches of four rows an epoch."""

    callbacks: dict[str, Any] = {}  # noqa: RUF012 - each test has a class of its own

    def __init__(self, context: Any) -> None:
        self.context = context
        self.calls: list[Any] = []

    def build_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1))

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def create_lr_scheduler(self, optimizer: torch.optim.Optimizer) -> Any:
        return LRScheduler(torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5), step_mode=EPOCH)

    def train_batch(self, batch: Any, model: nn.Module, epoch_idx: int, batch_idx: int) -> Any:
        self.calls.append((epoch_idx, batch_idx))
        x, y = batch
        return {"loss": (model(x) - y).pow(2).mean()}

    def evaluate_batch(self, batch: Any, model: nn.Module) -> Any:
        x, y = batch
        return {"error": (model(x) - y).abs().mean()}

    def build_training_data_loader(self) -> Any:
        return DataLoader(rows(), batch_size=4, shuffle=True)

    def build_validation_data_loader(self) -> Any:
        return DataLoader(rows(8, seed=1), batch_size=4)

    def build_callbacks(self) -> dict[str, Any]:
        return self.callbacks


class New(Old):
    """The same, rewritten for the context API."""

    clip: Any = None

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.model = context.wrap_model(self.build_model())
        self.opt = context.wrap_optimizer(super().optimizer(self.model))
        wrapper = super().create_lr_scheduler(self.opt)
        context.wrap_lr_scheduler(wrapper._scheduler, wrapper._step_mode)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        metrics = super().train_batch(batch, self.model, epoch_idx, batch_idx)
        self.context.backward(metrics["loss"])
        self.context.step_optimizer(self.opt, clip_grads=self.clip)
        return metrics

    def evaluate_batch(self, batch: Any) -> Any:
        return super().evaluate_batch(batch, self.model)


def fitted(trial_cls: type, hparams: Any = None, flags: Any = None, **arguments: Any) -> Any:
    torch.manual_seed(3)
    module = to_lightning(trial_cls)(hparams=hparams or {}, **arguments)
    trainer(**{"max_epochs": 2, **(flags or {})}).fit(module)
    return module


def refusal(trial_cls: type, kind: type[Exception]) -> str:
    with pytest.raises(kind) as raised:
        fitted(trial_cls)
    return str(raised.value)


def variant(trial_cls: type, **members: Any) -> Any:
    return type(trial_cls.__name__, (trial_cls,), members)


@pytest.mark.parametrize(
    ("old_clip", "clip"),
    [
        (None, None),
        (ClipGradsL2Norm(0.2), lambda ps: torch.nn.utils.clip_grad_norm_(ps, 0.2)),
        (ClipGradsL2Value(0.05), lambda ps: torch.nn.utils.clip_grad_value_(ps, 0.05)),
    ],
)
@pytest.mark.parametrize("aggregation", [1, 3])
def test_weights_are_those_of_the_same_trial_rewritten(
    old_clip: Any, clip: Any, aggregation: int
) -> None:
    conf = {"optimizations": {"aggregation_frequency": aggregation}}
    old = fitted(variant(Old, callbacks={"clip": old_clip} if old_clip else {}), exp_conf=conf)
    new = fitted(variant(New, clip=staticmethod(clip) if clip else None), exp_conf=conf)
    assert same(weights(old.models), weights(new.models))
    [optimizer] = old.context.optimizers
    assert [group["lr"] for group in optimizer.param_groups] == [0.1 * 0.5**2]


CLIPS: Any = [
    ({"clip_grad_l2_norm": 0.2}, lambda ps: torch.nn.utils.clip_grad_norm_(ps, 0.2)),
    ({"clip_grad_val": 0.05}, lambda ps: torch.nn.utils.clip_grad_value_(ps, 0.05)),
]


@pytest.mark.parametrize(("hparams", "clip"), CLIPS)
@pytest.mark.parametrize("aggregation", [1, 3])
def test_hyperparameters_may_clip(hparams: Any, clip: Any, aggregation: int) -> None:
    conf = {"optimizations": {"aggregation_frequency": aggregation}}
    old = fitted(Old, hparams, exp_conf=conf)
    new = fitted(variant(New, clip=staticmethod(clip)), hparams, exp_conf=conf)
    assert same(weights(old.models), weights(new.models))
    assert not same(weights(old.models), weights(fitted(Old, exp_conf=conf).models))


@pytest.mark.parametrize("hparams", [hparams for hparams, _ in CLIPS])
def test_hyperparameters_do_not_clip_where_callbacks_do(hparams: Any) -> None:
    class Clip(PyTorchCallback):
        def on_before_optimizer_step(self, parameters: Any) -> None:
            torch.nn.utils.clip_grad_norm_(parameters, 0.5)

    old = fitted(variant(Old, callbacks={"clip": Clip()}), hparams)
    assert same(weights(old.models), weights(fitted(Old, {"clip_grad_l2_norm": 0.5}).models))


def test_one_way_to_clip_by_hyperparameters() -> None:
    with pytest.raises(InvalidExperimentException, match="clip_grad_l2_norm and clip_grad_val"):
        fitted(Old, {"clip_grad_l2_norm": 0.2, "clip_grad_val": 0.05})
    one = fitted(Old, {"clip_grad_l2_norm": 0.2, "clip_grad_val": None})
    assert same(weights(one.models), weights(fitted(Old, {"clip_grad_l2_norm": 0.2}).models))


def test_summed_gradients_if_the_config_says_so() -> None:
    settings = {"aggregation_frequency": 2, "average_aggregated_gradients": False}
    averaged = fitted(Old, exp_conf={"optimizations": {"aggregation_frequency": 2}})
    old = fitted(Old, exp_conf={"optimizations": settings})
    new = fitted(New, exp_conf={"optimizations": settings})
    assert same(weights(old.models), weights(new.models))
    assert not same(weights(old.models), weights(averaged.models))


def test_the_trial_is_the_one_of_the_user() -> None:
    module = fitted(Old)
    assert type(module.trial) is Old
    assert module.trial.calls == [(i // 4, i) for i in range(8)]
    assert module.context.get_model() is module.context.models[0]
    assert module.context.get_optimizer() is module.context.optimizers[0]
    assert module.context.get_lr_scheduler().get_last_lr() == [0.025]
    assert module.context.model is module.context.models[0]
    assert module.context.optimizer is module.context.optimizers[0]
    assert module.context.lr_scheduler is module.context.lr_schedulers[0]


def test_the_context_has_model_and_optimizer_when_the_scheduler_is_made() -> None:
    def create(self: Any, optimizer: Any) -> Any:
        assert self.context.get_optimizer() is self.context.optimizer is optimizer
        assert self.context.get_model() is self.context.model
        assert self.context.lr_scheduler is self.context.get_lr_scheduler() is None
        return Old.create_lr_scheduler(self, optimizer)

    fitted(variant(Old, create_lr_scheduler=create))


def test_metrics_are_published() -> None:
    torch.manual_seed(3)
    module = to_lightning(Old)(hparams={})
    run = trainer(max_epochs=1)
    run.fit(module)
    assert set(run.callback_metrics) == {"loss", "error"}


def test_train_batch_may_return_the_loss_alone() -> None:
    def train_batch(self: Any, batch: Any, model: Any, epoch_idx: int, batch_idx: int) -> Any:
        return Old.train_batch(self, batch, model, epoch_idx, batch_idx)["loss"]

    alone = fitted(variant(Old, train_batch=train_batch))
    assert same(weights(alone.models), weights(fitted(Old).models))


@pytest.mark.parametrize(
    ("metrics", "kind", "message"),
    [
        ({"error": 1.0}, InvalidExperimentException, r'must return "loss" .* got \[\'error\'\]'),
        (None, TypeError, "must return the loss, a tensor, or a dict of metrics .* got NoneType"),
        ({"loss": torch.ones(2)}, InvalidExperimentException, r"shape \(2,\); it must be a scalar"),
    ],
)
def test_what_train_batch_must_return(metrics: Any, kind: type[Exception], message: str) -> None:
    def train_batch(self: Any, batch: Any, model: Any, epoch_idx: int, batch_idx: int) -> Any:
        return metrics

    with pytest.raises(kind, match=message):
        fitted(variant(Old, train_batch=train_batch))


def test_what_methods_must_return() -> None:
    def nothing(self: Any, *args: Any) -> None:
        return None

    def bare(self: Any, optimizer: Any) -> Any:
        return torch.optim.lr_scheduler.StepLR(optimizer, 1)

    no_model, no_optimizer = variant(Old, build_model=nothing), variant(Old, optimizer=nothing)
    assert "build_model() must return a torch.nn.Module" in refusal(no_model, TypeError)
    assert "optimizer(model) must return an optimizer" in refusal(no_optimizer, TypeError)
    scheduled = variant(Old, create_lr_scheduler=bare)
    assert "must return an LRScheduler(scheduler, step_mode=...)" in refusal(scheduled, TypeError)


class AsksForTheData(Old):
    """As up to 0.12.10, where the loaders were built before the scheduler."""

    def build_training_data_loader(self) -> Any:
        data = super().build_training_data_loader()
        self.batches_per_epoch = len(data)
        return data

    def create_lr_scheduler(self, optimizer: torch.optim.Optimizer) -> Any:
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, self.batches_per_epoch, 0.5)
        return LRScheduler(scheduler, LRScheduler.StepMode.STEP_EVERY_BATCH)


def test_a_scheduler_may_need_the_data(tmp_path: Any) -> None:
    module = fitted(AsksForTheData)
    assert same(weights(module.models), weights(fitted(Old).models))
    assert module.context.get_lr_scheduler().get_last_lr() == [0.025]
    resuming = resumed(AsksForTheData, tmp_path / "a.ckpt")
    assert resuming.context.get_lr_scheduler().get_last_lr() == [0.1 * 0.5**3]


class WarmsUp(AsksForTheData):
    """Asks for the data when a scheduler has changed the optimizer already."""

    def create_lr_scheduler(self, optimizer: torch.optim.Optimizer) -> Any:
        warm = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=100)
        assert self.batches_per_epoch
        return LRScheduler(warm, LRScheduler.StepMode.MANUAL_STEP)


def test_a_scheduler_that_was_given_up_leaves_no_trace() -> None:
    (group,) = fitted(WarmsUp).trial.context.optimizers[0].param_groups
    assert (group["lr"], group["initial_lr"]) == (0.05, 0.1)


def test_a_scheduler_that_fails_fails() -> None:
    def fails(self: Any, optimizer: Any) -> Any:
        return self.nowhere

    assert "'nowhere'" in refusal(variant(Old, create_lr_scheduler=fails), AttributeError)


def test_a_base_class_of_the_real_determined() -> None:
    base = pytest.importorskip("determined.pytorch").PyTorchTrial
    skipped = ("__dict__", "__weakref__", "__module__", "_abc_impl", "__abstractmethods__")
    members = {key: value for key, value in vars(Old).items() if key not in skipped}
    module = fitted(type("Real", (base,), members))
    assert isinstance(module.trial, base)
    assert same(weights(module.models), weights(fitted(Old).models))


class Bases(Old):
    """Without an __init__ of its own, on an abstract one."""

    calls: list[Any] = []  # noqa: RUF012
    __init__ = PyTorchTrial.__init__


def test_a_trial_without_init_has_the_context() -> None:
    module = fitted(Bases)
    assert module.trial.context is module.context
    assert isinstance(module.trial, Bases)


def takes_nothing(self: Any) -> None:
    self.calls, self.given = [], None


def takes_hparams(self: Any, hparams: Any) -> None:
    self.calls, self.given = [], hparams


def takes_both(self: Any, trial_context: Any, hparams: Any) -> None:
    self.calls, self.given = [], (trial_context.get_hparams(), hparams)


@pytest.mark.parametrize(
    ("init", "given"),
    [
        (takes_nothing, None),
        (takes_hparams, {"a": 1}),
        (takes_both, ({"a": 1}, {"a": 1})),
    ],
)
def test_what_init_may_take(init: Any, given: Any) -> None:
    assert fitted(variant(Old, __init__=init), {"a": 1}).trial.given == given


def test_arguments_beside_the_context() -> None:
    def init(self: Any, context: Any, width: int, depth: int = 2) -> None:
        self.calls, self.shape = [], (width, depth)

    module = to_lightning(variant(Old, __init__=init))(hparams={}, width=3)
    trainer().fit(module)
    assert module.trial.shape == (3, 2)


def test_no_scheduler_is_needed() -> None:
    module = fitted(variant(Old, create_lr_scheduler=lambda self, optimizer: None))
    assert module.context.get_lr_scheduler() is None


class Full(Old):
    evaluate_batch = None

    def evaluate_full_dataset(self, data_loader: Any, model: Any) -> Any:
        assert not model.training
        return {"rows": float(sum(len(x) for x, _ in data_loader))}


def test_evaluate_full_dataset_gets_the_model() -> None:
    run = trainer(max_epochs=1)
    run.fit(to_lightning(Full)(hparams={}))
    assert run.callback_metrics["rows"] == 8


def test_evaluation_reducer() -> None:
    run = trainer(max_epochs=1)
    summed = variant(
        Old,
        evaluate_batch=lambda self, batch, model: {"rows": float(len(batch[0]))},
        evaluation_reducer=lambda self: {"rows": Reducer.SUM},
    )
    run.fit(to_lightning(summed)(hparams={}))
    assert run.callback_metrics["rows"] == 8


def test_both_or_neither_way_to_evaluate_is_refused() -> None:
    both = variant(Full, evaluate_batch=Old.evaluate_batch)
    neither = variant(Old, evaluate_batch=None)
    assert "Full must define exactly one" in refusal(both, InvalidExperimentException)
    assert "defines neither" in refusal(neither, InvalidExperimentException)


class Spy(PyTorchCallback):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_train_step_start(self, step_id: int) -> None:
        self.seen.append(("step", step_id))

    def on_train_step_end(self, step_id: int, metrics: dict[str, Any]) -> None:
        losses = [batch["loss"] for batch in metrics["batch_metrics"]]
        assert metrics["avg_metrics"]["loss"] == pytest.approx(sum(losses) / len(losses))
        assert metrics["num_inputs"] == 4 * len(losses)
        self.seen.append(("step end", step_id, len(losses)))

    def on_training_epoch_start(self) -> None:
        self.seen.append("epoch")

    def on_before_optimizer_step(self, parameters: Any) -> None:
        self.seen.append(len(list(parameters)))

    def on_validation_step_start(self) -> None:
        self.seen.append("validation")

    def on_validation_step_end(self, metrics: dict[str, Any]) -> None:
        self.seen.append(sorted(metrics))

    def state_dict(self) -> dict[str, Any]:
        return {"seen": len(self.seen)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.seen.append(state_dict)


class Bare:
    """Of no base class, with one hook."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def on_train_step_end(self, step_id: int, metrics: Any) -> None:
        self.steps.append(step_id)


def test_hooks_of_the_time_are_called() -> None:
    spy, bare = Spy(), Bare()
    fitted(variant(Old, callbacks={"spy": spy, "bare": bare}), exp_conf={"batches_per_step": 2})
    step = [4, 4]
    first = [("step", 1), "epoch", *step, ("step end", 1, 2), ("step", 2), *step]
    assert spy.seen[:9] == [*first, ("step end", 2, 2)]
    assert spy.seen[9:13] == ["validation", ["error"], ("step", 3), "epoch"]
    assert bare.steps == [1, 2, 3, 4]


def test_steps_are_counted_on_when_training_resumes(tmp_path: Any) -> None:
    conf = {"batches_per_step": 2}
    torch.manual_seed(3)
    first = trainer(max_epochs=1)
    first.fit(to_lightning(variant(Old, callbacks={"spy": Spy()}))(hparams={}, exp_conf=conf))
    first.save_checkpoint(tmp_path / "one.ckpt")
    spy = Spy()
    module = to_lightning(variant(Old, callbacks={"spy": spy}))(hparams={}, exp_conf=conf)
    trainer(max_epochs=2).fit(module, ckpt_path=tmp_path / "one.ckpt")
    assert [seen for seen in spy.seen if isinstance(seen, tuple)] == [
        ("step", 3),
        ("step end", 3, 2),
        ("step", 4),
        ("step end", 4, 2),
    ]
    assert {"seen": 11} in spy.seen


def resumed(trial_cls: type, path: Any) -> Any:
    torch.manual_seed(3)
    first = trainer(max_epochs=2)
    first.fit(to_lightning(trial_cls)(hparams={}))
    first.save_checkpoint(path)
    module = to_lightning(trial_cls)(hparams={})
    trainer(max_epochs=3).fit(module, ckpt_path=path)
    return module


def test_resuming_ends_where_the_rewritten_trial_ends(tmp_path: Any) -> None:
    old, new = resumed(Old, tmp_path / "old.ckpt"), resumed(New, tmp_path / "new.ckpt")
    assert same(weights(old.models), weights(new.models))
    assert old.context.get_lr_scheduler().get_last_lr() == [0.1 * 0.5**3]


def test_load_from_checkpoint(tmp_path: Any) -> None:
    module_cls = to_lightning(Old)
    torch.manual_seed(3)
    run = trainer(max_epochs=1)
    run.fit(module_cls(hparams={}))
    run.save_checkpoint(tmp_path / "one.ckpt")
    loaded = module_cls.load_from_checkpoint(tmp_path / "one.ckpt")
    assert type(loaded.trial) is Old
    assert same(weights(loaded.models), weights(fitted(Old, flags={"max_epochs": 1}).models))


def test_mixed_precision_of_the_config(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    context_cls = sources.PyTorchTrialContext
    monkeypatch.setattr(
        context_cls, "configure_apex_amp", lambda self, **kwargs: given.append((self, kwargs))
    )
    fitted(Old)
    fitted(Old, exp_conf={"optimizations": {"mixed_precision": "O0"}})
    assert given == []
    fitted(Old, exp_conf=LEVELS)
    [(context, arguments)] = given
    assert arguments == {
        "models": context.models[0],
        "optimizers": context.optimizers[0],
        "opt_level": "O1",
    }


def test_mixed_precision_stays_float32_on_the_cpu() -> None:
    with pytest.warns(FutureWarning, match="opt_level='O1'.* trains in float32"):
        old = fitted(Old, exp_conf=LEVELS)
    assert same(weights(old.models), weights(fitted(Old).models))


def make_data_loaders(experiment_config: Any, hparams: Any) -> Any:
    training = DataLoader(rows(), batch_size=hparams["batch_size"], shuffle=True)
    return training, DataLoader(rows(8, seed=1), batch_size=4)


class Earliest(PyTorchTrial):
    """Methods take hparams; the loaders are those of the module."""

    train_batch, evaluate_batch = Old.train_batch, Old.evaluate_batch

    def __init__(self, context: Any) -> None:
        self.calls: list[Any] = []

    def build_model(self, hparams: Any) -> nn.Module:
        assert hparams == {"batch_size": 4, "lr": 0.1}
        return Old.build_model(self)

    def optimizer(self, model: nn.Module, hparams: Any) -> Any:
        return torch.optim.SGD(model.parameters(), lr=hparams["lr"], momentum=0.9)

    def create_lr_scheduler(self, optimizer: Any, hparams: Any) -> Any:
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        return LRScheduler(scheduler, step_every_epoch=True)


def test_the_earliest_form() -> None:
    earliest = fitted(Earliest, {"batch_size": 4, "lr": 0.1})
    assert same(weights(earliest.models), weights(fitted(Old).models))
    assert earliest.trial.calls == [(i // 4, i) for i in range(8)]


def test_loader_functions_may_be_passed(tmp_path: Any) -> None:
    asked: list[Any] = []

    def own(experiment_config: Any, hparams: Any) -> Any:
        asked.append((experiment_config, hparams))
        return make_data_loaders(experiment_config, hparams)

    def download(experiment_config: Any, hparams: Any) -> str:
        asked.append("download")
        return str(tmp_path)

    module_cls = to_lightning(Earliest, make_data_loaders=own, download_data=download)
    hparams = {"batch_size": 4, "lr": 0.1}
    trainer().fit(module_cls(hparams=hparams, exp_conf={"name": "old"}))
    assert asked == ["download", ({"name": "old"}, hparams)]


def test_no_data_at_all() -> None:
    class Nowhere(Earliest):
        """Its module has no function."""

    Nowhere.__module__ = Earliest.__module__ = "builtins"
    try:
        message = refusal(Nowhere, InvalidExperimentException)
        assert "Nowhere has no data: define build_training_data_loader()" in message
    finally:
        Earliest.__module__ = __name__


class Transitional(Old):
    """Of 0.12.12: builds itself, and is given the model all the same."""

    build_model = optimizer = create_lr_scheduler = None

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        model = context._Model(Old.build_model(self))
        self.opt = context._Optimizer(Old.optimizer(self, model))
        wrapper = Old.create_lr_scheduler(self, self.opt)
        context._LRScheduler(wrapper._scheduler, wrapper._step_mode)

    def train_batch(self, batch: Any, model: nn.Module, epoch_idx: int, batch_idx: int) -> Any:
        metrics = super().train_batch(self.context._to_device(batch), model, epoch_idx, batch_idx)
        self.context._backward(metrics["loss"])
        self.context._step_optimizer(self.opt)
        return metrics


def test_a_transitional_trial() -> None:
    assert same(weights(fitted(Transitional).models), weights(fitted(Old).models))


def test_a_trial_that_builds_and_wraps_nothing() -> None:
    empty = variant(Transitional, __init__=Old.__init__)
    expected = "has no model: define build_model() and optimizer(), or call context.wrap_model()"
    assert expected in refusal(empty, InvalidExperimentException)


def run_script(trial_cls: type, times: int = 1) -> Any:
    torch.manual_seed(3)
    with init(hparams={}) as context:
        trial: Any = trial_cls(context)
        script = Trainer(trial, context)
        for time in range(times):
            script.fit(max_length=Batch(4 * (time + 1)), checkpoint_policy="none")
        return copy.deepcopy(weights(context.models[0])), trial


# Lightning warns of models that a validation before the second fit left in eval mode.
@pytest.mark.filterwarnings("ignore:Found . module.s. in eval mode")
@pytest.mark.parametrize("times", [1, 2])
def test_a_script_may_give_an_old_trial_to_trainer(times: int) -> None:
    new, _ = run_script(New, times)
    old, trial = run_script(Old, times)
    assert same(old, new)
    assert len(trial.calls) == sum(4 * (time + 1) for time in range(times))


def test_a_checkpoint_of_an_old_trial(tmp_path: Any) -> None:
    torch.manual_seed(3)
    with init(hparams={}, exp_conf={"name": "old"}) as context:
        Trainer(Old(context), context).fit(max_length=Batch(4))
        trained = copy.deepcopy(weights(context.models[0]))
    [file] = tmp_path.glob("share/**/load_data.json")
    loaded: Any = load_trial_from_checkpoint_path(str(file.parent), trial_class=Old)
    assert type(loaded) is Old
    assert same(weights(loaded.context.get_model()), trained)
