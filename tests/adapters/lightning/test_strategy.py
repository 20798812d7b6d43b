from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning.accelerators import CPUAccelerator
from pytorch_lightning.callbacks import GradientAccumulationScheduler
from pytorch_lightning.strategies import SingleDeviceStrategy, Strategy

from det_compat import core, to_lightning
from det_compat.adapters.lightning.strategy import TrialEnvironment, new_trainer
from det_compat.errors import InvalidExperimentException
from tests.adapters.trials import Linear, rows, same, trainer, weights
from tests.adapters.two_ranks import Asks
from tests.preloaded import executable

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the script on two ranks has left its results; it runs once, for all test processes."""
    base = tmp_path_factory.getbasetemp()
    path = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "two_ranks"
    try:
        path.mkdir()
    except FileExistsError:
        wait_for(path / "stderr")
    else:
        run_script(path)
    assert (path / "stderr").read_text().startswith("exit status 0"), (path / "stderr").read_text()
    return path


def run_script(path: Path) -> None:
    # A rank that waits for the other forever is a failure, not a timeout of the test run.
    done = subprocess.run(
        ["timeout", "200", executable(), "-m", "tests.adapters.two_ranks", str(path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    written = path / "stderr.part"
    written.write_text(f"exit status {done.returncode}\n{done.stderr[-4000:]}")
    written.rename(path / "stderr")


def wait_for(file: Path) -> None:
    end = time.monotonic() + 220
    while not file.exists():
        assert time.monotonic() < end, f"the other test process has not written {file}"
        time.sleep(0.2)


def on_both(folder: Path, case: str) -> tuple[dict[str, Any], dict[str, Any]]:
    found = [json.loads((folder / f"rank{rank}.json").read_text())[case] for rank in (0, 1)]
    for result in found:
        assert "failed" not in result, result["failed"]
    return found[0], found[1]


def test_a_gan_trains_with_plain_ddp(folder: Path) -> None:
    first, second = on_both(folder, "gan")
    assert first["seen"] == [0, 2, 2]
    assert second["seen"] == [1, 2, 2]
    assert first["weights"] == second["weights"]
    assert first["metrics"] == second["metrics"]
    assert first["step"] == second["step"] == 8


def test_each_model_is_in_its_own_ddp_and_the_module_in_none(folder: Path) -> None:
    for result in on_both(folder, "gan"):
        assert result["types"] == ["TrialDDP", "TrialDDP"]
        assert result["inner"] == ["Sequential", "Linear"]
        assert not result["strategy_model"]


def test_a_checkpoint_of_two_ranks_is_read_on_one(folder: Path) -> None:
    first, _ = on_both(folder, "gan")
    module = to_lightning(Asks).load_from_checkpoint(folder / "gan.ckpt")
    restored = {name: tensor.tolist() for name, tensor in module.state_dict().items()}
    assert restored == first["weights"]


def test_keyword_arguments_of_the_strategy_reach_ddp(folder: Path) -> None:
    for result in on_both(folder, "ddp_keyword_arguments"):
        assert result == {"find_unused_parameters": True, "bucket_bytes_cap": 3 * 2**20}


def test_the_comm_hook_of_the_strategy_reaches_ddp(folder: Path) -> None:
    first, second = on_both(folder, "comm_hook")
    assert first["calls"] == second["calls"] == 4
    assert first["weights"] == second["weights"]


@pytest.mark.parametrize(
    ("case", "calls"), [("sync_when_accumulating", 4), ("no_sync_when_accumulating", 2)]
)
def test_all_reduces_under_aggregation(folder: Path, case: str, calls: int) -> None:
    first, second = on_both(folder, case)
    assert first["calls"] == second["calls"] == calls
    assert first["weights"] == second["weights"]


def test_both_ways_to_accumulate_train_the_same_but_for_rounding(folder: Path) -> None:
    with_sync, _ = on_both(folder, "sync_when_accumulating")
    without, _ = on_both(folder, "no_sync_when_accumulating")
    for name, value in with_sync["weights"].items():
        assert torch.allclose(torch.tensor(value), torch.tensor(without["weights"][name]))


def test_uneven_validation_data_with_batch_norm(folder: Path) -> None:
    first, second = on_both(folder, "uneven_validation")
    assert first["evaluated"] == [0, 1] * 3
    assert second["evaluated"] == [0] * 3
    assert first["metrics"] == second["metrics"]
    assert first["metrics"]["rows"] == 6
    assert first["alone"] == second["alone"]
    assert first["alone"]["validation_loss"] == pytest.approx(first["metrics"]["validation_loss"])


def test_full_dataset_is_evaluated_by_the_chief_alone(folder: Path) -> None:
    first, second = on_both(folder, "full_dataset")
    assert first["rows"] == [8, 8]
    assert second["rows"] == []
    assert first["metrics"] == second["metrics"]
    assert "full_loss" in first["metrics"]
    assert first["parameters"] == second["parameters"]


def test_a_loss_and_a_frozen_model_can_be_wrapped(folder: Path) -> None:
    for result in on_both(folder, "wraps_others"):
        assert result["types"] == ["TrialDDP", "MSELoss", "Linear"]


def test_a_batch_size_that_does_not_divide_by_the_ranks(folder: Path) -> None:
    for result in on_both(folder, "indivisible_batch_size"):
        assert result["error"] == "InvalidExperimentException"
        assert (
            "global_batch_size=5 does not divide by the number of slots (ranks), 2"
            in (result["message"])
        )


# One rank


class OwnStrategy(SingleDeviceStrategy):
    """A strategy of the user's."""


def test_a_subclass_of_a_strategy_that_goes_with_a_trial() -> None:
    module = to_lightning(Linear)(hparams={})
    trainer(strategy=OwnStrategy(torch.device("cpu"))).fit(module)
    assert module.trial.trained == [0, 1, 2, 3]


class OtherStrategy(Strategy):
    """A strategy that shards models, say."""

    def __init__(self) -> None:
        super().__init__(accelerator=CPUAccelerator())

    @property
    def root_device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def is_global_zero(self) -> bool:
        return True

    def model_to_device(self) -> None: ...

    def barrier(self, name: str | None = None) -> None: ...

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        return obj

    def reduce(self, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        return tensor

    def all_gather(self, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        return tensor


def test_an_unsupported_strategy_is_refused_before_training() -> None:
    module = to_lightning(Linear)(hparams={})
    with pytest.raises(InvalidExperimentException, match=r"OtherStrategy.*use strategy='ddp'"):
        trainer(strategy=OtherStrategy(), accelerator="auto").fit(module)


def test_a_flag_for_what_no_trial_does() -> None:
    built = []

    class Builds(Linear):
        def prepare(self) -> None:
            built.append(self)

    callback = GradientAccumulationScheduler({0: 2})
    with pytest.raises(InvalidExperimentException, match=r"give the Trainer accumulate_grad"):
        trainer(callbacks=[callback]).fit(to_lightning(Builds)(hparams={}))
    assert built == []


class OwnOptimizer(to_lightning(Linear)):
    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 1.0)


class OwnData(to_lightning(Linear)):
    def train_dataloader(self) -> Any:
        return []


@pytest.mark.parametrize(
    ("subclass", "words"),
    [(OwnOptimizer, "wrap_optimizer"), (OwnData, "build_training_data_loader")],
)
def test_a_subclass_with_another_way_to_train(subclass: Any, words: str) -> None:
    with pytest.raises(InvalidExperimentException, match=words):
        trainer().fit(subclass(hparams={}))


@pytest.mark.parametrize(
    "hook", ["on_train_epoch_end", "configure_callbacks", "setup", "validation_step"]
)
def test_a_hook_in_place_of_the_modules_own(hook: str) -> None:
    def own(self: Any, *args: Any) -> list[Any]:
        return []

    mixin = type("Mixin", (), {hook: own})
    with pytest.raises(InvalidExperimentException, match=rf"Mixin\.{hook}\(\) does not call super"):
        type("Own", (mixin, to_lightning(Linear)), {})


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("accumulate_grad_batches", 0),
        ("accumulate_grad_batches", {0: 1, 1: 2}),
        ("val_check_interval", 0),
        ("check_val_every_n_epoch", 0),
    ],
)
def test_a_flag_that_does_not_count(name: str, given: Any) -> None:
    with pytest.raises(InvalidExperimentException, match=f"{name}={re.escape(repr(given))}"):
        trainer(**{name: given}).fit(to_lightning(Linear)(hparams={}))


class Clips(Linear):
    """Clips gradients by what the hyperparameters name."""

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        loss = self.loss(batch)
        self.context.backward(loss)
        how = getattr(torch.nn.utils, self.context.get_hparam("how"))
        self.context.step_optimizer(self.optimizer, lambda parameters: how(parameters, 0.05))
        return {"loss": loss}


def fitted(trial_cls: type, trainer: Any, **arguments: Any) -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    module = to_lightning(trial_cls)(**{"hparams": {}, **arguments})
    trainer.fit(module)
    return weights(module)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("algorithm", ["norm", "value", None])
def test_the_trainer_clips_where_the_trial_does_not(algorithm: Any, precision: Any) -> None:
    how = {"how": f"clip_grad_{algorithm or 'norm'}_"}
    expected = fitted(Clips, trainer(precision=precision), hparams=how)
    flags = {"gradient_clip_val": 0.05, "gradient_clip_algorithm": algorithm}
    used = trainer(precision=precision, **flags)
    assert same(fitted(Linear, used), expected)
    unclipped = fitted(Linear, trainer(precision=precision))
    assert not same(unclipped, expected)
    flags["gradient_clip_val"] = -0.05
    assert same(fitted(Linear, trainer(precision=precision, **flags)), unclipped)
    assert used.gradient_clip_val == 0.05
    # The trial's own way of clipping goes before the Trainer's.
    other = trainer(precision=precision, gradient_clip_val=9.0)
    assert same(fitted(Clips, other, hparams=how), expected)


def test_the_trainer_accumulates() -> None:
    expected = fitted(Linear, trainer(max_epochs=2), aggregation_frequency=3)
    used = trainer(max_epochs=2, accumulate_grad_batches=3)
    assert same(fitted(Linear, used), expected)
    assert used.accumulate_grad_batches == 3
    again = trainer(max_epochs=2, accumulate_grad_batches=3)
    assert same(fitted(Linear, again, aggregation_frequency=3), expected)
    assert not same(fitted(Linear, trainer(max_epochs=2)), expected)


def test_the_next_trainer_has_flags_of_its_own() -> None:
    torch.manual_seed(3)
    module = to_lightning(Linear)(hparams={})
    trainer(accumulate_grad_batches=4, gradient_clip_val=0.001).fit(module)
    before = weights(module)
    trainer(max_steps=1, max_epochs=-1).fit(module)
    assert not same(weights(module), before)
    assert module.context._clips_by_default is None


def test_two_numbers_of_batches_to_accumulate_over() -> None:
    used = trainer(accumulate_grad_batches=2)
    with pytest.raises(InvalidExperimentException, match=r"2 batches.*aggregation_frequency=3"):
        used.fit(to_lightning(Linear)(hparams={}, aggregation_frequency=3))
    assert used.accumulate_grad_batches == 2


def test_a_scaler_of_the_trial_is_not_clipped_for() -> None:
    class Scales(Linear):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            loss = self.loss(batch)
            self.context.backward(loss)
            scaler = torch.amp.GradScaler("cpu", enabled=False)
            self.context.step_optimizer(self.optimizer, scaler=scaler)
            return {"loss": loss}

    with pytest.raises(InvalidExperimentException, match="clip_grads to step_optimizer"):
        fitted(Scales, trainer(gradient_clip_val=1.0))
    fitted(Scales, trainer())


def test_lightnings_sampler_stays_out_of_the_trials_loaders() -> None:
    class Plain(Linear):
        def prepare(self) -> None:
            self.context.experimental.disable_dataset_reproducibility_checks()

        def build_training_data_loader(self) -> Any:
            self.loader = torch.utils.data.DataLoader(rows(), batch_size=4)
            return self.loader

    module = to_lightning(Plain)(hparams={})
    trainer().fit(module)
    assert type(module.trial.loader.sampler) is torch.utils.data.SequentialSampler
    assert module.trial.trained == [0, 1, 2, 3]


def test_the_strategy_is_left_as_it_was() -> None:
    used = trainer()
    used.fit(to_lightning(Linear)(hparams={}))
    assert "configure_ddp" not in vars(used.strategy)


def environment() -> TrialEnvironment:
    ranks = core.DistributedContext.over_process_group(
        rank=3, size=4, local_rank=1, local_size=2, cross_rank=1, cross_size=2
    )
    return TrialEnvironment(ranks)


def test_ranks_are_those_of_the_trial() -> None:
    found = environment()
    assert (found.world_size(), found.global_rank()) == (4, 3)
    assert (found.local_rank(), found.node_rank()) == (1, 1)
    assert found.creates_processes_externally
    assert not found.detect()


def test_the_address_is_torchruns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    monkeypatch.delenv("MASTER_PORT", raising=False)
    assert (environment().main_address, environment().main_port) == ("127.0.0.1", 29500)
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.7")
    monkeypatch.setenv("MASTER_PORT", "1234")
    assert (environment().main_address, environment().main_port) == ("10.0.0.7", 1234)


def test_lightning_must_count_the_same() -> None:
    found = environment()
    found.set_world_size(4)
    found.set_global_rank(3)
    with pytest.raises(RuntimeError, match=r"world size 8 where pytorch.init\(\) has 4"):
        found.set_world_size(8)
    with pytest.raises(RuntimeError, match=r"rank 0 where pytorch.init\(\) has 3"):
        found.set_global_rank(0)


def test_no_advertisement_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    new_trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    assert "GPU available" in caplog.text and "litlogger" not in caplog.text
