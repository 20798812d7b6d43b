"""The one LightningModule: Lightning's hooks, in terms of a trial's run."""

import contextlib
import functools
import signal
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from det_compat.adapters.checkpoints import lightning_part
from det_compat.adapters.checkpoints.checkpoint_io import DeterminedCheckpointIO
from det_compat.adapters.checkpoints.continuation import continuation
from det_compat.adapters.checkpoints.resume import Resume
from det_compat.adapters.data.batch_stream import BatchStream
from det_compat.adapters.data.loaders import ValidationBatches, WholeDataset
from det_compat.adapters.generations.adapted import user_trial
from det_compat.adapters.lightning import (
    door,
    epoch_loop,
    host_memory,
    loop_progress,
    preemption,
    strategy,
)
from det_compat.adapters.lightning.features import gradient_hooks, own_callbacks, refusals
from det_compat.adapters.lightning.features.evaluation import TestsByValidation
from det_compat.adapters.lightning.features.models import HasModels
from det_compat.adapters.lightning.features.taken import Taken
from det_compat.adapters.lightning.known import is_known
from det_compat.adapters.lightning.pace import Pace
from det_compat.adapters.lightning.package import pl
from det_compat.adapters.lightning.publish import MetricsPublisher
from det_compat.adapters.lightning.sources import Source
from det_compat.adapters.lightning.unknown import checks, watch
from det_compat.adapters.run.trial_run import TrialRun
from det_compat.checkpoint import reader
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.pytorch.private.boundaries import ShouldExit, TrialState


def _user_code_may_exit(hook: Callable[..., Any]) -> Callable[..., Any]:
    """A hook of RunModule after which ``fit`` returns where user code raises ShouldExit in it."""

    @functools.wraps(hook)
    def asked(self: "RunModule", *args: Any, **kwargs: Any) -> Any:
        try:
            return hook(self, *args, **kwargs)
        except ShouldExit as request:
            if self.trainer.state.fn != pl.trainer.states.TrainerFn.FITTING:
                raise
            self.run.is_stopping = True
            self.pace.asked_to_exit(self, saves=not request.skip_exit_checkpoint)
        door.end_quietly()

    return asked


class RunModule(door.PlainAttributes, own_callbacks.HasRun, HasModels, TestsByValidation):
    """Runs a trial on Lightning's loops.

    What makes one run different from another is passed in: ``source`` says where the trial comes
    from, ``pace`` what is due when.
    """

    _step_counters: checks.StepCounters  # They are there from the start of training on.

    def __init__(self, source: Source, pace: Pace) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.source = source
        self.pace = pace
        self.publisher = MetricsPublisher()
        self.models = torch.nn.ModuleList()
        self._run: TrialRun | None = None
        self._resume: Resume | None = None
        self._nothing_due_before = 0  # batches
        self._termination: preemption.TerminationSignal | None = None
        self._sigterm_did: Any = None
        self._until_end = contextlib.ExitStack()  # It undoes what holds for one run.
        self._taken = Taken()
        self._is_prepared = False
        #: What looks at a Lightning that is not known.
        self.watch: watch.Watch | None = None

    @property
    def run(self) -> TrialRun:
        """The run of the trial.

        Raises:
            RuntimeError: the trial is not built yet, since ranks and device are not known.
        """
        if self._run is None:
            raise RuntimeError(
                f"{type(self).__name__} has not built its trial yet: it does so when a Trainer "
                "fits or validates it, or when it is loaded from a checkpoint"
            )
        return self._run

    @property
    def trial(self) -> Any:
        """The user's own trial."""
        return user_trial(self.run.trial)

    @property
    def context(self) -> PyTorchTrialContext:
        """The trial's context."""
        return self.run.context

    def __getstate__(self) -> dict[str, Any]:
        # A run holds workers and process groups. The weights stay, in `models`.
        names = ("_run", "_resume", "_termination", "_sigterm_did", "_step_counters", "watch")
        own: dict[str, Any] = dict.fromkeys(names)
        own.update(_until_end=contextlib.ExitStack(), _is_prepared=False)
        return watch.without_hooks({**super().__getstate__(), **own})

    # The trial and its models

    def setup(self, stage: str) -> None:
        self.prepare_run()

    def prepare_run(self) -> None:
        """Build the trial, or get ready the one that is built; once for each use of a Trainer."""
        if self._is_prepared:
            return
        self._is_prepared = True
        strategy.prepare_trainer(self.trainer)
        epoch_loop.shorten_evaluations(self.trainer, RunModule)
        if self._taken.finders:
            self._run = None  # The trial is built anew, with what is found.
            weights = self.models.state_dict()
            self._taken.search(self.trainer, self.source, weights, self.save_hyperparameters)
        self.watch = None if is_known() else watch.Watch(self)
        self._take(self.source.provide(self.trainer, self._run))
        strategy.reconcile_precision(self.trainer, self.run.steering)
        strategy.follow_gradient_flags(self.trainer, self._taken.flags, self.run.steering)
        self.run.steering.hook(gradient_hooks.hooks_of(self.trainer, self))
        if self.watch is not None:
            self._until_end.enter_context(self.watch.watching())

    def configure_model(self) -> None:
        # load_from_checkpoint has no Trainer, and needs models that it can load weights into.
        if self._run is None:
            self._take(self.source.provide(None, None))

    def _take(self, run: TrialRun) -> None:
        """Run ``run``, and make its models submodules, with the weights that there were before."""
        if run is self._run:
            return
        weights = self.models.state_dict()
        self._run = run
        self.models = torch.nn.ModuleList(run.steering.inner_models)
        if weights:
            self.models.load_state_dict(weights)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        refusals.check_hooks(cls)

    def configure_callbacks(self) -> Sequence[pl.Callback]:
        """What ends the run if an exception does not let ``teardown`` do it."""
        refusals.check_request(self.trainer)
        strategy.join_ranks(self.trainer)
        self._taken = Taken.of(self.trainer)
        own_callbacks.add_first(self.trainer)
        return own_callbacks.added_last(self.trainer)

    def configure_optimizers(self) -> pl.utilities.types.OptimizerLRScheduler:
        """The trial's own, for Lightning's checkpoints and monitors; the trial steps them."""
        return lightning_part.optimizers_and_schedulers(self.context)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Do nothing: when to clear gradients is the trial's business, not Lightning's."""

    # Before and after

    def on_fit_start(self) -> None:
        self._sigterm_did = signal.getsignal(signal.SIGTERM)
        self.pace.fit_starts(self.trainer)
        run = self.run
        refusals.check_optimizers(self.trainer, run.context)
        run.overfits = strategy.overfits(self.trainer)
        self._resume = self.source.fit_starts(run) or self._resume
        if self._resume is not None:
            self._show_again(self._resume.continuation)
            self._resume.begin(self.started_from())
            return
        if self.trainer.current_epoch == 0:
            run.state = TrialState()
        run.begin(self.started_from(), skip=run.state.batches_trained)

    def started_from(self) -> str | None:
        """The checkpoint that the run starts from."""
        given = self.source.started_from() or self.trainer.ckpt_path
        return None if given is None else str(given)

    def train_dataloader(self) -> BatchStream:
        run = self.run
        assert run.stream is not None
        run.set_epoch_len(strategy.limited_epoch(self.trainer, len(run.stream)))
        if self._resume is not None:
            self._resume.restore()
            self._resume.enter_loops(self.trainer)
        self.pace.epoch_is_known(self)
        return run.stream if self.watch is None else self.watch.data(run.stream)

    def val_dataloader(self) -> ValidationBatches | WholeDataset:
        if self.run.validation.data is None:
            self.run.begin(training=False)
        data = self.run.validation.data
        assert data is not None
        strategy.check_validation_limit(self.trainer.limit_val_batches, data)
        return data if self.watch is None else self.watch.data(data)

    def transfer_batch_to_device(
        self, batch: Any, device: torch.device, dataloader_idx: int
    ) -> Any:
        run = self.run
        if isinstance(batch, WholeDataset) or not run.steering.moves_batches:
            return batch
        return run.context.to_device(batch)

    def teardown(self, stage: str) -> None:
        self.end_run()

    def end_run(self, error: BaseException | None = None) -> None:
        """Shut the run down, which ``error`` may have ended."""
        self._resume = None
        with contextlib.ExitStack() as at_last:
            at_last.callback(self.source.release)
            at_last.callback(self._end_run)
            at_last.callback(self.hand_over_reports, error)
            if error is not None and self._run is not None:
                self.pace.has_failed(self, error)

    def _end_run(self) -> None:
        self._taken.give_back(self.trainer)
        self._taken, self._is_prepared = Taken(), False
        self._until_end.close()
        if self._run is not None:
            self._run.end()

    # Training

    def on_train_start(self) -> None:
        refusals.check_loaders(self.trainer)
        run, resume, self._resume = self.run, self._resume, None
        self._nothing_due_before = 0
        door.leave_lengths_open(self.trainer)
        self._step_counters = checks.step_counters(self.trainer, run.stream)
        self.pace.training_starts(self, resume)
        ranks = self.context.distributed
        self._termination = preemption.TerminationSignal.of(self.trainer, ranks, self._sigterm_did)
        run.callbacks.call("on_training_start")
        if resume is not None:
            self.publisher.show_again(self.trainer)
            if resume.is_after_an_epoch():
                self.pace.epoch_has_ended(self)
            resume.restore_random_states()
            self.pace.go_on(self)
        epoch_loop.shorten_training(self.trainer, RunModule)
        if self.trainer.strategy.root_device.type == "cpu":
            self._until_end.enter_context(host_memory.freed_memory_kept())
        self.pace.first_batch_is_next(self)

    @_user_code_may_exit
    def training_step(self, batch: Any, batch_idx: int = 0) -> None:
        self.run.training.train_batch(batch)
        for count in self._step_counters:
            count()
        if self.run.state.batches_trained >= self._nothing_due_before:
            self.pace.batch_is_trained(self)

    @_user_code_may_exit
    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self.publisher.held:
            self.publisher.hand_over_if_due(self.trainer)
        if self.run.state.batches_trained >= self._nothing_due_before:
            self.pace.batch_has_ended(self)
            self._nothing_due_before = self.pace.nothing_due_before(self)
        assert self._termination is not None
        if self._termination.may_have_come and (reason := self._termination.noticed()):
            requeues = reason is preemption.Reason.REQUEUE
            remedy = self.pace.save_before_the_end(self, requeues=requeues)
            rank, batches = self.context.distributed.rank, self.run.state.batches_trained
            raise preemption.Preempted(rank, batches, remedy, reason)

    def report_training(self) -> None:
        """End the period in which training metrics are averaged."""
        averages = self.run.training.end_period()
        self.publisher.training(self.trainer, averages, self.run.state.batches_trained)

    @_user_code_may_exit
    def on_train_epoch_end(self) -> None:
        stream = self.run.stream
        if stream is not None and stream.epoch_is_over:
            stream.epoch_is_over = False
            loop_progress.begin_next_epoch(self.trainer)
        self.pace.epoch_has_ended(self)

    def on_fit_end(self) -> None:
        if self._resume is not None:
            # Nothing was left to train, so Lightning has left out the hooks of training.
            self.on_train_end()

    def on_train_end(self) -> None:
        self.pace.training_has_ended(self)

    # Validation

    @_user_code_may_exit
    def on_validation_model_eval(self) -> None:
        refusals.check_loaders(self.trainer)
        if len(self.run.training.metrics):
            with torch.enable_grad():
                self.report_training()
        self.run.validation.begin()

    def on_validation_model_train(self) -> None:
        """Do nothing: the next training period puts the models into train mode."""

    @_user_code_may_exit
    def on_validation_start(self) -> None:
        if not self.run.validation.has_begun:  # Lightning has called no hook for it.
            self.on_validation_model_eval()
        checks.check_validation(self.trainer)
        door.leave_lengths_open(self.trainer)
        if not self.run.validation.by_batch:  # It may take long.
            self.hand_over_reports()
        self.run.validation.start()

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self.validation_steps([batch], batch_idx)

    @_user_code_may_exit
    def validation_steps(self, batches: Iterable[Any], first: int = 0) -> None:
        """Take a validation step for each of ``batches``."""
        for batch_idx, batch in enumerate(batches, first):
            self.run.validation.evaluate(batch, batch_idx)
            if self.publisher.held:
                self.publisher.hand_over_if_due(self.trainer)

    @_user_code_may_exit
    def on_validation_epoch_end(self) -> None:
        metrics = self.run.validation.end()
        self.publisher.validation(self, metrics, self.run.state.batches_trained)
        if self.trainer.state.fn == pl.trainer.states.TrainerFn.FITTING:
            self.pace.validated(self, metrics)

    @_user_code_may_exit
    def on_validation_end(self) -> None:
        self.pace.validation_has_ended(self)

    # Checkpoints

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if self._run is None:
            own_callbacks.raise_what_has_ended(self)
        self.hand_over_reports()
        if self.watch is not None:
            self.watch.saves(checkpoint)
        lightning_part.add_run(checkpoint, self.run, self.state_to_go_on)
        checkpoint_io = self.trainer.strategy.checkpoint_io
        if isinstance(checkpoint_io, DeterminedCheckpointIO):
            checkpoint_io.on_written = self.run.callbacks.file_written

    def state_to_go_on(self, callbacks: dict[str, Any]) -> dict[str, Any]:
        """What else goes into a checkpoint, in plain types. Every rank has to call it.

        ``callbacks`` is the state of the trial's callbacks on this rank.
        """
        return {
            **continuation(self.run, callbacks),
            "published": self.publisher.state_dict(),
            **self.pace.state_dict(),
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        lightning_part.from_plain_types(checkpoint)
        try:
            stage = self.trainer.state.fn
        except RuntimeError:  # load_from_checkpoint has no Trainer, and loads only weights.
            return
        # Lightning does so after it has put the weights back, which would have been rounded.
        self.trainer.precision_plugin.convert_module(self.models)
        if not (state := checkpoint.get("determined")):
            return
        path = self.started_from()
        reader.check_lightning_content(path, state)
        if stage == pl.trainer.states.TrainerFn.FITTING:
            # Nobody knows whether a Lightning that is watched puts back its own part.
            whole = self.watch is not None and self.watch.is_alone
            self._resume = Resume.of_lightning(self.run, checkpoint, path, whole=whole)
        elif batches := state.get("trial_state", {}).get("batches_trained"):
            self.run.show_progress(batches)
        self._show_again(state.get("continuation") or {})

    def _show_again(self, continuation: dict[str, Any]) -> None:
        with reader.putting_back(self.started_from(), "metrics shown"):
            self.publisher.load_state_dict(continuation.get("published") or {})
