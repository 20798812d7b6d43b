"""Lightnings whose insides are not those of a release: the same weights, or a clear refusal."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning

from tests.adapters.lightning.forks import Forks

ROOT = Path(__file__).parents[3]
INSTALLED = Path(pytorch_lightning.__file__).parent
SCRIPT = Path(__file__).with_name("trained.py")

# What Lightning and det_compat import, without Lightning.
MODULES = (
    "torch",
    "torch._dynamo",
    "torchmetrics",
    "lightning_fabric",
    "lightning_utilities",
    "torch.utils.tensorboard",
    "rich.console",
    "det_compat.core",
    "det_compat.pytorch",
)
EPOCH_LOOP = "loops/training_epoch_loop.py"
CHECKPOINTS = "trainer/connectors/checkpoint_connector.py"
RESUMES = {"resumes", "resumes_within_an_epoch"}
ALL = {"fits", "by_determineds_trainer", "validates", *RESUMES}
DRAW = "__import__('torch').rand(1)"
BATCH_BEGINS = "            batch_idx = self.batch_idx + 1\n"
FITS = {"fits", "by_determineds_trainer", *RESUMES}

NOT_RESTORED = 'restoring optimizers.\n\n        """\n        return False'

Change = Callable[[Path], None]


class Lightning:
    """A copy of Lightning to change, and a process to train with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = folder / "copy" / "pytorch_lightning"
        self._working = folder / "working"
        self._working.mkdir()
        shutil.copytree(INSTALLED, self.package)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        environment["XDG_DATA_HOME"] = str(folder / "share")
        self._environment = environment
        self._forks = Forks(environment, MODULES)
        self.unchanged: dict[str, Any] = self.trains()
        self.unchanged.update(self.trains("ddp"))

    def close(self) -> None:
        self._forks.close()

    def trains(self, *options: str, changes: Change | None = None) -> dict[str, Any]:
        if changes is not None:
            changes(self.package)
        results, output = self.folder / "results.json", self.folder / "output.txt"
        results.unlink(missing_ok=True)
        argv = [str(SCRIPT), str(self.package.parent), str(results), *options]
        try:
            # A checkpoint has a copy of the code in the folder that the process runs in.
            self._forks.run(argv, self._working, output, self._environment)
        finally:
            if changes is not None:
                self._restore()
        assert results.exists(), output.read_text()[-4000:]
        found: dict[str, Any] = json.loads(results.read_text())
        return {**found, "log": output.read_text()}

    def _restore(self) -> None:
        for path in INSTALLED.rglob("*.py"):
            copy = self.package / path.relative_to(INSTALLED)
            if copy.stat().st_mtime != path.stat().st_mtime:
                shutil.copy2(path, copy)


@pytest.fixture(scope="module")
def lightning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lightning]:
    copied = Lightning(tmp_path_factory.mktemp("lightning"))
    yield copied
    copied.close()


def replaced(file: str, *pairs: tuple[str, str]) -> Change:
    """A Lightning with other words in a file."""

    def change(package: Path) -> None:
        path = package / file
        text = path.read_text()
        for before, after in pairs:
            assert before in text, f"Lightning has no {before!r} in {file}"
            text = text.replace(before, after)
        path.write_text(text)

    return change


def renamed(name: str, new: str) -> Change:
    """A Lightning in which something has another name, wherever it is used."""

    def change(package: Path) -> None:
        files = [path for path in package.rglob("*.py") if name in path.read_text()]
        assert files, f"Lightning has no {name}"
        for path in files:
            path.write_text(re.sub(rf"\b{name}\b", new, path.read_text()))

    return change


AS_PROPERTY = """
    @property
    def {name}(self):
        return self._kept_{name}

    @{name}.setter
    def {name}(self, value):
        self._kept_{name} = value
"""


def into_property(file: str, name: str, before: str) -> Change:
    """A Lightning with a property in place of an attribute."""
    return replaced(file, (before, AS_PROPERTY.format(name=name) + before))


def _after_each_batch(code: str) -> Change:
    """A Lightning with one more step in ``advance``."""
    trained = "        self.batch_progress.increment_processed()\n"
    return replaced(EPOCH_LOOP, (trained, f"{trained}        {code}\n"))


def _as_optimizers_are_set_up(code: str) -> Change:
    """A Lightning that does one more thing before it trains a trial, and none for probe.py."""
    begins = '    def setup_optimizers(self, trainer: "pl.Trainer") -> None:\n'
    condition = 'if hasattr(self.lightning_module, "models"):'
    return replaced(
        "strategies/strategy.py", (begins, f"{begins}        {condition}\n            {code}\n")
    )


EXTRA_STEP = _after_each_batch(
    'self.trainer.extra_steps = getattr(self.trainer, "extra_steps", 0) + 1'
)
READ_ONLY_INFERENCE_MODE = replaced(
    "loops/evaluation_loop.py",
    (
        "        self.inference_mode = inference_mode\n",
        "        self._inference = inference_mode\n",
    ),
    (
        "    @property\n    def num_dataloaders",
        "    @property\n    def inference_mode(self):\n        return self._inference\n\n"
        "    @property\n    def num_dataloaders",
    ),
)

# What is changed, and the cases that are refused; all others train the same.
CHANGED: dict[str, tuple[Change, set[str]]] = {
    "advance is renamed": (
        replaced(
            EPOCH_LOOP,
            ("    def advance(self", "    def advance_batch(self"),
            ("self.advance(data_fetcher)", "self.advance_batch(data_fetcher)"),
        ),
        set(),
    ),
    "_evaluation_step is renamed": (renamed("_evaluation_step", "_evaluate_batch"), set()),
    "_num_ready_batches_reached is renamed": (
        renamed("_num_ready_batches_reached", "_ready_reached"),
        set(),
    ),
    "_current_fx_name is renamed": (renamed("_current_fx_name", "_fx_name"), set()),
    "_results is renamed": (renamed("_results", "_collected"), set()),
    "_logger_connector is renamed": (
        renamed("_logger_connector", "_connected"),
        {"by_determineds_trainer"},
    ),
    "_first_loop_iter is renamed": (
        renamed("_first_loop_iter", "_is_first"),
        {"by_determineds_trainer"},
    ),
    "a default is another one": (
        replaced(
            "trainer/connectors/logger_connector/logger_connector.py",
            ("batch: Any, dataloader_idx: Optional[int] = None)", "batch: Any, dataloader_idx=0)"),
        ),
        set(),
    ),
    "batch_progress is a property": (
        into_property(EPOCH_LOOP, "batch_progress", "    @property\n    def total_batch_idx"),
        RESUMES,
    ),
    "the state of the loops has one more key": (
        replaced(
            EPOCH_LOOP,
            (
                "        return state_dict\n",
                '        state_dict["_seen"] = 3\n        return state_dict\n',
            ),
        ),
        RESUMES,
    ),
    "the state of the loops has another key": (
        renamed("_batches_that_stepped", "_batches_stepped"),
        RESUMES,
    ),
    "optim_step_progress is renamed": (renamed("optim_step_progress", "steps_of_trial"), FITS),
    "val_check_batch is renamed": (renamed("val_check_batch", "_check_batch"), RESUMES),
    "val_check_batch is a property": (
        into_property("trainer/trainer.py", "val_check_batch", "    @property\n    def max_steps"),
        set(),
    ),
    "batches are fetched ahead": (
        replaced(
            "loops/fetchers.py",
            (
                "        if self.length is not None:\n            # ignore",
                "        if False:\n            # ignore",
            ),
        ),
        ALL,
    ),
    "a batch is left out": (
        replaced(
            EPOCH_LOOP,
            (
                "            dataloader_iter = None\n",
                "            dataloader_iter = None\n            next(data_fetcher)\n",
            ),
        ),
        ALL,
    ),
    "a batch is trained twice": (
        replaced(
            EPOCH_LOOP,
            (
                "batch_output = self.manual_optimization.run(kwargs)",
                "self.manual_optimization.run(dict(kwargs))\n"
                "                    batch_output = self.manual_optimization.run(kwargs)",
            ),
        ),
        ALL,
    ),
    "no hook puts models into eval mode": (
        replaced("loops/evaluation_loop.py", ("        self._on_evaluation_model_eval()\n", "")),
        set(),
    ),
    "random numbers are drawn before the trial is built": (
        replaced(
            "trainer/connectors/callback_connector.py",
            (
                "    def _attach_model_callbacks(self) -> None:\n",
                f"    def _attach_model_callbacks(self) -> None:\n        {DRAW}\n",
            ),
        ),
        ALL,
    ),
    "random numbers are drawn between batches": (
        replaced(
            EPOCH_LOOP,
            (BATCH_BEGINS, f"{BATCH_BEGINS}            __import__('random').random()\n"),
        ),
        ALL,
    ),
    "a default dtype is set": (
        replaced(
            "trainer/connectors/accelerator_connector.py",
            (
                "        self.use_distributed_sampler = use_distributed_sampler\n",
                "        self.use_distributed_sampler = use_distributed_sampler\n"
                "        torch.set_default_dtype(torch.float64)\n",
            ),
        ),
        ALL,
    ),
    "bfloat16 is the default": (
        replaced(
            "trainer/connectors/accelerator_connector.py",
            ('"32-true" if precision_flag is None', '"bf16-mixed" if precision_flag is None'),
        ),
        ALL,
    ),
    "a batch is validated too early": (
        replaced(
            EPOCH_LOOP,
            ("check_batch = (current_iteration + 1) %", "check_batch = (current_iteration + 2) %"),
        ),
        ALL,
    ),
    "a batch of the validation is left out": (
        replaced(
            "loops/evaluation_loop.py",
            ("_max_batches.append(num_batches)", "_max_batches.append(num_batches - 1)"),
        ),
        ALL,
    ),
    "optimizers are not put back": (
        replaced(
            "strategies/strategy.py",
            ('restoring optimizers/schedulers.\n\n        """\n        return True', NOT_RESTORED),
        ),
        set(),
    ),
    "epochs after the first one are empty": (
        replaced(EPOCH_LOOP, ("        self.on_run_start(data_fetcher)\n", "")),
        {"fits", "by_determineds_trainer", "resumes_within_an_epoch"},
    ),
    "it does not stop": (
        replaced(EPOCH_LOOP, ("            return can_stop_early\n", "            return False\n")),
        {"by_determineds_trainer"},
    ),
    "batches are counted from one": (
        replaced(EPOCH_LOOP, ("batch_progress.total.ready - 1", "batch_progress.total.ready")),
        {"fits", *RESUMES},
    ),
    "the checkpoint is not loaded": (
        replaced(
            CHECKPOINTS,
            ("        self.restore_model()\n", ""),
        ),
        RESUMES,
    ),
    "no epoch after the first one has all its batches": (
        replaced(
            "loops/fetchers.py",
            ("        self.fetched = 0\n", ""),
        ),
        {"fits", "by_determineds_trainer", "resumes_within_an_epoch"},
    ),
    "nothing says that the batches of a validation are over": (
        replaced("loops/evaluation_loop.py", ("        self._on_evaluation_epoch_end()\n", "")),
        ALL,
    ),
    "nothing says that training has ended": (
        replaced(
            "loops/fit_loop.py",
            ('        call._call_lightning_module_hook(trainer, "on_train_end")\n', ""),
        ),
        FITS,
    ),
    "checkpoints have other weights": (
        replaced(
            CHECKPOINTS,
            (
                '"state_dict": self._get_lightning_module_state_dict(),',
                '"state_dict": {n: 0.9 * w for n, w in model.state_dict().items()},',
            ),
        ),
        {"resumes_within_an_epoch"},
    ),
    "checkpoints have no states of optimizers": (
        replaced(
            CHECKPOINTS,
            ('["optimizer_states"] = optimizer_states', '["optimizer_states"] = []'),
        ),
        {"resumes_within_an_epoch"},
    ),
    "steps are given their arguments by name": (
        replaced(
            "loops/optimization/manual.py",
            ('"training_step", *kwargs.values()', '"training_step", **kwargs'),
        ),
        set(),
    ),
    "on_fit_start is called twice": (
        replaced(
            "trainer/trainer.py",
            (
                '            call._call_lightning_module_hook(self, "on_fit_start")\n',
                '            call._call_lightning_module_hook(self, "on_fit_start")\n' * 2,
            ),
        ),
        FITS,
    ),
    "gradients are scaled by a hook": (
        _as_optimizers_are_set_up(
            "[p.register_hook(lambda g: g / 2) for p in self.lightning_module.parameters()]"
        ),
        FITS,
    ),
    "outputs are scaled by a hook": (
        _as_optimizers_are_set_up(
            "[m.register_forward_hook(lambda m, i, o: o / 2) for m in self.lightning_module.models]"
        ),
        FITS,
    ),
    "steps of optimizers are replaced": (
        _as_optimizers_are_set_up(
            "[setattr(one, 'step', print) for one in self.lightning_module.context.optimizers]"
        ),
        FITS,
    ),
    "gradients are turned off": (
        replaced(
            "loops/optimization/manual.py",
            (
                "        trainer = self.trainer\n",
                "        trainer = self.trainer\n"
                "        __import__('torch').set_grad_enabled(False)\n",
            ),
        ),
        FITS,
    ),
    "models are put into eval mode": (
        replaced(
            EPOCH_LOOP,
            (BATCH_BEGINS, f"{BATCH_BEGINS}            self.trainer.lightning_module.eval()\n"),
        ),
        FITS,
    ),
    "learning rates are changed": (
        _after_each_batch(
            "[group.update(lr=0.1) for one in trainer.optimizers for group in one.param_groups]"
        ),
        FITS,
    ),
    "the state of optimizers is cleared": (
        _after_each_batch("[one.state.clear() for one in trainer.optimizers]"),
        FITS,
    ),
    "weights are frozen": (
        _after_each_batch("next(trainer.lightning_module.parameters()).requires_grad_(False)"),
        FITS,
    ),
    "a Trainer sets the number of threads": (
        replaced(
            "trainer/connectors/accelerator_connector.py",
            (
                "        self.use_distributed_sampler = use_distributed_sampler\n",
                "        self.use_distributed_sampler = use_distributed_sampler\n"
                "        torch.set_num_threads(3)\n",
            ),
        ),
        ALL,
    ),
    "buffers are reset after each batch": (
        _after_each_batch("[b.zero_() for b in trainer.lightning_module.buffers()]"),
        FITS,
    ),
    "weights are changed where torch does not see it": (
        # Those of probe.py, which would notice, are two.
        _after_each_batch(
            "[p.data.mul_(0.9) for p in trainer.lightning_module.parameters() if p.numel() != 2]"
        ),
        FITS,
    ),
    "a batch is converted": (
        replaced(
            "strategies/strategy.py",
            (
                "        device = device or self.root_device\n",
                "        device = device or self.root_device\n        batch = type(batch)(batch)\n",
            ),
        ),
        ALL,
    ),
    "SIGTERMException is renamed": (renamed("SIGTERMException", "TerminationException"), set()),
    "received_sigterm is renamed": (renamed("received_sigterm", "got_sigterm"), set()),
    "inference_mode is a property": (READ_ONLY_INFERENCE_MODE, {"validates"}),
    "num_sanity_val_steps is renamed": (
        renamed("num_sanity_val_steps", "sanity_steps"),
        FITS,
    ),
}


def check(found: dict[str, Any], expected: dict[str, Any], refused: set[str]) -> None:
    cases = expected.keys() & found.keys() - {"known", "extra_steps", "log"}
    seen = {case for case in cases if found[case].startswith("refused: ")}
    assert seen == refused & cases, [found[case] for case in seen]
    for case in seen:
        assert f"Lightning {pytorch_lightning.__version__}" in found[case]
        assert "install pytorch-lightning==" in found[case]
    same = cases - seen
    assert {case: found[case] for case in same} == {case: expected[case] for case in same}


def test_the_installed_lightning_is_known(lightning: Lightning) -> None:
    assert lightning.unchanged["known"]
    assert "is not one that det_compat knows" not in lightning.unchanged["log"]
    assert not [value for value in lightning.unchanged.values() if "refused" in str(value)]


def _cases() -> list[object]:
    """What is refused in the same cases as another change is thorough."""
    seen: list[set[str]] = []
    found: list[object] = []
    for what, (_, refused) in CHANGED.items():
        is_alike = bool(refused) and seen.count(refused) > 2
        found.append(pytest.param(what, marks=pytest.mark.thorough if is_alike else ()))
        seen.append(refused)
    return found


@pytest.mark.parametrize("what", _cases())
def test_a_changed_lightning_trains_the_same_or_is_refused(lightning: Lightning, what: str) -> None:
    changes, refused = CHANGED[what]
    found = lightning.trains(changes=changes)
    check(found, lightning.unchanged, refused)


# In these, one process is all the ranks there are.
@pytest.mark.parametrize("name", ["configure_ddp", "_ddp_kwargs", "_ddp_comm_hook"])
def test_ddp_with_another_name_is_refused(lightning: Lightning, name: str) -> None:
    found = lightning.trains("ddp", changes=renamed(name, "_another"))
    check(found, lightning.unchanged, {"on_ddp"})


def test_lightnings_own_loop_runs_where_it_is_not_known(lightning: Lightning) -> None:
    found = lightning.trains(changes=EXTRA_STEP)
    assert not found["known"]
    check(found, lightning.unchanged, set())
    assert found["extra_steps"] == 8
    assert found["log"].count("is not one that det_compat knows") == 1
    assert "loops.training_epoch_loop differs" in found["log"]


def test_without_the_guard_a_step_would_be_left_out(lightning: Lightning) -> None:
    assert lightning.trains("unguarded", changes=EXTRA_STEP)["extra_steps"] == 0


def test_comments_do_not_count(lightning: Lightning) -> None:
    words = replaced(EPOCH_LOOP, ('"""Runs a single training batch.', '# new\n        """Trains.'))
    found = lightning.trains(changes=words)
    assert found["known"]
    check(found, lightning.unchanged, set())


def test_a_function_that_somebody_has_replaced_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytorch_lightning.loops.training_epoch_loop import _TrainingEpochLoop

    from det_compat.adapters.lightning import known

    known.examine()
    assert known.is_known()
    own = _TrainingEpochLoop.advance
    monkeypatch.setattr(_TrainingEpochLoop, "advance", lambda loop, fetcher: own(loop, fetcher))
    known.examine()
    assert not known.is_known()
    monkeypatch.undo()
    known.examine()
    assert known.is_known()
