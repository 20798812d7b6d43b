from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from det_compat.core.checkpoint_metadata import CompleteCheckpoint, metadata_text, read_metadata
from det_compat.core.local_storage import LocalStorage
from det_compat.errors import CorruptCheckpointError


@pytest.mark.parametrize(
    "metadata, steps, saved_at",
    [
        ({"steps_completed": 3, "saved_at": "2026"}, 3, "2026"),
        ({}, None, ""),
        ({"steps_completed": "3", "saved_at": 2026}, None, ""),
        ({"steps_completed": True}, None, ""),
        ({"steps_completed": None, "saved_at": None}, None, ""),
    ],
)
def test_what_metadata_says(metadata: dict[str, Any], steps: int | None, saved_at: str) -> None:
    checkpoint = CompleteCheckpoint("a", metadata)
    assert (checkpoint.steps_completed, checkpoint.saved_at) == (steps, saved_at)
    assert hash(checkpoint) == hash(CompleteCheckpoint("a", {}))


def test_the_time_of_saving_is_added() -> None:
    metadata = json.loads(metadata_text({"steps_completed": 3}))
    now = datetime.datetime.now(datetime.timezone.utc)
    age = now - datetime.datetime.fromisoformat(metadata["saved_at"])
    assert datetime.timedelta(0) <= age < datetime.timedelta(minutes=1)
    assert json.loads(metadata_text({"saved_at": "then"})) == {"saved_at": "then"}


def test_metadata_is_read(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    assert read_metadata(storage, "a") is None
    (tmp_path / "a").mkdir()
    assert read_metadata(storage, "a") is None
    (tmp_path / "a" / "metadata.json").write_text('{"b": 1}')
    assert read_metadata(storage, "a") == {"b": 1}
    (tmp_path / "a" / "metadata.json").write_bytes(b"\xff\xfe")
    with pytest.raises(CorruptCheckpointError, match=r"metadata.json is no JSON"):
        read_metadata(storage, "a")
