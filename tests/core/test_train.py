from __future__ import annotations

import logging
from pathlib import Path

import pytest

from det_compat.core import EarlyExitReason, TrainContext
from det_compat.core.train import (
    current_tensorboard_path,
    new_tensorboard_path,
    tensorboard_path_is,
)


@pytest.fixture
def train(caplog: pytest.LogCaptureFixture) -> TrainContext:
    caplog.set_level(logging.INFO, "determined.core")
    return TrainContext(Path("runs/here"))


def test_reports_are_logged_with_their_batch_count(
    train: TrainContext, caplog: pytest.LogCaptureFixture
) -> None:
    train.report_training_metrics(7, {"loss": 0.5}, batch_metrics=[{"loss": 0.5}])
    train.report_validation_metrics(steps_completed=8, metrics={"accuracy": 1.0})
    train.report_metrics("test", 9, {"f1": 0.25})
    training, validation, other = caplog.messages
    assert "training" in training and "steps_completed=7" in training
    assert "{'loss': 0.5}" in training
    assert "validation" in validation and "steps_completed=8" in validation
    assert "{'accuracy': 1.0}" in validation
    assert "group=test" in other and "steps_completed=9" in other


def test_status_and_the_like_are_logged_as_determined_logs_them(
    train: TrainContext, caplog: pytest.LogCaptureFixture
) -> None:
    core = pytest.importorskip("determined.core")

    def messages(context: object, reason: object) -> list[str]:
        caplog.clear()
        context.set_status("training")
        context.report_progress(0.5)
        context.report_early_exit(reason)
        return caplog.messages

    ours = messages(train, EarlyExitReason.INVALID_HP)
    assert ours == messages(core.DummyTrainContext(), core.EarlyExitReason.INVALID_HP)
    assert len(ours) == 3


def test_early_exit_reasons_are_those_of_determined() -> None:
    reference = pytest.importorskip("determined.core").EarlyExitReason
    for reason in EarlyExitReason:
        assert reference[reason.name].value == reason.value


def test_there_is_no_experiment(train: TrainContext) -> None:
    assert train.get_experiment_best_validation() is None
    assert train.get_tensorboard_path() == Path("runs/here")
    train.upload_tensorboard_files(lambda path: True)


def test_a_new_run_gets_a_directory_under_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = new_tensorboard_path()
    assert path.parts[0] == "runs" and len(path.parts) == 2
    assert not path.parent.exists()


def test_outside_of_a_run_it_is_a_new_one() -> None:
    assert current_tensorboard_path().parent == new_tensorboard_path().parent


def test_the_innermost_run_counts() -> None:
    with tensorboard_path_is(Path("outer")):
        with tensorboard_path_is(Path("inner")):
            assert current_tensorboard_path() == Path("inner")
        assert current_tensorboard_path() == Path("outer")
    assert current_tensorboard_path() not in (Path("outer"), Path("inner"))


def test_an_exception_ends_the_run() -> None:
    with pytest.raises(KeyError), tensorboard_path_is(Path("run")):
        raise KeyError
    assert current_tensorboard_path() != Path("run")


def test_two_runs_of_one_directory() -> None:
    with tensorboard_path_is(Path("same")):
        with tensorboard_path_is(Path("same")):
            pass
        assert current_tensorboard_path() == Path("same")


def test_runs_that_start_together_have_directories_of_their_own() -> None:
    assert len({new_tensorboard_path() for _ in range(3)}) == 3
