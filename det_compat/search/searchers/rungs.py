"""The rungs of successive halving: how far trials train before the worse ones are stopped.

The numbers are those that Determined 0.38's searchers compute, with one exception. Determined took
the number of halvings from a quotient of two logarithms, which rounding may put just below a whole
number: 1000 trials by a divisor of 10 were 2 halvings to it. Here they are 3.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise


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
