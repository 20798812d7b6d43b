from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from pytorch_lightning.plugins import MixedPrecision

from det_compat import to_lightning
from det_compat.errors import InvalidExperimentException
from tests.adapters.trials import Gan, Linear, same, trainer, weights


class CountingScaler(torch.amp.GradScaler):
    """A gradient scaler on the CPU that counts its updates and keeps the scale after each."""

    def __init__(self, init_scale: float = 2.0**40, **kwargs: Any) -> None:
        super().__init__("cpu", init_scale=init_scale, **kwargs)
        self.scales: list[float] = []

    def update(self, *args: Any, **kwargs: Any) -> None:
        super().update(*args, **kwargs)
        self.scales.append(self.get_scale())


def float16(scaler: CountingScaler) -> MixedPrecision:
    return MixedPrecision("16-mixed", "cpu", scaler=scaler)


def fitted(trial_cls: type, hparams: Any = None, **flags: Any) -> Any:
    torch.manual_seed(3)
    module = to_lightning(trial_cls)(hparams=hparams or {})
    trainer(**flags).fit(module)
    return module


class Notes(Linear):
    """Keeps the dtype of the model's output, and the weights after each batch."""

    def finish(self) -> None:
        self.dtypes: set[torch.dtype] = set()
        self.after: list[dict[str, torch.Tensor]] = []

    def loss(self, batch: Any) -> torch.Tensor:
        x, y = batch
        output = self.model(x)
        self.dtypes.add(output.dtype)
        return ((output - y) ** 2).mean()

    def train_batch(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        before = weights(self.model)
        metrics = super().train_batch(*args, **kwargs)
        self.after.append(before)
        return metrics


class NotesGan(Gan):
    """Keeps the weights before each batch."""

    def prepare(self) -> None:
        self.before: list[dict[str, torch.Tensor]] = []

    def train_batch(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        parameters = [*self.generator.parameters(), *self.discriminator.parameters()]
        self.before.append({str(i): p.detach().clone() for i, p in enumerate(parameters)})
        return super().train_batch(*args, **kwargs)


# By the Trainer


def test_bf16_mixed_of_the_trainer() -> None:
    module = fitted(Notes, precision="bf16-mixed", max_epochs=2)
    assert module.trial.dtypes == {torch.bfloat16}
    assert module.trial.model.weight.dtype == torch.float32
    [metrics] = trainer(precision="bf16-mixed").validate(module, verbose=False)
    assert 0 < metrics["validation_loss"] < 10


def test_bf16_metrics_are_averaged() -> None:
    class Returns(Linear):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            return {"x": torch.tensor(batch_idx, dtype=torch.bfloat16)}

    used, module = trainer(precision="bf16-mixed"), to_lightning(Returns)(hparams={})
    used.fit(module)
    assert used.callback_metrics["x"] == 1.5


def test_one_update_of_the_scaler_a_batch_with_two_optimizers() -> None:
    scaler = CountingScaler()
    module = fitted(NotesGan, plugins=[float16(scaler)])
    assert len(scaler.scales) == module.run.state.batches_trained == 4
    assert scaler.scales == [2.0**39, 2.0**38, 2.0**37, 2.0**36]


def test_steps_are_skipped_on_overflow_until_the_scale_has_shrunk() -> None:
    scaler = CountingScaler(2.0**22)
    flags = {"max_epochs": 3, "limit_val_batches": 0}
    trial = fitted(NotesGan, plugins=[float16(scaler)], **flags).trial
    shrunk = [a != b for a, b in zip([2.0**22, *scaler.scales], scaler.scales, strict=False)]
    stepped = [not same(a, b) for a, b in zip(trial.before, trial.before[1:], strict=False)]
    assert shrunk[:2] == [True] * 2
    assert stepped[:2] == [False] * 2
    assert not shrunk[-1]
    assert stepped[-1]
    # A batch on which both optimizers step is one on which the scale stays.
    assert all(step or shrank for step, shrank in zip(stepped, shrunk, strict=False))
    for value in trial.before[-1].values():
        assert torch.isfinite(value).all()


def test_the_scaler_is_updated_only_where_gradients_are_applied() -> None:
    scaler = CountingScaler(2.0**4)
    module = to_lightning(Linear)(hparams={}, aggregation_frequency=2)
    trainer(plugins=[float16(scaler)], max_epochs=2).fit(module)
    assert len(scaler.scales) == 4


def test_gradients_are_unscaled_before_they_are_clipped() -> None:
    norms = []

    def clip(parameters: Any) -> None:
        norms.append(float(torch.nn.utils.clip_grad_norm_(parameters, 1e9)))

    class Clips(Linear):
        def train_batch(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            loss = self.loss(args[0] if args else kwargs["batch"])
            self.context.backward(loss)
            self.context.step_optimizer(self.optimizer, clip_grads=clip)
            return {"loss": loss}

    fitted(Clips)
    plain = norms.copy()
    norms.clear()
    fitted(Clips, plugins=[float16(CountingScaler(2.0**8))])
    assert norms == pytest.approx(plain, rel=0.05)


def test_the_scaler_of_one_trainer_is_not_kept_for_the_next() -> None:
    scaler = CountingScaler(2.0**4)
    module = fitted(Linear, plugins=[float16(scaler)])
    assert len(scaler.scales) == 4
    trainer().fit(module)
    assert len(scaler.scales) == 4
    assert module.context._scaler is None
    trainer(precision="bf16-mixed").fit(module)


def test_the_scale_is_restored_from_a_checkpoint(tmp_path: Any) -> None:
    scaler = CountingScaler(2.0**6, growth_interval=2)
    used, module = trainer(plugins=[float16(scaler)]), to_lightning(Linear)(hparams={})
    used.fit(module)
    used.save_checkpoint(tmp_path / "scaled.ckpt")
    assert scaler.get_scale() == 2.0**8
    again = CountingScaler(2.0**2, growth_interval=2)
    resumed = to_lightning(Linear)(hparams={})
    trainer(plugins=[float16(again)], max_epochs=2).fit(
        resumed, ckpt_path=str(tmp_path / "scaled.ckpt")
    )
    assert again.scales == [2.0**8, 2.0**9, 2.0**9, 2.0**10]


def test_weights_in_double_precision_are_not_rounded_by_a_resume(tmp_path: Any) -> None:
    modules = [to_lightning(Gan)(hparams={}) for _ in range(2)]
    saved = tmp_path / "double.ckpt"
    used = trainer(precision="64-true")
    used.fit(modules[0])
    used.save_checkpoint(saved)
    trainer(precision="64-true").fit(modules[1], ckpt_path=str(saved))
    assert same(weights(modules[0]), weights(modules[1]))
    assert weights(modules[1]).popitem()[1].dtype == torch.float64


# By the trial


class OwnScaler(Linear):
    """Scales, steps and updates itself."""

    def prepare(self) -> None:
        self.scaler = self.context.wrap_scaler(CountingScaler(self.hparam("scale", 2.0**4)))

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        loss = self.loss(batch)
        self.context.backward(self.scaler.scale(loss))
        self.context.step_optimizer(self.optimizer, scaler=self.scaler)
        self.scaler.update()
        return {"loss": loss}


def test_wrap_scaler_leaves_the_scaler_to_the_trial() -> None:
    module = fitted(OwnScaler)
    assert module.trial.scaler.scales == [2.0**4] * 4
    # A power of two changes no bit.
    assert same(weights(module), weights(fitted(Linear)))


def test_wrap_scaler_with_overflow() -> None:
    module = fitted(OwnScaler, {"scale": 2.0**126, "lr": 0.1}, max_epochs=2)
    scales = module.trial.scaler.scales
    assert scales[0] == 2.0**125
    assert len(scales) == 8
    assert all(torch.isfinite(value).all() for value in weights(module).values())


class Amp(Linear):
    def prepare(self) -> None:
        self.context.experimental.use_amp()


class Apex(Linear):
    def finish(self) -> None:
        self.model, self.optimizer = self.context.configure_apex_amp(
            self.model, self.optimizer, opt_level=self.hparam("opt_level", "O1")
        )


def test_use_amp_on_the_cpu_trains_as_without() -> None:
    assert same(weights(fitted(Amp, max_epochs=2)), weights(fitted(Linear, max_epochs=2)))


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3"])
def test_apex_on_the_cpu_trains_in_float32_and_says_so_once(level: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module = fitted(Apex, {"opt_level": level}, max_epochs=2)
    said = [str(w.message) for w in caught if w.category is FutureWarning and "Apex" in str(w)]
    said = [message for message in said if "NVIDIA Apex" in message]
    assert len(said) == 1
    assert f"opt_level={level!r}" in said[0]
    assert "in float32" in said[0]
    assert same(weights(module), weights(fitted(Linear, max_epochs=2)))


def test_apex_has_no_other_level() -> None:
    with pytest.raises(ValueError, match="opt_level must be one of O0, O1, O2, O3, got 'O4'"):
        fitted(Apex, {"opt_level": "O4"})


# By both


@pytest.mark.filterwarnings("ignore:NVIDIA Apex:FutureWarning")
@pytest.mark.parametrize(
    ("trial_cls", "asked"),
    [
        (Amp, r"context\.experimental\.use_amp\(\)"),
        (OwnScaler, r"context\.wrap_scaler\(\.\.\.\)"),
        (Apex, r"context\.configure_apex_amp\(opt_level='O1'\)"),
    ],
)
def test_a_contradiction_names_both_sides(trial_cls: type, asked: str) -> None:
    with pytest.raises(InvalidExperimentException, match=f"{asked}.*precision='bf16-mixed'"):
        fitted(trial_cls, precision="bf16-mixed")
    with pytest.raises(InvalidExperimentException, match=f"{asked}.*precision='16-mixed'"):
        fitted(trial_cls, plugins=[float16(CountingScaler())])
