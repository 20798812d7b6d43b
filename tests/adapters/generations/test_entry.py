"""PEDL directories whose ``__init__.py`` brings the trial and its loaders."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from det_compat.adapters.generations.entry import function_beside, trial_of
from det_compat.shared.importing import has_entry, load_file
from tests.preloaded import python

MODEL = """
class Base:
    def train_batch(self, batch, model, epoch_idx, batch_idx): ...


class MyTrial(Base):
    def build_model(self): ...
    def optimizer(self, model): ...


class Helper:
    pass
"""
DATA = "def make_data_loaders(experiment_config, hparams): ...\ndef fetch(*_): ...\n"
ABSOLUTE = "from DATA import fetch as download_data, make_data_loaders\nfrom MODEL import *\n"
RELATIVE = "from .DATA import fetch as download_data, make_data_loaders\nfrom .MODEL import *\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = {*sys.modules}
    yield tmp_path / f"pedl-{tmp_path.name}"
    for name in {*sys.modules} - before:
        del sys.modules[name]


def written(project: Path, entry: str) -> Path:
    """The directory with an entry whose modules have names of their own."""
    project.mkdir()
    model, data = f"model_{project.name[-4:]}x", f"data_{project.name[-4:]}x"
    for name, text in ((model, MODEL), (data, DATA)):
        (project / f"{name}.py").write_text(text)
    entry = entry.replace("MODEL", model).replace("DATA", data)
    (project / "__init__.py").write_text(entry)
    return project


@pytest.mark.parametrize("entry", [ABSOLUTE, RELATIVE])
def test_the_trial_and_its_functions_are_those_that_the_entry_brings(
    entry: str, project: Path
) -> None:
    trial_cls, functions = trial_of(written(project, entry))
    assert trial_cls.__name__ == "MyTrial"
    assert functions.make_data_loaders is not None
    assert functions.make_data_loaders.__name__ == "make_data_loaders"
    assert functions.download_data is not None and functions.download_data.__name__ == "fetch"


@pytest.mark.parametrize("entry", [ABSOLUTE, RELATIVE])
def test_a_trial_by_itself_finds_the_functions_of_the_entry_beside_it(
    entry: str, project: Path
) -> None:
    [file] = written(project, entry).glob("model_*.py")
    trial_cls = load_file(file).MyTrial
    assert function_beside("download_data", trial_cls).__name__ == "fetch"
    assert function_beside("nothing", trial_cls) is None


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ("import os\n", "no trial class"),
        (f"{ABSOLUTE}class Other(Base): ...\n", "MyTrial, Other"),
    ],
)
def test_without_the_one_trial_class_it_says_what_it_found(
    entry: str, found: str, project: Path
) -> None:
    with pytest.raises(LookupError, match=f"brings {found}"):
        trial_of(written(project, entry))


def test_an_empty_file_is_no_entry(tmp_path: Path) -> None:
    assert not has_entry(tmp_path)
    (tmp_path / "__init__.py").write_text("\n")
    assert not has_entry(tmp_path)
    (tmp_path / "__init__.py").write_text("import os\n")
    assert has_entry(tmp_path)


PEDL_CONFIG = """
description: entry
hyperparameters: {learning_rate: 0.1, batch_size: 4}
searcher: {name: single, metric: loss, max_steps: 1, smaller_is_better: true}
batches_per_step: 2
"""
PEDL_MODEL = """
import pedl, torch
from pedl.frameworks.pytorch import PyTorchTrial


class EntryTrial(PyTorchTrial):
    def build_model(self):
        return torch.nn.Linear(3, 1)

    def optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=pedl.get_hyperparameter("learning_rate"))

    def train_batch(self, batch, model, epoch_idx, batch_idx):
        return {"loss": model(batch).mean() ** 2}

    def evaluate_batch(self, batch, model):
        return {"loss": model(batch).mean() ** 2}
"""
PEDL_DATA = """
import torch
from pedl.frameworks.pytorch.data import DataLoader


def make_data_loaders(experiment_config, hparams):
    return DataLoader(torch.ones(8, 3), batch_size=4), DataLoader(torch.ones(4, 3), batch_size=4)
"""


@pytest.mark.parametrize("entry", ["from data import *\nfrom model_def import EntryTrial\n"])
def test_fit_runs_a_directory_from_its_config(entry: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    files = {"__init__.py": entry, "model_def.py": PEDL_MODEL, "data.py": PEDL_DATA}
    for name, text in {**files, "const.yaml": PEDL_CONFIG}.items():
        (project / name).write_text(text)
    words = ("-m", "det_compat", "fit", "project/const.yaml", "--run_dir", "out")
    done = python(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "out" / "checkpoints").iterdir())) == 1
    (project / "__init__.py").write_text("")
    done = python(*words, cwd=tmp_path)
    assert done.returncode == 2 and "project/__init__.py, as PEDL had it" in done.stderr
