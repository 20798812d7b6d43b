from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from det_compat.checkpoint import read_checkpoint, to_lightning_checkpoint
from det_compat.checkpoint.show import as_text, describe
from det_compat.errors import CorruptCheckpointError, InvalidCheckpointException
from tests.checkpoint.makers import (
    REAL,
    VERSIONS,
    Evil,
    as_json,
    dump,
    of_0_12,
    of_0_38,
    save,
    state,
)


def shown(path: Path) -> dict[str, Any]:
    described = describe(path)
    assert json.loads(json.dumps(described)) == described
    return described


def test_a_checkpoint_of_0_38(tmp_path: Path) -> None:
    found = shown(of_0_38(tmp_path))
    assert (found["determined_version"], found["framework"]) == ("0.38.1", "torch-2.4.0")
    assert (found["trial"], found["trial_id"]) == ("model_def:OneWeight", 3)
    assert (found["batches_trained"], found["epochs_trained"]) == (7, 2)
    assert found["hparams"] == {"lr": 0.5}
    assert found["models"] == [{"parameters": 1, "tensors": 1}]
    assert found["optimizers"] == [{"groups": 1, "lr": [0.5]}]
    assert (found["lr_schedulers"], found["callbacks"]) == (1, ["best"])
    assert found["safe"] is True and found["asks_for"] == {}
    assert found["files"]["load_data.json"] == (tmp_path / "load_data.json").stat().st_size


def test_a_checkpoint_of_0_12(tmp_path: Path) -> None:
    found = shown(of_0_12(tmp_path))
    assert found["determined_version"] == "0.12.3" and found["batches_trained"] is None
    assert found["models"] == [{"parameters": 1, "tensors": 1}] and found["safe"]
    text = as_text(found)
    assert "batches trained:   unknown" in text and "trial:             unknown" in text


@pytest.mark.parametrize("version", VERSIONS)
def test_real_ones(version: str) -> None:
    if not (REAL / version).is_dir():
        pytest.skip(f"no {REAL / version}")
    found = shown(REAL / version)
    assert found["safe"] and found["models"] == [{"parameters": 1, "tensors": 1}]
    assert found["optimizers"] == [{"groups": 1, "lr": [0.001]}]


def test_buffers_of_batch_norm_are_no_parameters(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    named = {f"module.{name}": value for name, value in net.state_dict().items()}
    of_0_38(tmp_path, state(models_state_dict=[net.state_dict(), {}, OrderedDict(named)]))
    full = {"parameters": sum(p.numel() for p in net.parameters()), "tensors": 7}
    assert shown(tmp_path)["models"] == [full, {"parameters": 0, "tensors": 0}, full]


def test_a_lightning_checkpoint(tmp_path: Path) -> None:
    checkpoint = to_lightning_checkpoint(read_checkpoint(of_0_38(tmp_path / "a")))
    found = shown(save(checkpoint, tmp_path / "x.ckpt"))
    assert found["trial"] == "model_def.OneWeight" and found["batches_trained"] == 7
    assert found["models"] == [{"parameters": 1, "tensors": 1}] and found["safe"]
    assert found["hparams"] == {"lr": 0.5} and found["callbacks"] == ["best"]
    assert found["layout"].startswith("Lightning 2") and "AKIA" not in str(found)
    as_text(found)


def test_a_lightning_checkpoint_of_another_module(tmp_path: Path) -> None:
    content = {
        "state_dict": {"net.w": torch.ones(3)},
        "hyper_parameters": {
            "lr": 0.1,
            "password": "s3cr3t",
            "path": Path("x"),
            "t": torch.ones(1),
        },
        "epoch": 4,
        "global_step": 9,
    }
    found = shown(save(content, tmp_path / "x.ckpt"))
    assert (found["batches_trained"], found["epochs_trained"]) == (9, 4)
    assert found["hparams"]["lr"] == 0.1 and "s3cr3t" not in str(found)
    assert found["models"] == [{"parameters": 3, "tensors": 1}]
    assert not found["safe"] and "pathlib" in str(found["asks_for"])


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("name", ["state_dict.pth", "det_compat_state.pth"])
def test_what_is_unsafe_is_described_without_running_it(
    tmp_path: Path, name: str, legacy: bool
) -> None:
    of_0_38(tmp_path)
    save(state(callbacks={"c": Evil(tmp_path / "made")}), tmp_path / name, legacy=legacy)
    found = shown(tmp_path)
    assert found["safe"] is False and found["asks_for"] == {name: ["posix.mkdir"]}
    assert found["models"] == [{"parameters": 1, "tensors": 1}] and found["batches_trained"] == 7
    text = as_text(found)
    assert "safe to load: NO" in text and f"{name}: posix.mkdir" in text
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["trial_state.pkl", "workload_sequencer.pkl"])
def test_unsafe_counters_are_not_run(tmp_path: Path, name: str) -> None:
    of_0_38(tmp_path)
    dump(Evil(tmp_path / "made"), tmp_path / name)
    found = shown(tmp_path)
    assert found["asks_for"] == {name: ["posix.mkdir"]} and found["batches_trained"] == 7
    assert not (tmp_path / "made").exists()


def test_an_unsafe_lightning_checkpoint_is_not_run(tmp_path: Path) -> None:
    content = {"state_dict": {"w": torch.ones(3)}, "x": Evil(tmp_path / "made")}
    found = shown(save(content, tmp_path / "x.ckpt"))
    assert found["asks_for"] == {"x.ckpt": ["posix.mkdir"]}
    assert found["models"][0]["parameters"] == 3 and not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["state_dict.pth", "trial_state.pkl", "metadata.json"])
def test_a_corrupt_file_is_named(tmp_path: Path, name: str) -> None:
    file = of_0_38(tmp_path) / name
    file.write_bytes(file.read_bytes()[:-2])
    with pytest.raises(CorruptCheckpointError, match=name):
        describe(tmp_path)


def test_what_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(InvalidCheckpointException, match="expected one of"):
        describe(tmp_path)
    with pytest.raises(InvalidCheckpointException, match="give the directory"):
        describe(save({"a": 1}, tmp_path / "x.pth"))
    with pytest.raises(InvalidCheckpointException, match=r"state_dict\.pth cannot be used"):
        save({"models_state_dict": [1]}, tmp_path / "odd" / "state_dict.pth")
        describe(tmp_path / "odd")
    with pytest.raises(FileNotFoundError):
        describe(tmp_path / "nowhere")
    as_json({}, tmp_path / "y.ckpt")
    with pytest.raises(CorruptCheckpointError):
        describe(tmp_path / "y.ckpt")
