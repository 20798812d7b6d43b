from __future__ import annotations

from pathlib import Path

import pytest

from det_compat.catalog.status import Status
from tests.check.trees import check_code, statuses

TRIAL = """\
from determined.pytorch import PyTorchCallback, PyTorchTrial

class T(PyTorchTrial):
    def __init__(self, context):
        self.context = context
    def train_batch(self, batch, epoch_idx, batch_idx): ...
    def build_training_data_loader(self): ...
    def build_validation_data_loader(self): ...
"""


def test_places_are_those_of_the_names(tmp_path: Path) -> None:
    code = 'import determined as det, os\ns = "é"; det.pytorch.init; det.core.init\n'
    report = check_code(tmp_path, code)
    places = [(f.name, f.position.line, f.position.column) for f in report.findings]
    assert places == [
        ("determined", 1, 8),
        ("determined.pytorch.init", 2, 22),
        ("determined.core.init", 2, 37),
    ]


def test_a_method_that_is_overridden_is_a_reference(tmp_path: Path) -> None:
    report = check_code(tmp_path, TRIAL)
    place = next(f.position for f in report.findings if f.name == "PyTorchTrial.train_batch")
    assert (place.line, place.column) == (6, 9)


def test_callbacks_have_hooks_of_several_releases(tmp_path: Path) -> None:
    code = """
from determined.pytorch import PyTorchCallback
class C(PyTorchCallback):
    def on_validation_end(self, metrics): ...
    def on_before_optimizer_step(self, parameters): ...
    def helper(self): ...
"""
    found = statuses(check_code(tmp_path, code))
    assert found["PyTorchCallback.on_validation_end"] == "same"
    assert found["PyTorchCallback.on_before_optimizer_step"] == "different"
    assert "PyTorchCallback.helper" not in found


def test_a_refused_class_attribute_is_found(tmp_path: Path) -> None:
    code = TRIAL + "    trial_controller_class = None\n"
    found = statuses(check_code(tmp_path, code))
    assert found["PyTorchTrial.trial_controller_class"] == "refused"


def test_helpers_named_as_methods_of_0_12_are_the_trials_own(tmp_path: Path) -> None:
    code = TRIAL + "    def build_model(self): ...\n    def run(self): self.context.model\n"
    found = statuses(check_code(tmp_path, code))
    assert "PyTorchTrial.build_model" not in found
    assert found["PyTorchTrialContext.model"] == "refused"


@pytest.mark.parametrize(
    ("statement", "status"),
    [
        ("context.mine = 1; context.mine", "same"),
        ("setattr(context, 'mine', 1); context.mine", "same"),
        ("if hasattr(context, 'mine'): context.mine", "different"),
        ("getattr(context, 'mine', None)", "different"),
        ("getattr(context, 'mine')", "refused"),
        ("context.mine", "refused"),
        ("context._mine", "refused"),
        ("context.backward", "same"),
        ("context._epoch_len", "same"),
        ("context.models.append(1)", "same"),
    ],
)
def test_attributes_of_the_context(tmp_path: Path, statement: str, status: str) -> None:
    code = TRIAL.replace("self.context = context", statement)
    on_context = [f for f in check_code(tmp_path, code).findings if "Context." in f.name]
    assert {f.support.status.value for f in on_context} == {status}


GUARDED = """
try:
    from determined.experimental import client
except {caught}:
    client = None
"""


@pytest.mark.parametrize(
    ("caught", "status"),
    [
        ("ImportError", "different"),
        ("(KeyError, ImportError)", "different"),
        ("Exception", "different"),
        ("ModuleNotFoundError", "refused"),
        ("ValueError", "refused"),
    ],
)
def test_a_refused_import_that_is_caught_works(tmp_path: Path, caught: str, status: str) -> None:
    report = check_code(tmp_path, GUARDED.format(caught=caught))
    assert statuses(report)["determined.experimental.client"] == status


def test_what_is_caught_around_a_function_is_not_caught_in_it(tmp_path: Path) -> None:
    code = """
try:
    def f():
        from determined.experimental import client
except ImportError:
    pass
"""
    assert statuses(check_code(tmp_path, code)) == {"determined.experimental.client": "refused"}


def test_names_for_type_checkers_only_are_never_needed(tmp_path: Path) -> None:
    code = """
from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from determined.experimental import client
def f(it: client.Trial): ...
"""
    assert {f.support.status for f in check_code(tmp_path, code).findings} == {Status.SAME}


def test_annotations_that_are_evaluated_are_needed(tmp_path: Path) -> None:
    code = "import determined as det\ndef f(it: det.ExperimentConfig): ...\n"
    assert statuses(check_code(tmp_path, code))["determined.ExperimentConfig"] == "refused"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("info = det.get_cluster_info()\ninfo.trial", "different"),
        ("info = det.get_cluster_info()\nx = info.trial if info else 3", "different"),
        ("det.get_cluster_info().trial.hparams", "different"),
        ("def f(info: det.ClusterInfo): info.trial", "different"),
    ],
)
def test_the_cluster_info_that_a_task_has(tmp_path: Path, code: str, status: str) -> None:
    found = statuses(check_code(tmp_path, f"import determined as det\n{code}\n"))
    assert found["ClusterInfo.trial"] == status


def test_what_no_cluster_info_has(tmp_path: Path) -> None:
    code = "import determined as det\ninfo = det.get_cluster_info()\n"
    code += "info.nothing, info.trial.hparams, info.trial.trial_id, info.trial.config\n"
    found = statuses(check_code(tmp_path, code))
    assert found["ClusterInfo.nothing"] == found["TrialInfo.config"] == "refused"
    assert (found["TrialInfo.hparams"], found["TrialInfo.trial_id"]) == ("same", "different")


def test_what_comes_from_refused_calls_is_refused(tmp_path: Path) -> None:
    code = """
from determined.experimental import Determined
client = Determined()
client.get_experiment(3).top_checkpoint()
"""
    found = statuses(check_code(tmp_path, code))
    assert (
        found["determined.experimental.Determined().get_experiment().top_checkpoint"] == "refused"
    )


def test_code_that_was_migrated_has_nothing_to_report(tmp_path: Path) -> None:
    code = """
import det_compat
from det_compat import pytorch, to_lightning
class T(pytorch.PyTorchTrial):
    def __init__(self, context):
        context.nothing
    def train_batch(self, batch, epoch_idx, batch_idx): ...
    def build_training_data_loader(self): ...
    def build_validation_data_loader(self): ...
"""
    found = check_code(tmp_path, code)
    assert [f.name for f in found.with_status(Status.REFUSED)] == ["PyTorchTrialContext.nothing"]
    assert all(f.name.startswith("PyTorchTrial") for f in found.findings)


def test_every_refusal_says_what_to_do_and_where_to_read_on(tmp_path: Path) -> None:
    code = """
from determined import keras
from determined.pytorch.deepspeed import DeepSpeedTrial
from determined_common import api
from model_hub.huggingface import BaseTransformerTrial
"""
    refused = check_code(tmp_path, code).with_status(Status.REFUSED)
    assert len(refused) == 4
    assert all(f.support.note and f.support.link.startswith("MIGRATION.md#") for f in refused)


def test_a_trial_by_its_annotation_has_attributes_of_its_own(tmp_path: Path) -> None:
    code = """
from typing import cast
from determined.pytorch import PyTorchCallback, PyTorchTrial, PyTorchTrialContext
class C(PyTorchCallback):
    def __init__(self, trial: PyTorchTrial):
        self.trial = trial
        self.kept = cast(PyTorchTrialContext, getattr(trial, "context"))
    def on_validation_start(self):
        self.trial.build_training_data_loader()
        self.trial.model, self.trial.build_model(), self.trial.anything
        self.trial.context.backward, self.kept.get_hparams
"""
    found = statuses(check_code(tmp_path, code))
    assert found["PyTorchTrial.build_training_data_loader"] == "different"
    assert found["PyTorchTrialContext.backward"] == "same"
    assert found["PyTorchTrialContext.get_hparams"] == "same"
    assert not {name for name in found if name.endswith((".model", ".build_model", ".anything"))}


@pytest.mark.parametrize(
    "code",
    [
        "import importlib\nimportlib.import_module(name)",
        "from importlib import import_module\nimport_module(f'determined.{part}')",
        "__import__(name)",
        "__import__('deter' + rest)",
        "exec(text)",
        "eval(f'{kind}(3)')",
        "import determined as det\ngetattr(det, name)",
        "def f(context):\n    context.wrap_model(1)\n    getattr(context, name)()",
        "def f(context):\n    context.wrap_model(1)\n    vars(context)[name]",
        "def f(context):\n    context.wrap_model(1)\n    context.__getattribute__(name)",
        "def f(context):\n    context.wrap_model(1)\n    operator.attrgetter(name)(context)",
        "from importlib import import_module as load\nload(name)",
    ],
)
def test_what_is_decided_at_run_time_is_counted(tmp_path: Path, code: str) -> None:
    report = check_code(tmp_path, code + "\n")
    assert len(report.dynamic) == 1
    assert not report.works


@pytest.mark.parametrize(
    "code",
    [
        "import importlib\nimportlib.import_module('models.' + name)",
        "import importlib\nimportlib.import_module(f'models.{name}')",
        "import importlib\nimportlib.import_module('torch')",
        "eval('3')",
        "exec('x = %s' % 3)",
        "model.eval()",
        "getattr(model, name)",
        "re.compile(text)",
    ],
)
def test_what_cannot_be_determined_is_not(tmp_path: Path, code: str) -> None:
    report = check_code(tmp_path, code + "\n")
    assert report.dynamic == []
    assert report.works


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import_module('determined.keras')", "determined.keras"),
        ("mock.patch('determined.pytorch.DataLoader')", "determined.pytorch.DataLoader"),
        ("monkeypatch.setattr('determined.core.init', 3)", "determined.core.init"),
        ("import_module('.keras', 'determined')", "determined.keras"),
        ("import_module('.keras', package='determined')", "determined.keras"),
        ("__import__('determined.pytorch').keras", "determined.keras"),
        ("__import__('determined.pytorch', fromlist=['x']).foo", "determined.pytorch.foo"),
        ("import sys\nsys.modules['determined'].keras", "determined.keras"),
        ("import determined as det\ngetattr(det, 'keras')", "determined.keras"),
        ("from importlib import import_module as f\nf('determined').keras", "determined.keras"),
    ],
)
def test_names_in_strings(tmp_path: Path, code: str, name: str) -> None:
    assert name in statuses(check_code(tmp_path, code + "\n"))


def test_a_module_that_is_asked_for_and_not_there(tmp_path: Path) -> None:
    code = "import determined as det\nx = getattr(det, 'keras', None)\n"
    report = check_code(tmp_path, code)
    assert statuses(report)["determined.keras"] == "different"
    assert report.works


@pytest.mark.parametrize("code", ["vars(model)", "vars()", "operator.attrgetter('x')(model)"])
def test_what_is_looked_into_is_not_determined(tmp_path: Path, code: str) -> None:
    assert check_code(tmp_path, f"import operator\nimport determined\n{code}\n").dynamic == []


def test_a_logger_is_no_reference(tmp_path: Path) -> None:
    code = "import logging\nlogging.getLogger('determined.core')\n"
    assert check_code(tmp_path, code).findings == []
