"""Trials whose machine is lost, with the cluster in this process."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray", reason="needs det-compat[search]")

from ray import cloudpickle
from ray.exceptions import ActorDiedError

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
        self.trials: dict[int, set[str]] = {}
        self.machines = SimpleNamespace(remote=self.trials.get)
        self.error = folder / "error.pkl"
        monkeypatch.setattr(losses_module, "ray", self)
        monkeypatch.setattr(losses_module, "time", self)
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now > 10:
            self.alive["two"] = False

    def get(self, value: Any) -> Any:
        return value

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeID": name, "Alive": alive} for name, alive in self.alive.items()]

    def trial(self, index: int, error: Exception, *, machines: set[str] | None = None) -> Any:
        self.trials[index] = machines or set()
        self.error.write_bytes(cloudpickle.dumps(error))
        return SimpleNamespace(
            config={"trial": {"index": index, "bracket": 0}},
            pickled_error_file=str(self.error),
            should_recover=lambda: False,
            max_failures=0,
        )


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    return Cluster(monkeypatch, tmp_path)


def test_only_the_loss_of_a_machine_is_one(cluster: Cluster) -> None:
    losses, own, died = Losses(cluster), RuntimeError("its own"), ActorDiedError()
    assert not losses.is_lost(cluster.trial(0, own, machines={"two"}))
    assert cluster.now == 0, "it has waited for nothing"
    assert not losses.is_lost(cluster.trial(0, died, machines={"one"}))
    assert cluster.now > 20, "it was not known yet"
    assert losses.is_lost(cluster.trial(0, died, machines={"one", "two"}))


def test_it_becomes_known(cluster: Cluster) -> None:
    losses = Losses(cluster)
    assert losses.is_lost(cluster.trial(0, ActorDiedError(), machines={"two"}))
    # One that was on its way to a machine is lost with what was lost of late, and not before.
    assert losses.is_lost(cluster.trial(1, ActorDiedError()))
    cluster.now += 1000
    assert not losses.is_lost(cluster.trial(1, ActorDiedError()))


def test_a_loss_is_no_restart(cluster: Cluster) -> None:
    losses, trial = Losses(cluster), cluster.trial(0, ActorDiedError(), machines={"two"})
    losses.on_trial_recover(0, [trial], trial)
    assert trial.max_failures == 1
    trial = cluster.trial(0, RuntimeError("its own"), machines={"one"})
    losses.on_trial_recover(0, [trial], trial)
    assert trial.max_failures == 0


def test_a_trial_that_tune_gives_up_starts_again(cluster: Cluster, tmp_path: Path) -> None:
    config = {
        "searcher": {
            "name": "random",
            "metric": "loss",
            "max_trials": 2,
            "max_length": {"batches": 4},
        },
        "hyperparameters": {"lr": {"type": "double", "minval": 0, "maxval": 1}},
    }
    plan, folder = plan_search(parse_config(config), 0), SearchFolder(tmp_path / "search")
    losses, places = Losses(cluster), 1
    suggestions = Suggestions(plan, folder, losses, lambda: places)
    scheduler = BracketScheduler(plan, folder, losses)
    first = suggestions.suggest("a")
    assert suggestions.suggest("b") is None, "there is a place for one"
    scheduler.on_trial_error(None, cluster.trial(0, ActorDiedError(), machines={"two"}))
    suggestions.on_trial_complete("a", error=True)
    assert folder.trial(0).status is Status.UNFINISHED
    places = 2
    assert suggestions.suggest("c") == first
    assert suggestions.suggest("d")["trial"]["index"] == 1
    own = cluster.trial(0, RuntimeError(), machines={"one"})
    own.should_recover = lambda: True
    scheduler.on_trial_error(None, own)  # Tune starts it again itself.
    scheduler.on_trial_error(None, cluster.trial(0, RuntimeError(), machines={"one"}))
    suggestions.on_trial_complete("c", error=True)
    assert folder.trial(0).status is Status.ERROR
