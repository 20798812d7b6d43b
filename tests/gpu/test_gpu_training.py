"""Precision, transfers, compilation, checkpoints and memory on the device."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from det_compat import core, pytorch, to_lightning
from det_compat.pytorch import DataLoader
from tests.adapters.trials import Linear, Net, Normed, rows, same, trainer, weights
from tests.gpu.needed import skip_without_gpu
from tests.torchrun import free_port

skip_without_gpu(but_on_cpu=True)

HPARAMS = {"global_batch_size": 4, "lr": 0.1}


class OnDevice(Normed):
    """Batches whose transfer does not wait: from pinned memory."""

    def build_training_data_loader(self) -> Any:
        pins = self.context.device.type == "cuda"
        return DataLoader(rows(64), batch_size=4, shuffle=True, pin_memory=pins)


class Overflows(Linear):
    """The first batches have gradients that float16 cannot hold."""

    def loss(self, batch: Any) -> torch.Tensor:
        huge = 1e4 if self.trained and self.trained[-1] < 2 else 1.0
        return super().loss(batch) * huge


class UsesAmp(Overflows):
    def prepare(self) -> None:
        self.context.experimental.use_amp()


class ByHand(Overflows):
    """Scales, unscales and updates by itself."""

    def prepare(self) -> None:
        device = self.context.device.type
        self.scaler = self.context.wrap_scaler(
            torch.amp.GradScaler(device, enabled=device == "cuda")
        )

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        self.trained.append(batch_idx)
        device = self.context.device.type
        dtype = torch.float16 if device == "cuda" else torch.bfloat16
        with torch.autocast(device, dtype=dtype):
            loss = self.loss(batch)
        self.context.backward(self.scaler.scale(loss))
        self.context.step_optimizer(self.optimizer, scaler=self.scaler)
        self.scaler.update()
        return {"loss": loss}


class Apex(Linear):
    def finish(self) -> None:
        self.model, self.optimizer = self.context.configure_apex_amp(
            self.model, self.optimizer, opt_level="O1"
        )


class Compiled(Normed):
    def net(self) -> nn.Module:
        compiled: Any = torch.compile(super().net(), backend="eager")
        return compiled


def fitted(trial_cls: type, device: str, ckpt_path: Path | None = None, **flags: Any) -> Any:
    torch.manual_seed(3)
    module = to_lightning(trial_cls)(HPARAMS)
    used = trainer(**{"accelerator": device, "max_epochs": 2, **flags})
    used.fit(module, ckpt_path=None if ckpt_path is None else str(ckpt_path))
    return module, used


def by_trainer(trial_cls: type, epochs: int = 2) -> Any:
    torch.manual_seed(3)
    with pytorch.init(hparams=HPARAMS) as context:
        trial = trial_cls(context)
        pytorch.Trainer(trial, context).fit(
            max_length=pytorch.Epoch(epochs),
            validation_period=pytorch.Epoch(1),
            checkpoint_policy="none",
        )
    return trial


@pytest.mark.filterwarnings("ignore:NVIDIA Apex is no longer maintained")
@pytest.mark.parametrize("trial_cls", [Normed, OnDevice, UsesAmp, ByHand, Apex])
def test_both_ways_train_the_same_bits(trial_cls: type, device: str) -> None:
    module, _ = fitted(trial_cls, device)
    trial = by_trainer(trial_cls)
    assert next(trial.model.parameters()).device.type == device
    ours = {name: value.cpu() for name, value in module.trial.model.state_dict().items()}
    theirs = {name: value.cpu() for name, value in trial.model.state_dict().items()}
    assert same(ours, theirs)
    assert all(value.isfinite().all() for value in ours.values())


@pytest.mark.parametrize("trial_cls", [UsesAmp, ByHand])
def test_a_step_that_overflows_is_left_out(trial_cls: type, device: str) -> None:
    if device == "cpu":
        pytest.skip("a CPU has no scaler in use")
    scaler = fitted(trial_cls, device)[0].context._scaler
    assert scaler.get_scale() < 65536.0


@pytest.mark.filterwarnings("ignore:You passed .* AMP with fp16")  # on a CPU
@pytest.mark.parametrize("precision", ["16-mixed", "bf16-mixed", "bf16-true", "16-true"])
def test_precisions_of_the_trainer(precision: Any, device: str) -> None:
    module, _ = fitted(Linear, device, precision=precision)
    assert all(value.isfinite().all() for value in weights(module).values())


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype feature")
@pytest.mark.parametrize("flags", [{}, {"accumulate_grad_batches": 2}, {"gradient_clip_val": 1.0}])
def test_no_batch_waits_for_the_device(flags: dict[str, Any], device: str) -> None:
    """A wait within the batches 5 to 15 of a period is an error of CUDA's own.

    Only the copy of a batch to the device waits, as Determined's does.
    """

    class Strict(Linear):
        def prepare(self) -> None:
            copied = self.context.to_device

            def to_device(*args: Any, **kwargs: Any) -> Any:
                mode = torch.cuda.get_sync_debug_mode() if device == "cuda" else 0
                if mode:
                    torch.cuda.set_sync_debug_mode("default")
                batch = copied(*args, **kwargs)
                if mode:
                    torch.cuda.set_sync_debug_mode(mode)
                return batch

            self.context.to_device = to_device

        def build_training_data_loader(self) -> Any:
            return DataLoader(rows(64), batch_size=4, shuffle=True)

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            if device == "cuda" and batch_idx in (5, 15):
                torch.cuda.set_sync_debug_mode("error" if batch_idx == 5 else "default")
            return super().train_batch(batch, epoch_idx, batch_idx)

    with contextlib.ExitStack() as after:
        if device == "cuda":
            after.callback(torch.cuda.set_sync_debug_mode, "default")
        module, _ = fitted(Strict, device, max_epochs=1, **flags)
    assert module.trial.trained == [*range(16)]


def test_a_compiled_model(device: str) -> None:
    expected = weights(fitted(Normed, device)[0]).values()
    found = weights(fitted(Compiled, device)[0]).values()
    assert all(torch.allclose(*pair) for pair in zip(found, expected, strict=True))


@pytest.mark.filterwarnings("ignore:GPU available but not used")
@pytest.mark.parametrize("first", ["device", "cpu"])
def test_checkpoints_across_devices(first: str, device: str, tmp_path: Path) -> None:
    class Equal(Linear):
        """Draws nothing, and has no optimizer that makes steps of what is rounded."""

        def net(self) -> nn.Module:
            return Net()

    places = [device, "cpu"] if first == "device" else ["cpu", device]
    module, used = fitted(Equal, places[0])
    used.save_checkpoint(tmp_path / "a.ckpt")
    loaded = to_lightning(Equal).load_from_checkpoint(tmp_path / "a.ckpt")
    saved = {name: value.cpu() for name, value in weights(module).items()}
    assert same(weights(loaded), saved)
    resumed, _ = fitted(Equal, places[1], tmp_path / "a.ckpt", max_epochs=4)
    expected, _ = fitted(Equal, places[0], max_epochs=4)
    pairs = zip(weights(resumed).values(), weights(expected).values(), strict=True)
    assert all(torch.allclose(a.cpu(), b.cpu(), atol=1e-3) for a, b in pairs)
    assert resumed.trial.trained == [*range(8, 16)]


@pytest.mark.filterwarnings("ignore")
def test_nccl_with_one_rank(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "LOCAL_RANK", "GROUP_RANK"):
        monkeypatch.setenv(name, "0")
    for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(free_port()))
    torch.distributed.init_process_group("nccl" if device == "cuda" else "gloo")
    try:
        context = core.DistributedContext.from_torch_distributed()
        assert context.allgather(3) == [3]
        model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1).to(device))
        model(torch.ones(1, 2, device=device)).sum().backward()
    finally:
        torch.distributed.destroy_process_group()


def plain_loop(device: str, batches: int) -> None:
    model = nn.Linear(3, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    losses = []
    for x, y in torch.utils.data.DataLoader(rows(batches), batch_size=1):
        loss = ((model(x.to(device)) - y.to(device)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())


def peak_bytes(train: Callable[[], object]) -> int:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    train()
    return int(torch.cuda.max_memory_allocated() - before)


def test_peak_memory_is_that_of_plain_pytorch(device: str) -> None:
    """10,000 batches; a metric of each may stay on the device for a reporting period."""
    if device == "cpu":
        pytest.skip("a CPU does not count its peak memory")

    class Long(Linear):
        def sgd(self) -> torch.optim.Optimizer:
            """A rate at which losses of one row each do not grow without end."""
            return torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

        def build_training_data_loader(self) -> Any:
            return DataLoader(rows(10_000), batch_size=1)

    plain = peak_bytes(lambda: plain_loop(device, 10_000))
    ours = peak_bytes(lambda: fitted(Long, device, max_epochs=1, limit_val_batches=0))
    assert ours <= 1.1 * plain + 2**20
