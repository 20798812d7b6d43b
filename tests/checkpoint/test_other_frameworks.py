from __future__ import annotations

from pathlib import Path

import pytest

from det_compat.checkpoint import read_checkpoint
from det_compat.checkpoint.other_frameworks import other_framework
from det_compat.errors import InvalidCheckpointException
from tests.checkpoint.makers import as_json


@pytest.mark.parametrize(
    ("file", "framework"),
    [
        ("saved_model.pb", "SavedModel"),
        ("1600/saved_model.pb", "SavedModel"),
        ("determined-keras-model.h5", "Keras"),
        ("determined-keras-model-weights.index", "Keras"),
        ("det_state_dict_rank0.pth", "DeepSpeedTrial"),
        ("MLmodel", "MLflow"),
        ("pytorch_model.bin", "Hugging Face"),
    ],
)
def test_told_by_a_file(tmp_path: Path, file: str, framework: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    with pytest.raises(InvalidCheckpointException, match=framework):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize(
    "metadata", [{"framework": "tensorflow-2.4.1"}, {"tensorflow_version": "1.15"}]
)
def test_told_by_metadata(tmp_path: Path, metadata: dict[str, str]) -> None:
    as_json(metadata, tmp_path / "metadata.json")
    with pytest.raises(InvalidCheckpointException, match=r"TensorFlow or Keras \(.*\d"):
        read_checkpoint(tmp_path)


def test_nothing_is_told_of_what_is_unknown(tmp_path: Path) -> None:
    assert other_framework(tmp_path, None) is None
    assert other_framework(tmp_path, {"framework": "torch-1.4"}) is None
