"""An MLflow that keeps what it is sent, and can be out of order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from det_compat.tracking.reports import Value


@dataclass
class FakeRun:
    experiment: str
    name: str
    tags: dict[str, str]
    params: dict[str, str] = field(default_factory=dict)
    values: list[Value] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    state: str = "RUNNING"

    def curve(self, name: str) -> list[tuple[int, float]]:
        return [(one.step, one.value) for one in self.values if one.name == name]


class FakeStore:
    """A ``Store`` in memory; ``fails_after`` calls it fails, if that is a number."""

    def __init__(self, uri: str = "http://there") -> None:
        self.uri = uri
        self.runs: dict[str, FakeRun] = {}
        self.fails_after: int | None = None

    def _called(self) -> None:
        if self.fails_after is not None:
            if self.fails_after == 0:
                raise ConnectionError("nobody is there")
            self.fails_after -= 1

    def begin(
        self, experiment: str, name: str, started: float, tags: dict[str, str]
    ) -> tuple[str, str]:
        self._called()
        key = str(len(self.runs))
        self.runs[key] = FakeRun(experiment, name, dict(tags))
        return "7", key

    def describe(self, run: str, params: dict[str, str], tags: dict[str, str]) -> None:
        self._called()
        known = self.runs[run].params
        assert all(known.get(name, value) == value for name, value in params.items())
        known.update(params)
        self.runs[run].tags.update(tags)

    def report(self, run: str, values: Sequence[Value]) -> None:
        self._called()
        self.runs[run].values.extend(values)

    def upload(self, run: str, path: Path, folder: str) -> None:
        self._called()
        self.runs[run].files.append(f"{folder}/{path.name}".lstrip("/"))

    def set_state(self, run: str, state: str, ended: float | None) -> None:
        self._called()
        self.runs[run].state = state
