from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from det_compat.adapters.checkpoints.convert import convert
from det_compat.checkpoint.export import export
from det_compat.errors import InvalidCheckpointException, UnsafeCheckpointError
from tests.checkpoint.makers import Evil, of_0_12, of_0_38, save, state


def load(file: Path) -> dict[str, Any]:
    if file.suffix == ".safetensors":
        found: dict[str, Any] = load_file(file)
    else:
        found = torch.load(file, weights_only=True)
    return found


formats = pytest.mark.parametrize("suffix", [".pt", ".safetensors"])


@formats
@pytest.mark.parametrize("make", [of_0_12, of_0_38])
def test_one_model(tmp_path: Path, make: Any, suffix: str) -> None:
    target = tmp_path / f"out{suffix}"
    assert export(make(tmp_path / "a"), target) == [target]
    found = load(target)
    assert type(found) is dict and found == {"weight": torch.full((1, 1), 2.0)}


@formats
def test_several_models(tmp_path: Path, suffix: str) -> None:
    models = [{"module.a": torch.ones(2)}, {}, {"b": torch.zeros(1)}]
    source = of_0_38(tmp_path / "a", state(models_state_dict=models))
    expected = [tmp_path / f"out.x.{index}{suffix}" for index in (0, 2)]
    assert export(source, tmp_path / f"out.x{suffix}") == expected
    assert [list(load(file)) for file in expected] == [["a"], ["b"]]
    convert(source, tmp_path / "x.ckpt")
    for file in expected:
        file.unlink()
    assert export(tmp_path / "x.ckpt", tmp_path / f"out.x{suffix}") == expected
    assert [list(load(file)) for file in expected] == [["a"], ["b"]]


@formats
def test_shared_and_strided_tensors(tmp_path: Path, suffix: str) -> None:
    weight = torch.arange(6.0).reshape(2, 3)
    tied = {
        "a": weight,
        "tied": weight,
        "turned": weight.t(),
        "part": weight[:, 1],
        "s": weight.sum(),
    }
    source = of_0_38(tmp_path / "a", state(models_state_dict=[tied]))
    found = load(*export(source, tmp_path / f"out{suffix}"))
    for name, value in tied.items():
        assert torch.equal(found[name], value) and found[name].is_contiguous()
    assert len({value.data_ptr() for value in found.values()}) == len(tied)


@formats
def test_a_lightning_checkpoint_of_another_module(tmp_path: Path, suffix: str) -> None:
    net = nn.Linear(1, 2)
    file = save({"state_dict": net.state_dict()}, tmp_path / "x.ckpt")
    nn.Linear(1, 2).load_state_dict(load(*export(file, tmp_path / f"out{suffix}")))


def test_no_trace_of_a_framework(tmp_path: Path) -> None:
    (file,) = export(of_0_38(tmp_path / "a"), tmp_path / "out.pt")
    for name in (b"det_compat", b"determined", b"lightning", b"OrderedDict", b"_metadata"):
        assert name not in file.read_bytes().lower().replace(b"collections ordereddict", b"")


def test_it_does_not_overwrite_unasked(tmp_path: Path) -> None:
    models = [{"a": torch.ones(1)}, {"b": torch.ones(1)}]
    source = of_0_38(tmp_path / "a", state(models_state_dict=models))
    (tmp_path / "out.1.pt").write_text("before")
    with pytest.raises(FileExistsError, match="--force"):
        export(source, tmp_path / "out.pt")
    assert not (tmp_path / "out.0.pt").exists()
    assert len(export(source, tmp_path / "out.pt", force=True)) == 2


@pytest.mark.parametrize("name", ["out", "out.bin", "out.pth"])
def test_another_suffix(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"\.pt nor \.safetensors"):
        export(of_0_38(tmp_path / "a"), tmp_path / name)


def test_without_safetensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(ImportError, match=r"pip install .*\[export\]"):
        export(of_0_38(tmp_path / "a"), tmp_path / "out.safetensors")
    export(tmp_path / "a", tmp_path / "out.pt")


def test_values_that_are_no_tensors(tmp_path: Path) -> None:
    models = [{"a": torch.ones(1), "_extra_state": {"v": 1}}]
    source = of_0_38(tmp_path / "a", state(models_state_dict=models))
    assert load(*export(source, tmp_path / "out.pt"))["_extra_state"] == {"v": 1}
    with pytest.raises(InvalidCheckpointException, match=r"_extra_state.*\.pt"):
        export(source, tmp_path / "out.safetensors")
    assert not (tmp_path / "out.safetensors").exists()


@pytest.mark.filterwarnings("ignore:Validating sparse tensor invariants")  # torch 2.14
def test_tensors_of_other_kinds(tmp_path: Path) -> None:
    models = [{"a": torch.eye(3).to_sparse()}]
    source = of_0_38(tmp_path / "a", state(models_state_dict=models))
    assert torch.equal(load(*export(source, tmp_path / "out.pt"))["a"].to_dense(), torch.eye(3))
    with pytest.raises(InvalidCheckpointException, match="safetensors cannot keep"):
        export(source, tmp_path / "out.safetensors")
    models = [{"a": torch.ones(3, device="meta")}]
    source = of_0_38(tmp_path / "b", state(models_state_dict=models))
    with pytest.raises(InvalidCheckpointException, match="meta"):
        export(source, tmp_path / "other.pt")


def test_nothing_to_export(tmp_path: Path) -> None:
    source = of_0_38(tmp_path / "a", state(models_state_dict=[{}]))
    with pytest.raises(InvalidCheckpointException, match="no weights"):
        export(source, tmp_path / "out.pt")
    with pytest.raises(InvalidCheckpointException, match="give the directory"):
        export(source / "state_dict.pth", tmp_path / "out.pt")


@pytest.mark.parametrize("legacy", [False, True])
def test_code_is_run_only_for_those_who_trust_it(tmp_path: Path, legacy: bool) -> None:
    source = of_0_38(tmp_path / "a")
    evil = Evil(tmp_path / "made")
    save(state(callbacks=evil), source / "state_dict.pth", legacy=legacy)
    file = save({"state_dict": {"w": torch.ones(1)}, "x": evil}, tmp_path / "x.ckpt", legacy=legacy)
    for one in (source, file):
        with pytest.raises(UnsafeCheckpointError):
            export(one, tmp_path / "out.pt")
    assert not (tmp_path / "made").exists()
    export(file, tmp_path / "out.pt", trust=True)
    assert (tmp_path / "made").exists()
