from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonargparse import Namespace

from det_compat.adapters.experiment.option_paths import make_paths_absolute


def test_paths_are_those_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.ckpt").touch()
    logger = Namespace(init_args=Namespace(save_dir="csv", name="save_dir"))
    callbacks: list[Any] = [{"init_args": {"dirpath": "saved"}}, {"init_args": {"dirpath": None}}]
    options = Namespace(
        trainer=Namespace(logger=[logger], callbacks=callbacks, default_root_dir="s3://b/x"),
        ckpt_path="one.ckpt",
    )
    make_paths_absolute(options)
    assert logger.init_args.save_dir == str(tmp_path / "csv")
    assert logger.init_args.name == "save_dir"
    assert callbacks[0]["init_args"]["dirpath"] == str(tmp_path / "saved")
    assert options.trainer.default_root_dir == "s3://b/x"
    assert options.ckpt_path == str(tmp_path / "one.ckpt")


@pytest.mark.parametrize("path", ["last", "/abs/one.ckpt", None])
def test_checkpoints_that_are_not_here(
    path: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = Namespace(ckpt_path=path)
    make_paths_absolute(options)
    assert options.ckpt_path == path
