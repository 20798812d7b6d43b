from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from det_compat.cli import main
from tests.checkpoint.makers import Evil, of_0_38, save, state
from tests.fresh_python import python


def run(*argv: object) -> int:
    return main(["checkpoint", *map(str, argv)])


def test_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_0_38(tmp_path)
    assert run("show", tmp_path) == 0
    shown = capsys.readouterr().out
    for expected in (
        "Determined:        0.38.1",
        "batches trained:   7",
        'hparams:           {"lr": 0.5}',
        "0: 1 parameters in 1 tensors",
        "safe to load: yes",
        "trial_state.pkl (",
    ):
        assert expected in shown
    assert "s3cr3t" not in shown
    assert run("show", "--format", "json", tmp_path) == 0
    assert json.loads(capsys.readouterr().out)["batches_trained"] == 7


def test_convert_and_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_0_38(tmp_path)
    ckpt, weights = tmp_path / "x.ckpt", tmp_path / "w.pt"
    assert run("convert", tmp_path, ckpt) == run("export", ckpt, weights) == 0
    assert capsys.readouterr().out.splitlines() == [str(ckpt), str(weights)]
    assert torch.load(weights, weights_only=True)["weight"].item() == 2
    assert run("convert", tmp_path, ckpt) == run("export", tmp_path, weights) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"det-compat: {file}: it exists already; --force (force=True) replaces it"
        for file in (ckpt, weights)
    ]
    assert run("convert", "--force", tmp_path, ckpt) == 0
    assert run("export", tmp_path, weights, "--force") == 0


@pytest.mark.parametrize("legacy", [False, True])
def test_what_is_unsafe(tmp_path: Path, capsys: pytest.CaptureFixture[str], legacy: bool) -> None:
    of_0_38(tmp_path)
    made = tmp_path / "made"
    save(state(callbacks={"a": Evil(made)}), tmp_path / "state_dict.pth", legacy=legacy)
    assert run("show", tmp_path) == 0
    assert "posix.mkdir" in capsys.readouterr().out
    assert run("convert", tmp_path, tmp_path / "x.ckpt") == 1
    assert run("export", tmp_path, tmp_path / "x.pt") == 1
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2 and all("asks for posix.mkdir" in line for line in told)
    assert not made.exists()
    assert run("export", "--trust", tmp_path, tmp_path / "x.pt") == 0
    assert made.exists()


def test_errors_are_a_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "state_dict.pth").write_bytes(b"PK")
    for argv in (
        ["show", tmp_path / "nowhere"],
        ["show", tmp_path / "empty"],
        ["show", tmp_path],
        ["convert", tmp_path, tmp_path / "x.ckpt"],
        ["convert", tmp_path / "state_dict.pth", tmp_path / "x.ckpt"],
        ["export", tmp_path, tmp_path / "x.h5"],
        ["export", tmp_path / "nowhere", tmp_path / "x.pt"],
        ["export", tmp_path, tmp_path / "x.pt"],
    ):
        assert run(*argv) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("det-compat: ") and str(tmp_path) in line


def test_an_unwritable_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_0_38(tmp_path)
    assert run("convert", tmp_path, "/proc/none/x.ckpt") == 1
    assert "/proc/none/x.ckpt: cannot write" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["checkpoint"], ["checkpoint", "fly"], ["checkpoint", "show"]])
def test_a_wrong_command_line_exits_with_2(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(argv)
    assert exited.value.code == 2


def test_help_comes_without_torch(tmp_path: Path) -> None:
    code = """
import sys
from det_compat.cli import main
try:
    main(["checkpoint", "export", "--help"])
except SystemExit:
    print({"torch", "numpy", "pytorch_lightning"} & {*sys.modules})
"""
    done = python("-c", code, cwd=tmp_path)
    assert "weights.0.pt" in done.stdout and done.stdout.endswith("set()\n"), done.stderr
