from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

from det_compat.checkpoint import Checkpoint, read_checkpoint, read_metadata
from det_compat.checkpoint.reader import (
    check_content,
    check_lightning_content,
    read_json,
    state_reader,
)
from det_compat.errors import (
    CorruptCheckpointError,
    InvalidCheckpointException,
    UnsafeCheckpointError,
)
from tests.checkpoint.makers import (
    CONFIG,
    REAL,
    TRIAL_STATE,
    Evil,
    as_json,
    dump,
    of_0_12,
    of_0_38,
    save,
    singular,
    state,
)


def weight(checkpoint: Checkpoint) -> float:
    value: float = checkpoint.state["models_state_dict"][0]["weight"].item()
    return value


def test_of_0_38(tmp_path: Path) -> None:
    found = read_checkpoint(of_0_38(tmp_path))
    assert (found.determined_version, found.framework) == ("0.38.1", "torch-2.4.0")
    assert found.format == "pickle" and found.path == tmp_path
    assert found.counters == TRIAL_STATE
    assert found.hparams == {"lr": 0.5} and found.experiment_config == CONFIG
    assert found.trial_cls_spec == "model_def:OneWeight"
    assert set(found.state) == set(state()) and found.continuation is None
    assert "trial_state.pkl (Determined 0.21 to 0.38.1)" in found.layout


def test_of_0_12(tmp_path: Path) -> None:
    found = read_checkpoint(of_0_12(tmp_path))
    assert (found.determined_version, found.framework) == ("0.12.3", "torch-1.4.0")
    assert found.counters == {
        "trial_id": 9,
        "last_ckpt": 0,
        "step_id": 0,
        "last_val": 0,
        "batches_trained": None,
        "epochs_trained": None,
    }
    assert (found.hparams, found.experiment_config, found.trial_cls_spec) == (None, None, None)
    assert found.state["lr_schedulers_state_dict"][0]["step_size"] == 1
    assert "metadata.json (Determined 0.12)" in found.layout and "0.18" not in found.layout


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize(
    "file", ["determined/state_dict.pth", "pedl/state_dict.pth", "checkpoint.pt"]
)
def test_older_places(tmp_path: Path, file: str, legacy: bool) -> None:
    save(singular(3.0), tmp_path / file, legacy=legacy)
    found = read_checkpoint(tmp_path)
    assert weight(found) == 3 and file in found.layout
    assert state_reader(tmp_path).file == file


def test_the_newest_place_counts(tmp_path: Path) -> None:
    save(singular(1.0), tmp_path / "checkpoint.pt")
    save(singular(2.0), tmp_path / "pedl" / "state_dict.pth")
    assert weight(read_checkpoint(tmp_path)) == 2
    save(state(3.0), tmp_path / "state_dict.pth")
    assert weight(read_checkpoint(tmp_path)) == 3


@pytest.mark.parametrize("name", ["latest_batch", "steps_completed"])
def test_workload_sequencer(tmp_path: Path, name: str) -> None:
    save(state(), tmp_path / "state_dict.pth")
    told = {"trial_id": 5, "last_ckpt": 6, "step_id": 2, "last_val": 3, name: 6}
    dump(told, tmp_path / "workload_sequencer.pkl")
    assert read_checkpoint(tmp_path).counters == {
        "trial_id": 5,
        "last_ckpt": 6,
        "step_id": 2,
        "last_val": 3,
        "batches_trained": 6,
        "epochs_trained": None,
    }


def test_metadata_tells_the_batches_where_nothing_else_does(tmp_path: Path) -> None:
    save(state(), tmp_path / "state_dict.pth")
    as_json({"steps_completed": 11}, tmp_path / "metadata.json")
    counters = read_checkpoint(tmp_path).counters
    assert counters["batches_trained"] == counters["last_ckpt"] == 11
    dump(TRIAL_STATE, tmp_path / "trial_state.pkl")
    assert read_checkpoint(tmp_path).counters == TRIAL_STATE


@pytest.mark.parametrize(
    ("version", "batches"), [("0.13.13-pytorch-old", None), ("0.17.6-pytorch", 1)]
)
def test_real_ones(version: str, batches: int | None) -> None:
    if not (REAL / version).is_dir():
        pytest.skip(f"no {REAL / version}")
    found = read_checkpoint(REAL / version)
    assert found.determined_version is not None
    assert found.determined_version.startswith(version.split("-")[0])
    assert found.counters["batches_trained"] == batches
    assert found.hparams == {"global_batch_size": 32}
    assert found.trial_cls_spec == "model_def:OneVarPytorchTrial"


def test_metadata_alone_leaves_tensors_alone(tmp_path: Path) -> None:
    of_0_38(tmp_path)
    (tmp_path / "state_dict.pth").write_bytes(b"")
    found = read_metadata(tmp_path)
    assert found.counters == TRIAL_STATE and not hasattr(found, "state")
    (tmp_path / "trial_state.pkl").write_bytes(b"")
    assert read_metadata(tmp_path, without={"trial_state.pkl"}).counters["batches_trained"] == 7


def test_continuation_comes_with_it(tmp_path: Path) -> None:
    of_0_38(tmp_path)
    save({"ranks": [1], "x": torch.ones(1)}, tmp_path / "det_compat_state.pth")
    continuation = read_checkpoint(tmp_path).continuation
    assert continuation is not None and continuation["ranks"] == [1]
    assert read_checkpoint(tmp_path, continuing=False).continuation is None


def test_arguments_of_torch_load(tmp_path: Path) -> None:
    found = read_checkpoint(of_0_38(tmp_path), map_location="meta")
    assert found.state["models_state_dict"][0]["weight"].device.type == "meta"
    read_checkpoint(tmp_path, mmap=True)


# What cannot be read


def test_what_is_no_checkpoint_says_what_was_found_and_expected(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InvalidCheckpointException) as caught:
        read_checkpoint(tmp_path)
    text = str(caught.value)
    for expected in ("state_dict.pth", "pedl/state_dict.pth", "checkpoint.pt", "['notes.txt']"):
        assert expected in text
    with pytest.raises(InvalidCheckpointException, match="does not exist"):
        read_checkpoint(tmp_path / "nowhere")
    with pytest.raises(InvalidCheckpointException, match="is a file"):
        read_checkpoint(tmp_path / "notes.txt")


FILES = ["state_dict.pth", "trial_state.pkl", "load_data.json", "metadata.json"]


@pytest.mark.parametrize("name", [*FILES, "det_compat_state.pth", "workload_sequencer.pkl"])
def test_a_corrupt_file_is_named(tmp_path: Path, name: str) -> None:
    of_0_38(tmp_path)
    save({}, tmp_path / "det_compat_state.pth")
    dump({}, tmp_path / "workload_sequencer.pkl")
    file = tmp_path / name
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(CorruptCheckpointError, match=name):
        read_checkpoint(tmp_path)


def test_a_missing_file_is_no_corrupt_one(tmp_path: Path) -> None:
    for name in reversed(FILES):
        of_0_38(tmp_path)
        (tmp_path / name).unlink()
        if name != "state_dict.pth":
            assert weight(read_checkpoint(tmp_path)) == 2
    with pytest.raises(InvalidCheckpointException) as caught:
        read_checkpoint(tmp_path)
    assert not isinstance(caught.value, CorruptCheckpointError)


@pytest.mark.parametrize("name", ["state_dict.pth", "det_compat_state.pth"])
@pytest.mark.parametrize("legacy", [False, True])
def test_code_in_tensors_files_is_not_run(tmp_path: Path, name: str, legacy: bool) -> None:
    of_0_38(tmp_path)
    save(state(callbacks=Evil(tmp_path / "made")), tmp_path / name, legacy=legacy)
    with pytest.raises(UnsafeCheckpointError, match=rf"{name} .*posix\.mkdir"):
        read_checkpoint(tmp_path)
    assert not (tmp_path / "made").exists()
    read_checkpoint(tmp_path, trust=True)
    assert (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["trial_state.pkl", "workload_sequencer.pkl"])
def test_code_in_counters_is_not_run(tmp_path: Path, name: str) -> None:
    of_0_38(tmp_path)
    dump({**TRIAL_STATE, "x": Evil(tmp_path / "made")}, tmp_path / name)
    for read in (read_checkpoint, read_metadata):
        with pytest.raises(UnsafeCheckpointError, match=rf"{name} .*posix\.mkdir"):
            read(tmp_path)
    assert not (tmp_path / "made").exists()
    assert read_metadata(tmp_path, trust=True).counters == TRIAL_STATE


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("load_data.json", {"hparams": [1]}),
        ("load_data.json", {"trial_cls_spec": 3}),
        ("metadata.json", {"framework": 3}),
        ("metadata.json", {"steps_completed": "many"}),
    ],
)
def test_values_of_other_types_are_told(tmp_path: Path, name: str, content: Any) -> None:
    save(state(), tmp_path / "state_dict.pth")
    as_json(content, tmp_path / name)
    with pytest.raises(InvalidCheckpointException, match="expected"):
        read_checkpoint(tmp_path)


def test_json(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": [1, null]}')
    assert read_json(tmp_path / "a.json") == {"a": [1, None]}


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '{"a": "\udcff"}', "[" * 100_000])
def test_json_that_is_corrupt(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(CorruptCheckpointError, match=r"a\.json"):
        read_json(file)


RANK = dict.fromkeys(
    (
        "random",
        "cuda_random",
        "loaders_built",
        "data",
        "validation_generators",
        "period",
        "gradients",
    )
)
WHOLE: dict[str, Any] = {
    "state": {
        "models_state_dict": [{}],
        "lr_schedulers_state_dict": [],
        "rng_state": {"cpu_rng_state": 1, "np_rng_state": 2, "random_rng_state": 3},
    },
    "counters": {"batches_trained": 3, "epochs_trained": None},
    "continuation": {"ranks": [RANK], "epoch_len": 4, "stop_requested": False},
}


def test_what_is_whole_passes() -> None:
    check_content("DIR", **WHOLE)
    check_content("DIR", {}, {}, None)


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (["state"], [1], r"its state is list \[1\]; expected a dict"),
        (["state", "models_state_dict"], {"a": 1}, "models_state_dict .state. is dict"),
        (["state", "callbacks"], [1], "callbacks .state. is list .1.; expected dict"),
        (["state", "rng_state"], {"cpu_rng_state": 1}, "has no np_rng_state, random_rng_state, on"),
        (["counters"], 5, "its trial state is int 5; expected a dict"),
        (["counters"], [[1]], "its trial state is list"),
        (["continuation", "published"], "x", "published .continuation. is str 'x'; expected dict"),
        (["counters"], None, "its trial state is NoneType None; expected a dict"),
        (["counters", "batches_trained"], "3", "batches_trained .trial state. is str '3'; expec"),
        (["continuation"], 7, "its continuation is int 7; expected a dict"),
        (["continuation"], {}, "its continuation has no ranks, epoch_len, stop_requested, only no"),
        (["continuation", "ranks"], 2, "ranks .continuation. is int 2; expected list or tuple"),
        (["continuation", "ranks"], [RANK, {"data": 1}], "continuation of rank 1 has no random,"),
    ],
)
def test_what_is_missing_or_of_another_type_is_named(
    keys: list[str], value: Any, message: str
) -> None:
    given = copy.deepcopy(WHOLE)
    target = given
    for key in keys[:-1]:
        target = target[key]
    target[keys[-1]] = value
    with pytest.raises(InvalidCheckpointException, match=f"DIR cannot be gone on from.*{message}"):
        check_content("DIR", **given)


def test_what_lightnings_checkpoints_hold_is_checked_likewise() -> None:
    check_lightning_content("a.ckpt", {**WHOLE["state"], "trial_state": {"batches_trained": 3}})
    for content in ("x", {"trial_state": 5}, {"continuation": "x"}):
        with pytest.raises(InvalidCheckpointException, match=r"a\.ckpt cannot be gone on from"):
            check_lightning_content("a.ckpt", content)
