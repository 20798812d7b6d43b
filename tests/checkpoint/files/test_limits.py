"""Files that stand for far more than they have."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from det_compat.checkpoint.files.limits import DEEPEST, check_extent
from det_compat.checkpoint.files.pickles import read_pickle
from det_compat.checkpoint.files.torch_file import load_torch_file
from det_compat.checkpoint.reader import read_json
from det_compat.checkpoint.show import describe
from det_compat.errors import CorruptCheckpointError, InvalidCheckpointException
from tests.checkpoint.makers import save


def laughing() -> Any:
    value: Any = [0]
    for _ in range(60):
        value = {"a": value, "b": (value, value)}
    return value


def holding_itself() -> Any:
    value: list[Any] = []
    value.append({"a": value})
    return value


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


BAD = {
    "laughing": (laughing(), "stand for"),
    "cycle": (holding_itself(), "holds itself"),
    "deep": (nested(300), "nested more than"),
    "expanded": (torch.zeros(1).expand(10**12), "claim"),
}


@pytest.mark.parametrize("name", BAD)
def test_they_are_refused_by_name(name: str, tmp_path: Path) -> None:
    value, message = BAD[name]
    content = {"state_dict": {"models.0.w": torch.zeros(1)}, "hyper_parameters": {"x": value}}
    file = save(content, tmp_path / "x.ckpt")
    for read in (load_torch_file, describe):
        with pytest.raises(CorruptCheckpointError, match=message) as caught:
            read(file)
        assert str(file) in str(caught.value)


def test_what_is_shared_within_reason_is_read(tmp_path: Path) -> None:
    tied, group = torch.zeros(1000, 1000), {"lr": 0.1}
    content = {"a": tied, "b": tied.t(), "c": tied[0].expand(1000, 1000), "groups": [group] * 1000}
    loaded = load_torch_file(save(content, tmp_path / "x.pt"))
    assert loaded["a"].data_ptr() == loaded["b"].data_ptr()
    check_extent("x", nested(DEEPEST))


def test_weights_of_countless_models(tmp_path: Path) -> None:
    file = save({"state_dict": {"models.1000000000000.w": torch.zeros(1)}}, tmp_path / "x.ckpt")
    with pytest.raises(InvalidCheckpointException, match="number 1000000000000"):
        describe(file)


def test_an_archive_that_unpacks_to_far_more_than_itself(tmp_path: Path) -> None:
    whole = io.BytesIO()
    torch.save({"w": torch.zeros(2)}, whole)
    file = tmp_path / "x.pt"
    with (
        zipfile.ZipFile(whole) as source,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as zipped,
    ):
        for name in source.namelist():
            zipped.writestr(name, source.read(name))
        with zipped.open("archive/data/1", "w", force_zip64=True) as entry:
            for _ in range(300):
                entry.write(bytes(2**20))
    with pytest.raises(CorruptCheckpointError, match="unpack to 31"):
        load_torch_file(file)


def test_a_pickle_that_asks_for_room(tmp_path: Path) -> None:
    file = tmp_path / "x.pkl"
    file.write_bytes(b"\x80\x04Nr\xff\xff\xff\x7f.")
    with pytest.raises(CorruptCheckpointError, match="memo"):
        read_pickle(file)


@pytest.mark.parametrize("depth", [900, 100_000])
def test_deep_json_and_pickles(depth: int, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text('{"a": ' + "[" * depth + "]" * depth + "}")
    with pytest.raises(CorruptCheckpointError, match=r"x\.json"):
        read_json(file)
    (tmp_path / "x.pkl").write_bytes(b"\x80\x02" + b"(" * depth + b"t" * depth + b".")
    with pytest.raises(CorruptCheckpointError, match=r"x\.pkl"):
        read_pickle(tmp_path / "x.pkl")
    assert check_extent("x", json.loads("[[1]]")) == [[1]]
