"""``import pedl`` finds det_compat.pedl where determined is aliased."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from tests import preloaded
from tests.fresh_python import python

ALIASED = "import det_compat; det_compat.alias_determined()\n"


# For what imports torch, which takes most of the time of a fresh interpreter.
forked = functools.partial(preloaded.python, side="neither")


def test_importing_pedl_does_not_import_torch(tmp_path: Path) -> None:
    code = """
import pedl, sys
from pedl import get_download_data_dir, get_data_config
assert "torch" not in sys.modules
"""
    done = python("-W", "error", "-c", ALIASED + code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_every_form_of_import(tmp_path: Path) -> None:
    code = """
import pedl
from pedl import get_download_data_dir, get_data_config
import pedl.frameworks.pytorch
from pedl.frameworks.pytorch import PyTorchTrial, LRScheduler, Reducer, reset_parameters
from pedl.frameworks.pytorch.data import DataLoader, TorchData
from pedl.frameworks.pytorch.util import error_rate
from pedl.frameworks import pytorch
import det_compat.pytorch, det_compat.pedl.frameworks.pytorch as ours
assert pytorch is pedl.frameworks.pytorch and pytorch.PyTorchTrial is ours.PyTorchTrial
assert pedl.get_hyperparameter is det_compat.pedl.get_hyperparameter
assert DataLoader is det_compat.pytorch.DataLoader
assert {"Constant", "Experiment", "frameworks"} <= set(dir(pedl))
"""
    done = forked("-W", "error", "-c", ALIASED + code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "from pedl import Double; Double()",
            "Experiment.create() trains one trial, and searches no hyper",
        ),
        (
            "from pedl.frameworks.keras import KerasTrial; KerasTrial()",
            "KerasTrial: Keras and Tens",
        ),
        ("from pedl.frameworks.keras.data import Adapter; Adapter(1)", "only PyTorchTrial is"),
        ("import pedl; pedl.nope", "det_compat has no pedl.nope"),
        (
            "import pedl.frameworks.pytorch.util as util; util.nope",
            "pedl.frameworks.pytorch.util.nope",
        ),
    ],
)
def test_what_is_not_there_is_refused_with_a_reason(
    statement: str, message: str, tmp_path: Path
) -> None:
    done = forked("-c", ALIASED + statement, cwd=tmp_path)
    assert done.returncode == 1
    assert message in done.stderr and "MIGRATION.md#" in done.stderr


def test_another_pedl_does_not_mix_with_it(tmp_path: Path) -> None:
    (tmp_path / "pedl.py").write_text("")
    done = python("-c", "import pedl\n" + ALIASED, cwd=tmp_path)
    assert "RuntimeError: alias_determined() came too late: pedl" in done.stderr
    done = python("-c", ALIASED + "import pedl; print(pedl.Experiment.__module__)", cwd=tmp_path)
    assert done.stdout == "det_compat.pedl.experiment\n"
