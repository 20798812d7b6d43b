from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from det_compat.errors import InternalException
from det_compat.pytorch import CheckpointLoadContext, PyTorchTrialContext, init
from det_compat.pytorch.context.steering import Steering
from tests.pytorch.libraries import train, wrapped

HPARAMS, CONFIG = {"lr": 1.0}, {"searcher": {"metric": "loss"}}


@pytest.fixture
def context() -> Iterator[PyTorchTrialContext]:
    with init(hparams=HPARAMS, exp_conf=CONFIG, aggregation_frequency=2) as context:
        yield context


@pytest.fixture
def steering(context: PyTorchTrialContext) -> Steering:
    return Steering(context)


def test_what_the_trial_was_given(steering: Steering, context: PyTorchTrialContext) -> None:
    assert steering.hparams is HPARAMS
    assert steering.exp_conf is CONFIG
    assert steering.core.distributed is context.distributed
    assert steering.aggregation_frequency == 2


def test_nothing_was_given() -> None:
    steering = Steering(CheckpointLoadContext())
    assert (steering.hparams, steering.exp_conf, steering.is_trained) == (None, None, False)


def test_what_the_trial_registered(steering: Steering, context: PyTorchTrialContext) -> None:
    model = context.wrap_model(nn.Linear(1, 1))
    reducer = context.wrap_reducer(sum, name="total")
    assert steering.is_trained
    assert steering.inner_models == [model]
    assert steering.reducers == [reducer]
    steering.adapted_trials.append(model)
    assert Steering(context).adapted_trials == [model]


def test_settings_of_the_trial(steering: Steering, context: PyTorchTrialContext) -> None:
    assert (steering.moves_batches, steering.takes_any_loader) == (True, False)
    context.experimental.disable_auto_to_device()
    context.experimental.disable_dataset_reproducibility_checks()
    assert (steering.moves_batches, steering.takes_any_loader) == (False, True)


def test_a_trial_that_asks_where_it_starts(
    steering: Steering, context: PyTorchTrialContext
) -> None:
    assert context.get_initial_batch() == 0
    assert not steering.told_initial_batch
    steering.start_at(3)
    assert not steering.told_initial_batch
    assert context.get_initial_batch() == 3
    assert steering.told_initial_batch
    steering.start_at(5)
    assert not steering.told_initial_batch


def test_batches_and_epochs(steering: Steering, context: PyTorchTrialContext) -> None:
    with pytest.raises(InternalException, match="not built yet"):
        steering.epoch_length()
    steering.set_epoch_length(4)
    steering.at_batch(7)
    assert (steering.epoch_length(), context._epoch_len, context._current_batch_idx) == (4, 4, 7)
    assert (context.current_train_epoch(), context.is_epoch_end()) == (1, True)
    assert steering.steps_on_this_batch()
    steering.at_batch(8)
    assert not steering.steps_on_this_batch()


def test_an_epoch_is_counted_once_and_only_if_it_is_asked_for(
    steering: Steering, context: PyTorchTrialContext
) -> None:
    counted: list[int] = []
    steering.count_epoch_by(lambda: counted.append(3) or 3)
    steering.at_batch(2)
    assert counted == []
    assert (context.is_epoch_end(), context.is_epoch_start()) == (True, False)
    assert counted == [3]


class Scaler(torch.amp.GradScaler):
    """Counts its updates."""

    updates = 0

    def update(self, new_scale: Any = None) -> None:
        self.updates += 1


def test_a_scaler_is_updated_on_batches_that_step(steering: Steering) -> None:
    scaler = Scaler("cpu")
    steering.adopt_scaler(scaler)
    updates = []
    for batch in range(4):
        steering.at_batch(batch)
        steering.update_scaler()
        updates.append(scaler.updates)
    assert updates == [0, 1, 1, 2]


def test_a_scaler_of_the_trials_own_is_left_alone(
    steering: Steering, context: PyTorchTrialContext
) -> None:
    scaler = context.wrap_scaler(Scaler("cpu"))
    assert steering.scaler is scaler
    steering.at_batch(1)
    steering.update_scaler()
    assert scaler.updates == 0


def test_an_adopted_scaler_scales_and_steps() -> None:
    with init() as context:
        Steering(context).adopt_scaler(torch.amp.GradScaler("cpu", init_scale=4.0))
        model, optimizer = wrapped(context)
        context.backward(model(torch.tensor([[2.0]])).sum())
        assert model.weight.grad.item() == 8
        optimizer.zero_grad()
        train(context, model, optimizer, 2.0)
        assert next(model.parameters()).item() == 1 - 2


def test_who_set_up_mixed_precision(steering: Steering, context: PyTorchTrialContext) -> None:
    assert (steering.mixed_precision_call, steering.apex_opt_level) == (None, None)
    steering.adopt_scaler(Scaler("cpu"))
    assert steering.mixed_precision_call is None
    steering.adopt_scaler(None)
    assert steering.scaler is None
    context.wrap_scaler(Scaler("cpu"))
    assert steering.mixed_precision_call == "context.wrap_scaler(...)"


def test_use_amp_is_what_set_it_up(steering: Steering, context: PyTorchTrialContext) -> None:
    context.experimental.use_amp()
    assert steering.mixed_precision_call == "context.experimental.use_amp()"


def test_apex_is_what_set_it_up(steering: Steering, context: PyTorchTrialContext) -> None:
    with pytest.warns(FutureWarning, match="Apex"):
        context.configure_apex_amp([], [], opt_level="O2")
    assert steering.apex_opt_level == "O2"
    assert steering.mixed_precision_call == "context.configure_apex_amp(opt_level='O2')"


def test_gradients_are_synchronized_unless_the_trial_says_otherwise(
    steering: Steering, context: PyTorchTrialContext
) -> None:
    assert context.sync_when_accumulating is True
    assert isinstance(steering.gradient_sync(), contextlib.nullcontext)


def test_the_context_has_none_of_its_names(
    steering: Steering, context: PyTorchTrialContext
) -> None:
    names = {name for name in {**vars(Steering), **vars(steering)} if not name.startswith("_")}
    assert not [name for name in names if hasattr(context, name)]
