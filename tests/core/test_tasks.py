"""``core.init()`` in a script that ``det-compat fit`` or ``search`` runs."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from det_compat import InvalidHP, core
from det_compat.core.reports.kept import METRICS, KeptTrainContext, reported_values
from det_compat.script.run_paths import RunPaths
from det_compat.script.task import VARIABLE, Task

CONFIG: dict[str, Any] = {
    "searcher": {"name": "single", "metric": "loss", "max_length": {"epochs": 4}},
}


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def begin(
        slots: int = 1, search: int | None = None, epochs_completed: int = 0, **config: Any
    ) -> Path:
        run_dir = tmp_path / "trials" / "0"
        run_dir.mkdir(parents=True, exist_ok=True)
        given = Task(
            {**CONFIG, **config},
            {"lr": 1},
            7,
            slots,
            str(run_dir),
            epochs_completed=epochs_completed,
            search=search,
        )
        monkeypatch.setenv(VARIABLE, given.variables()[VARIABLE])
        return run_dir

    return begin


def saved(context: core.Context, steps: int, loss: float | None = None) -> str:
    if loss is not None:
        context.train.report_validation_metrics(steps, {"loss": loss})
    with context.checkpoint.store_path({"steps_completed": steps}) as (path, uuid):
        (path / "state").write_text(str(steps))
    return uuid


def test_everything_arrives_in_the_folder_of_the_run(task: Any) -> None:
    run_dir = task()
    with core.init() as context:
        assert context.info is not None and context.info.trial.hparams == {"lr": 1}
        context.train.report_training_metrics(5, {"loss": 2.0})
        uuid = saved(context, 5, loss=1.5)
        assert context.train.set_metadata({"a": [1]}) == {"a": [1]}
        assert context.train.get_tensorboard_path() == run_dir / "tensorboard"
        assert context.checkpoint.get_metadata(uuid) == {"steps_completed": 5}
    assert (run_dir / "checkpoints" / uuid / "state").read_text() == "5"
    assert RunPaths(run_dir).begun_checkpoints() == [uuid]
    assert [*(run_dir / "tensorboard").glob("events.*")]
    lines = [json.loads(line) for line in (run_dir / METRICS).read_text().splitlines()]
    assert [(line["group"], line["metrics"]) for line in lines] == [
        ("training", {"loss": 2.0}),
        ("validation", {"loss": 1.5}),
    ]
    with core.init() as context:
        assert context.train.get_metadata() == {"a": [1]}
        assert context.train.get_experiment_best_validation() == 1.5


def test_the_best_and_the_latest_checkpoint_are_kept_at_the_end(task: Any) -> None:
    run_dir = task()
    with core.init() as context:
        kept = [saved(context, steps, loss) for steps, loss in [(1, 3.0), (2, 1.0), (3, 2.0)]]
        assert len([*(run_dir / "checkpoints").iterdir()]) == 3
    assert sorted(path.name for path in (run_dir / "checkpoints").iterdir()) == sorted(kept[1:])


def test_no_checkpoint_goes_where_the_script_fails(task: Any) -> None:
    run_dir = task()
    with pytest.raises(KeyError), core.init() as context:
        for steps in (1, 2, 3):
            saved(context, steps, float(steps))
        raise KeyError("user bug")
    assert len([*(run_dir / "checkpoints").iterdir()]) == 3


def test_lengths_come_from_the_config(task: Any) -> None:
    task()
    with core.init() as context, pytest.warns(FutureWarning, match="deprecated"):
        assert context.searcher.get_configured_units() is core.Unit.EPOCHS
        (operation,) = _completed(context.searcher.operations())
        assert operation.length == 4
    task(searcher={"name": "single", "metric": "loss", "max_length": 9})
    with core.init() as context, pytest.warns(FutureWarning):
        assert context.searcher.get_configured_units() is None
        assert [one.length for one in _completed(context.searcher.operations())] == [9]
    task(searcher={"name": "single", "metric": "loss", "max_time": 3, "time_metric": "epochs"})
    with core.init() as context, pytest.raises(ValueError, match=r"searcher\.max_length"):
        context.searcher.operations()


def _completed(operations: Iterator[core.SearcherOperation]) -> Iterator[core.SearcherOperation]:
    for operation in operations:
        operation.report_completed(0)
        yield operation


def test_it_is_as_strict_as_a_cluster(task: Any) -> None:
    task()
    with core.init() as context:
        with (
            pytest.raises(ValueError, match="'steps_completed'"),
            context.checkpoint.store_path({}) as (path, _),
        ):
            (path / "state").write_text("")
        with pytest.raises(RuntimeError, match="'loss' returned an invalid"):
            context.train.report_validation_metrics(1, {"loss": None})
        with pytest.raises(ValueError, match="between 0 and 1"):
            context.train.report_progress(1.5)
        with pytest.raises(RuntimeError, match="MANUAL"):
            context.train.upload_tensorboard_files()
    task(slots=2)
    with pytest.raises(ValueError, match="valid DistributedContext"):
        core.init()


@pytest.mark.parametrize("ranks", ["x", 2])
def test_ranks_that_are_none(ranks: Any) -> None:
    with pytest.raises(TypeError, match=r"distributed=.*it takes a core.DistributedContext"):
        core.init(distributed=ranks)


def test_a_checkpoint_that_failed_is_removed(task: Any) -> None:
    run_dir = task()
    context = core.init()
    with pytest.raises(KeyError), context.checkpoint.store_path({"steps_completed": 1}):
        raise KeyError("user bug")
    assert [*(run_dir / "checkpoints").iterdir()] == []


def test_a_storage_of_the_scripts_own_is_noted(task: Any, tmp_path: Path) -> None:
    run_dir = task()
    with core.init(checkpoint_storage=str(tmp_path / "mine")) as context:
        uuid = saved(context, 1)
    assert (tmp_path / "mine" / uuid / "state").exists()
    assert RunPaths(run_dir).chosen_storage() == str(tmp_path / "mine")
    with core.init():
        pass
    assert RunPaths(run_dir).chosen_storage() is None


def test_invalid_hp_ends_the_script_with_status_0(task: Any) -> None:
    task()
    with pytest.raises(SystemExit) as ended, core.init():
        raise InvalidHP("too large")
    assert ended.value.code == 0


class Search:
    """Takes reports, answers the first ``answers`` validations, and hangs up at the next."""

    def __init__(self, answers: int) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._answers = answers
        self._messages: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        connection, _ = self._server.accept()
        with self._server, connection, connection.makefile("r") as file:
            for line in file:
                self._messages.append(json.loads(line))
                if "metrics" in self._messages[-1]:
                    if self._answers == 0:
                        return
                    self._answers -= 1
                    connection.sendall(b"\n")

    def messages(self) -> list[dict[str, Any]]:
        """What it was told, when it has ended."""
        self._thread.join(20)
        return self._messages


def test_a_search_hears_of_validations_and_checkpoints(task: Any) -> None:
    search = Search(answers=9)
    run_dir = task(search=search.port)
    with core.init() as context, pytest.warns(FutureWarning):
        operation = next(context.searcher.operations())
        operation.report_progress(2)
        uuid = saved(context, 20, loss=0.5)
        context.train.report_validation_metrics(20, {"loss": 0.4})
    where = str(run_dir / "checkpoints" / uuid)
    context.train._line._file.close()
    assert search.messages() == [
        {"batches": 20, "metrics": {"epochs": 2, "loss": 0.5}, "checkpoint": None},
        {"batches": 20, "checkpoint": where},
        {"batches": 20, "metrics": {"epochs": 2, "loss": 0.4}, "checkpoint": where},
    ]


def test_a_search_stops_a_script_that_asks_by_should_preempt(task: Any) -> None:
    search = Search(answers=1)
    task(search=search.port)
    with core.init() as context:
        assert context.preempt.should_preempt() is False
        context.train.report_validation_metrics(1, {"loss": 1.0})
        assert context.preempt.should_preempt() is False
        context.train.report_validation_metrics(2, {"loss": 1.0})
        assert context.preempt.should_preempt() is True
        # One that goes on all the same is ended.
        with pytest.raises(SystemExit, match="stopped the trial"):
            context.train.report_validation_metrics(3, {"loss": 1.0})
    assert [one["batches"] for one in search.messages()] == [1, 2]


def test_a_search_ends_a_script_that_does_not_ask(task: Any) -> None:
    search = Search(answers=0)
    task(search=search.port)
    with pytest.raises(SystemExit, match="stopped the trial"), core.init() as context:
        context.train.report_validation_metrics(1, {"loss": 1.0})
    assert len(search.messages()) == 1


def test_the_best_of_a_search_is_that_of_all_its_trials(task: Any, tmp_path: Path) -> None:
    other = KeptTrainContext(
        tmp_path / "trials" / "1", tmp_path / "tb", core.TensorboardMode.MANUAL
    )
    other.report_validation_metrics(1, {"loss": 0.125})
    with (tmp_path / "trials" / "1" / METRICS).open("a") as file:
        file.write('{"group": "valid')  # as a process that is killed leaves it
    assert [*reported_values(tmp_path / "trials" / "1", "loss")] == [(1, 0.125)]
    search = Search(answers=1)
    task(search=search.port)
    with core.init() as context:
        context.train.report_validation_metrics(1, {"loss": 1.0})
        assert context.train.get_experiment_best_validation() == 0.125
    context.train._line._file.close()
    search.messages()


@pytest.mark.parametrize("begin", [0, 2])
@pytest.mark.parametrize("style", ["before", "after", "index", "index after", "never"])
def test_progress_counts_epochs_wherever_a_script_reports_it(
    task: Any, style: str, begin: int, caplog: pytest.LogCaptureFixture
) -> None:
    search = Search(answers=9)
    task(search=search.port, epochs_completed=begin)
    with core.init() as context, pytest.warns(FutureWarning):
        operation = next(context.searcher.operations())
        for epoch in range(begin, 4):
            if style == "index":
                operation.report_progress(epoch)
            if style == "before":
                operation.report_progress(epoch + 1)
            context.train.report_validation_metrics(10 * (epoch + 1), {"loss": epoch})
            if style == "after":
                operation.report_progress(epoch + 1)
            if style == "index after":
                operation.report_progress(epoch)
        operation.report_completed(0)
    context.train._line._file.close()
    told = [(one["batches"], one["metrics"]["epochs"]) for one in search.messages()]
    all_of_them = [(10, 1), (20, 2), (30, 3), (40, 4)][begin:]
    assert told == (all_of_them[-1:] if style == "never" else all_of_them)
    assert ("at the end of the operation only" in caplog.text) == (style == "never")


def test_more_metrics_of_a_validation_are_nothing_that_a_search_judges(task: Any) -> None:
    search = Search(answers=9)
    task(search=search.port)
    with core.init() as context:
        context.train.report_validation_metrics(1, {"loss": 1.0})
        context.train.report_metrics("validation", 1, {"accuracy": 0.5})
    context.train._line._file.close()
    assert [one["metrics"] for one in search.messages()] == [{"loss": 1.0}]
