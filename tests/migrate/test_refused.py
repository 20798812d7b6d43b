from __future__ import annotations

import pytest

from det_compat.migrate.migration import migrate
from tests.migrate.rewriting import HEADER, trial

CORE = """\
import determined as det


def main(core_context):
    for op in core_context.searcher.operations():
        op.report_completed(1.0)


if __name__ == "__main__":
    print(det.LOG_FORMAT, det.get_cluster_info())
    with det.core.init() as core_context:
        main(core_context)
"""
ESTIMATOR = """\
from pedl.frameworks.tensorflow import estimator_wrap


def make(dataset):
    return estimator_wrap.wrap_dataset(dataset)
"""


@pytest.mark.parametrize(
    ("text", "name"),
    [(CORE, "core.init"), (ESTIMATOR, "pedl.frameworks.tensorflow.estimator_wrap")],
)
def test_a_file_of_which_nothing_has_a_counterpart_stays_whole(text, name, tmp_path):
    (tmp_path / "train.py").write_text(text)
    (tmp_path / "uses.py").write_text("import train\n\nprint(train.make(1))\n")
    files = {file.path.name: file for file in migrate([str(tmp_path)], "lightning").files}
    assert files["train.py"].problem.startswith(f"it uses {name}")
    assert "see MIGRATION.md#" in files["train.py"].problem
    assert not files["uses.py"].problem


def test_a_trial_beside_it_is_rewritten(tmp_path):
    (tmp_path / "train.py").write_text(HEADER + CORE + trial(header=""))
    (file,) = migrate([str(tmp_path)], "lightning").files
    assert not file.problem
    assert b"pl.LightningModule" in file.after


ANOTHER = """\
from determined.pytorch import PyTorchTrial
from tasks.base import {base}


class Task({base}):
    def setup(self):
        self.rate = 1


class Trial(Task, PyTorchTrial):
    def __init__(self, context):
        self.context = context
"""
BASE = """\
class Trainer:
    def train_batch(self, batch, epoch_idx, batch_idx):
        return {"loss": self.rate}
"""


def test_a_trial_whose_training_is_in_no_file_stays_whole(tmp_path):
    (tmp_path / "task.py").write_text(ANOTHER.format(base="Trainer"))
    (file,) = migrate([str(tmp_path)], "lightning").files
    assert file.problem.startswith("Trial has no train_batch, and its base Trainer is in no file")
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "base.py").write_text(BASE)
    files = {each.path.name: each for each in migrate([str(tmp_path)], "lightning").files}
    assert not any(each.problem for each in files.values())
    assert b"def training_step(" in files["task.py"].after


def test_names_that_a_base_in_no_file_may_call_are_spoken_of(tmp_path):
    source = trial(header=HEADER + "from lib import Helper\n\n\n").replace(
        "Trial(Py", "Trial(Helper, Py"
    )
    (tmp_path / "model_def.py").write_text(f"{source}\n    def setup(self):\n        pass\n")
    (file,) = migrate([str(tmp_path)], "lightning").files
    assert b"may call setup (trial_setup now), which Lightning calls for its own ends" in file.after
    (tmp_path / "lib.py").write_text("class Helper:\n    pass\n")
    files = {each.path.name: each for each in migrate([str(tmp_path)], "lightning").files}
    assert b"MIGRATE" not in files["model_def.py"].after


def test_a_class_that_takes_a_context_for_a_base_in_no_file_stays_whole(tmp_path):
    source = (
        "from determined import pytorch\nfrom train import Digits\n\n\n"
        "class Stopped(Digits):\n"
        "    def __init__(self, context: pytorch.PyTorchTrialContext):\n"
        "        context.set_stop_requested(True)\n        super().__init__(context)\n"
    )
    (tmp_path / "stopped.py").write_text(source)
    (tmp_path / "train.py").write_text("../train.py")
    files = {each.path.name: each for each in migrate([str(tmp_path)], "lightning").files}
    assert files["stopped.py"].problem.startswith("Stopped has no train_batch, and its base Digits")


@pytest.mark.parametrize("module", ["regs.base", "regs.base.plain"])
def test_a_class_that_takes_a_context_for_a_base_that_names_nothing_of_determineds(
    module, tmp_path
):
    (tmp_path / "regs" / "base").mkdir(parents=True)
    for path, text in {
        "regs/__init__.py": "",
        "regs/base/__init__.py": "from .plain import Regularizer\n",
        "regs/base/plain.py": "import abc\n\n\nclass Regularizer(abc.ABC):\n    pass\n",
        "regs/penalty.py": f"""\
from determined.pytorch import PyTorchTrialContext

import {module}


class Penalty({module}.Regularizer):
    def __init__(self, context: PyTorchTrialContext):
        self.context = context

    def __call__(self, values):
        return self.context.to_device(values)
""",
        "model_def.py": "from regs.penalty import Penalty\n"
        + trial(("context = context\n", "context = context\n        self.p = Penalty(context)\n")),
    }.items():
        (tmp_path / path).write_text(text)
    files = {file.path.name: file for file in migrate([str(tmp_path)], "lightning").files}
    assert not any(file.problem for file in files.values())
    assert b"determined" not in files["penalty.py"].after
    assert b"self.p = Penalty(self)\n" in files["model_def.py"].after


HUB = """\
import helpers
from model_hub.huggingface import BaseTransformerTrial


class HubTrial(BaseTransformerTrial):
    def train_batch(self, batch, epoch_idx, batch_idx):
        return helpers.moved(batch)
"""
HELPERS = """\
from determined.pytorch import TorchData


def moved(batch: TorchData):
    return batch
"""


@pytest.mark.parametrize("is_shared", [False, True])
def test_what_only_a_refused_file_uses_stays_with_it(is_shared, tmp_path):
    (tmp_path / "hub.py").write_text(HUB)
    (tmp_path / "helpers.py").write_text(HELPERS)
    (tmp_path / "plain.py").write_text(("import helpers\n" if is_shared else "") + trial())
    files = {file.path.name: file for file in migrate([str(tmp_path)], "lightning").files}
    assert files["hub.py"].problem and files["plain.py"].is_changed
    assert files["helpers.py"].is_changed is is_shared
    said = "" if is_shared else "hub.py, which is not migrated, uses it"
    assert files["helpers.py"].problem == said


@pytest.mark.parametrize(
    "line",
    [
        "from model_hub.huggingface._trial import BaseTransformerTrial",
        "from model_hub.huggingface import _config_parser as hf_parse",
        "import model_hub.huggingface._utils",
    ],
)
def test_a_part_of_model_hub_stays_as_it_is(line, tmp_path):
    (tmp_path / "__init__.py").write_text(f"{line}\n")
    (file,) = migrate([str(tmp_path)], "lightning").files
    assert file.after == file.before and file.problem


def test_a_trial_of_model_hub_is_refused_where_no_other_word_is_determineds(tmp_path):
    (tmp_path / "hub.py").write_text(HUB)
    (file,) = migrate([str(tmp_path)], "lightning").files
    assert "HubTrial is a model_hub.huggingface.BaseTransformerTrial" in file.problem
