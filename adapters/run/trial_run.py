"""One run of a trial: what Determined did before, in and after each batch.

Nothing here loops. Lightning's loops call it, through ``adapters/lightning/run_module.py``.
"""

from typing import Any

from det_compat.adapters.data import loaders
from det_compat.adapters.data.batch_stream import BatchStream
from det_compat.adapters.data.overfitting import in_order, keep_first
from det_compat.adapters.generations.adapted import user_trial
from det_compat.adapters.run import validation
from det_compat.adapters.run.callbacks import TrialCallbacks
from det_compat.adapters.run.training import Training
from det_compat.errors import InvalidExperimentException, InvalidLoaderError
from det_compat.pytorch.context.steering import Steering
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.pytorch.overrides import is_user_code
from det_compat.pytorch.private.boundaries import TrialState
from det_compat.script.machines import ranks_named
from det_compat.shared.random_state import RandomState, random_state, set_random_state


class TrialRun:
    """A trial with its context, callbacks, loaders, counters and collected metrics.

    The order of what user code sees, from ``begin`` to ``end``, is that of Determined 0.38.1::

        on_trial_startup
        build_training_data_loader, build_validation_data_loader, iter(training loader)
        on_training_start
        for each period (until a report, a validation, a checkpoint or the end is due):
            every model.train(), every reducer.reset()
            for each batch:
                on_training_epoch_start         before the first batch of an epoch
                train_batch, scaler.update, LR scheduler steps
                on_training_epoch_end           after the last batch of an epoch
            reducers, on_training_workload_end
            if a validation is due:
                every reducer.reset(), every model.eval(), on_validation_start
                on_validation_epoch_start, evaluate_batch ..., on_validation_epoch_end
                reducers, on_validation_end
            if a checkpoint is due:
                on_checkpoint_save_start, on_checkpoint_write_end (chief), on_checkpoint_upload_end
        on_trial_shutdown
    """

    def __init__(self, trial: Any, context: PyTorchTrialContext) -> None:
        check_trial(trial, context)
        self.trial = trial
        self.context = context
        self.steering = Steering(context)
        self.callbacks = TrialCallbacks(trial.build_callbacks())
        self.state = TrialState()
        measure = getattr(trial, "get_batch_length", None)
        #: A trial may count the records of its batches; what the base class does has no effect.
        self.count_records = measure if is_user_code(measure, "PyTorchTrial") else None
        self.training = Training(self)
        self.validation = validation.Validation(self)
        self.epoch_len = loaders.UNSIZED
        self.stream: BatchStream | None = None
        #: The number, or the share, of a rank's batches that each epoch repeats; 0 for all.
        self.overfits: int | float = 0
        #: Whether the run is going to end because somebody has asked for it.
        self.is_stopping = False
        #: The random state in which the loaders were built.
        self.random_state_of_loaders: RandomState = {}

    @property
    def is_chief(self) -> bool:
        """Whether this is the process of rank 0."""
        return self.context.distributed.rank == 0

    @property
    def epoch_batches(self) -> int | None:
        """Batches in an epoch; None where the training data do not say."""
        return None if self.epoch_len >= loaders.UNSIZED else self.epoch_len

    @property
    def is_validated(self) -> bool:
        """Whether the last validation was after the last batch."""
        return self.state.last_val == self.state.batches_trained

    @property
    def is_saved(self) -> bool:
        """Whether the last checkpoint of Determined's layout was written after the last batch."""
        return self.state.last_ckpt == self.state.batches_trained

    # Start and end

    def begin(
        self,
        checkpoint: str | None = None,
        *,
        training: bool = True,
        skip: int = 0,
        continues: dict[str, Any] | None = None,
    ) -> None:
        """Start the callbacks and build the loaders.

        Args:
            checkpoint: what the run starts from.
            training: whether to build the training loader.
            skip: batches to leave out of the training data, where ``continues`` does not say.
            continues: this rank's part of the checkpoint's ``continuation``.
        """
        # A run before this one may have ended by an exception.
        self.training.forget()
        self.validation.forget()
        self.is_stopping = False
        self.callbacks.startup(self.state.batches_trained, checkpoint)
        if continues is not None:
            set_random_state(continues["loaders_built"])
        self.random_state_of_loaders = random_state()
        position = None if continues is None else continues["data"]
        skip = skip if position is None else position["skipped"]
        loader = self._training_loader(skip) if training else None
        skips_by_itself = self.steering.told_initial_batch
        self._build_validation_loader()
        if loader is not None:
            self.stream = BatchStream(
                loader, self.epoch_len, skip, position, skips_by_itself=skips_by_itself
            )
        if self.state.batches_trained:
            self.show_progress(self.state.batches_trained)

    def show_progress(self, batches_trained: int) -> None:
        """Let the trial know the progress of a checkpoint, in a validation before any training."""
        self.steering.at_batch(batches_trained - 1)
        # A validation needs the training data for nothing else, and they may not be there.
        self.steering.count_epoch_by(self._count_epoch)

    def _count_epoch(self) -> int:
        data = self.trial.build_training_data_loader()
        loader = loaders.torch_loader(self.context, "build_training_data_loader", data, repeat=True)
        return loaders.length_of(loader)

    def _training_loader(self, skip: int) -> Any:
        method = "build_training_data_loader"
        self.steering.start_at(self.state.batches_trained)
        data = self.trial.build_training_data_loader()
        length = None
        if self.overfits:
            ranks = self.context.distributed.size
            data = in_order(method, data, ranks)
            length = keep_first(data, self.overfits, ranks)  # The Trainer's limits count all.
        loader = loaders.torch_loader(self.context, method, data, repeat=True, skip=skip)
        length = loaders.length_of(loader) if length is None else length
        length = self.context.distributed.broadcast(length)
        if length == 0:
            raise InvalidLoaderError(
                f"the training loader is empty: {method}() has no batch to train on",
                is_on_all_ranks=True,
            )
        self.set_epoch_len(length)
        return loader

    def _build_validation_loader(self) -> None:
        method, by_batch = "build_validation_data_loader", self.validation.by_batch
        data = self.trial.build_validation_data_loader()
        if self.overfits:
            data = in_order(method, data, self.context.distributed.size)
        loader = None
        if by_batch or self.is_chief:
            loader = loaders.torch_loader(self.context, method, data, every_rank=by_batch)
        self._check_validation_lengths(None if loader is None else loaders.length_of(loader))
        kind = loaders.ValidationBatches if by_batch else loaders.WholeDataset
        self.validation.data = kind(loader)

    def _check_validation_lengths(self, batches: int | None) -> None:
        # Every rank raises, so that none waits for one that has.
        lengths = self.context.distributed.allgather(batches)
        if empty := [rank for rank, length in enumerate(lengths) if length == 0]:
            raise InvalidLoaderError(
                f"the validation loader is empty on {ranks_named(empty)}: "
                "build_validation_data_loader() must give every rank at least one batch",
                is_on_all_ranks=True,
            )

    def set_epoch_len(self, batches: int) -> None:
        """Set the number of batches after which an epoch ends."""
        self.epoch_len = batches
        self.steering.set_epoch_length(batches)

    def end(self) -> None:
        """Release the loader's workers and shut the callbacks down; once."""
        if self.stream is not None:
            self.stream.close()
        self.validation.data = None
        self.steering.hook(None)
        try:
            self.callbacks.shutdown()
        finally:
            self.context.close_tensorboard_writer()

    # For training and validation

    def add_progress(self, metrics: dict[str, Any]) -> None:
        """Add the counters to metrics that do not have them."""
        metrics.setdefault("batches", self.state.batches_trained)
        metrics.setdefault("epochs", self.state.epochs_trained)

    def set_status(self, status: str) -> None:
        """Say what the run does now, to whoever shows it."""
        if self.is_chief:
            self.steering.core.train.set_status(status)


def check_trial(trial: Any, context: PyTorchTrialContext) -> None:
    """Raise InvalidExperimentException unless the trial can be trained and evaluated."""
    name = type(user_trial(trial)).__name__
    if not context.models:
        raise InvalidExperimentException(
            f"{name} has no model: call context.wrap_model() in its __init__"
        )
    if not context.optimizers:
        raise InvalidExperimentException(
            f"{name} has no optimizer: call context.wrap_optimizer() in its __init__"
        )
    by_batch = validation.evaluates_batches(trial)
    by_dataset = validation.evaluates_full_dataset(trial)
    if by_batch == by_dataset:
        found = "both" if by_batch else "neither"
        raise InvalidExperimentException(
            f"{name} must define exactly one of evaluate_batch() and evaluate_full_dataset(), and "
            f"defines {found}; evaluate_batch() is spread over all ranks"
        )
