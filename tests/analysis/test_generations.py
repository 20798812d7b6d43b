"""The generation that ``check`` reads from code is the one that the class has when it is run."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from types import ModuleType

import pytest

from det_compat.adapters.generations.generation import generation_of
from det_compat.analysis import generations
from det_compat.analysis.generations import TrialClass
from det_compat.analysis.inference import Inference
from det_compat.analysis.source import read
from det_compat.catalog.generations import Generation
from det_compat.catalog.status import Status
from det_compat.check.checker import check
from tests.adapters import trials
from tests.adapters.generations import test_generation as runtime
from tests.analysis import trial_classes
from tests.check.trees import check_code, check_files
from tests.preloaded import python

ROOT = Path(__file__).parents[2]
LOADERS = """
    def build_training_data_loader(self): ...
    def build_validation_data_loader(self): ...
"""
BUILT = """
    def build_model(self): ...
    def optimizer(self, model): ...
"""
IMPORT = "from determined.pytorch import PyTorchTrial\n"

TRIALS = {
    Generation.CONTEXT: f"""{IMPORT}
class T(PyTorchTrial):
    def __init__(self, context): ...
    def build_model(self): ...
    def train_batch(self, batch, epoch_idx, batch_idx, model=None): ...{LOADERS}""",
    Generation.DETERMINED_0_12: f"""{IMPORT}
class T(PyTorchTrial):
    def __init__(self, context): ...
    def train_batch(self, batch, model, epoch_idx, batch_idx): ...{BUILT}{LOADERS}""",
    Generation.PEDL: f"""from pedl.frameworks.pytorch import PyTorchTrial
class T(PyTorchTrial):
    def train_batch(self, batch, model, epoch_idx, batch_idx): ...{BUILT}""",
    Generation.PEDL_STANDARD: f"""from pedl.frameworks.pytorch import PyTorchTrial
class T(PyTorchTrial):
    def losses(self, predictions, labels): ...{BUILT}""",
}


@pytest.mark.parametrize("generation", TRIALS)
def test_generation(tmp_path: Path, generation: Generation) -> None:
    report = check_code(tmp_path, TRIALS[generation])
    assert [(trial.name, trial.generation) for trial in report.trials] == [("T", generation.value)]
    assert report.works


GENERATIONS = """
import importlib, json, sys
import det_compat
det_compat.alias_determined()
from det_compat.adapters.generations.generation import generation_of
sys.path[:0] = [{folder!r}]
module = importlib.import_module({module!r})
print(json.dumps({{name: generation_of(getattr(module, name)).value for name in {names!r}}}))
"""


@pytest.mark.parametrize(
    ("folder", "module"),
    [
        ("tests/parity", "trials.older"),
        ("tests/parity", "trials.gan"),
        ("tests/parity", "trials.habits"),
        ("examples/pedl", "model_def"),
        ("examples/determined-0.12", "model_def"),
    ],
)
def test_it_is_the_generation_at_run_time(tmp_path: Path, folder: str, module: str) -> None:
    path = ROOT / folder / f"{module.replace('.', '/')}.py"
    read = {
        trial.name: trial.generation
        for trial in check([str(ROOT / folder)]).trials
        if trial.position.file == path.as_posix() and trial.generation != generations.BASE
    }
    assert read
    code = GENERATIONS.format(folder=str(ROOT / folder), module=module, names=[*read])
    done = python("-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == read


def told_by_source(module: ModuleType) -> dict[str, TrialClass]:
    """The classes of a module, by what its source says with those that it takes bases from."""
    files = [Path(inspect.getfile(each)) for each in (module, trials, trial_classes)]
    inference = Inference([read(file, ROOT) for file in dict.fromkeys(files)])
    hierarchy = inference.hierarchy
    return {scope.name: TrialClass(scope, hierarchy) for scope in inference.codes[0].classes}


@pytest.mark.parametrize("module", [trial_classes, runtime])
def test_source_and_class_agree(module: ModuleType) -> None:
    told = told_by_source(module)
    assert len(told) > 15
    for name, trial in told.items():
        try:
            expected: Generation | None = generation_of(getattr(module, name))
        except TypeError:
            expected = None
        works = None if trial.problem.startswith("mixes") else trial.generation
        assert works is expected, name


def test_scripts_are_shown(tmp_path: Path) -> None:
    code = "from determined import pytorch\nwith pytorch.init() as context: ...\n"
    report = check_code(tmp_path, code)
    assert [trial.generation for trial in report.trials] == [generations.SCRIPT]


def test_a_base_class_of_trials_needs_no_methods(tmp_path: Path) -> None:
    code = f"{IMPORT}class B(PyTorchTrial): ...\nclass T(B):\n"
    code += f"    def train_batch(self, batch, epoch_idx, batch_idx): ...{LOADERS}"
    report = check_code(tmp_path, code)
    assert [trial.generation for trial in report.trials] == [
        generations.BASE,
        Generation.CONTEXT.value,
    ]
    assert report.works


def test_what_has_abstract_methods_is_a_base_class(tmp_path: Path) -> None:
    code = f"{IMPORT}class T(PyTorchTrial):\n    def train_batch(self, b, epoch_idx, i): ...\n"
    report = check_code(tmp_path, code)
    assert [trial.generation for trial in report.trials] == [generations.BASE]
    assert report.works


def test_generations_that_are_mixed_are_refused(tmp_path: Path) -> None:
    code = TRIALS[Generation.DETERMINED_0_12].replace(
        "context): ...", "c):\n        c.wrap_model(1)"
    )
    (found,) = check_code(tmp_path, code).with_status(Status.REFUSED)
    assert "mixes generations" in found.support.note


def test_a_base_that_is_not_in_the_tree_leaves_a_trial_unknown(tmp_path: Path) -> None:
    code = f"""
from our_company.trials import Base
class T(Base):
    def __init__(self, whatever):
        whatever.nothing
    def train_batch(self, batch, epoch_idx, batch_idx): ...{LOADERS}"""
    unknown = {f.name: f.support.note for f in check_code(tmp_path, code).findings}
    assert "its base Base is not in the tree" in unknown["T"]
    assert "PyTorchTrialContext.nothing" in unknown


def test_a_mixin_that_is_not_in_the_tree_may_have_the_methods(tmp_path: Path) -> None:
    code = f"{IMPORT}from ours import Mixin\nclass T(Mixin, PyTorchTrial): ...\n"
    report = check_code(tmp_path, code)
    assert [trial.generation for trial in report.trials] == [generations.UNKNOWN]
    assert [f.name for f in report.with_status(Status.UNKNOWN)] == ["T"]


@pytest.mark.parametrize(
    "base",
    [
        "determined.pytorch.deepspeed.DeepSpeedTrial",
        "determined.keras.TFKerasTrial",
        "determined.pytorch.lightning.LightningAdapter",
        "model_hub.huggingface.BaseTransformerTrial",
    ],
)
def test_trials_of_other_kinds_are_not_supported(tmp_path: Path, base: str) -> None:
    module, _, name = base.rpartition(".")
    report = check_code(tmp_path, f"from {module} import {name}\nclass T({name}): ...\n")
    assert [trial.generation for trial in report.trials] == [f"{base}: not supported"]
    assert not report.works


def test_a_mixin_brings_methods_from_another_file(tmp_path: Path) -> None:
    files = {
        "mixin.py": f"class Mixin:\n    def train_batch(self, batch, epoch_idx, i): ...{LOADERS}",
        "model_def.py": f"{IMPORT}from mixin import Mixin\nclass T(Mixin, PyTorchTrial): ...\n",
    }
    report = check_files(tmp_path, files)
    assert [trial.generation for trial in report.trials] == [Generation.CONTEXT.value]
    assert report.works
