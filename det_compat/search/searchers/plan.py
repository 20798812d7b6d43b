"""What a search does, from its experiment config."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from det_compat.config.experiment import ExperimentConfig
from det_compat.config.hyperparameters import Hyperparameters, Log, batch_size
from det_compat.config.lengths import Length, Unit
from det_compat.config.searcher import Searcher
from det_compat.config.shims import with_seed
from det_compat.search.errors import SearchError
from det_compat.search.searchers.brackets import Bracket, brackets
from det_compat.search.searchers.sampling import grid, sample


@dataclass(frozen=True)
class SearchPlan:
    """A search; it holds none of the secrets that an experiment config may have.

    Attributes:
        name: the name of the experiment, "search" if it has none.
        searcher: what the config says of the search.
        brackets: the groups of trials that are compared with each other.
        unit: what the rungs count; if it is the script's own, ``searcher.time_metric`` counts it.
        space: the hyperparameters.
        points: the points of a grid in the order in which they are tried; None if they are drawn.
        seed: the seed of the draws.
        slots: the devices that each trial trains on.
        is_script: whether a trial is a script, which starts its processes itself.
        max_restarts: how often a trial that dies is started again.
    """

    name: str
    searcher: Searcher
    brackets: tuple[Bracket, ...]
    unit: Unit
    space: Hyperparameters
    points: tuple[dict[str, Any], ...] | None
    seed: int
    slots: int
    max_restarts: int
    is_script: bool = False

    @property
    def mode(self) -> str:
        """What Ray Tune calls ``smaller_is_better``: min or max."""
        return "min" if self.searcher.smaller_is_better else "max"

    @property
    def max_trials(self) -> int:
        """Trials in all brackets."""
        return sum(bracket.max_trials for bracket in self.brackets)

    @property
    def processes(self) -> int:
        """Processes a trial that the search starts: one for each slot, or a script."""
        return 1 if self.is_script else max(self.slots, 1)

    @property
    def logarithmic(self) -> set[str]:
        """The hyperparameters that are searched on a logarithmic scale, by dotted name."""
        return {name for name, item in self.space.ranges().items() if isinstance(item, Log)}

    def hparams(self, index: int) -> dict[str, Any]:
        """The hyperparameters of trial ``index``."""
        if self.points is not None:
            return copy.deepcopy(self.points[index])
        return copy.deepcopy(sample(self.space, self.seed, index))

    def rungs_reached(
        self, bracket: int, batches: int, metrics: Mapping[str, Any], hparams: Mapping[str, Any]
    ) -> int:
        """How many rungs of ``bracket`` a trial has reached.

        Raises:
            SearchError: ``metrics`` has not what the unit is counted by.
        """
        rungs = self.brackets[bracket].rungs
        if not rungs:
            return 0
        if self.unit is Unit.RECORDS:
            size = batch_size(hparams, self.slots)
            in_batches = [Length(rung, self.unit).batches(size) for rung in rungs]
            return sum(rung <= batches for rung in in_batches)
        done = batches if self.unit is Unit.BATCHES else self._counted(metrics)
        return sum(rung <= done for rung in rungs)

    def _counted(self, metrics: Mapping[str, Any]) -> float:
        name = self.searcher.time_metric or self.unit.value
        count = metrics.get(name)
        if not isinstance(count, (int, float)):
            raise SearchError(
                f"the trial reports no number {name!r}, by which the search counts its length: its "
                f"validation metrics are {', '.join(map(str, metrics)) or 'none'}"
            )
        return count

    def rungs_of(self, bracket: int) -> tuple[Length, ...]:
        """The rungs of ``bracket`` as lengths: where a trial has to validate."""
        return tuple(Length(rung, self.unit) for rung in self.brackets[bracket].rungs)


def plan_search(config: ExperimentConfig, seed: int) -> SearchPlan:
    """The search that ``config`` asks for.

    Args:
        config: an experiment config.
        seed: the seed of the draws, if the config has no ``reproducibility.experiment_seed``.

    Raises:
        SearchError: it cannot be run.
    """
    searcher = config.searcher
    if not searcher.metric:
        raise SearchError("the config names no searcher.metric to compare trials by")
    is_grid = searcher.name == "grid"
    points = tuple(reversed(grid(config.hyperparameters))) if is_grid else None
    is_script = config.entrypoint is not None and config.entrypoint.is_command
    found = brackets(searcher, len(points or ()), is_script=is_script)
    length = searcher.max_length
    if length is not None and length.unit is Unit.CUSTOM and searcher.time_metric is None:
        _refuse_bare(length)
    return SearchPlan(
        name=config.name or "search",
        searcher=searcher,
        brackets=found,
        unit=Unit.CUSTOM if length is None else length.unit,
        space=config.hyperparameters,
        points=points,
        seed=seed if config.seed is None else config.seed,
        slots=config.slots_per_trial,
        max_restarts=config.max_restarts,
        is_script=is_script,
    )


def _refuse_bare(length: Length) -> None:
    """Raise SearchError with what ``Length.period`` says of a length without a unit."""
    try:
        length.period()
    except ValueError as error:
        raise SearchError(f"searcher.max_length: {error}") from None


def trial_config(
    config: Mapping[str, Any], hparams: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """The experiment config of one trial of the search ``config``: it trains once."""
    single = copy.deepcopy(dict(config))
    searcher = single["searcher"]
    kept = ("metric", "smaller_is_better", "max_length", "max_time", "time_metric")
    single["searcher"] = {"name": "single", **{k: searcher[k] for k in kept if k in searcher}}
    # Each is a constant, whatever is in it.
    single["hyperparameters"] = {k: {"type": "const", "val": v} for k, v in hparams.items()}
    return with_seed(single, seed)
