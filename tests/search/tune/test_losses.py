"""Trials whose machine is lost, with the cluster in this process."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray", reason="needs det-compat[search]")

from ray import cloudpickle
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayTaskError
from ray.tune.experiment import Trial

from det_compat.config.experiment import parse_config
from det_compat.search.records import SearchFolder, Status
from det_compat.search.searchers.plan import plan_search
from det_compat.search.tune import losses as losses_module
from det_compat.search.tune.losses import Losses
from det_compat.search.tune.scheduler import BracketScheduler
from det_compat.search.tune.suggestions import Suggestions

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


class Cluster:
    """Machines, by name, that are there or are lost, and where trials are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.alive = {"early": False, "one": True, "two": True}
        self.answering = {"one", "two"}
        self.trials: dict[int, list[str]] = {}
        self.leave = SimpleNamespace(remote=self.trials.pop)
        self.are_anywhere = SimpleNamespace(
            remote=lambda indices: any(self.trials.get(it) for it in indices)
        )
        self.error = folder / "error.pkl"
        monkeypatch.setattr(losses_module, "ray", self)
        monkeypatch.setattr(losses_module, "time", self)
        monkeypatch.setattr(losses_module, "_answers", lambda it: it["NodeID"] in self.answering)
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now > 10:
            self.alive.update(dict.fromkeys(self.alive.keys() - self.answering, False))

    def get(self, value: Any, timeout: float = 0) -> Any:
        return value

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeID": name, "Alive": alive} for name, alive in self.alive.items()]

    def trial(self, error: Exception, *machines: str, recovers: bool = False) -> Any:
        """Trial 0 of Tune, whose processes on these machines have ended with an error."""
        self.trials[0] = list(machines)
        self.error.write_bytes(cloudpickle.dumps(error))
        return SimpleNamespace(
            config={"trial": {"index": 0, "bracket": 0}},
            status=Trial.RUNNING,
            pickled_error_file=str(self.error),
            should_recover=lambda: recovers,
            max_failures=0,
        )


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    return Cluster(monkeypatch, tmp_path)


def begun(cluster: Cluster, processes: int = 1) -> Losses:
    losses = Losses(cluster, processes)
    losses.on_trial_start(0, [], cluster.trial(_OWN))
    return losses


_CONFIG: dict[str, Any] = {
    "searcher": {
        "name": "random",
        "metric": "loss",
        "max_trials": 2,
        "max_length": {"batches": 4},
    },
    "hyperparameters": {"lr": {"type": "double", "minval": 0, "maxval": 1}},
}
_OWN = RayTaskError("step", "a traceback", RuntimeError("its own"))


def test_only_the_loss_of_a_machine_is_one(cluster: Cluster) -> None:
    assert begun(cluster).has_failed(cluster.trial(_OWN, "two"))
    assert cluster.now == 0, "it has waited for nothing"
    assert begun(cluster).has_failed(cluster.trial(ActorDiedError(), "two"))
    assert cluster.now < 5, "all machines answer"
    losses = begun(cluster)
    cluster.answering.remove("two")
    assert losses.has_failed(cluster.trial(ActorDiedError(), "one"))
    assert cluster.now > 10, "it was not known before"
    assert begun(cluster).has_failed(cluster.trial(ActorDiedError(), "two")), "it was lost before"


@pytest.mark.parametrize(
    ("error", "machines", "processes"),
    [
        (ActorDiedError(), ["two"], 1),
        (ActorDiedError(), [], 1),
        # What another one of its processes has to say is heard first.
        (_OWN, ["one", "two"], 2),
        (_OWN, ["one"], 2),
        (RayTaskError("step", "a traceback", ActorUnavailableError("", None)), ["two"], 1),
    ],
)
def test_it_becomes_known(
    cluster: Cluster, error: Exception, machines: list[str], processes: int
) -> None:
    losses = begun(cluster, processes)
    cluster.answering.remove("two")
    assert not losses.has_failed(cluster.trial(error, *machines))
    assert losses.take(0)
    assert not losses.take(0), "it starts once"


def test_a_loss_is_no_restart(cluster: Cluster) -> None:
    losses, trial = begun(cluster), cluster.trial(ActorDiedError(), "two")
    cluster.answering.remove("two")
    trial.status = Trial.ERROR  # Tune has put it into its queue.
    assert not losses.has_failed(trial)
    assert not losses.take(0)
    losses.on_trial_recover(0, [trial], trial)
    assert trial.max_failures == 1
    losses.on_trial_start(0, [trial], trial)
    own = cluster.trial(_OWN, "one")
    losses.on_trial_recover(0, [own], own)
    assert own.max_failures == 0


@pytest.mark.parametrize("machines", [False, True])
def test_a_process_that_is_lost_before_the_trial_begins(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], machines: bool
) -> None:
    losses = Losses(cluster if machines else None)
    # Tune tells two times of an actor that gets ready for another trial.
    trial = cluster.trial(ActorDiedError(), recovers=True)
    losses.on_trial_recover(0, [trial], trial)
    assert trial.max_failures == 1
    assert not losses.has_failed(trial)
    assert losses.take(0)
    for _ in range(3):
        assert not losses.has_failed(cluster.trial(ActorDiedError()))
        assert losses.take(0)
    assert not losses.has_failed(cluster.trial(ActorDiedError()))
    assert not losses.take(0)
    (why,) = losses.given_up.values()
    assert why.startswith("its process was lost 5 times before it began: ")
    assert f"trial 0 stays unfinished: {why}" in capsys.readouterr().out
    init = RayTaskError("__init__", "a traceback", ValueError("no storage"))
    assert Losses(cluster).has_failed(cluster.trial(ActorDiedError(init)))


def test_a_full_disk_is_told_with_its_place(cluster: Cluster) -> None:
    said = (
        "ray::TrialActor.step() (pid=7, ip=10.0.0.2)\nOSError: [Errno 28] No space left on device\n"
        "The above exception was the direct cause of the following exception:\n"
        "OSError: [Errno 28] cannot write: No space left on device: '/tmp/one'\n"
    )
    losses = begun(cluster)
    assert not losses.has_failed(cluster.trial(RayTaskError("step", said, OSError()), "one"))
    why = "OSError: [Errno 28] cannot write: No space left on device: '/tmp/one' on 10.0.0.2"
    assert losses.given_up == {0: f"it had no room to write: {why}"}


def test_it_says_what_it_waits_for(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    looks = [(1, True), (0, True), (0, True), (2, True), (0, True)]
    # As where others have the room of the cluster; then a trial begins.
    looks += [(2, False)] * 6 + [(2, True)] + [(2, False)] * 6
    losses = Losses(cluster, places=lambda: looks[0][0])
    trial = cluster.trial(_OWN)
    said = ""
    while looks:
        cluster.now += 11
        cluster.trials[0] = ["one"] if looks[0][1] else []
        losses.on_step_end(0, [trial])
        losses.on_step_end(0, [trial])
        out = capsys.readouterr().out
        said += "m" if "no machine" in out else "p" if "no process" in out else "-"
        looks.pop(0)
    assert said == "-m--m----p------p-"


def test_a_trial_that_tune_gives_up_starts_again(cluster: Cluster, tmp_path: Path) -> None:
    plan, folder = plan_search(parse_config(_CONFIG), 0), SearchFolder(tmp_path / "search")
    losses, places = Losses(cluster), 1
    suggestions = Suggestions(plan, folder, losses, lambda: places)
    scheduler = BracketScheduler(plan, folder, losses)
    first = suggestions.suggest("a")
    assert suggestions.suggest("b") is None, "there is a place for one"
    scheduler.on_trial_error(None, cluster.trial(ActorDiedError()))
    suggestions.on_trial_complete("a", error=True)
    assert folder.trial(0).status is Status.UNFINISHED
    places = 2
    assert suggestions.suggest("c") == first
    assert suggestions.suggest("d")["trial"]["index"] == 1
    losses.on_trial_start(0, [], cluster.trial(_OWN))
    scheduler.on_trial_error(None, cluster.trial(_OWN, "one"))
    suggestions.on_trial_complete("c", error=True)
    assert folder.trial(0).status is Status.ERROR
    assert folder.trial(0).reason == "a traceback"


def test_one_that_cannot_start_stays_unfinished(cluster: Cluster, tmp_path: Path) -> None:
    plan, folder = plan_search(parse_config(_CONFIG), 0), SearchFolder(tmp_path / "search")
    losses = Losses(None)
    suggestions = Suggestions(plan, folder, losses)
    scheduler = BracketScheduler(plan, folder, losses)
    for _ in range(5):
        assert suggestions.suggest("a")["trial"]["index"] == 0
        scheduler.on_trial_error(None, cluster.trial(ActorDiedError()))
        suggestions.on_trial_complete("a", error=True)
    assert folder.trial(0).status is Status.UNFINISHED
    assert suggestions.suggest("b")["trial"]["index"] == 1
    suggestions.on_trial_complete("b")
    assert suggestions.suggest("c") == Suggestions.FINISHED
