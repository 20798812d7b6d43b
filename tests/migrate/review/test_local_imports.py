"""Files that nobody named, and that belong with those that were."""

from pathlib import Path

import pytest

from det_compat.migrate.migration import migrate
from tests.migrate.rewriting import trial

LAYERS = "def width(context):\n    return context.get_hparams().get('width', 10)\n"
DATA = (
    "from determined import pytorch\n\n\n"
    "def loader(rows):\n    return pytorch.DataLoader(rows, batch_size=2)\n"
)
MODEL = f"from . import data, layers\n{trial()}"
PEDL = "from pedl.frameworks.pytorch import PyTorchTrial\nfrom nets.mlp import MLP\n"
MLP = "import pedl\n\n\ndef MLP():\n    return pedl.get_hyperparameter('width')\n"


def written(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def names(folder: Path, *given: str, to: str = "lightning") -> set[str]:
    files = migrate([str(folder / name) for name in given], to).files
    return {str(file.path.relative_to(folder)) for file in files}


@pytest.mark.parametrize("name", ["data", "layers", "model_def"])
@pytest.mark.parametrize("is_relative", [False, True])
def test_one_file_of_a_project_becomes_what_it_does_with_the_folder(
    name: str, is_relative: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uses = "from determined.pytorch import TorchData\n"
    made = MODEL.replace(
        "self.context = context\n",
        "self.context = context\n        self.width = layers.width(context)\n",
    )
    assert made != MODEL
    texts = {"data.py": DATA, "layers.py": uses + LAYERS, "model_def.py": made, "__init__.py": ""}
    written(tmp_path / "pkg", texts)
    monkeypatch.chdir(tmp_path / "pkg")
    file = f"{name}.py" if is_relative else str(tmp_path / "pkg" / f"{name}.py")
    one, whole = migrate([file], "lightning"), migrate([str(tmp_path)], "lightning")
    assert not one.left_out and not one.marks
    assert {file.path.name: file.after for file in one.changed} == {
        file.path.name: file.after for file in whole.changed
    }
    assert {path.name for path in one.companions} == {
        file.path.name for file in whole.changed if file.path.stem != name
    }
    assert all(path.is_absolute() != is_relative for path in one.companions)


def test_what_lies_between_two_files_is_followed_both_ways(tmp_path: Path) -> None:
    written(
        tmp_path,
        {
            "model_def.py": f"from layers import Block\n{trial()}",
            "layers.py": "from blocks import Block\n",
            "blocks.py": DATA.replace("loader", "Block"),
            "other.py": "import determined\n",
            "__main__.py": "import layers\n",
        },
    )
    several = {"model_def.py", "layers.py", "blocks.py"}
    assert names(tmp_path, "model_def.py") - {"__main__.py"} == several
    assert names(tmp_path, "blocks.py") - {"__main__.py"} == several
    assert names(tmp_path, "other.py") == {"other.py"}
    assert names(tmp_path, "model_def.py", to="context") == {"model_def.py"}


def test_what_only_shares_plain_code_is_another_project(tmp_path: Path) -> None:
    written(
        tmp_path,
        {
            "util.py": "def seed():\n    pass\n",
            "one.py": f"import util\n{trial()}",
            "two.py": f"import util\n{trial()}",
        },
    )
    assert names(tmp_path, "one.py") == {"one.py", "util.py"}


def test_an_import_from_a_folder_that_is_put_on_the_path_is_followed(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    written(
        tmp_path,
        {
            "src/pkg/data.py": DATA,
            "scripts/deep/train.py": f"from pkg.data import loader\n{trial()}",
        },
    )
    both = {"src/pkg/data.py", "scripts/deep/train.py"}
    assert names(tmp_path, "src/pkg/data.py") == both
    assert names(tmp_path, "scripts/deep/train.py") == both


@pytest.mark.parametrize("name", ["data.py", "model_def.py", "nets/mlp.py"])
@pytest.mark.parametrize("to", ["lightning", "context"])
def test_a_file_of_pedl_brings_the_folder_of_its_project(
    name: str, to: str, tmp_path: Path
) -> None:
    data = "def make_data_loaders(experiment_config, hparams):\n    pass\n"
    texts = {"data.py": data, "model_def.py": PEDL, "nets/mlp.py": MLP, "nets/__init__.py": ""}
    written(tmp_path / "here", texts)
    written(tmp_path / "other", {"model_def.py": PEDL})
    assert names(tmp_path / "here", name, to=to) == {*texts}


def test_a_trial_beside_a_folder_that_is_named_is_left_and_said(tmp_path: Path) -> None:
    written(tmp_path, {"pkg/data.py": DATA, "pkg/__init__.py": "", "plain.py": "import pkg.data\n"})
    assert not migrate([str(tmp_path / "pkg")], "lightning").left_out
    written(tmp_path, {"model_def.py": f"import plain\n{trial()}"})
    found = migrate([str(tmp_path / "pkg")], "lightning")
    assert found.left_out == {tmp_path / "model_def.py": "it leads to data.py, and uses Determined"}
    assert not migrate([str(tmp_path)], "lightning").left_out


@pytest.mark.parametrize("name", ["data.py", "../trials/model_def.py"])
def test_files_above_the_working_directory_are_the_same_files(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"common/data.py": DATA, "trials/model_def.py": f"import common.data\n{trial()}"}
    written(tmp_path, texts)
    monkeypatch.chdir(tmp_path / "common")
    found = migrate([name], "lightning")
    assert not found.left_out
    assert {file.path for file in found.changed} == {tmp_path / each for each in texts}
