"""What of a run has arrived where it is sent, as kept in the run's folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from det_compat.script.run_paths import TRACKED
from det_compat.shared.data_files import object_in
from det_compat.shared.masking import without_secrets


@dataclass
class Sent:
    """What is at MLflow of the run or search in a folder.

    Attributes:
        uri: where it is sent, without a password that is in it.
        experiment, run: the IDs that MLflow has given; empty as long as nothing was sent.
        is_described: whether the hyperparameters have arrived.
        offset: bytes of ``metrics.jsonl`` that have arrived.
        state: the state that was told last.
        files: the files and directories that have arrived, by path, and how new they were.
        names: names that MLflow does not take, by those that stand for them.
    """

    uri: str = ""
    experiment: str = ""
    run: str = ""
    is_described: bool = False
    offset: int = 0
    state: str = ""
    files: dict[str, float] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Sent:
        """What is kept in ``folder``; of a file that cannot be read, nothing."""
        found, kinds = object_in(folder / TRACKED), {n: type(v) for n, v in asdict(cls()).items()}
        is_right = all(kinds.get(name) is type(value) for name, value in found.items())
        return cls(**found) if is_right else cls()

    @classmethod
    def to(cls, uri: str, folder: Path) -> Sent:
        """What of ``folder`` has arrived at ``uri``: nothing, if it was sent elsewhere before."""
        kept = cls.read(folder)
        shown = str(without_secrets(uri))
        return kept if kept.uri == shown else cls(uri=shown)

    def write(self, folder: Path) -> None:
        """Keep it.

        Raises:
            OSError: the folder cannot be written to.
        """
        part = folder / f".{TRACKED}"
        part.write_text(json.dumps(asdict(self), indent=2), "utf-8")
        part.replace(folder / TRACKED)
