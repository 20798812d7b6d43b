from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import IterableDataset

from det_compat import to_lightning
from det_compat.adapters.generations.generation import check_trial_class
from det_compat.adapters.module import TrialModule
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch import DataLoader, LRScheduler, PyTorchTrial, Reducer
from tests.adapters.trials import Linear, rows, same, trainer, weights

# docs of TrialRun: what a run of two epochs calls, with a validation at the end of each
PERIOD = [
    "on_training_epoch_start",
    "on_training_epoch_end",
    "on_training_workload_end",
    "on_validation_start",
    "on_validation_epoch_start",
    "on_validation_epoch_end",
    "on_validation_end",
]
ORDER = ["on_trial_startup", "on_training_start", *PERIOD, *PERIOD, "on_trial_shutdown"]


def fitted(trial_cls: type, hparams: Any = None, **flags: Any) -> Any:
    module = to_lightning(trial_cls)(hparams=hparams or {})
    trainer(**flags).fit(module)
    return module


def test_the_order_of_the_callbacks() -> None:
    assert fitted(Linear, max_epochs=2).trial.recorder.hooks() == ORDER


def test_the_arguments_of_the_callbacks() -> None:
    calls = fitted(Linear).trial.recorder.calls
    by_hook = {call[0]: call[1:] for call in calls}
    assert by_hook["on_trial_startup"] == (0, None)
    assert by_hook["on_training_epoch_start"] == by_hook["on_training_epoch_end"] == (0,)
    averages, batches = by_hook["on_training_workload_end"]
    assert averages["index"] == 1.5
    assert (averages["batches"], averages["epochs"]) == (4, 1)
    assert [batch["index"] for batch in batches] == [0, 1, 2, 3]
    [outputs] = by_hook["on_validation_epoch_end"]
    assert [list(output) for output in outputs] == [["validation_loss"]] * 2
    [metrics] = by_hook["on_validation_end"]
    assert list(metrics) == ["validation_loss"]


def test_one_endless_iterator_over_the_training_loader() -> None:
    class Counts(Linear):
        def build_training_data_loader(self) -> Any:
            loader = super().build_training_data_loader()
            self.made: list[Any] = getattr(self, "made", [])
            self.made.append(loader)
            return loader

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            self.epochs: list[int] = [*getattr(self, "epochs", []), epoch_idx]
            return super().train_batch(batch, epoch_idx, batch_idx)

    trial = fitted(Counts, max_epochs=3).trial
    assert len(trial.made) == 1
    assert trial.epochs == [0] * 4 + [1] * 4 + [2] * 4


def test_the_current_batch_is_known_to_the_context() -> None:
    class Asks(Linear):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            assert self.context.current_train_batch() == batch_idx
            assert self.context.current_train_epoch() == epoch_idx
            return super().train_batch(batch, epoch_idx, batch_idx)

    assert fitted(Asks, max_epochs=2).trial.trained == list(range(8))


def test_a_tensor_alone_is_the_loss() -> None:
    class Returns(Linear):
        def train_batch(self, *args: Any, **kwargs: Any) -> Any:
            return super().train_batch(*args, **kwargs)["loss"]

    used, module = trainer(), to_lightning(Returns)(hparams={})
    used.fit(module)
    assert "loss" in used.callback_metrics


def test_what_else_train_batch_must_not_return() -> None:
    class Returns(Linear):
        def train_batch(self, *args: Any, **kwargs: Any) -> Any:
            return [super().train_batch(*args, **kwargs)]

    with pytest.raises(TypeError, match=r"train_batch\(\) must return a dict.*got list"):
        fitted(Returns)


def test_evaluate_batch_may_leave_out_the_index_or_call_it_otherwise() -> None:
    class Without(Linear):
        def evaluate_batch(self, batch: Any) -> dict[str, Any]:
            return {"n": len(batch[0])}

    class More(Linear):
        def evaluate_batch(
            self, batch: Any, epoch_idx: int = 5, batch_idx: int = 7
        ) -> dict[str, Any]:
            return {"n": 10 * epoch_idx + batch_idx}

    for trial_cls, expected in ((Without, 4), (More, 50.5)):
        [metrics] = trainer().validate(to_lightning(trial_cls)(hparams={}), verbose=False)
        assert metrics["n"] == expected


def test_training_metrics_that_differ_between_batches() -> None:
    class Differs(Linear):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            return {"loss": 1, ("even", "odd")[batch_idx % 2]: 2}

    message = "training metrics differ between batches: batch 1 .*only one of them has even, odd"
    with pytest.raises(ValueError, match=message):
        fitted(Differs)


def test_validation_metrics_that_differ_between_batches() -> None:
    class Differs(Linear):
        def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
            return {f"loss{batch_idx}": 1}

    with pytest.raises(ValueError, match=r"same metric names.*loss0.*batch 0.*loss1.*batch 1"):
        fitted(Differs)


class Reduced(Linear):
    """Metrics that each reducer makes something else of."""

    reducers: Any = None

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        return {"a": batch_idx + 1, "b": torch.tensor(float(batch_idx + 1))}

    def evaluation_reducer(self) -> Any:
        return self.reducers


@pytest.mark.parametrize(
    ("reducers", "a", "b"),
    [
        (Reducer.AVG, 1.5, 1.5),
        (Reducer.SUM, 3, 3),
        ({"a": Reducer.MAX, "b": Reducer.MIN}, 2, 1),
    ],
)
def test_evaluation_reducers(reducers: Any, a: float, b: float) -> None:
    trial_cls = type("Chosen", (Reduced,), {"reducers": reducers})
    [metrics] = trainer().validate(to_lightning(trial_cls)(hparams={}), verbose=False)
    assert metrics == {"a": a, "b": b}


@pytest.mark.parametrize(
    ("reducers", "message"),
    [
        ({"a": Reducer.AVG}, r"reducers for \['a'\], but the validation metrics are \['a', 'b'\]"),
        (
            {"a": Reducer.AVG, "b": Reducer.AVG, "c": Reducer.AVG},
            r"reducers for \['a', 'b', 'c'\].*\['a', 'b'\]",
        ),
        ("mean", r"'mean' for the metric.*Reducer.AVG"),
        ({"a": Reducer.AVG, "b": max}, "for the metric 'b'"),
    ],
)
def test_evaluation_reducers_that_do_not_match(reducers: Any, message: str) -> None:
    trial_cls = type("Mismatched", (Reduced,), {"reducers": reducers})
    with pytest.raises(InvalidExperimentException, match=message):
        fitted(trial_cls)


def test_reducers_of_the_context() -> None:
    class Both(Linear):
        def finish(self) -> None:
            wrap = self.context.wrap_reducer
            self.both = wrap(sum, name="both")
            self.train_only = wrap(lambda v: {"first": v[0]}, for_validation=False)
            self.val_only = wrap(max, name="largest", for_training=False)

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            self.both.update(1)
            self.train_only.update(batch_idx)
            return super().train_batch(batch, epoch_idx, batch_idx)

        def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
            self.both.update(10)
            self.val_only.update(batch_idx)
            return {}

    used, module = trainer(), to_lightning(Both)(hparams={})
    used.fit(module)
    metrics = {name: float(value) for name, value in used.callback_metrics.items()}
    del metrics["loss"], metrics["index"]
    assert metrics == {"both": 4, "val_both": 20, "first": 0, "largest": 1}


def test_a_reducer_that_fails_is_named() -> None:
    def broken(values: list[Any]) -> Any:
        raise LookupError("no values")

    class Breaks(Linear):
        def finish(self) -> None:
            self.context.wrap_reducer(broken, name="auc")

    with pytest.raises(ValueError, match=r"broken.*'auc'.*LookupError: no values"):
        fitted(Breaks)


def test_a_named_reducer_that_returns_a_dict() -> None:
    class Breaks(Linear):
        def finish(self) -> None:
            self.context.wrap_reducer(lambda values: {"x": 1}, name="auc")

    with pytest.raises(AssertionError, match=r"wrapped with name set.*returned a dict"):
        fitted(Breaks)


def test_full_dataset_evaluation() -> None:
    class Full(Linear):
        evaluate_batch = PyTorchTrial.evaluate_batch

        def evaluate_full_dataset(self, data_loader: Any) -> dict[str, Any]:
            assert not self.model.training
            assert not torch.is_grad_enabled()
            return {"rows": sum(len(x) for x, _ in data_loader)}

    used, module = trainer(max_epochs=2), to_lightning(Full)(hparams={})
    used.fit(module)
    assert used.callback_metrics["rows"] == 8
    assert "on_validation_epoch_start" not in module.trial.recorder.hooks()
    [metrics] = trainer().validate(module, verbose=False)
    assert metrics == {"rows": 8}


def test_full_dataset_evaluation_that_returns_no_dict() -> None:
    class Full(Linear):
        evaluate_batch = PyTorchTrial.evaluate_batch

        def evaluate_full_dataset(self, data_loader: Any) -> Any:
            return 1.0

    with pytest.raises(TypeError, match=r"evaluate_full_dataset\(\) must return a dict"):
        fitted(Full)


def test_batches_are_moved_unless_the_trial_says_no() -> None:
    moved = []

    class Own(Linear):
        def prepare(self) -> None:
            if self.hparam("own", False):
                self.context.experimental.disable_auto_to_device()
            original = self.context.to_device

            def to_device(data: Any) -> Any:
                moved.append(1)
                return original(data)

            self.context.to_device = to_device

    fitted(Own)
    assert len(moved) == 4 + 2
    fitted(Own, {"own": True})
    assert len(moved) == 4 + 2


def test_batches_of_numpy_and_of_the_users_own_type() -> None:
    class Pair:
        def __init__(self, items: list[Any]) -> None:
            self.x = torch.stack([item[0] for item in items])
            self.y = torch.stack([item[1] for item in items])

        def to(self, device: torch.device) -> Pair:
            self.device = device
            return self

    class Custom(Linear):
        def build_training_data_loader(self) -> Any:
            return DataLoader(rows(), batch_size=4, collate_fn=Pair)

        def build_validation_data_loader(self) -> Any:
            collate = torch.utils.data.default_collate
            to_numpy = lambda items: [part.numpy() for part in collate(items)]  # noqa: E731
            return DataLoader(rows(8), batch_size=4, collate_fn=to_numpy)

        def get_batch_length(self, batch: Any) -> int:
            return len(batch.x if isinstance(batch, Pair) else batch[0])

        def loss(self, batch: Any) -> torch.Tensor:
            if isinstance(batch, Pair):
                assert batch.device == self.context.device
                batch = (batch.x, batch.y)
            return super().loss(batch)

    trial = fitted(Custom).trial
    assert (trial.trained, trial.evaluated) == ([0, 1, 2, 3], [0, 1])


def test_gradients_may_be_taken_inside_a_validation_callback() -> None:
    class Trains(Linear):
        def build_callbacks(self) -> dict[str, Any]:
            trial = self

            class Callback(type(self.recorder)):
                def note(self, hook: str, *args: Any) -> None:
                    if hook == "on_validation_start":
                        with torch.enable_grad():
                            loss = trial.loss((torch.ones(2, 3), torch.zeros(2, 1)))
                            trial.context.backward(loss)
                            trial.context.step_optimizer(trial.optimizer)
                        trial.stepped = True

            return {"trains": Callback()}

    assert fitted(Trains).trial.stepped


def test_a_trial_that_steps_past_the_context() -> None:
    class Direct(Linear):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            loss = self.loss(batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            return {"loss": loss}

    trained = []
    for trial_cls in (Linear, Direct):
        torch.manual_seed(2)
        trained.append(weights(fitted(trial_cls)))
    assert same(*trained)


def test_aggregation_steps_every_nth_batch_only() -> None:
    class Steps(Linear):
        def finish(self) -> None:
            self.changed: list[bool] = []

        def train_batch(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            before = weights(self.model)
            metrics = super().train_batch(*args, **kwargs)
            self.changed.append(not same(before, weights(self.model)))
            return metrics

    module = to_lightning(Steps)(hparams={}, aggregation_frequency=3)
    trainer(max_epochs=2).fit(module)
    assert module.trial.changed == [False, False, True] * 2 + [False, False]


def error_of(trial_cls: type, kind: type[Exception] = InvalidExperimentException) -> str:
    """The error of a fit, which must come before any training."""
    module = to_lightning(trial_cls)(hparams={})
    with pytest.raises(kind) as raised:
        trainer().fit(module)
    if module._run is not None:
        assert module.trial.trained == []
    return str(raised.value)


class Unfinished(PyTorchTrial):
    """Defines some of what it must."""

    def build_training_data_loader(self) -> Any: ...

    def build_validation_data_loader(self) -> Any: ...


class WithoutInit(Unfinished):
    """Defines all but one."""

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any: ...


class Plain:
    """No trial."""


def function(context: Any) -> None: ...


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (function, "expected a PyTorchTrial class, got <function function.*not an instance"),
        (Linear.__new__(Linear), "expected a PyTorchTrial class, got <.*Linear object"),
        (None, "expected a PyTorchTrial class, got None"),
        (
            Plain,
            r"test_trial_run.Plain is no PyTorchTrial: it does not define train_batch, "
            "build_training_data_loader, build_validation_data_loader, for the context API .*; "
            "build_model, optimizer, train_batch, for Determined 0.12; .* for PEDL",
        ),
        (nn.Linear, "torch.nn.modules.linear.Linear is no PyTorchTrial"),
        (PyTorchTrial, "PyTorchTrial is no PyTorchTrial: it does not define train_batch"),
        (Unfinished, "Unfinished is no PyTorchTrial: it does not define train_batch, for the cont"),
        (WithoutInit, "WithoutInit cannot be built: it does not define __init__"),
    ],
)
def test_what_is_no_trial_class(given: Any, message: str) -> None:
    for make in (check_trial_class, to_lightning, TrialModule):
        with pytest.raises(TypeError, match=message):
            make(given)


def test_a_trial_may_inherit_everything_from_a_mixin() -> None:
    class Mixin:
        train_batch = Linear.train_batch
        evaluate_batch = Linear.evaluate_batch
        build_training_data_loader = Linear.build_training_data_loader
        build_validation_data_loader = Linear.build_validation_data_loader

    class Trial(Mixin, PyTorchTrial):
        __init__ = Linear.__init__
        prepare, finish, net = Linear.prepare, Linear.finish, Linear.net
        hparam, sgd, loss = Linear.hparam, Linear.sgd, Linear.loss
        batch_size = Linear.batch_size

    module = to_lightning(Trial)(hparams={})
    trainer().fit(module)
    assert module.trial.trained == [0, 1, 2, 3]
    assert module.trial.evaluated == [0, 1]


def test_no_model_is_wrapped() -> None:
    class Bare(Linear):
        def __init__(self, context: Any) -> None:
            parameter = nn.Parameter(torch.zeros(1))
            context.wrap_optimizer(torch.optim.SGD([parameter], lr=0.1))

        trained = ()

    assert "Bare has no model: call context.wrap_model()" in error_of_bare(Bare)


def test_no_optimizer_is_wrapped() -> None:
    class Bare(Linear):
        def __init__(self, context: Any) -> None:
            context.wrap_model(nn.Linear(1, 1))

    assert "Bare has no optimizer: call context.wrap_optimizer()" in error_of_bare(Bare)


def error_of_bare(trial_cls: type) -> str:
    with pytest.raises(InvalidExperimentException) as raised:
        trainer().fit(to_lightning(trial_cls)(hparams={}))
    return str(raised.value)


def test_a_scheduler_whose_optimizer_is_not_wrapped() -> None:
    class Other(Linear):
        def finish(self) -> None:
            other = torch.optim.Adam(self.model.parameters())
            scheduler = torch.optim.lr_scheduler.StepLR(other, 1)
            self.context.wrap_lr_scheduler(scheduler, LRScheduler.StepMode.STEP_EVERY_BATCH)

    message = error_of(Other)
    assert "the optimizer (Adam) of the LR scheduler StepLR is not wrapped" in message
    assert "call context.wrap_optimizer()" in message


def test_an_optimizer_that_is_not_wrapped_is_stepped() -> None:
    class Other(Linear):
        def train_batch(self, *args: Any, **kwargs: Any) -> Any:
            self.context.step_optimizer(torch.optim.Adam(self.model.parameters()))

    assert "step_optimizer() got an optimizer (Adam) that is not wrapped" in error_of(Other)


def test_both_ways_to_evaluate() -> None:
    class Both(Linear):
        def evaluate_full_dataset(self, data_loader: Any) -> dict[str, Any]:
            return {}

    message = error_of(Both)
    assert "Both must define exactly one of evaluate_batch() and evaluate_full_dataset()" in message
    assert "defines both" in message


def test_neither_way_to_evaluate() -> None:
    class Neither(Linear):
        evaluate_batch = PyTorchTrial.evaluate_batch

    assert "Neither must define exactly one" in error_of(Neither)
    assert "defines neither" in error_of(Neither)


def test_an_iterable_dataset_in_a_loader() -> None:
    class Stream(IterableDataset[int]):
        def __iter__(self) -> Any:
            return iter(range(3))

    class Streams(Linear):
        def build_training_data_loader(self) -> Any:
            return DataLoader(Stream())

    message = error_of(Streams, ValueError)
    assert "IterableDataset" in message
    assert "disable_dataset_reproducibility_checks()" in message


@pytest.mark.parametrize("method", ["build_training_data_loader", "build_validation_data_loader"])
def test_a_plain_torch_loader_is_refused(method: str) -> None:
    loader = torch.utils.data.DataLoader([1, 2])
    trial_cls = type("PlainLoader", (Linear,), {method: lambda self: loader})
    message = error_of(trial_cls, RuntimeError)
    assert f"{method}() returned DataLoader" in message
    assert "context.experimental.disable_dataset_reproducibility_checks()" in message


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("build_training_data_loader", "the training loader is empty: build_training_data_loader"),
        ("build_validation_data_loader", "the validation loader is empty on rank 0"),
    ],
)
def test_an_empty_loader(method: str, message: str) -> None:
    trial_cls = type("Empty", (Linear,), {method: lambda self: DataLoader([], batch_size=2)})
    assert message in error_of(trial_cls, RuntimeError)
