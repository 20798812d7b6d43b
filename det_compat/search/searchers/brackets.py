"""The brackets of a search: groups of trials that climb the same rungs and are compared there.

A rung is a length at which the worse trials of a bracket are stopped. The numbers are those that
Determined 0.38's searchers compute, with one exception. Determined took the number of halvings from
a quotient of two logarithms, which rounding may put just below a whole number: 1000 trials by a
divisor of 10 were 2 halvings to it. Here they are 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from det_compat.config.searcher import Searcher
from det_compat.search.errors import SearchError


@dataclass(frozen=True)
class Bracket:
    """Trials that climb the same rungs.

    Attributes:
        rungs: lengths at which trials are compared, the last being the whole length, in the unit
            of the searcher's ``max_length``. One rung means that no trial is stopped early, none
            that only the script knows its length.
        max_trials: trials in all.
        max_concurrent_trials: trials at once.
    """

    rungs: tuple[int, ...]
    max_trials: int
    max_concurrent_trials: int


def brackets(
    searcher: Searcher, grid_points: int = 0, *, is_script: bool = False
) -> tuple[Bracket, ...]:
    """The brackets of ``searcher``, as Determined 0.38 makes them, the one with most rungs first.

    Args:
        searcher: the searcher of an experiment config.
        grid_points: how many points a grid search has.
        is_script: whether a trial may know by itself how long it is.

    Raises:
        SearchError: the searcher is refused, or has no length.
    """
    if searcher.refusal:
        raise SearchError(f"searcher.name {searcher.written_name}: {searcher.refusal}")
    length, is_halving = searcher.max_length, searcher.name in ("adaptive_asha", "async_halving")
    if length is None and (is_halving or not is_script):
        raise SearchError("the config does not say how long a trial is: set searcher.max_length")
    if length is not None and searcher.name == "adaptive_asha":
        return _adaptive(searcher, length.value)
    if length is not None and searcher.name == "async_halving":
        return (_halving(searcher, length.value),)
    counts = {"single": 1, "grid": grid_points, "random": searcher.max_trials or 0}
    trials = counts[searcher.name]
    at_once = searcher.max_concurrent_trials or trials
    return (Bracket(() if length is None else (length.value,), trials, at_once),)


def _halving(searcher: Searcher, length: int) -> Bracket:
    rungs, divisor = searcher.num_rungs or searcher.max_rungs, searcher.divisor
    trials = searcher.max_trials
    if trials is None:
        trials = trials_in_budget(rungs, divisor, length, _budget(searcher))
    at_once = searcher.max_concurrent_trials or max(int(divisor ** (rungs - 1)), 1)
    return Bracket(rung_lengths(rungs, divisor, length), trials, at_once)


def _adaptive(searcher: Searcher, length: int) -> tuple[Bracket, ...]:
    divisor, trials = searcher.divisor, searcher.max_trials
    if trials is None:
        trials = _adaptive_trials_in_budget(searcher, length)
    rungs = sorted(searcher.bracket_rungs, reverse=True)
    if not rungs:
        most = searcher.max_rungs - 1
        most = min(halvings(length, divisor, most), halvings(trials, divisor, most)) + 1
        rungs = bracket_rungs(searcher.mode, most)
    each = trials_in_brackets(trials, divisor, rungs)
    at_once = concurrent_in_brackets(searcher.max_concurrent_trials, divisor, each)
    return tuple(
        Bracket(rung_lengths(count, divisor, length), in_bracket, concurrent)
        for count, in_bracket, concurrent in zip(rungs, each, at_once, strict=True)
    )


def bracket_rungs(mode: str, max_rungs: int) -> list[int]:
    """The number of rungs of each bracket in a mode of adaptive_asha, most first."""
    fewest = {
        "aggressive": max_rungs,
        "standard": (max_rungs - 1) // 2 + 1,
        "conservative": 1,
    }[mode]
    return list(range(max_rungs, fewest - 1, -1))


def trials_in_brackets(max_trials: int, divisor: float, rungs: Sequence[int]) -> list[int]:
    """Share ``max_trials`` out so that the brackets take about as much training each.

    Every bracket has one trial at least, so that there may be more than ``max_trials`` in all; what
    rounding leaves over goes to the first.
    """
    # The order of these operations is Determined's: another one rounds differently.
    weights = [divisor ** (count - 1) / count for count in rungs]
    total = 0.0
    for weight in weights:
        total += weight
    trials = [max(int(weight / total * max_trials), 1) for weight in weights]
    trials[0] += max(max_trials - sum(trials), 0)
    return trials


def concurrent_in_brackets(
    max_concurrent_trials: int, divisor: float, trials: Sequence[int]
) -> list[int]:
    """Share ``max_concurrent_trials`` out evenly, the first brackets having what is left over.

    0 stands for as many as the last bracket has trials, or the divisor if that is more, in each.
    """
    count = len(trials)
    if max_concurrent_trials == 0:
        return [max(trials[-1], int(divisor))] * count
    each, rest = divmod(max(max_concurrent_trials, count), count)
    return [each + (bracket < rest) for bracket in range(count)]


def _adaptive_trials_in_budget(searcher: Searcher, length: int) -> int:
    rungs = list(searcher.bracket_rungs) or bracket_rungs(searcher.mode, searcher.max_rungs)
    budget = _budget(searcher) // len(rungs)
    return sum(trials_in_budget(count, searcher.divisor, length, budget) for count in rungs)


def _budget(searcher: Searcher) -> int:
    budget, length = searcher.budget, searcher.max_length
    if budget is None or length is None:
        raise SearchError(f"searcher {searcher.written_name} needs max_trials")
    if budget.unit is not length.unit:
        raise SearchError(
            f"searcher.budget is {budget} and the length of a trial {length}: give both in "
            "the same unit"
        )
    return budget.value


def halvings(number: int, divisor: float, most: int) -> int:
    """How often ``number`` can be divided by ``divisor`` with 1 or more left, up to ``most``."""
    ratio = Fraction(divisor)
    power, count = ratio, 0
    while count < most and power <= number:
        power *= ratio
        count += 1
    return count


def rung_lengths(num_rungs: int, divisor: float, max_length: int) -> tuple[int, ...]:
    """The lengths of ``num_rungs`` rungs, shortest first, in the units of ``max_length``.

    Each is ``divisor`` times the one before, rounded down from ``max_length``; none is below 1, so
    that the first ones are equal where ``max_length`` is short.
    """
    return tuple(
        max(int(max_length / divisor ** (num_rungs - rung - 1)), 1) for rung in range(num_rungs)
    )


def trials_in_budget(num_rungs: int, divisor: float, max_length: int, budget: int) -> int:
    """Trials that synchronous halving starts so that all together train for ``budget``.

    It is for searchers up to Determined 0.12, which were given a budget in place of a number of
    trials.
    """
    lengths = rung_lengths(num_rungs, divisor, max_length)
    starts = [int(divisor ** (num_rungs - rung - 1)) for rung in range(num_rungs)]
    steps = [lengths[0], *(after - before for before, after in pairwise(lengths))]
    for_one_winner = sum(step * trials for step, trials in zip(steps, starts, strict=True))
    return max(int(budget / for_one_winner * starts[0]), 1)
