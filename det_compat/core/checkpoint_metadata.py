"""What ``metadata.json`` says of a checkpoint."""

from __future__ import annotations

import dataclasses
import datetime
import json
from typing import Any

from det_compat.core.local_storage import LocalStorage
from det_compat.core.remote_storage import RemoteStorage
from det_compat.errors import CorruptCheckpointError


@dataclasses.dataclass(frozen=True)
class CompleteCheckpoint:
    """A checkpoint that was written to its end.

    Args:
        uuid: its name.
        metadata: the content of its ``metadata.json``.
    """

    uuid: str
    metadata: dict[str, Any] = dataclasses.field(hash=False)

    @property
    def steps_completed(self) -> int | None:
        """The batches trained, None if its metadata does not say."""
        steps = self.metadata.get("steps_completed")
        return steps if isinstance(steps, int) and not isinstance(steps, bool) else None

    @property
    def saved_at(self) -> str:
        """When it was saved, in ISO 8601 and UTC; empty if its metadata does not say."""
        saved_at = self.metadata.get("saved_at")
        return saved_at if isinstance(saved_at, str) else ""

    def age(self) -> tuple[int, str]:
        """What checkpoints are ordered by, oldest first."""
        return (-1 if self.steps_completed is None else self.steps_completed, self.saved_at)


def read_metadata(storage: LocalStorage | RemoteStorage, storage_id: str) -> dict[str, Any] | None:
    """The content of a checkpoint's ``metadata.json``, None if there is none.

    Raises:
        CorruptCheckpointError: it is no JSON object.
    """
    content = storage.metadata(storage_id)
    if content is None:
        return None
    try:
        metadata = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CorruptCheckpointError(
            f"{storage.location(storage_id)} is corrupt: its metadata.json is no JSON ({error})"
        ) from error
    if not isinstance(metadata, dict):
        raise CorruptCheckpointError(
            f"{storage.location(storage_id)} is corrupt: its metadata.json has no JSON object"
        )
    return metadata


def metadata_text(metadata: dict[str, Any]) -> str:
    """The content of a ``metadata.json``; ``saved_at`` is added, unless it is there."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return json.dumps({"saved_at": now.isoformat(timespec="microseconds"), **metadata}, indent=2)
