"""Trials that are built to find something out, and leave nothing behind."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from det_compat.adapters.lightning import strategy
from det_compat.adapters.lightning.package import pl
from det_compat.adapters.lightning.sources import Source
from det_compat.adapters.run.trial_run import TrialRun
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch.lr_scheduler import settings_of
from det_compat.shared.random_state import preserved_random_state


class Attempt:
    """A trial that was built to train or evaluate a few batches.

    Args:
        trainer: the Trainer, whose precision and device are used.
        run: the run of the trial, whose loaders are built.
    """

    def __init__(self, trainer: pl.Trainer, run: TrialRun) -> None:
        self._plugin = trainer.precision_plugin
        self.run = run
        #: The rows of the last batch, where the trial can tell.
        self.rows: int | None = None

    @property
    def batches_a_step(self) -> int:
        """The number of batches over which gradients are accumulated."""
        return self.run.steering.aggregation_frequency

    def train_batch(self) -> dict[str, Any]:
        """Train on the next batch; returns its metrics, as NumPy arrays."""
        batch = self._placed(next(iter(self._stream)))
        with self._plugin.train_step_context():
            self.run.training.train_batch(batch)
        return self.run.training.metrics.close()[-1]

    @property
    def _stream(self) -> Any:
        assert self.run.stream is not None
        return self.run.stream

    def evaluate(self, batches: int) -> None:
        """Evaluate up to ``batches`` batches, or all the data at once where the trial does so."""
        validation = self.run.validation
        assert validation.data is not None
        validation.begin()
        validation.start()
        with torch.no_grad(), self._plugin.val_step_context():
            for index, batch in zip(range(batches), validation.data, strict=False):
                validation.evaluate(self._placed(batch), index)

    def length(self, *, of_training: bool) -> int:
        """Batches in an epoch, or in the validation data."""
        data = self.run.stream if of_training else self.run.validation.data
        assert data is not None
        return len(data)

    def optimizer_settings(self) -> list[dict[str, Any]]:
        """What each group of the trial's optimizers is set to, learning rates among it."""
        return [group for one in self.run.context.optimizers for group in settings_of(one)]

    def _placed(self, batch: Any) -> Any:
        with contextlib.suppress(TypeError, ValueError):
            self.rows = self.run.trial.get_batch_length(batch)
        batch = self._plugin.convert_input(batch)
        moves = self.run.steering.moves_batches and isinstance(
            batch, (torch.Tensor, dict, list, tuple)
        )
        return self.run.context.to_device(batch) if moves else batch


class Attempts:
    """Builds trials like the one that is about to be trained, with other hyperparameters.

    Random state, weights and gradient scaler are afterwards what they were, and nothing is logged.
    What a trial's own code does when it is built, such as downloading data, is done each time.

    Args:
        trainer: the Trainer.
        source: where the trial comes from.
        flags: what was taken of the Trainer's flags for gradients.
        weights: what the models begin with; empty where the trial says.
    """

    def __init__(
        self,
        trainer: pl.Trainer,
        source: Source,
        flags: dict[str, Any],
        weights: dict[str, torch.Tensor],
    ) -> None:
        if trainer.world_size > 1:
            raise InvalidExperimentException(
                f"a search for hyperparameters does not run on {trainer.world_size} processes: "
                "search on one, and give what it finds as hparams"
            )
        self.trainer = trainer
        self.source = source
        self._flags = flags
        self._weights = weights

    @contextlib.contextmanager
    def attempt(
        self, hparams: dict[str, Any] | None = None, *, trains: bool = True
    ) -> Iterator[Attempt]:
        """A trial with these hyperparameters, or with its own."""
        with contextlib.ExitStack() as after:
            after.enter_context(preserved_random_state())
            folder = after.enter_context(tempfile.TemporaryDirectory())
            scaler = self.trainer.scaler
            if scaler is not None:
                after.callback(scaler.load_state_dict, scaler.state_dict())
            run = self._built(hparams, Path(folder))
            after.callback(run.end)
            run.begin(training=trains)
            if trains:
                assert run.stream is not None
                run.set_epoch_len(strategy.limited_epoch(self.trainer, len(run.stream)))
                run.callbacks.call("on_training_start")
            yield Attempt(self.trainer, run)

    def _built(self, hparams: dict[str, Any] | None, folder: Path) -> TrialRun:
        run = self.source.attempt(self.trainer, hparams, folder)
        strategy.reconcile_precision(self.trainer, run.steering)
        strategy.follow_gradient_flags(self.trainer, self._flags, run.steering)
        models = torch.nn.ModuleList(run.steering.inner_models)
        if self._weights:
            models.load_state_dict(self._weights)
        self.trainer.precision_plugin.convert_module(models)
        return run
