"""det_compat.fit: a run from Python, and a process that is afterwards what it was."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import torch
import yaml

import det_compat
from det_compat.api.run import Run
from det_compat.checkpoint import read_checkpoint
from det_compat.cli import main
from det_compat.config import ConfigError
from det_compat.experiment.errors import FitError
from tests.experiment.projects import CONFIG, EPOCH, MODEL_DEF, QUIET, project
from tests.without_determined import without_determined


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with without_determined():
        yield


def _weights(run: Run) -> dict[str, torch.Tensor]:
    assert run.latest_checkpoint is not None
    (weights,) = read_checkpoint(run.latest_checkpoint).state["models_state_dict"]
    return weights


@pytest.mark.filterwarnings("ignore:(?s).*deprecated in v4.49.0:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:(?s).*JsonargparseDeprecationWarning:DeprecationWarning")
def test_it_trains_what_the_command_does(tmp_path: Path) -> None:
    file = project(tmp_path / "p", min_validation_period={"batches": EPOCH})
    random.seed(5)
    before = random.getstate(), {**os.environ}, [*sys.path], signal.getsignal(signal.SIGINT)
    run = det_compat.fit(file, hparams={"lr": 0.05}, limit_val_batches=1)
    assert before == (
        *(random.getstate(), {**os.environ}, [*sys.path]),
        signal.getsignal(signal.SIGINT),
    )
    assert "model_def" not in sys.modules
    assert (run.path, run.state, run.batches) == (tmp_path / "runs/tiny/001", "done", 2 * EPOCH)
    assert run.hparams == {"global_batch_size": 4, "lr": 0.05}
    assert [*pd.DataFrame(run.validations)["batches"]] == [EPOCH, 2 * EPOCH]
    assert {*pd.DataFrame(run.metrics)["group"]} == {"training", "validation"}
    assert run.best == min(run.validations, key=lambda row: row["validation_loss"])
    assert run.best_checkpoint in [one.location for one in run.checkpoints]
    assert "done, 20 batches, best validation_loss" in repr(run)
    assert repr(Run("runs/tiny/001")) == repr(run)
    words = ["--model.hparams.lr", "0.05", "--trainer.limit_val_batches", "1"]
    assert main(["fit", str(file), *words, *QUIET]) == 0
    command = _weights(Run("runs/tiny/002"))
    assert command.keys() == _weights(run).keys()
    assert all(torch.equal(command[name], value) for name, value in _weights(run).items())
    again = Run("runs/tiny/001").resume_by
    assert '--model.hparams={"lr": 0.05}' in again and "limit_val_batches=1" in again


def test_a_trial_class_of_a_notebook(tmp_path: Path) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    exec(MODEL_DEF.replace("determined", "det_compat"), names)
    config = {name: value for name, value in CONFIG.items() if name != "entrypoint"}
    seen: list[int] = []

    from det_compat.adapters.lightning.package import pl

    class Counts(pl.Callback):
        def on_train_batch_end(self, *_: object) -> None:
            seen.append(1)

    trial = names["Trial"]
    assert isinstance(trial, type)
    run = det_compat.fit(config, trial_cls=trial, max_epochs=1, callbacks=[Counts()], seed=3)
    assert len(seen) == run.batches == EPOCH
    assert run.resume_by.endswith("  # and callbacks, trial_cls of det_compat.fit()")
    assert f" {run.path}/config.yaml . --run_dir" in run.resume_by
    again = det_compat.fit(config, trial_cls=trial, run_dir=run.path, resume=True, quiet=True)
    assert (again.path, again.batches) == (run.path, 2 * EPOCH)


def test_two_projects_with_modules_of_the_same_name(tmp_path: Path) -> None:
    for name, size in (("one", 2), ("two", 5)):
        file = project(tmp_path / name, name=name, searcher={**CONFIG["searcher"], "max_length": 1})
        code = file.with_name("model_def.py")
        code.write_text(code.read_text().replace("torch.nn.Linear(2, 1)", "made()"))
        helper = f"import torch\ndef made():\n    return torch.nn.Linear(2, {size})\n"
        file.with_name("parts.py").write_text(helper)
        code.write_text(f"from parts import made\n{code.read_text()}")
        config = yaml.safe_load(file.read_text())
        config["searcher"]["max_length"] = {"batches": 1}
        file.write_text(yaml.safe_dump(config))
        assert _weights(det_compat.fit(file))["weight"].shape == (size, 2)


def test_a_script(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p/script.py").write_text("import sys\nsys.exit(int(sys.argv[1]))\n")
    config = {**CONFIG, "entrypoint": "python script.py 0"}
    run = det_compat.fit(config, "p")
    assert (run.state, run.path.name) == ("done", "001")
    with pytest.raises(FitError, match=r"the script ended with status 3; its run is in .*/002"):
        det_compat.fit({**CONFIG, "entrypoint": "python script.py 3"}, "p")


def test_an_interrupt_leaves_a_run_that_goes_on(tmp_path: Path) -> None:
    file = project(tmp_path / "p", searcher={**CONFIG["searcher"], "max_length": {"epochs": 99}})
    code = file.with_name("model_def.py")
    stops = (
        "        if self.batches == 3 and not os.path.exists('stopped'):\n"
        "            open('stopped', 'w').close()\n"
        "            os.kill(os.getpid(), 2)\n"
    )
    step = "        self.batches += 1\n"
    code.write_text(code.read_text().replace(step, step + stops))
    with pytest.raises(KeyboardInterrupt):
        det_compat.fit(file)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert Run("runs/tiny/001").state == "stopped"
    run = det_compat.fit(file, resume=True, max_epochs=1)
    assert (run.path.name, run.state) == ("001", "done")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_epoch": 1}, "no argument 'max_epoch'; did you mean max_epochs?"),
        ({"trial_cls": int}, "trial_cls: .*int"),
        ({"resume": True}, "nothing to resume"),
        ({"devices": "two"}, "the Trainer does not take its options"),
        ({"trial_cls": "model_def:Trail"}, "has no Trail"),
        ({"tracking": "wandb"}, "write mlflow, mlflow:URI, or none"),
    ],
)
def test_what_is_to_be_mended(arguments: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(FitError, match=message):
        det_compat.fit(project(tmp_path / "p"), **arguments)
    assert not (tmp_path / "runs/tiny/002").exists()


def test_a_config_that_is_none() -> None:
    with pytest.raises(ConfigError):
        det_compat.fit({"searcher": {"name": "single"}, "hyperparameters": 3})


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is no folder of a run"):
        Run(tmp_path)
