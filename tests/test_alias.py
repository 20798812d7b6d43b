"""``import determined`` finds det_compat, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from det_compat.catalog.names import MODULES, REFUSED
from tests.fresh_python import python

ALIASED = "import det_compat; det_compat.alias_determined()\n"

# what a trial says on the left, what it gets on the right
SAME = {
    "det.InvalidHP": "det_compat.errors.InvalidHP",
    "det.LOG_FORMAT": "det_compat.LOG_FORMAT",
    "det.TrialContext": "det_compat.pytorch.PyTorchTrialContext",
    "det.get_cluster_info": "det_compat.info.get_cluster_info",
    "det.ClusterInfo": "det_compat.info.ClusterInfo",
    "det.import_from_path": "det_compat.import_path.import_from_path",
    "det.core.DistributedContext": "det_compat.core.DistributedContext",
    "det.core.EarlyExitReason": "det_compat.core.EarlyExitReason",
    "det.errors.InvalidExperimentException": "det_compat.errors.InvalidExperimentException",
    "det.util.download_gcs_blob_with_backoff": "det_compat.util.download_gcs_blob_with_backoff",
    "det.pytorch.PyTorchTrial": "det_compat.pytorch.PyTorchTrial",
    "det.pytorch.samplers.RepeatSampler": "det_compat.pytorch.samplers.RepeatSampler",
    "det.pytorch._lr_scheduler.LRScheduler": "det_compat.pytorch.LRScheduler",
    "det.pytorch._pytorch_context.PyTorchTrialContext": "det_compat.pytorch.PyTorchTrialContext",
    "det.common.set_logger": "det_compat.common.set_logger",
    "det.horovod.hvd": "det_compat.horovod.hvd",
    "det._execution.InvalidHP": "det_compat.errors.InvalidHP",
    "det._trial_context.TrialContext": "det_compat.pytorch.PyTorchTrialContext",
    "det.tensorboard.metric_writers.pytorch.TorchWriter": (
        "det_compat.tensorboard.metric_writers.pytorch.TorchWriter"
    ),
}

LOOK_UP = f"""
import importlib, json
import determined as det
import det_compat.tensorboard.metric_writers.pytorch, det_compat.info, det_compat.import_path
import det_compat.common, det_compat.horovod

def look_up(path):
    root, *names = path.split(".")
    it = {{"det": det, "det_compat": det_compat}}[root]
    for name in names:
        it = getattr(it, name)
    return it

same = {{left: look_up(left) is look_up(right) for left, right in {SAME!r}.items()}}
modules = {{}}
for name in {sorted(MODULES)!r}:
    module = importlib.import_module(name)
    modules[name] = [n for n in module.__all__ if getattr(module, n, None) is None]
print(json.dumps([same, modules, det.__version__]))
"""


@pytest.fixture(scope="module", params=["installed", "hidden"])
def determined_is(request: pytest.FixtureRequest) -> str:
    where: str = request.param
    return where


@pytest.fixture(scope="module")
def hidden_by(determined_is: str, tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    if determined_is == "installed":
        pytest.importorskip("determined")
        return None
    folder = tmp_path_factory.mktemp("hides")
    assert (
        "No module named" in python("-c", "import determined", cwd=folder, hidden_by=folder).stderr
    )
    return folder


@pytest.fixture(scope="module")
def looked_up(hidden_by: Path | None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("cwd")
    done = python("-c", ALIASED + LOOK_UP, cwd=folder, hidden_by=hidden_by)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", SAME)
def test_names_are_det_compats_own(looked_up: Any, name: str) -> None:
    same, _, _ = looked_up
    assert same[name] is True


def test_every_module_in_the_table_has_the_names_that_it_lists(looked_up: Any) -> None:
    _, modules, _ = looked_up
    assert set(modules) == set(MODULES)
    assert {name: missing for name, missing in modules.items() if missing} == {}


def test_the_version_is_the_one_whose_behaviour_is_kept(looked_up: Any) -> None:
    assert looked_up[2] == "0.38.1"


IMPORTS = """
import determined
import determined as det
import determined.pytorch.samplers
import determined.tensorboard.metric_writers.pytorch as writers
from determined import pytorch
from determined import InvalidHP, core, errors, util
from determined.core import DistributedContext
from determined.pytorch import *
from determined.pytorch import DataLoader, LRScheduler, PyTorchTrial, samplers
from determined.pytorch.samplers import DistributedBatchSampler
from determined.tensorboard.metric_writers.pytorch import TorchWriter
import det_compat.pytorch as ours

assert determined is det and det.pytorch is pytorch
assert samplers is determined.pytorch.samplers
assert PyTorchTrial is pytorch.PyTorchTrial is ours.PyTorchTrial
assert PyTorchTrial.__module__.startswith("det_compat.pytorch")
assert DataLoader is ours.DataLoader and LRScheduler is ours.LRScheduler
assert TorchWriter is writers.TorchWriter and Trainer is ours.Trainer
assert det.get_cluster_info() is None
assert "PyTorchTrial" in dir(pytorch) and "pytorch" in dir(det)

import pickle
assert pickle.loads(pickle.dumps(LRScheduler.StepMode.STEP_EVERY_EPOCH)) is (
    LRScheduler.StepMode.STEP_EVERY_EPOCH
)
made_under_determined = b"cdetermined.pytorch._lr_scheduler\\nLRScheduler\\n."
assert pickle.loads(made_under_determined) is LRScheduler

import importlib, importlib.util
assert importlib.util.find_spec("determined.pytorch").name == "determined.pytorch"
assert importlib.reload(pytorch).PyTorchTrial is PyTorchTrial
"""


def test_every_form_of_import(hidden_by: Path | None, tmp_path: Path) -> None:
    done = python("-W", "error", "-c", ALIASED + IMPORTS, cwd=tmp_path, hidden_by=hidden_by)
    assert done.returncode == 0, done.stderr


PROBES = """
import importlib, json
import determined

def message(source):
    try:
        exec(source, {"determined": determined})
    except (ImportError, AttributeError) as error:
        return [type(error).__name__, str(error)]

answers = {}
for name in NAMES:
    parent, _, last = name.rpartition(".")
    answers[name] = [
        message(f"import {name}"),
        message(f"from {parent} import {last}"),
        message(f"import {parent}\\n{name}"),
        message(f"import {parent}\\nif getattr({parent}, {last!r}, 0) == 0: raise ImportError"),
    ]
print(json.dumps(answers))
"""

UNKNOWN = ["determined.Nope", "determined.nope.deeper", "determined.pytorch.Nope", "determined.gpu"]
UNKNOWN += ["determined.util.Nope", "determined.pytorch.samplers.Nope", "determined.core.Nope"]
UNKNOWN += ["determined.to_lightning", "determined.pytorch._nope", "determined.keras.callbacks"]


# Modules that are there, and names that they lack.
PARTLY_REFUSED = [
    "determined.core.Nothing",
    "determined.launch.horovod",
    "determined.common.api",
    "determined.horovod.torch",
]
# What is below a module that is refused cannot be asked for by itself.
WHOLLY_REFUSED = [
    name
    for name in REFUSED
    if name not in MODULES and "." in name and name.rpartition(".")[0] not in REFUSED
]


@pytest.fixture(scope="module")
def answers(hidden_by: Path | None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    names = [*WHOLLY_REFUSED, *PARTLY_REFUSED, *UNKNOWN]
    code = ALIASED + f"NAMES = {names!r}\n" + PROBES
    done = python("-c", code, cwd=tmp_path_factory.mktemp("cwd"), hidden_by=hidden_by)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", WHOLLY_REFUSED)
def test_what_is_refused_says_what_to_do_and_where_to_read(answers: Any, name: str) -> None:
    support = REFUSED[name]
    imported, from_imported, attribute, probed = answers[name]
    expected = f"det_compat has no {name}: {support.note}. See {support.link}."
    assert imported == ["ImportError", expected]
    assert from_imported == ["ImportError", expected]
    assert attribute == ["AttributeError", expected]
    assert probed == ["ImportError", ""]


@pytest.mark.parametrize("name", [*PARTLY_REFUSED, *UNKNOWN])
def test_nothing_else_resolves_to_a_stub(answers: Any, name: str) -> None:
    for kind, text in answers[name][:3]:
        assert kind in ("ImportError", "AttributeError")
        assert text.startswith("det_compat has no determined.")
        assert "MIGRATION.md#" in text


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("determined.horovod.torch", "under torchrun a plain `pytorch.init()` distributes"),
        ("determined.launch.horovod", "det-compat run -m determined.launch.torch_distributed"),
        ("determined.keras.callbacks", "only PyTorchTrial is"),
        ("determined.experimental", "local files"),
    ],
)
def test_the_advice_fits(answers: Any, name: str, advice: str) -> None:
    assert advice in answers[name][1][1]


REFUSES_COMMON = """
for source in ("import determined_common", "from determined_common import check"):
    try:
        exec(source)
    except ImportError as error:
        text = str(error)
    assert text.startswith("det_compat has no determined_common: ") and "assert a == b" in text
    assert text.endswith("See MIGRATION.md#determined_common.")
    del text
"""


def test_a_package_that_is_refused_whole(hidden_by: Path | None, tmp_path: Path) -> None:
    done = python("-c", ALIASED + REFUSES_COMMON, cwd=tmp_path, hidden_by=hidden_by)
    assert done.returncode == 0, done.stderr


def test_importing_determined_does_not_import_torch(hidden_by: Path | None, tmp_path: Path) -> None:
    code = """
import sys, inspect, determined, determined.util, determined.errors
determined.InvalidHP, determined.LOG_FORMAT, determined.get_cluster_info()
inspect.getmodule(determined.InvalidHP)
assert not hasattr(determined, "keras") and "pytorch" in dir(determined)
assert "torch" not in sys.modules
import determined.pytorch
assert "torch" in sys.modules
"""
    done = python("-c", ALIASED + code, cwd=tmp_path, hidden_by=hidden_by)
    assert done.returncode == 0, done.stderr


def test_calling_it_twice_changes_nothing(tmp_path: Path) -> None:
    code = """
import sys, determined
before = list(sys.meta_path)
det_compat.alias_determined()
assert sys.meta_path == before and sys.modules["determined"] is determined
"""
    done = python("-c", ALIASED + code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("submodule", ["determined", "determined.util"])
def test_it_refuses_to_mix_with_the_real_one(submodule: str, tmp_path: Path) -> None:
    pytest.importorskip("determined")
    # what is left of it after `del sys.modules["determined"]` counts as well
    code = f"import sys, {submodule}\n"
    if submodule != "determined":
        code += "del sys.modules['determined']\n"
    done = python("-c", code + ALIASED, cwd=tmp_path)
    assert done.returncode == 1
    assert "RuntimeError: alias_determined() came too late: determined" in done.stderr
    assert "before the first import of determined" in done.stderr


def test_an_import_that_was_blocked_does_not_count(tmp_path: Path) -> None:
    code = "import sys; sys.modules['determined'] = None\n" + ALIASED + "import determined.util"
    done = python("-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_other_packages_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "determined_extras.py").write_text("value = 1")
    (tmp_path / "model_hub.py").write_text("value = 2")
    code = "import determined_extras, model_hub; print(determined_extras.value, model_hub.value)"
    assert python("-c", ALIASED + code, cwd=tmp_path).stdout == "1 2\n"
