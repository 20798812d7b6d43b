"""What each process of a trial does: it trains, reports, and notes how the trial ended."""

import functools
import logging
import os
import pkgutil
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from det_compat.config.document import ConfigError
from det_compat.config.experiment import parse_config
from det_compat.config.lengths import Length
from det_compat.errors import InvalidHP
from det_compat.experiment.environment import device_variables
from det_compat.experiment.errors import FitError
from det_compat.script.machines import leave_launcher
from det_compat.search.errors import SearchError
from det_compat.search.forks.imports import Imports, first_imports
from det_compat.search.records import Report, SearchFolder, Status, TrialRecord
from det_compat.search.searchers.plan import SearchPlan, trial_config
from det_compat.search.searchers.sampling import trial_seed
from det_compat.shared.own_process import claim_process

#: ``report(batches, metrics, checkpoint)`` after a validation, ``checkpoint`` being the path of one
#: of that moment or None. It may not return: the search may stop the trial there.
ReportFunction = Callable[[int, dict[str, Any], str | None], None]

TRAINER = "det_compat.adapters.experiment.search_trial:train_one"
SCRIPT_TRAINER = "det_compat.search.script_trial:train_one"

# After these errors training again would end in the same way.
_TO_MEND = (ConfigError, FitError, SearchError)


class TrainOne(Protocol):
    """What trains one trial from its start, or from a checkpoint, to its end.

    A trial class of several slots is trained by as many processes, each of which calls it. They
    have ``torch.distributed`` set up, and the one of rank 0 reports.

    Raises:
        det_compat.InvalidHP: the hyperparameters cannot be used.
    """

    def __call__(
        self,
        config: dict[str, Any],
        run_dir: Path,
        report: ReportFunction,
        resume_from: str | None,
        *,
        model_dir: Path,
        validate_at: Sequence[Length],
    ) -> None:
        """Train.

        Args:
            config: the experiment config of the trial: a single run with constants.
            run_dir: where the trial may write.
            report: called after every validation, as soon as its checkpoint is complete. The
                metrics have ``epochs``, the number of epochs trained, next to the trial's own.
            resume_from: a checkpoint that was reported earlier.
            model_dir: where the entrypoint is imported from.
            validate_at: lengths at which the trial validates, next to what its config says.
        """


@dataclass(frozen=True)
class TrialTask:
    """What the processes of all trials are given.

    Attributes:
        plan: the plan of the search.
        config: the experiment config, secrets included: it is passed on in memory only.
        folder: the folder of the search, which all machines of a cluster see.
        model_dir: where the entrypoint is imported from.
        train_one: a function, or ``module:function``.
    """

    plan: SearchPlan
    config: dict[str, Any]
    folder: SearchFolder
    model_dir: Path
    train_one: TrainOne | str


def imports_of(task: TrialTask) -> Imports:
    """What every trial of a search imports before code of users runs."""
    if task.train_one == SCRIPT_TRAINER:
        return Imports([SCRIPT_TRAINER.partition(":")[0]])
    if task.train_one != TRAINER:
        # What else trains trials is code of users, which each trial imports anew.
        return Imports()
    experiment = parse_config(task.config)
    module = (experiment.entrypoint.trial or "") if experiment.entrypoint else ""
    # That of a package would follow what the package does, which may be anything.
    file = task.model_dir / f"{module.partition(':')[0]}.py"
    return Imports([TRAINER.partition(":")[0]], device_variables(experiment), first_imports(file))


@dataclass(frozen=True)
class Attempt:
    """One start of a trial, which is the same in all of its processes.

    Attributes:
        task: what all trials of the search are given.
        index, bracket, hparams: what the trial is.
        resume_from: the checkpoint to go on from.
    """

    task: TrialTask
    index: int
    bracket: int
    hparams: dict[str, Any]
    resume_from: str | None

    @property
    def record(self) -> TrialRecord:
        """The trial's record."""
        return self.task.folder.trial(self.index)

    def train(self, tell: Callable[[Report], None]) -> None:
        """Train the trial, and let ``tell`` know of each validation.

        Raises:
            Exception: whatever ended the training. If it was the hyperparameters, or what training
                again would not change, the record says how the trial ended.
        """
        claim_process()
        leave_launcher()
        plan, record, train_one = self.task.plan, self.record, self.task.train_one
        try:
            if isinstance(train_one, str):
                train_one = pkgutil.resolve_name(train_one)
            train_one(
                trial_config(self.task.config, self.hparams, trial_seed(plan.seed, self.index)),
                record.folder,
                functools.partial(self._report, tell),
                self.resume_from,
                model_dir=self.task.model_dir,
                validate_at=plan.rungs_of(self.bracket),
            )
        except InvalidHP as error:
            record.finish(Status.INVALID_HP, str(error))
            raise
        except _TO_MEND as error:
            record.finish(Status.ERROR, str(error))
            print(f"det-compat: {error}", file=sys.stderr)
            raise
        except BaseException:
            # One that the search has stopped ends here too.
            if record.status is Status.UNFINISHED:
                record.note_error(traceback.format_exc())
                traceback.print_exc()
            raise

    def _report(
        self,
        tell: Callable[[Report], None],
        batches: int,
        metrics: dict[str, Any],
        checkpoint: str | os.PathLike[str] | None,
    ) -> None:
        plan = self.task.plan
        value = _number(metrics, plan.searcher.metric)
        scalars = {name: it for name, it in metrics.items() if isinstance(it, (int, float, str))}
        report = Report(
            batches=batches,
            rungs=plan.rungs_reached(self.bracket, batches, metrics, self.hparams),
            metric=value,
            metrics=scalars,
            checkpoint=None if checkpoint is None else os.fspath(checkpoint),
        )
        self.record.append(report)
        tell(report)


def log_to(file: Path) -> None:
    """Send what this process writes, native libraries included, to the trial's own log."""
    # Tune's own log_to_file replaces sys.stderr by an object that has not even isatty().
    with file.open("ab") as log:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)


def _number(metrics: dict[str, Any], name: str) -> float:
    if name not in metrics:
        known = ", ".join(sorted(map(str, metrics))) or "none"
        raise SearchError(
            f"the trial reports no metric {name!r}: its validation metrics are {known}. Set "
            "searcher.metric to one of them, or report it"
        )
    try:
        return float(metrics[name])
    except (TypeError, ValueError):
        raise SearchError(f"the trial's metric {name!r} is no number: {metrics[name]!r}") from None
