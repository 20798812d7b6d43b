"""What the user sees of a run: its schedule before it starts, its results when it ends."""

import math
import shlex
import time
from typing import Any

from det_compat.adapters.experiment.module import ExperimentRun
from det_compat.adapters.lightning.package import pl
from det_compat.adapters.lightning.preemption import Interruption
from det_compat.adapters.lightning.strategy import end_other_ranks
from det_compat.config.hyperparameters import batch_size
from det_compat.config.lengths import Length, Period, Unit
from det_compat.config.periods import ResolvedPeriods
from det_compat.experiment.curves import draw_curves
from det_compat.runs.summary import summary_of
from det_compat.shared.masking import without_secrets

Validation = tuple[int, dict[str, Any]]


class ExperimentReport(pl.Callback):
    """The report prints on rank 0, and logs the hyperparameters.

    Args:
        run: the run.
        resuming: the command that goes on with the run.
        quiet: whether nothing is printed.
        interruption: what noted Ctrl-C; the run ends after the batch if nothing else ended it.

    Attributes:
        run: the run.
    """

    def __init__(
        self,
        run: ExperimentRun,
        resuming: str | None = None,
        *,
        quiet: bool = False,
        interruption: Interruption | None = None,
    ) -> None:
        self.run = run
        self._interruption = Interruption() if interruption is None else interruption
        self._resuming = resuming
        self._quiet = quiet
        self._started = self._seconds = 0.0
        self._batches_before = 0
        self._is_compared = False

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._batches_before = self.run.module.run.state.batches_trained
        if trainer.is_global_zero:
            for logger in trainer.loggers:
                logger.log_hyperparams(self._hyperparameters())
            if not self._quiet:
                self._print_plan(trainer)
        self._started = time.monotonic()
        self._interruption.act()

    def on_train_batch_end(self, *of_a_batch: Any, **in_a_batch: Any) -> None:
        self._interruption.act()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Have TensorBoard's HParams compare this run with others, by the searcher's metric."""
        metric = self.run.experiment.searcher.metric
        # A validation metric that has the name of one of training is published by the first name.
        names = [n for n in (f"val_{metric}", metric) if n in trainer.callback_metrics]
        if self._is_compared or not names or not trainer.is_global_zero:
            return
        self._is_compared = True
        for logger in trainer.loggers:
            if isinstance(logger, pl.loggers.TensorBoardLogger):
                value = float(trainer.callback_metrics[names[0]])
                step = self.run.module.run.state.batches_trained
                logger.log_hyperparams(self._hyperparameters(), {names[0]: value}, step)

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        if self._interruption.has_come:
            # They would tell of connections that are closed.
            end_other_ranks(trainer)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._seconds = time.monotonic() - self._started

    def _hyperparameters(self) -> dict[str, Any]:
        config = self.run.experiment
        described = {
            "name": config.name,
            "description": config.description,
            "labels": ", ".join(config.labels),
            "integrations": config.integrations,
            "seed": self.run.start.seed,
        }
        logged = {**config.hyperparameters.constants(), **{k: v for k, v in described.items() if v}}
        masked: dict[str, Any] = without_secrets(logged)
        return masked

    def _print_plan(self, trainer: pl.Trainer) -> None:
        run, plan = self.run, self.run.plan
        assert plan is not None
        start, checkpoint = run.start, run.start.latest_checkpoint
        rows = {
            "epoch": f"{plan.epoch_batches or 'an unknown number of'} batches",
            "training": _length(plan),
            "validations": _often(plan, plan.validation, "and at the end"),
            "checkpoints": _often(plan, plan.checkpoint, _policy(plan)),
            "training metrics": f"reported {_every(plan, plan.report)}",
            "devices": _devices(trainer),
            "precision": _precision(run, trainer),
            "seed": str(start.seed),
            "run directory": str(start.folder.path),
            "checkpoint storage": str(run.checkpoints.base_path),
            "logs": ", ".join(str(log.log_dir or log.save_dir) for log in trainer.loggers)
            or "none",
        }
        if checkpoint is not None:
            rows["resumes"] = f"after batch {self._batches_before}, from checkpoint {checkpoint}"
        _print_table(run.experiment.name or "schedule", rows)

    def records_per_second(self) -> float | None:
        """The speed over all processes, when the run is over; None without a global batch size."""
        trained = self.run.module.run
        slots = trained.context.distributed.size
        size = batch_size(self.run.experiment.hyperparameters.constants(), slots)
        records = (trained.state.batches_trained - self._batches_before) * (size or 0)
        return records / self._seconds if records and self._seconds else None

    def validations(self) -> list[Validation]:
        """Those of the run, as far as it goes on from what earlier processes have trained."""
        summary = summary_of(self.run.start.folder.path) if self._batches_before else None
        own = {batches for batches, _ in self.run.validations}
        before = [
            (one.batches, one.metrics)
            for one in (() if summary is None else summary.validations)
            if one.batches <= self._batches_before and one.batches not in own
        ]
        return before + self.run.validations

    def best(self) -> Validation | None:
        """The validation with the best searcher metric; None without any."""
        searcher = self.run.experiment.searcher

        def value(validation: Validation) -> float:
            return _number(validation[1].get(searcher.metric or ""))

        known = [one for one in self.validations() if not math.isnan(value(one))]
        choose = min if searcher.smaller_is_better else max
        return choose(known, key=value, default=None)

    def print_result(self) -> None:
        """Print the table of results, when the run is over; on rank 0, which has checkpoints.

        Its batches are those of earlier runs that it went on from, too; its time is that of this
        run, from the first batch to the end, validations included.
        """
        run = self.run
        batches = run.module.run.state.batches_trained
        rows = {
            f"best {run.experiment.searcher.metric}": _validation(self.best()),
            "last validation": _validation(next(reversed(self.validations()), None)),
            "batches": str(batches),
            "time": f"{self._seconds:.1f} s",
        }
        if speed := self.records_per_second():
            rows["records per second"] = f"{speed:.0f}"
        rows["best checkpoint"] = run.best_checkpoint() or "none"
        rows["latest checkpoint"] = run.latest_checkpoint() or "none"
        folder = str(run.start.folder.path)
        rows["run directory"] = folder
        rows["curves"] = f"tensorboard --logdir {shlex.quote(folder)}"
        rows["picture"] = draw_curves(run.start.folder.path)
        if self._resuming:
            rows["resume it by"] = self._resuming
        _print_table("results", rows)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _validation(validation: Validation | None) -> str:
    if validation is None:
        return "none"
    batches, metrics = validation
    shown = {name: value for name, value in metrics.items() if name not in ("batches", "epochs")}
    numbers = (f"{name} {_text(value)}" for name, value in shown.items())
    return f"after batch {batches}: {', '.join(numbers)}"


def _text(value: Any) -> str:
    number = _number(value)
    return str(value) if math.isnan(number) else f"{number:.6g}"


def _length(plan: ResolvedPeriods) -> str:
    batches = f"{plan.total_batches} batches"
    if plan.length.unit is Unit.EPOCHS:
        return f"{Length(plan.length.n, Unit.EPOCHS)}, {batches}"
    return batches


def _often(plan: ResolvedPeriods, period: Period, besides: str) -> str:
    """How many times something happens, and when."""
    count = 1 if period.is_never else -(-plan.total_batches // plan.batches_in(period))
    if period is plan.validation and plan.initial_validation:
        count, besides = count + 1, f"before the first batch, {besides}"
    if period.is_never:
        return f"{count}: {besides.removeprefix('and ')}"
    return f"{count}: {_every(plan, period)}, {besides}"


def _policy(plan: ResolvedPeriods) -> str:
    after = {"all": ", and after every validation", "best": ", and after validations that are best"}
    return f"at the end{after.get(plan.checkpoint_policy, '')}"


def _every(plan: ResolvedPeriods, period: Period) -> str:
    batches = str(Length(plan.batches_in(period), Unit.BATCHES))
    if period.unit is Unit.BATCHES:
        return f"every {batches}"
    epochs = "epoch" if period.n == 1 else f"{period.n} epochs"
    return f"every {epochs} ({batches})"


def _devices(trainer: pl.Trainer) -> str:
    kind = trainer.strategy.root_device.type
    nodes = f" on {trainer.num_nodes} nodes" if trainer.num_nodes > 1 else ""
    return f"{trainer.world_size} {kind}{nodes}"


def _precision(run: ExperimentRun, trainer: pl.Trainer) -> str:
    level = run.module.run.steering.apex_opt_level
    is_scaled = level is not None and run.module.run.steering.scaler is not None
    return f"float16 autocast (Apex {level})" if is_scaled else str(trainer.precision)


def _print_table(title: str, rows: dict[str, str]) -> None:
    from det_compat.shared.terminal import pairs_table, print_table

    print_table(pairs_table(title, rows), wraps=False)
