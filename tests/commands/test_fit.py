"""``det-compat fit`` and ``validate``, in this process, up to where training starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from det_compat.cli import main
from tests.experiment.projects import project
from tests.fresh_python import python

NO_LENGTH = {"name": "single", "metric": "x"}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"hyperparameters": {"a": {"b": {"type": "int", "minval": 1, "maxval": 2}}}}, "a.b are"),
        ({"searcher": {"name": "random", "metric": "x", "max_trials": 2}}, "det-compat search"),
        ({"searcher": {"name": "pbt", "metric": "x"}}, "const.yaml"),
        ({"checkpoint_storage": {"type": "s3"}}, "checkpoint_storage"),
        ({"entrypoint": None}, "has no entrypoint"),
        ({"entrypoint": "python3 -m determined.launch.deepspeed --trial a:B"}, "DeepSpeed"),
        ({"entrypoint": "python3 train.py", "max_restart": 1}, "max_restart"),
        ({"searcher": []}, "searcher"),
    ],
)
@pytest.mark.parametrize("command", ["fit", "validate"])
def test_what_a_config_cannot_ask_for(
    command: str,
    keys: dict[str, object],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = project(tmp_path, **keys)
    assert main([command, str(file)]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["nothere.yaml"], "nothere.yaml"),
        (["const.yaml", "nowhere"], "MODEL_DIR 'nowhere' is no directory"),
        (["const.yaml", "--resume"], "nothing to resume"),
        (["const.yaml", "--resume", "--run_dir", "x"], "holds no run"),
    ],
)
def test_what_is_not_there(
    argv: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project(tmp_path, entrypoint="python3 train.py")
    assert main(["fit", *argv]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("words", [["fit", "--help"], ["validate", "const.yaml", "-h"]])
def test_the_short_help_needs_no_lightning(words: list[str], tmp_path: Path) -> None:
    code = f"import sys; from det_compat.cli import main; main({words!r})"
    code += "; print('torch' in sys.modules)"
    shown = python("-c", code, cwd=tmp_path).stdout
    assert shown.startswith(f"usage: det-compat {words[0]} CONFIG.yaml")
    assert "--trainer.devices N" in shown
    assert shown.endswith("--help-all` has all options.\nFalse\n")


def test_scripts_take_no_options_of_lightning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = project(tmp_path, entrypoint="python3 train.py")
    assert main(["fit", str(file), "--trainer.devices", "2"]) == 2
    assert "do not reach: --trainer.devices 2" in capsys.readouterr().err
    assert main(["validate", str(file)]) == 2
    assert "this one is a script" in capsys.readouterr().err


def test_a_missing_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["fit", str(project(tmp_path))]) == 2
    assert "jsonargparse, rich, tensorboard is not installed" in capsys.readouterr().err


def test_torch_is_not_imported_to_refuse(tmp_path: Path) -> None:
    file = project(tmp_path, searcher={"name": "grid", "metric": "x", "max_length": 3})
    code = (
        "import sys; from det_compat.cli import main; "
        f"main(['fit', {str(file)!r}]); sys.exit('torch' in sys.modules)"
    )
    assert python("-c", code, cwd=tmp_path).returncode == 0
