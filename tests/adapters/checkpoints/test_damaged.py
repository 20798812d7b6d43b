"""Checkpoints with values of a wrong type: one error names the checkpoint and the part of it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from det_compat import to_lightning
from det_compat.checkpoint.reader import CONTINUATION
from det_compat.cli import main
from det_compat.errors import InvalidCheckpointException
from det_compat.pytorch import load_trial_from_checkpoint_path
from det_compat.shared.plain_types import _TAG
from tests.adapters.trials import Linear, trainer
from tests.experiment.projects import QUIET, project
from tests.without_determined import without_determined

Damage = Callable[[Any], Any]
STATE, TO_GO_ON = "state_dict.pth", CONTINUATION

PARTS: list[tuple[str, str, Damage]] = [
    (STATE, "models_state_dict", lambda s: s["models_state_dict"].__setitem__(0, 3)),
    (STATE, "optimizers_state_dict[0]", lambda s: s["optimizers_state_dict"].__setitem__(0, 3)),
    (STATE, "optimizers_state_dict[0]", lambda s: s["optimizers_state_dict"][0].pop("state")),
    (
        STATE,
        "optimizers_state_dict[0]",
        lambda s: s["optimizers_state_dict"][0].update(param_groups=[3]),
    ),
    (
        STATE,
        "lr_schedulers_state_dict[0]",
        lambda s: s["lr_schedulers_state_dict"].__setitem__(0, None),
    ),
    (STATE, "callbacks", lambda s: s.update(callbacks={"record": {_TAG: "array"}})),
    (STATE, "rng_state", lambda s: s["rng_state"].update(cpu_rng_state="x")),
    (STATE, "rng_state", lambda s: s["rng_state"].update(np_rng_state=3)),
    (TO_GO_ON, "ranks", lambda s: s.update(ranks={})),
    (TO_GO_ON, "continuation of rank 0", lambda s: s["ranks"].__setitem__(0, 3)),
    (TO_GO_ON, "data", lambda s: s["ranks"][0].update(data=3)),
    (TO_GO_ON, "delivered", lambda s: s["ranks"][0]["data"].update(delivered="x")),
    (TO_GO_ON, "order", lambda s: s["ranks"][0]["data"].update(order={"began": 3})),
    (TO_GO_ON, "random states", lambda s: s["ranks"][0]["data"].update(began={"torch": 3})),
    (TO_GO_ON, "random states", lambda s: s["ranks"][0].update(loaders_built={"torch": 3})),
    (TO_GO_ON, "period", lambda s: s["ranks"][0].update(period=3)),
    (TO_GO_ON, "metrics and gradients", lambda s: s["ranks"][0].update(gradients=["x"] * 9)),
    (TO_GO_ON, "random states", lambda s: s["ranks"][0].update(random={"torch": 3})),
    (TO_GO_ON, "list of checkpoints", lambda s: s.update(checkpoints=3)),
    (TO_GO_ON, "metrics shown", lambda s: s.update(published={"shown": 3})),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a project, and a run of it that can go on."""
    folder: Path = tmp_path_factory.mktemp("run")
    file = project(folder / "p", scheduling_unit=1)
    code = file.with_name("model_def.py")
    scheduler = """
        from determined.pytorch import LRScheduler
        schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 1)
        context.wrap_lr_scheduler(schedule, LRScheduler.StepMode.STEP_EVERY_EPOCH)

    def build_training"""
    code.write_text(code.read_text().replace("\n    def build_training", scheduler, 1))
    with pytest.MonkeyPatch.context() as patch, without_determined():
        _at_home(patch, folder)
        assert main(["fit", "p/const.yaml", "--run_dir", "r", *QUIET, *_steps(3)]) == 0
    sys.modules.pop("model_def", None)
    return folder


def _steps(count: int) -> tuple[str, str]:
    return "--trainer.max_steps", str(count)


def _at_home(patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.chdir(folder)
    patch.setattr(sys, "path", [*sys.path])
    patch.setenv("RECORD", str(folder / "record.txt"))
    patch.delitem(sys.modules, "model_def", raising=False)


@pytest.fixture
def copied(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of the checkpoint of a copy of the run."""
    shutil.copytree(run, tmp_path, dirs_exist_ok=True)
    _at_home(monkeypatch, tmp_path)
    [path] = (tmp_path / "r/checkpoints").iterdir()
    with without_determined():
        yield path
    sys.modules.pop("model_def", None)


def _damage(file: Path, damage: Damage) -> None:
    content = torch.load(file, weights_only=False)
    damage(content)
    torch.save(content, file)


def _resume() -> int:
    return main(["fit", "p/const.yaml", "--run_dir", "r", "--resume", *QUIET, *_steps(4)])


@pytest.mark.parametrize(("file", "part", "damage"), PARTS)
def test_a_run_that_goes_on(
    file: str, part: str, damage: Damage, copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _damage(copied / file, damage)
    assert _resume() == 2
    *_, shown, advice, move, again = capsys.readouterr().err.splitlines()
    assert shown.startswith("det-compat: ") and copied.name in shown and part in shown
    assert advice == "no other checkpoint of the run is whole; to train from the beginning:"
    assert move == f"  mv {copied} {copied}.damaged"
    assert again.endswith(
        f"--run_dir {copied.parents[1]} --resume {' '.join([*QUIET, *_steps(4)])}"
    )


@pytest.mark.parametrize("damaged", ["cut off", "gone"])
def test_an_earlier_checkpoint_is_named(
    damaged: str, copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # the batches in the metadata are what checkpoints are told apart by, from the latest back
    earlier = [copied.with_name(f"00000000-0000-4000-8000-{number:012}") for number in (1, 2)]
    for steps, directory in enumerate(earlier, start=1):
        shutil.copytree(copied, directory)
        metadata = json.loads((directory / "metadata.json").read_text())
        (directory / "metadata.json").write_text(json.dumps({**metadata, "steps_completed": steps}))
    for file in (copied / STATE, earlier[1] / CONTINUATION):
        file.unlink() if damaged == "gone" else os.truncate(file, 100)
    if damaged == "gone":  # nothing needs it to be there
        (earlier[1] / "load_data.json").write_text("[")
    assert _resume() == 2
    *_, advice, move, _ = capsys.readouterr().err.splitlines()
    assert advice == f"{earlier[0]}, after batch 1, is whole; to go on from it:"
    words = shlex.split(move)
    assert words[0] == "mv"
    os.rename(*words[1:])
    shutil.rmtree(earlier[1])
    assert _resume() == 0
    assert f"from checkpoint {earlier[0].name}" in capsys.readouterr().out.replace("\n", "")


def test_errors_of_the_users_own_are_the_cause(copied: Path) -> None:
    _damage(copied / STATE, lambda state: state["callbacks"]["record"].clear())
    with pytest.raises(InvalidCheckpointException, match=f"{copied.name}: its callbacks") as raised:
        _resume()
    cause = raised.value.__cause__
    assert isinstance(cause, KeyError)
    assert cause.__traceback__ is not None


def test_a_trial_that_is_loaded(copied: Path) -> None:
    _damage(copied / STATE, lambda state: state["models_state_dict"].__setitem__(0, 3))
    message = f"{copied.name}/state_dict.pth cannot be used: its models_state"
    with pytest.raises(InvalidCheckpointException, match=message):
        load_trial_from_checkpoint_path(str(copied), trial_class=Linear)
    with pytest.raises(InvalidCheckpointException, match=message):
        to_lightning(Linear).load_from_checkpoint(str(copied))
    _damage(copied / STATE, lambda state: state.update(models_state_dict=[{}]))
    _damage(copied / STATE, lambda state: state.update(optimizers_state_dict=3))
    with pytest.raises(InvalidCheckpointException, match=f"{copied.name}.*optimizers_state"):
        to_lightning(Linear).load_from_checkpoint(str(copied))


@pytest.mark.parametrize(
    ("part", "damage"),
    [
        ("optimizer_states", lambda c: c.update(optimizer_states=3)),
        ("optimizer_states[0]", lambda c: c["optimizer_states"].__setitem__(0, 3)),
        ("param_groups", lambda c: c["optimizer_states"][0]["param_groups"].__setitem__(0, 3)),
        (
            "optimizer_states[0]['state'][0]",
            lambda c: c["optimizer_states"][0]["state"].update({0: 3}),
        ),
        ("trial state", lambda c: c["determined"].update(trial_state=3)),
        ("state", lambda c: c.update(determined=3)),
    ],
)
def test_a_checkpoint_of_lightning(part: str, damage: Damage, tmp_path: Path) -> None:
    first = trainer()
    first.fit(to_lightning(Linear)(hparams={}))
    first.save_checkpoint(tmp_path / "one.ckpt")
    _damage(tmp_path / "one.ckpt", damage)
    with pytest.raises(InvalidCheckpointException) as raised:
        trainer(max_epochs=2).fit(to_lightning(Linear)(hparams={}), ckpt_path=tmp_path / "one.ckpt")
    assert "one.ckpt" in str(raised.value) and part in str(raised.value)
