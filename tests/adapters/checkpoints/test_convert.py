from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from det_compat.adapters.checkpoints import convert as module
from det_compat.adapters.checkpoints.convert import convert
from det_compat.errors import UnsafeCheckpointError
from tests.checkpoint.makers import REAL, VERSIONS, Evil, of_0_12, of_0_38, save, state


def test_the_file_loads_anywhere(tmp_path: Path) -> None:
    for make in (of_0_12, of_0_38):
        source, target = make(tmp_path / make.__name__), tmp_path / make.__name__ / "out.ckpt"
        convert(source, target)
        assert torch.load(target, weights_only=True)["state_dict"]["models.0.weight"].item() == 2
        assert b"s3cr3t" not in target.read_bytes()


@pytest.mark.parametrize("version", VERSIONS)
def test_real_ones(tmp_path: Path, version: str) -> None:
    if not (REAL / version).is_dir():
        pytest.skip(f"no {REAL / version}")
    convert(REAL / version, tmp_path / "out.ckpt")
    found = torch.load(tmp_path / "out.ckpt", weights_only=True)
    assert found["state_dict"]["models.0.weight"].shape == (1, 1)
    assert found["hyper_parameters"]["trial_cls"] == "model_def.OneVarPytorchTrial"


def test_it_does_not_overwrite_unasked(tmp_path: Path) -> None:
    source, target = of_0_38(tmp_path / "a"), tmp_path / "out.ckpt"
    target.write_text("before")
    with pytest.raises(FileExistsError, match="--force") as caught:
        convert(source, target)
    assert caught.value.filename == str(target) and target.read_text() == "before"
    convert(source, target, force=True)
    assert "state_dict" in torch.load(target, weights_only=True)


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = of_0_38(tmp_path / "a"), tmp_path / "out" / "x.ckpt"

    def fail(*_: object) -> None:
        raise RuntimeError("disk")

    monkeypatch.setattr(module.torch, "save", fail)
    with pytest.raises(RuntimeError, match="disk"):
        convert(source, target)
    assert os.listdir(target.parent) == []


def test_code_is_run_only_for_those_who_trust_it(tmp_path: Path) -> None:
    source, target = of_0_38(tmp_path / "a"), tmp_path / "out.ckpt"
    save(state(callbacks={"c": Evil(tmp_path / "made")}), source / "state_dict.pth")
    with pytest.raises(UnsafeCheckpointError, match="--trust"):
        convert(source, target)
    assert not target.exists() and not (tmp_path / "made").exists()
    convert(source, target, trust=True)
    assert torch.load(target, weights_only=True)["determined"]["callbacks"] == {"c": None}
