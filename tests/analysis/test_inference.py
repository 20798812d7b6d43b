"""Contexts, trials and names of Determined are followed through the code of a tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.trees import check_code, check_files, names, on_context, statuses

HEAD = "from determined.pytorch import PyTorchTrial, PyTorchTrialContext\n"


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import determined as det\ndet.pytorch.Reducer.AVG", "determined.pytorch.Reducer.AVG"),
        ("import determined.pytorch as pt\npt.DataLoader", "determined.pytorch.DataLoader"),
        ("import determined.pytorch\ndetermined.pytorch.init()", "determined.pytorch.init"),
        ("from determined import pytorch as dp\ndp.to_device", "determined.pytorch.to_device"),
        ("from determined.pytorch import *\nDataLoader([])", "determined.pytorch.DataLoader"),
        ("from determined import pytorch\np = pytorch\np.init", "determined.pytorch.init"),
        (
            "import importlib\nm = importlib.import_module('determined.pytorch')\nm.Reducer",
            "determined.pytorch.Reducer",
        ),
        ("d = __import__('determined.pytorch')\nd.core.init", "determined.core.init"),
        (
            "def f():\n    from determined import experimental as e\n    return e.Determined",
            "determined.experimental.Determined",
        ),
        ("import pedl\npedl.get_hyperparameter('lr')", "pedl.get_hyperparameter"),
    ],
)
def test_names_under_aliases(tmp_path: Path, code: str, name: str) -> None:
    assert name in names(check_code(tmp_path, code))


@pytest.mark.parametrize(
    "body",
    [
        "self.ctx = context; self.ctx.get_hparam('lr')",
        "self.a, self.b = context, 3; self.a.get_hparam('lr')",
        "c = context; c.get_hparam('lr')",
        "self.get = context.get_hparam",
        "getattr(context, 'get_hparam')('lr')",
        "(context or None).get_hparam('lr')",
        "self.keep(context); self.kept.get_hparam('lr')",
        "helper(context)",
        "helper(c=context)",
        "Helper(context).run()",
        "Holder(ctx=context, n=2).go()",
        "functools.partial(helper, context)()",
        "identity(context).get_hparam('lr')",
        "(lambda c: c.get_hparam('lr'))(context)",
        "[c.get_hparam('lr') for c in []]; context.get_hparam('lr')",
        "self._store(context)",
    ],
)
def test_a_context_is_followed(tmp_path: Path, body: str) -> None:
    code = f"""{HEAD}
import dataclasses, functools

def helper(c):
    return c.get_hparam('lr')

def identity(it):
    return it

class Helper:
    def __init__(self, whatever):
        self.inside = whatever
    def run(self):
        return self.inside.get_hparam('lr')

@dataclasses.dataclass
class Holder:
    ctx: object
    n: int
    def go(self):
        return self.ctx.get_hparam('lr')

class T(PyTorchTrial):
    def keep(self, it):
        self.kept = it
    def _store(self, it):
        self.stored = it
    @property
    def hparam(self):
        return self.stored.get_hparam('lr')
    def __init__(self, context):
        {body}
"""
    assert "get_hparam" in on_context(check_code(tmp_path, code))


def test_whatever_the_parameter_is_called(tmp_path: Path) -> None:
    code = f"{HEAD}\nclass T(PyTorchTrial):\n    def __init__(self, tc):\n        tc.no_such()\n"
    assert statuses(check_code(tmp_path, code))["PyTorchTrialContext.no_such"] == "refused"


@pytest.mark.parametrize(
    "annotation",
    [
        "PyTorchTrialContext",
        "'PyTorchTrialContext'",
        "Optional[PyTorchTrialContext]",
        "PyTorchTrialContext | None",
        "pt.PyTorchTrialContext",
        "det.TrialContext",
    ],
)
def test_annotations_tell_a_context(tmp_path: Path, annotation: str) -> None:
    code = f"""{HEAD}
import determined as det
import determined.pytorch as pt
from typing import Optional

def f(anything: {annotation}):
    return anything.device, anything.nothing
"""
    assert {"device", "nothing"} <= on_context(check_code(tmp_path, code))


def test_a_helper_nobody_calls_tells_a_context_by_its_methods(tmp_path: Path) -> None:
    code = "def f(it):\n    it.wrap_model(1)\n    it.n_gpus\n\ndef g(it):\n    it.n_gpus\n"
    report = check_files(tmp_path, {"a.py": code, "b.py": "import determined\n"})
    assert [found.position.line for found in report.findings] == [2, 3, 1]


def test_without_determined_a_context_is_told_by_its_name_too(tmp_path: Path) -> None:
    code = "def f(trainer, context):\n    trainer.step_optimizer()\n    context.get_hparam('lr')\n"
    report = check_code(tmp_path, code)
    assert [found.position.line for found in report.findings] == [3]


def test_what_is_not_known_of_a_guess_is_unknown(tmp_path: Path) -> None:
    code = "def f(context):\n    context.wrap_model(1)\n    context.nothing\n"
    assert statuses(check_code(tmp_path, code))["PyTorchTrialContext.nothing"] == "unknown"


def test_a_context_of_ones_own_is_not_determineds(tmp_path: Path) -> None:
    code = """
class Context:
    def wrap_model(self, model): ...

def f(context):
    context.wrap_model(1)
    context.no_such_thing

f(Context())
"""
    assert on_context(check_code(tmp_path, code)) == set()


def test_distributed_experimental_and_env_have_members_of_their_own(tmp_path: Path) -> None:
    code = f"""{HEAD}
class T(PyTorchTrial):
    def __init__(self, context):
        self.ranks = context.distributed
        self.ranks.get_rank()
        context.experimental.wrap_reducer(1)
        context.env.hparams
"""
    found = statuses(check_code(tmp_path, code))
    assert found["DistributedContext.get_rank"] == "same"
    assert found["PyTorchExperimentalContext.wrap_reducer"] == "different"
    assert found["TrialEnv.hparams"] == "refused"


def test_files_of_the_tree_hand_names_on(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "from .common import *\n",
        "pkg/common.py": "from determined.pytorch import PyTorchTrial as Base, LRScheduler\n",
        "pkg/mixin.py": """
            class Mixin:
                def build(self):
                    return self.context.get_nothing()
        """,
        "pkg/base.py": """
            from . import Base
            from .mixin import Mixin
            class Middle(Mixin, Base):
                def __init__(self, trial_context):
                    self.context = trial_context
        """,
        "model_def.py": """
            import pkg
            import pkg.base
            from pkg.base import Middle
            class Trial(pkg.base.Middle):
                def train_batch(self, batch, epoch_idx, batch_idx):
                    return self.context.other_thing, pkg.LRScheduler.StepMode.MANUAL_STEP
        """,
    }
    report = check_files(tmp_path, files)
    found = statuses(report)
    assert found["PyTorchTrialContext.get_nothing"] == "refused"
    assert found["PyTorchTrialContext.other_thing"] == "refused"
    assert found["PyTorchTrial.train_batch"] == "different"
    assert found["determined.pytorch.LRScheduler.StepMode.MANUAL_STEP"] == "same"


def test_imports_that_go_round_in_circles(tmp_path: Path) -> None:
    files = {
        "a.py": "from b import *\nfrom b import X\nX.y\n",
        "b.py": "from a import *\nfrom a import X\n",
    }
    assert check_files(tmp_path, files).findings == []


def test_a_context_reaches_a_parent_through_super(tmp_path: Path) -> None:
    code = f"""{HEAD}
class Plain:
    def __init__(self, it):
        it.get_experiment_id()

class T(Plain, PyTorchTrial):
    def __init__(self, context):
        super().__init__(context)
"""
    assert "get_experiment_id" in on_context(check_code(tmp_path, code))


def test_init_gives_a_context_and_a_trainer_is_known(tmp_path: Path) -> None:
    code = """
from determined import pytorch
with pytorch.init(hparams={}, trainer=1) as train_context:
    train_context.nothing
    trainer = pytorch.Trainer(None, train_context)
    trainer.fit(max_length=pytorch.Batch(1), max_epochs=3, profiling_enabled=True)
"""
    found = statuses(check_code(tmp_path, code))
    assert found["PyTorchTrialContext.nothing"] == "refused"
    assert found["init(trainer=)"] == "refused"
    assert found["Trainer.fit(max_epochs=)"] == "refused"
    assert found["Trainer.fit(profiling_enabled=)"] == "different"
    assert "Trainer.fit(max_length=)" not in found


def test_hyperparameters_of_pedl_are_no_context(tmp_path: Path) -> None:
    code = """
from pedl.frameworks.pytorch import PyTorchTrial
class T(PyTorchTrial):
    def __init__(self, hparams):
        hparams.lr
"""
    assert on_context(check_code(tmp_path, code)) == set()


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ("trial: Other, context", "context"),
        ("trial, context: PyTorchTrialContext", "context"),
        ("other, my_ctx", "my_ctx"),
        ("whatever", "whatever"),
        ("*, context", None),
    ],
)
def test_which_argument_is_the_context(tmp_path: Path, parameters: str, name: str | None) -> None:
    given = [part.partition(":")[0].strip() for part in parameters.split(",")]
    uses = "; ".join(f"{arg}.used_{arg}" for arg in given if arg != "*")
    code = (
        f"{HEAD}\nclass T(PyTorchTrial):\n    def __init__(self, {parameters}):\n        {uses}\n"
    )
    assert on_context(check_code(tmp_path, code)) == ({f"used_{name}"} if name else set())


@pytest.mark.parametrize(
    "made", ["", "    def build_callbacks(self): return {'w': elsewhere(self)}\n"]
)
def test_the_trial_of_a_callback_that_nothing_makes(tmp_path: Path, made: str) -> None:
    code = (
        "from determined.pytorch import PyTorchCallback\n"
        f"{HEAD}class Trial(PyTorchTrial):\n"
        "    def __init__(self, context: PyTorchTrialContext): self.context = context\n"
        f"{made}"
        "class Watch(PyTorchCallback):\n"
        "    def __init__(self, trial): self.trial = trial\n"
        "    def on_validation_end(self, metrics):\n"
        "        self.trial.context.set_stop_requested(True)\n"
    )
    assert any("set_stop_requested" in name for name in names(check_code(tmp_path, code)))


def test_the_trial_of_another_library_is_none(tmp_path: Path) -> None:
    code = (
        f"import optuna\nfrom determined.pytorch import PyTorchCallback\n{HEAD}"
        "class Trial(PyTorchTrial):\n"
        "    def __init__(self, context: PyTorchTrialContext): self.context = context\n"
        "class Watch(PyTorchCallback):\n"
        "    def __init__(self, trial: optuna.Trial): self.trial = trial\n"
        "    def on_training_start(self): self.trial.context.get_hparam('lr')\n"
    )
    assert "get_hparam" not in str(names(check_code(tmp_path, code)))
