from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from det_compat.checkpoint import read_checkpoint
from det_compat.checkpoint.layouts import COUNTERS, READERS, Reader, other_framework
from det_compat.errors import InvalidCheckpointException
from tests.checkpoint.makers import CONFIG, TRIAL_STATE, as_json, singular, state


def reader(file: str, versions: str) -> Reader:
    (found,) = [one for one in READERS if one.file == file and versions in one.versions]
    return found


def told(file: str, versions: str, content: Any) -> dict[str, Any]:
    return reader(file, versions).read(content)


def test_every_reader_names_its_versions() -> None:
    assert all(one.versions and one.read.__doc__ for one in READERS)
    assert [one.file for one in READERS if one.has_state] == [
        "state_dict.pth",
        "determined/state_dict.pth",
        "pedl/state_dict.pth",
        "checkpoint.pt",
    ]
    assert str(READERS[0]) == "state_dict.pth (Determined 0.12 to 0.38.1)"


def test_keys_in_the_singular_become_plural() -> None:
    old = singular()
    found = told("checkpoint.pt", "PEDL", old)["state"]
    assert found == {
        "models_state_dict": [old["model_state_dict"]],
        "optimizers_state_dict": [old["optimizer_state_dict"]],
        "lr_schedulers_state_dict": [old["lr_scheduler"]],
    }
    assert "model_state_dict" in old


def test_what_is_missing_is_empty() -> None:
    found = told("state_dict.pth", "0.38.1", {"model_state_dict": {}, "lr_scheduler": None})
    assert found["state"] == {
        "models_state_dict": [{}],
        "optimizers_state_dict": [],
        "lr_schedulers_state_dict": [],
    }


def test_other_keys_are_kept() -> None:
    more = {"amp_state": {"loss_scaler0": 1}, "scaler_state_dict": {"scale": 2.0}, "mine": [1]}
    found = told("state_dict.pth", "0.38.1", state(**more))["state"]
    assert {**found, **more} == found and list(found["callbacks"]) == ["best"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "holds nothing where"),
        ({"weights": 1}, r"holds \['weights'\] where"),
        ([1], "holds list where"),
        ({"model_state_dict": {}, "models_state_dict": []}, "both model_state_dict and models"),
        ({"models_state_dict": {"w": 1}}, "models_state_dict is dict; expected a list"),
        ({"models_state_dict": [1]}, "holds what is no state dict"),
        ({"models_state_dict": [{1: 2}]}, "holds what is no state dict"),
    ],
)
def test_what_is_no_state(content: Any, message: str) -> None:
    with pytest.raises(InvalidCheckpointException, match=message):
        told("state_dict.pth", "0.38.1", content)


def test_counters() -> None:
    assert told("trial_state.pkl", "0.21", {**TRIAL_STATE, "more": "x"}) == TRIAL_STATE
    assert set(TRIAL_STATE) == set(COUNTERS)
    sequencer = {"trial_id": 5, "last_ckpt": 4, "step_id": 2, "last_val": 3}
    for name in ("latest_batch", "steps_completed"):
        found = told("workload_sequencer.pkl", "0.20", {**sequencer, name: 8})
        assert found == {**sequencer, "batches_trained": 8}
    assert told("workload_sequencer.pkl", "0.20", sequencer) == sequencer


@pytest.mark.parametrize("file", ["trial_state.pkl", "workload_sequencer.pkl"])
@pytest.mark.parametrize("content", [[1], None, {"trial_id": "x"}, {"last_ckpt": -1}])
def test_what_is_no_counter(file: str, content: Any) -> None:
    with pytest.raises(InvalidCheckpointException, match="expected"):
        told(file, "", content)


def test_metadata_is_read_by_one_reader() -> None:
    contents = {
        "0.18": {"determined_version": "0.21.0", "steps_completed": 3, "framework": "torch-1"},
        "downloaded": {"experiment_config": CONFIG, "hparams": {}, "determined_version": "0.13.1"},
        "Determined 0.12": {"det_version": "0.12.3", "torch_version": "1.4.0", "trial_id": 2},
    }
    readers = [one for one in READERS if one.file == "metadata.json"]
    for versions, content in contents.items():
        (used,) = [one for one in readers if one.read(content)]
        assert versions in used.versions
    found = told("metadata.json", "downloaded", contents["downloaded"])
    assert found["trial_cls_spec"] == "model_def:OneWeight"
    assert told("metadata.json", "0.18", contents["0.18"])["batches_trained"] == 3
    assert told("metadata.json", "Determined 0.12", contents["Determined 0.12"]) == {
        "determined_version": "0.12.3",
        "framework": "torch-1.4.0",
        "trial_id": 2,
    }


def test_checkpoints_of_other_trials_are_refused_by_name() -> None:
    with pytest.raises(InvalidCheckpointException, match="of a DeepSpeedTrial"):
        told("load_data.json", "0.38.1", {"trial_type": "DeepSpeedTrial"})


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
