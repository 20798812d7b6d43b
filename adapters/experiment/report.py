"""What the user sees of a run: its schedule before it starts, its results when it ends."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl

from det_compat.config.hyperparameters import batch_size
from det_compat.config.lengths import Period, Unit
from det_compat.config.periods import ResolvedPeriods
from det_compat.shared.masking import without_secrets

if TYPE_CHECKING:
    from rich.table import Table

    from det_compat.adapters.experiment.module import ExperimentModule

_WIDTH = 120


@dataclass(frozen=True)
class ExperimentResult:
    """What a run has come to.

    Attributes:
        batches: trained, earlier runs that it went on from included.
        seconds: from the first batch of this run to its end, validations included.
        records_per_second: over all processes; None without a global batch size.
        validations: batches trained and metrics, of this run.
        best: that with the best searcher metric; None without any.
        best_checkpoint: path or URL of the best that is kept.
        latest_checkpoint: path or URL of the last that was written.
    """

    batches: int
    seconds: float
    records_per_second: float | None
    validations: list[tuple[int, dict[str, Any]]]
    best: tuple[int, dict[str, Any]] | None
    best_checkpoint: str | None
    latest_checkpoint: str | None


class ExperimentReport(pl.Callback):
    """Prints on rank 0, and logs the hyperparameters.

    Args:
        module: the run's.
        resuming: the command that goes on with it.
        quiet: print nothing.
    """

    def __init__(
        self, module: ExperimentModule, resuming: str | None = None, *, quiet: bool = False
    ) -> None:
        self._module = module
        self._resuming = resuming
        self._quiet = quiet
        self._started = self._seconds = 0.0
        self._batches_before = 0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._batches_before = self._module.run.state.batches_trained
        if trainer.is_global_zero:
            self._log_hyperparameters(trainer)
            if not self._quiet:
                self._print_plan(trainer)
        self._started = time.monotonic()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._seconds = time.monotonic() - self._started

    def _log_hyperparameters(self, trainer: pl.Trainer) -> None:
        config = self._module.experiment
        described = {
            "name": config.name,
            "description": config.description,
            "labels": ", ".join(config.labels),
            "integrations": config.integrations,
            "seed": self._module.run_place().seed,
        }
        logged = {**config.hyperparameters.constants(), **{k: v for k, v in described.items() if v}}
        for logger in trainer.loggers:
            logger.log_hyperparams(without_secrets(logged))

    def _print_plan(self, trainer: pl.Trainer) -> None:
        module, plan = self._module, self._module.plan
        assert plan is not None
        place = module.run_place()
        rows = {
            "epoch": f"{plan.epoch_batches} batches",
            "training": _length(plan),
            "validations": _often(plan, plan.validation, "and at the end"),
            "checkpoints": _often(plan, plan.checkpoint, _policy(plan)),
            "training metrics": f"reported {_every(plan, plan.report)}",
            "devices": _devices(trainer),
            "precision": _precision(module, trainer),
            "seed": str(place.seed),
            "run directory": str(place.folder.path),
            "checkpoint storage": str(module.checkpoints.base_path),
            "logs": ", ".join(str(log.log_dir or log.save_dir) for log in trainer.loggers)
            or "none",
        }
        if place.latest_checkpoint is not None:
            rows["resumes"] = (
                f"after batch {self._batches_before}, from checkpoint {place.latest_checkpoint}"
            )
        _print(_table(module.experiment.name or "schedule", rows))

    def result(self) -> ExperimentResult:
        """The results, when the run is over; checkpoints on rank 0 only."""
        module = self._module
        batches = module.run.state.batches_trained
        size = batch_size(
            module.experiment.hyperparameters.constants(), module.context.distributed.size
        )
        records = None if size is None else (batches - self._batches_before) * size
        return ExperimentResult(
            batches=batches,
            seconds=self._seconds,
            records_per_second=records / self._seconds if records and self._seconds else None,
            validations=list(module.validations),
            best=self._best(),
            best_checkpoint=module.best_checkpoint(),
            latest_checkpoint=module.latest_checkpoint(),
        )

    def _best(self) -> tuple[int, dict[str, Any]] | None:
        searcher = self._module.experiment.searcher
        known = [
            one for one in self._module.validations if _number(one, searcher.metric) is not None
        ]
        sign = 1 if searcher.smaller_is_better else -1
        return min(known, key=lambda one: sign * (_number(one, searcher.metric) or 0), default=None)

    def print_result(self) -> None:
        """Print the table of results."""
        result, module = self.result(), self._module
        rows = {
            f"best {module.experiment.searcher.metric}": _validation(result.best),
            "last validation": _validation(result.validations[-1] if result.validations else None),
            "batches": str(result.batches),
            "time": f"{result.seconds:.1f} s",
        }
        if result.records_per_second:
            rows["records per second"] = f"{result.records_per_second:.0f}"
        rows["best checkpoint"] = result.best_checkpoint or "none"
        rows["latest checkpoint"] = result.latest_checkpoint or "none"
        rows["run directory"] = str(module.run_place().folder.path)
        rows["curves"] = f"tensorboard --logdir {shlex.quote(str(module.run_place().folder.path))}"
        if self._resuming:
            rows["resume it by"] = self._resuming
        _print(_table("results", rows))


def _number(validation: tuple[int, dict[str, Any]], metric: str | None) -> float | None:
    try:
        value = float(validation[1][metric or ""])
    except (KeyError, TypeError, ValueError):
        return None
    return None if value != value else value


def _validation(validation: tuple[int, dict[str, Any]] | None) -> str:
    if validation is None:
        return "none"
    batches, metrics = validation
    shown = {name: value for name, value in metrics.items() if name not in ("batches", "epochs")}
    numbers = (f"{name} {_text(value)}" for name, value in shown.items())
    return f"after batch {batches}: {', '.join(numbers)}"


def _text(value: Any) -> str:
    try:
        return f"{float(value):.6g}"
    except (TypeError, ValueError):
        return str(value)


def _length(plan: ResolvedPeriods) -> str:
    batches = f"{plan.total_batches} batches"
    if plan.length.unit is Unit.EPOCHS:
        return f"{_count(plan.length.n, 'epoch')}, {batches}"
    return batches


def _often(plan: ResolvedPeriods, period: Period, besides: str) -> str:
    total = plan.total_batches
    step = None if period.is_never else period.n * _unit_batches(plan, period)
    count = 1 if step is None else -(-total // step)
    if period is plan.validation and plan.initial_validation:
        count, besides = count + 1, f"before the first batch, {besides}"
    often = besides.removeprefix("and ") if step is None else f"{_every(plan, period)}, {besides}"
    return f"{count}: {often}"


def _policy(plan: ResolvedPeriods) -> str:
    after = {"all": ", and after every validation", "best": ", and after validations that are best"}
    return f"at the end{after.get(plan.checkpoint_policy, '')}"


def _every(plan: ResolvedPeriods, period: Period) -> str:
    if period.unit is Unit.BATCHES:
        return f"every {_count(period.n, 'batch')}"
    batches = _count(period.n * plan.epoch_batches, "batch")
    epochs = "epoch" if period.n == 1 else f"{period.n} epochs"
    return f"every {epochs} ({batches})"


def _count(number: int, unit: str) -> str:
    plural = "es" if unit == "batch" else "s"
    return f"{number} {unit}{plural * (number != 1)}"


def _unit_batches(plan: ResolvedPeriods, period: Period) -> int:
    return plan.epoch_batches if period.unit is Unit.EPOCHS else 1


def _devices(trainer: pl.Trainer) -> str:
    kind = trainer.strategy.root_device.type
    nodes = f" on {trainer.num_nodes} nodes" if trainer.num_nodes > 1 else ""
    return f"{trainer.world_size} {kind}{nodes}"


def _precision(module: ExperimentModule, trainer: pl.Trainer) -> str:
    level = module.context._apex_opt_level
    is_scaled = level is not None and module.context._scaler is not None
    return f"float16 autocast (Apex {level})" if is_scaled else str(trainer.precision)


def _table(title: str, rows: dict[str, str]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, show_header=False, title_justify="left")
    for name, value in rows.items():
        table.add_row(Text(name), Text(value, overflow="fold"))
    return table


def _print(table: Table) -> None:
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else _WIDTH).print(table)
