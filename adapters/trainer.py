"""``pytorch.Trainer.fit`` on Lightning: Determined's schedule, driven through Lightning's loops."""

import contextlib
import signal
from typing import Any

from det_compat.adapters.checkpoints.checkpoint_keeper import CheckpointKeeper, checkpoint_keeper
from det_compat.adapters.generations.generation import adapted
from det_compat.adapters.lightning import determined_pace, preemption, run_module, sources, strategy
from det_compat.adapters.lightning.company import Company
from det_compat.adapters.lightning.package import pl
from det_compat.adapters.run.trial_run import TrialRun
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.pytorch.engine import FitArguments
from det_compat.script.machines import launched
from det_compat.shared.random_state import preserved_random_state
from det_compat.shared.verbosity import shows_progress


def fit(
    trial: Any,
    context: PyTorchTrialContext,
    arguments: FitArguments,
    on_validated: determined_pace.OnValidationSaved | None = None,
) -> None:
    """Train ``trial`` as ``pytorch.Trainer.fit`` says.

    ``on_validated`` is called after each validation, and after the checkpoint that comes with it.
    """
    policy, owns_start = arguments.checkpoint_policy, arguments.owns_start
    keeper = checkpoint_keeper(context, policy, owns_start=owns_start)
    plan = determined_pace.Plan(
        arguments.schedule, keeper, validates_first=arguments.step_zero_validation
    )
    pace = determined_pace.DeterminedPace(lambda run: plan)
    if on_validated is not None:
        pace.on_validation_saved.append(on_validated)
    run = TrialRun(adapted(trial, context), context)
    module = run_module.RunModule(sources.BuiltTrial(run, arguments.latest_checkpoint), pace)
    on_interrupt = signal.getsignal(signal.SIGINT)
    company = Company(lambda: _going_on(keeper))
    try:
        with preserved_random_state():
            one_batch = arguments.schedule.test_mode and run.validation.by_batch
            trainer = _trainer(context, 1 if one_batch else None)
        if launched() is not None:  # Whoever starts processes in another way looks after them.
            strategy.callbacks_of(trainer).append(company)
        trainer.fit(module)
    except BaseException as error:
        with contextlib.suppress(Exception):  # The device may have failed.
            _back_to_device(context)
        # Lightning exits on Ctrl-C, and ignores it from then on; the script may want to know.
        if isinstance(error, SystemExit) and isinstance(error.__context__, KeyboardInterrupt):
            company.leave()
            preemption.set_handler(signal.SIGINT, on_interrupt)
            raise error.__context__ from None
        company.explain(error, is_alone=launched() is None or context.distributed.size < 2)
        company.stay()  # The script may catch the error.
        raise
    _back_to_device(context)


def _trainer(context: PyTorchTrialContext, validation_batches: int | None) -> pl.Trainer:
    return strategy.new_trainer(
        **_devices(context),
        **determined_pace.TRAINER_FLAGS,
        limit_val_batches=validation_batches,
        logger=_logger(context),
        enable_progress_bar=shows_progress(),
    )


def _going_on(keeper: CheckpointKeeper) -> str:
    if keeper.latest is None:
        return "starting the script again: it has not written a checkpoint"
    return f'starting the script again, with fit(latest_checkpoint="{keeper.latest}")'


def _devices(context: PyTorchTrialContext) -> dict[str, Any]:
    flags = {"accelerator": context.device.type, **strategy.process_flags(context.distributed)}
    if context.device.type == "cuda" and context.distributed.size == 1:
        flags["devices"] = [context.device.index or 0]
    return flags


def _logger(context: PyTorchTrialContext) -> Any:
    if not context.get_enable_tensorboard_logging():
        return False
    from lightning_utilities.core.imports import RequirementCache

    if not RequirementCache("tensorboard"):
        return False
    return pl.loggers.TensorBoardLogger(str(context.get_tensorboard_path()), name="", version="")


def _back_to_device(context: PyTorchTrialContext) -> None:
    # Lightning's teardown moves everything to the CPU; scripts go on to use the trial's models.
    if context.device.type == "cpu":
        return
    for model in context.models:
        model.to(context.device)
    for optimizer in context.optimizers:
        optimizer.load_state_dict(optimizer.state_dict())
