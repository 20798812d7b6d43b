"""``lightning`` and ``pytorch_lightning``: the same code under two names."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from det_compat.adapters import to_lightning
from det_compat.adapters.lightning import package
from tests.adapters.trials import Linear
from tests.preloaded import python

SCRIPT = """
from det_compat import to_lightning
import {module} as pl
import sys
from det_compat.adapters.lightning import known
from tests.resume.subject import Subject, seed

seed(5)
module = to_lightning(Subject)(hparams={{"global_batch_size": 4}})
pl.Trainer(
    accelerator="cpu", devices=1, max_epochs=2, logger=False, enable_progress_bar=False,
    enable_checkpointing=False, enable_model_summary=False,
).fit(module)
weights = {{name: value.tolist() for name, value in module.state_dict().items()}}
print([weights, known.is_known(), [name for name in {names} if name in sys.modules]])
"""
NAMES = ["pytorch_lightning", "lightning.pytorch"]


def trained(module: str, folder: Path, side: str) -> Any:
    (folder / "script.py").write_text(SCRIPT.format(module=module, names=NAMES))
    done = python("-W", "ignore", "script.py", cwd=folder, side=side)
    assert done.returncode == 0, done.stderr
    return ast.literal_eval(done.stdout.splitlines()[-1])


def test_either_trains_to_the_same_bits(tmp_path: Path) -> None:
    if importlib.util.find_spec("lightning") is None:  # Its import is for the script alone.
        pytest.skip("the package lightning is not installed")
    weights, is_known, imported = trained("lightning.pytorch", tmp_path, "neither")
    expected = trained("pytorch_lightning", tmp_path, "det_compat")
    assert expected == [weights, True, ["pytorch_lightning"]]
    assert is_known and imported == ["lightning.pytorch"]


@pytest.mark.parametrize(
    ("imported", "asked", "chosen"),
    [
        ([], None, "pytorch_lightning"),
        ([], "lightning", "lightning"),
        (["lightning.pytorch"], None, "lightning"),
        (["lightning.pytorch"], "pytorch_lightning", "lightning"),
        (NAMES, None, "pytorch_lightning"),
        (NAMES, "lightning", "lightning"),
    ],
)
def test_which_is_taken(
    imported: list[str], asked: str | None, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(package.VARIABLE, raising=False)
    if asked is not None:
        monkeypatch.setenv(package.VARIABLE, asked)
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in imported:
        monkeypatch.setitem(sys.modules, name, package)
    monkeypatch.setattr(package.importlib.util, "find_spec", lambda name: package)
    assert package._chosen() == chosen


def test_the_only_one_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(package.VARIABLE, raising=False)
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    there = {"lightning": package}
    monkeypatch.setattr(package.importlib.util, "find_spec", there.get)
    assert package._chosen() == "lightning"
    there.clear()
    with pytest.raises(ImportError, match=r"neither .* pip install lightning"):
        package._chosen()


def test_a_name_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(package.VARIABLE, "fabric")
    with pytest.raises(ImportError, match="DET_COMPAT_LIGHTNING is 'fabric'"):
        package._chosen()


def test_a_program_that_imports_the_other_one_later_is_warned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    to_lightning(Linear)(hparams={})
    assert not caplog.records
    monkeypatch.setitem(sys.modules, package._OTHER, package)
    monkeypatch.setattr(package, "_is_programs_own", False)
    to_lightning(Linear)(hparams={})
    assert "set DET_COMPAT_LIGHTNING=lightning" in caplog.text
