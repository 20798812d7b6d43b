"""``import determined`` finds det_compat, whole or not at all."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from det_compat.catalog.names import MODULES
from tests.fresh_python import python
from tests.preloaded import python as forked_python

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

# For what imports torch, which takes most of the time of a fresh interpreter.
forked = functools.partial(forked_python, side="neither")

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
    modules[name] = [n for n in module.__all__ if not hasattr(module, n)]
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
    done = forked("-c", ALIASED + LOOK_UP, cwd=folder, hidden_by=hidden_by)
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
    done = forked("-W", "error", "-c", ALIASED + IMPORTS, cwd=tmp_path, hidden_by=hidden_by)
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

# No release had these.
UNKNOWN = ["determined.Nope", "determined.nope.deeper", "determined.pytorch.Nope"]
UNKNOWN += ["determined.util.Nope", "determined.pytorch.samplers.Nope", "determined.core.Nope"]
UNKNOWN += ["determined.to_lightning", "determined.pytorch._nope", "determined.horovod.torch"]


@pytest.fixture(scope="module")
def answers(hidden_by: Path | None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    code = ALIASED + f"NAMES = {UNKNOWN!r}\n" + PROBES
    done = forked("-c", code, cwd=tmp_path_factory.mktemp("cwd"), hidden_by=hidden_by)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_no_release_had_raises_as_it_did_there(answers: Any, name: str) -> None:
    imported, from_imported, attribute, probed = answers[name]
    # The import system says so itself of what is below a module that is no package.
    assert imported[0] == "ModuleNotFoundError"
    assert from_imported[0] in ("ImportError", "ModuleNotFoundError")
    assert attribute[0] in ("AttributeError", "ModuleNotFoundError")
    assert attribute[1].startswith("det_compat has no determined.")
    assert "MIGRATION.md#" in attribute[1]
    assert probed[0] in ("ImportError", "ModuleNotFoundError")


IMPORTS_OF_EVERY_RELEASE = """
import importlib, json
from det_compat.catalog import names as catalog
from det_compat.catalog import releases

failed, used, asked = [], [], []
names = [name for name in catalog.REFUSED if "." in name and releases.released(name)]
for module in releases._table()["modules"]:
    if module.partition(".")[0] == "pedl":
        continue
    importlib.import_module(module)
    names.extend(f"{module}.{name}" for name in sorted(releases._names(module)))
for name in names:
    parent, _, last = name.rpartition(".")
    scope = {}
    try:
        exec(f"from {parent} import {last} as it", scope)
    except ImportError as error:
        failed.append([name, str(error)])
        continue
    found = releases.released(name)
    it = scope["it"]
    if getattr(type(it), "__module__", "").startswith("det_compat.alias.placeholders"):
        kinds = ("CLASS", "ENUM", "VALUE", "FUNCTION")
        asked.append([name, found.kind.name in kinds])
        try:
            it()
        except RuntimeError as error:
            if not str(error).startswith("det_compat has no ") or "MIGRATION.md#" not in str(error):
                used.append([name, str(error)])
        else:
            used.append([name, "nothing raised"])
print(json.dumps([len(names), failed, used, len(asked)]))
"""


def test_every_name_of_every_release_is_imported_and_refuses_when_it_is_used(
    hidden_by: Path | None, tmp_path: Path
) -> None:
    done = forked("-c", ALIASED + IMPORTS_OF_EVERY_RELEASE, cwd=tmp_path, hidden_by=hidden_by)
    assert done.returncode == 0, done.stderr
    count, failed, used, asked = json.loads(done.stdout)
    assert failed == [] and used == []
    assert count > 2500 and asked > 500


USES = """
import determined
from determined.experimental import Determined, client, init_native
import determined.experimental.client as same_client
from determined.common.api import bindings, errors
from determined.constants import DEFAULT_BATCHES_PER_STEP
import model_hub.huggingface as hf

assert same_client is client and DEFAULT_BATCHES_PER_STEP == 100
assert issubclass(errors.NotFoundException, errors.APIException)
assert not isinstance(3, Determined) and not issubclass(int, Determined)

import typing
from determined import workload
Responses = typing.Union[typing.Optional[workload.Response], typing.List[workload.Stream]]
assert workload.Stream | None == typing.Optional[workload.Stream]
assert workload.Stream != 3.0j and workload.Stream == workload.Stream

def evaluate(checkpoint: client.Checkpoint, order=client.OrderBy.DESCENDING) -> "Determined": ...

class MyTrial(hf.BaseTransformerTrial):
    batch = 3

assert MyTrial.batch == 3

def says(use):
    try:
        use()
    except (RuntimeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"

uses = {
    "call": lambda: Determined("http://localhost"),
    "attribute": lambda: Determined.create_experiment,
    "function": lambda: client.login(),
    "member": lambda: client.OrderBy.DESCENDING == 1,
    "text": lambda: f"{client.OrderBy.DESCENDING}",
    "subclass": lambda: MyTrial(None),
    "binding": lambda: bindings.v1Trial(),
    "experiment": lambda: init_native(),
}
for name, use in uses.items():
    print(name, says(use))

try:
    try:
        raise ValueError("the original")
    except (errors.APIException, determined.errors.CheckpointNotFound, errors.ForbiddenException):
        pass
except ValueError as error:
    print("original", error)
"""


def test_a_name_that_is_refused_can_be_carried_around_until_it_is_used(tmp_path: Path) -> None:
    done = python("-W", "error", "-c", ALIASED + USES, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert said.pop("original") == "the original"
    for name, text in said.items():
        kind = "AttributeError" if name == "attribute" else "NotSupportedError"
        assert text.startswith(f"{kind}: det_compat has no "), (name, text)
    assert "local files" in said["call"] and "determined.experimental.Determined" in said["call"]
    assert "write out what the trial inherits" in said["subclass"]
    assert "det-compat run" in said["experiment"]


LIKE_A_REAL_PACKAGE = """
import importlib.metadata, importlib.resources, importlib.util, inspect, os, pkgutil, sys
import determined, determined.errors, determined.util
import det_compat.errors

assert os.path.isfile(determined.__file__) and os.path.isdir(determined.__path__[0])
assert determined.__spec__.origin == determined.__file__ and determined.__spec__.has_location
assert not hasattr(determined.errors, "__path__")
assert inspect.getsource(determined.errors) == inspect.getsource(det_compat.errors)
assert inspect.getsourcefile(determined.errors) == det_compat.errors.__file__
assert "class InvalidHP" in inspect.getsource(determined.InvalidHP)
assert importlib.util.find_spec("determined.errors").loader.get_source("determined.errors")
assert pkgutil.get_data("determined", "py.typed") is not None
assert importlib.resources.files("determined").joinpath("py.typed").is_file()
found = {module.name: module.ispkg for module in pkgutil.iter_modules(determined.__path__)}
assert found["pytorch"] and not found["errors"] and "adapters" not in found
own = {module.name for module in pkgutil.iter_modules(det_compat.__path__)}
assert "adapters" in own and "keras" not in own
assert importlib.metadata.version("determined") == "0.38.1" == determined.__version__
assert importlib.metadata.version("torch") and "torch" not in sys.modules
below = pkgutil.iter_modules(determined.core.__path__, "determined.core.")
assert "determined.core._distributed" in {module.name for module in below}
"""


def test_modules_tell_of_themselves_as_real_ones_do(hidden_by: Path | None, tmp_path: Path) -> None:
    done = python("-c", ALIASED + LIKE_A_REAL_PACKAGE, cwd=tmp_path, hidden_by=hidden_by)
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


PATCHES = """
from unittest import mock
import determined.util, determined.common.util as common
import det_compat.common.util as ours, det_compat.tensorboard, det_compat.util.downloads

original = ours.sizeof_fmt
with mock.patch("determined.common.util.time") as replaced:
    assert ours.time is replaced is common.time
assert ours.time.__name__ == "time"
with mock.patch("determined.common.util.sizeof_fmt", lambda value: "patched"):
    assert common.sizeof_fmt(1) == ours.sizeof_fmt(1) == "patched"
assert common.sizeof_fmt is ours.sizeof_fmt is original
common.sizeof_fmt = abs
assert ours.sizeof_fmt is abs
del common.sizeof_fmt
assert ours.sizeof_fmt is original
import determined.tensorboard.build, determined.pytorch
import det_compat.pytorch
assert determined.tensorboard.build is det_compat.tensorboard.build
assert determined.tensorboard.build.__name__ == "build"
with mock.patch("determined.pytorch.to_device", 3):
    assert det_compat.pytorch.to_device == 3
assert determined.pytorch.to_device is det_compat.pytorch.to_device != 3
with mock.patch("determined.get_cluster_info", lambda: 3):
    assert determined.get_cluster_info() == 3
assert determined.get_cluster_info() is None
"""


def test_what_a_test_replaces_in_a_module_is_replaced_for_its_callers(tmp_path: Path) -> None:
    done = forked("-c", ALIASED + PATCHES, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
