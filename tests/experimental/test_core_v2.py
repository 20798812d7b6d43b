from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from det_compat.alias.module import DeterminedModule
from det_compat.experimental import core_v2
from det_compat.script.task import Task, told


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    yield
    core_v2.close()


def reported(folder: Path) -> list[tuple[str, int, dict[str, Any]]]:
    (file,) = folder.rglob("metrics.jsonl")
    lines = map(json.loads, file.read_text().splitlines())
    return [(line["group"], line["steps_completed"], line["metrics"]) for line in lines]


def save(steps: int) -> str:
    assert core_v2.checkpoint is not None
    with core_v2.checkpoint.store_path({"steps_completed": steps}) as (path, uuid):
        (path / "state").write_text(str(steps))
    return uuid


def test_what_is_reported_is_kept(tmp_path: Path) -> None:
    module = DeterminedModule("determined.experimental.core_v2")
    core_v2.init(config=core_v2.Config(name="one", hparams={"rate": 0.1}, data={"path": "x"}))
    module.train.report_training_metrics(steps_completed=3, metrics={"loss": 0.5})
    assert reported(tmp_path / "runs") == [("training", 3, {"loss": 0.5})]
    assert (module.info.trial.hparams, module.info.user_data) == ({"rate": 0.1}, {"path": "x"})
    assert module.info.latest_checkpoint is None
    folder = Path(module.url_reverse_webui_exp_view().removeprefix("file://"))
    assert (folder / "metrics.jsonl").exists()
    core_v2.close()
    assert module.train is None


def test_a_trial_goes_on_by_its_ids(caplog: pytest.LogCaptureFixture) -> None:
    config = core_v2.Config(external_experiment_id="a/b", external_trial_id="..")
    core_v2.init(config=config)
    save(4)
    saved = save(9)
    core_v2.init(config=config)
    assert core_v2.info is not None
    assert core_v2.checkpoint is not None
    assert core_v2.info.latest_checkpoint == saved
    assert core_v2.info.trial._steps_completed == 9
    with core_v2.checkpoint.restore_path(saved) as path:
        assert (path / "state").read_text() == "9"
    assert not caplog.messages or "starts from the beginning" not in caplog.text
    core_v2.init(config=config, checkpoint_storage=str(Path.cwd() / "elsewhere"))
    assert core_v2.info.latest_checkpoint is None
    assert "starts from the beginning" in caplog.text


def test_trials_of_an_experiment_are_apart() -> None:
    for trial in ("a/b", "a%2fb", None, None):
        config = core_v2.Config(external_experiment_id="search", external_trial_id=trial)
        with core_v2.init_context(config=config) as context:
            assert context.info is not None
            assert context.info.latest_checkpoint is None
            with context.checkpoint.store_path({"steps_completed": 1}):
                pass
    assert len([*Path("runs/search").iterdir()]) == 4


def test_checkpoints_say_how_much_is_trained() -> None:
    core_v2.init(config=core_v2.Config())
    assert core_v2.checkpoint is not None
    with pytest.raises(ValueError, match="steps_completed"), core_v2.checkpoint.store_path({}):
        pass


def test_older_arguments() -> None:
    with pytest.warns(FutureWarning, match="use Config"):
        parts = core_v2.DefaultConfig(name="n"), core_v2.UnmanagedConfig(external_experiment_id="e")
    with (
        pytest.warns(FutureWarning, match="use `config`"),
        core_v2.init_context(defaults=parts[0], unmanaged=parts[1]) as context,
    ):
        assert context.train.get_tensorboard_path().parents[1] == Path.cwd() / "runs" / "e"


def test_what_cannot_begin() -> None:
    with pytest.raises(ValueError, match="`config`"):
        core_v2.init()
    with pytest.raises(NotImplementedError, match="external_experiment_id"):
        core_v2.init(config=core_v2.Config(external_trial_id="t"))
    with pytest.raises(AssertionError):
        core_v2.url_reverse_webui_exp_view()


def test_a_task_says_it_itself(tmp_path: Path) -> None:
    task = Task({"searcher": {"metric": "loss"}}, {"rate": 2}, 1, 1, str(tmp_path / "run"))
    with told(task):
        core_v2.init(config=core_v2.Config(hparams={"rate": 1}))
        assert core_v2.train is not None
        assert core_v2.info is not None
        core_v2.train.report_validation_metrics(1, {"loss": 1.0})
        assert core_v2.info.trial.hparams == {"rate": 2}
        core_v2.close()
    assert reported(tmp_path / "run") == [("validation", 1, {"loss": 1.0})]
