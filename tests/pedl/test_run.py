"""What ``pedl`` tells of a run, in its process and in those that it starts."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from det_compat import pedl
from det_compat.pedl import run as _run
from det_compat.pedl.run import InWorkers, Run, begin, end, going_on, tell_processes


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert _run._runs == []


def learning_rate(queue: Any = None) -> Any:
    found = pedl.get_hyperparameter("lr")
    if queue is not None:
        queue.put(found)
    return found


def test_a_run_tells_hyperparameters_data_and_their_place() -> None:
    run = Run({"lr": 0.1}, {"data": {"url": "here"}}, "/data")
    with going_on(run):
        assert pedl.get_hyperparameter("lr") == 0.1
        assert pedl.get_data_config() == {"url": "here"}
        assert pedl.get_download_data_dir() == "/data"


@pytest.mark.parametrize("ask", [learning_rate, pedl.get_data_config, pedl.get_download_data_dir])
def test_outside_of_a_run_there_is_an_error(ask: Any) -> None:
    with pytest.raises(RuntimeError, match=r"pedl\.get_\w+\(.* while no PEDL trial is built"):
        ask()
    with going_on(Run({"lr": 1}, {}, "/")):
        ask()
    with pytest.raises(RuntimeError, match="while no PEDL trial is built or trained"):
        ask()


def test_the_data_config_is_empty_if_there_is_none() -> None:
    with going_on(Run()):
        assert pedl.get_data_config() == {}


def test_what_a_run_lacks_is_named() -> None:
    with going_on(Run({"lr": 1, "width": 2})):
        with pytest.raises(ValueError, match=r"'depth'\).*given \['lr', 'width'\]"):
            pedl.get_hyperparameter("depth")
        with pytest.raises(RuntimeError, match=r"download_data\(experiment_config, hparams\) -> s"):
            pedl.get_download_data_dir()
    with going_on(Run()), pytest.raises(ValueError, match="given none"):
        pedl.get_hyperparameter("lr")


def test_the_latest_run_is_the_current_one_until_it_ends() -> None:
    first, second = Run({"lr": 1}), Run({"lr": 2})
    with going_on(first):
        begin(second)
        assert learning_rate() == 2
        with going_on(first):
            assert learning_rate() == 1
        assert learning_rate() == 2
        end(second)
        assert learning_rate() == 1
        end(second)
        assert learning_rate() == 1


@pytest.mark.usefixtures("spawned_by_fork")
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_processes_know_the_run_in_which_they_were_started(method: Any) -> None:
    context: Any = multiprocessing.get_context(method)
    for lr in (0.1, (1, {"a": 2})):
        with going_on(Run({"lr": lr})):
            queue = context.Queue()
            process = context.Process(target=learning_rate, args=(queue,))
            process.start()
            assert queue.get(timeout=60) == lr
            process.join()


class LearningRates(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Any:
        return pedl.get_hyperparameter("lr"), started


started: list[int] = []


def note_start(worker_id: int) -> None:
    started.append(worker_id)


@pytest.mark.usefixtures("spawned_by_fork")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_workers_of_loaders_know_the_run_of_their_loader(method: str) -> None:
    for lr in (0.1, "another"):
        run = Run({"lr": lr})
        with going_on(run):
            loader = torch.utils.data.DataLoader(
                LearningRates(),
                batch_size=None,
                num_workers=1,
                multiprocessing_context=method,
                worker_init_fn=InWorkers(run, note_start),
            )
            (found,) = loader
            assert list(found) == [lr, [0]]


def test_workers_are_not_told_what_cannot_be_pickled() -> None:
    copy = pickle.loads(pickle.dumps(InWorkers(Run({"lr": lambda: 0}), print)))
    assert (copy._run, copy._then) == (None, print)
    copy(0)


def test_what_cannot_be_told_does_not_disturb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(_run._VARIABLE, raising=False)
    for value in (lambda: 0, "x" * 200_000):
        with going_on(Run({"lr": value})):
            assert learning_rate() is value
            assert _run._VARIABLE not in _run.os.environ


def test_a_change_of_the_run_is_told_to_processes() -> None:
    run = Run({"lr": 1})
    with going_on(run):
        before = _run.os.environ[_run._VARIABLE]
        run.data_dir = "/data"
        tell_processes()
        assert _run.os.environ[_run._VARIABLE] != before
    assert _run._VARIABLE not in _run.os.environ
