"""Which trial is created next: the order of Determined's searchers."""

from collections import deque
from collections.abc import Iterable, Sequence

from det_compat.search.searchers.brackets import Bracket

# After so many invalid trials in a row a search gives up.
_MOST_INVALID = 100


class CreationOrder:
    """Creates trials: first those that brackets may have at once, then one for each that ends.

    Args:
        brackets: the brackets of the search.
        replaces_invalid: whether a trial that raises InvalidHP is replaced by another one; a
            point of a grid is not.
    """

    def __init__(self, brackets: Sequence[Bracket], *, replaces_invalid: bool) -> None:
        self._most = [bracket.max_trials for bracket in brackets]
        self._replaces_invalid = replaces_invalid
        self._queued: deque[int] = deque()
        self._created = [0] * len(brackets)
        self._open = 0
        self._next_index = 0
        self._invalid_in_a_row = 0
        for number, bracket in enumerate(brackets):
            for _ in range(bracket.max_concurrent_trials):
                self._add(number)

    def _add(self, bracket: int) -> None:
        if self._created[bracket] < self._most[bracket]:
            self._created[bracket] += 1
            self._queued.append(bracket)

    def next(self) -> tuple[int, int] | None:
        """The index and the bracket of a new trial; None if there is none now."""
        if not self._queued:
            return None
        self._open += 1
        index = self._next_index
        self._next_index += 1
        return index, self._queued.popleft()

    def ended(self, bracket: int, *, is_invalid: bool = False) -> None:
        """Take note that a trial of ``bracket`` has ended.

        After 100 invalid trials in a row no more are created: there may be no valid ones.
        """
        self._open -= 1
        self._invalid_in_a_row = self._invalid_in_a_row + 1 if is_invalid else 0
        if self._invalid_in_a_row >= _MOST_INVALID:
            self._queued.clear()
            self._most = [0] * len(self._most)
        if is_invalid and self._replaces_invalid:
            self._created[bracket] -= 1
        self._add(bracket)

    def go_on(self, created: Sequence[int], ended: Iterable[tuple[int, bool]]) -> None:
        """Go on from where an interrupted search was.

        Args:
            created: the brackets of the trials that were created, by index.
            ended: the brackets of those that have ended, in that order, and whether each was
                invalid.
        """
        self._open = self._next_index = len(created)
        for bracket, is_invalid in ended:
            self.ended(bracket, is_invalid=is_invalid)
        for bracket in created:
            if bracket in self._queued:
                self._queued.remove(bracket)

    @property
    def is_over(self) -> bool:
        """Whether there will be no more trials."""
        return not self._queued and self._open == 0
