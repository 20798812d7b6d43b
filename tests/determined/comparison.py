"""What passes under both, what only under the real one and why, and what nobody has explained."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from tests.determined.running import Outcome

REASONS = Path(__file__).with_name("reasons.yaml")


def reasons(file: Path = REASONS) -> dict[str, str]:
    """The kept list: patterns of node ids, each with the reason why they need the real one."""
    groups = yaml.safe_load(file.read_text("utf-8")) or []
    return {pattern: group["reason"] for group in groups for pattern in group["tests"]}


@dataclass
class Comparison:
    """A part of the tests, under both.

    Attributes:
        both: tests that pass under both.
        explained: those that pass only under the real one, with the reason of the list.
        unexplained: those that do, and the list has no reason; with what they said.
        gained: those that pass only under the alias.
        stale: patterns of the list whose tests pass under both.
    """

    both: list[str] = field(default_factory=list)
    explained: dict[str, str] = field(default_factory=dict)
    unexplained: dict[str, str] = field(default_factory=dict)
    gained: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)

    @property
    def real(self) -> int:
        """How many pass under the real one."""
        return len(self.both) + len(self.explained) + len(self.unexplained)


def compare(
    real: dict[str, Outcome], aliased: dict[str, Outcome], known: dict[str, str]
) -> Comparison:
    """Compare how tests ended under the real ``determined`` and under the alias."""
    found = Comparison()
    missing = Outcome("missing", "it was not collected: its module does not import")
    for test, outcome in sorted(real.items()):
        ours = aliased.get(test, missing)
        if outcome.result != "passed":
            found.gained += [test] if ours.result == "passed" else []
        elif ours.result == "passed":
            found.both.append(test)
        elif (reason := _reason(test, known)) is not None:
            found.explained[test] = reason
        else:
            found.unexplained[test] = ours.why or ours.result
    found.gained += [t for t, ours in aliased.items() if t not in real and ours.result == "passed"]
    for pattern in known:
        tests = [test for test in real if fnmatchcase(test, _literal(pattern))]
        if tests and all(test in found.both for test in tests):
            found.stale.append(pattern)
    return found


def _reason(test: str, known: dict[str, str]) -> str | None:
    return next(
        (why for pattern, why in known.items() if fnmatchcase(test, _literal(pattern))), None
    )


def _literal(pattern: str) -> str:
    """A pattern in which only ``*`` is special: node ids have brackets."""
    return pattern.replace("[", "[[]")
