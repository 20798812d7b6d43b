from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.trees import check_files, names, statuses

TRIAL = "from determined.pytorch import PyTorchTrial as Base\n"


@pytest.mark.parametrize(
    ("path", "statement"),
    [
        ("common.py", "from common import Base"),
        ("a/common.py", "from a.common import Base"),
        ("a/common.py", "import a.common\nBase = a.common.Base"),
        ("a/__init__.py", "from a import Base"),
        ("a/b/__init__.py", "from a import b\nBase = b.Base"),
        ("common.py", "import common as c\nBase = c.Base"),
        ("common.py", "import importlib, common\nBase = common.Base"),
    ],
)
def test_imports_lead_to_files(tmp_path: Path, path: str, statement: str) -> None:
    code = f"{statement}\nclass T(Base):\n    def train_batch(self, *args): ...\n"
    files = {"a/__init__.py": "", path: TRIAL, "model_def.py": code}
    assert "PyTorchTrial.train_batch" in names(check_files(tmp_path, files))


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("from .common import Base", "pkg/common.py"),
        ("from ..common import Base", "common.py"),
        ("from . import common\nBase = common.Base", "pkg/common.py"),
        ("from common import Base", "common.py"),
        ("from pkg.common import Base", "pkg/common.py"),
    ],
)
def test_imports_from_within_a_package(tmp_path: Path, statement: str, place: str) -> None:
    code = f"{statement}\nclass T(Base):\n    def train_batch(self, *args): ...\n"
    files = {"pkg/__init__.py": "", place: TRIAL, "pkg/model_def.py": code}
    assert "PyTorchTrial.train_batch" in names(check_files(tmp_path, files))


def test_a_folder_named_determined_is_not_determined(tmp_path: Path) -> None:
    files = {"determined/model_def.py": TRIAL + "from determined import keras\n"}
    assert statuses(check_files(tmp_path, files))["determined.keras"] == "refused"


def test_a_package_of_ones_own_may_be_named_model_hub(tmp_path: Path) -> None:
    files = {"model_hub/__init__.py": "x = 1\n", "a.py": "from model_hub import x\n"}
    assert check_files(tmp_path, files).findings == []
    assert names(check_files(tmp_path / "sub", {"a.py": "import model_hub\n"})) == {"model_hub"}
