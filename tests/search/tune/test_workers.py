"""Trials of two slots: Ray Train's workers on a Ray of this machine."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from det_compat.config.experiment import parse_config, read_config
from det_compat.search.records import Report, SearchFolder, Status
from det_compat.search.searchers.plan import plan_search, trial_config
from tests.preloaded import python
from tests.search.objectives import read_json

pytest.importorskip("ray", reason="needs det-compat[search]")

from det_compat.search import run
from det_compat.search.tune.attempt import Attempt, TrialTask

pytestmark = [
    pytest.mark.usefixtures("local_ray"),
    pytest.mark.xdist_group("ray"),
    pytest.mark.filterwarnings("ignore"),
]

MODEL_DEF = """
import json
import torch
from determined.pytorch import DataLoader, PyTorchTrial

class Trial(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.seen = []
        self.model = context.wrap_model(torch.nn.Linear(1, 1))
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))

    def build_training_data_loader(self):
        data = torch.utils.data.TensorDataset(torch.arange(8.0).reshape(8, 1) / 8)
        return DataLoader(data, batch_size=self.context.get_per_slot_batch_size())

    build_validation_data_loader = build_training_data_loader

    def train_batch(self, batch, epoch_idx, batch_idx):
        self.seen += batch[0].flatten().tolist()
        loss = (self.model(batch[0]) - 1).square().mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        if batch_idx == 7:
            weights = [p.item() for p in self.model.parameters()]
            name = f"rank_{self.context.distributed.get_rank()}.json"
            with open(name, "w") as file:
                json.dump({"seen": self.seen, "weights": weights}, file)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"error": (self.model(batch[0]) - 1).square().mean()}
"""

CONFIG: dict[str, Any] = {
    "name": "two",
    "entrypoint": "model_def:Trial",
    "hyperparameters": {"global_batch_size": 4},
    "searcher": {"name": "single", "metric": "error", "max_length": {"batches": 8}},
    "min_validation_period": {"batches": 4},
    "reproducibility": {"experiment_seed": 3},
    "resources": {"slots_per_trial": 2},
    "max_restarts": 0,
}


def ranks(folder: Path) -> list[Any]:
    return [json.loads((folder / f"rank_{rank}.json").read_text()) for rank in (0, 1)]


def test_as_fit_trains_on_two_devices(tmp_path: Path) -> None:
    (tmp_path / "model_def.py").write_text(MODEL_DEF)
    run(CONFIG, tmp_path, run_dir=tmp_path / "run")
    found = read_json(tmp_path / "run")[0]
    assert (found["status"], found["batches"]) == ("completed", 8)
    in_search = ranks(tmp_path)
    # each half of the data on one of them, and one model
    halves = [set(rank["seen"]) for rank in in_search]
    assert sorted([*halves[0], *halves[1]]) == [n / 8 for n in range(8)]
    assert in_search[0]["weights"] == in_search[1]["weights"]

    record = SearchFolder(tmp_path / "run").trial(0)
    assert [report.batches for report in record.reports()] == [4, 8]
    seed = read_config(record.folder / "config.yaml").seed
    assert seed is not None
    single = trial_config(CONFIG, {"global_batch_size": 4}, seed)
    (tmp_path / "fit.yaml").write_text(yaml.safe_dump(single))
    options = ("--run_dir", "fitted", "--trainer.devices", "2", "--trainer.strategy", "ddp")
    fitted = python("-m", "det_compat", "fit", "fit.yaml", *options, cwd=tmp_path)
    assert fitted.returncode == 0, fitted.stderr
    assert ranks(tmp_path) == in_search


def two_ranks(
    config: dict[str, Any],
    run_dir: Path,
    report: Any,
    resume_from: str | None,
    *,
    model_dir: Path,
    validate_at: Any,
) -> None:
    """Reports at each rung; rank 1 meets the fate that ``model_dir`` names."""
    import os
    import time

    import torch.distributed as dist

    from det_compat import InvalidHP

    begun = run_dir / "begun"
    if dist.get_rank() == 0:
        begun.touch()
    while not begun.exists():
        time.sleep(0.1)
    if dist.get_rank() == 0:
        for length in validate_at:
            report(length.value, {"error": 1.0}, None)
    elif model_dir.name == "dies":
        os._exit(9)
    elif model_dir.name == "invalid":
        raise InvalidHP("no good on rank 1")
    while model_dir.name != "trains":
        time.sleep(0.1)


def attempt(tmp_path: Path, fate: str) -> Attempt:
    searcher = {"name": "async_halving", "max_trials": 2, "num_rungs": 2}
    config = parse_config({**CONFIG, "searcher": {**CONFIG["searcher"], **searcher}})
    folder = SearchFolder(tmp_path)
    folder.trial(0).begin(0, 0, {})
    name = "tests.search.tune.test_workers:two_ranks"
    task = TrialTask(plan_search(config, 0), config.raw, folder, tmp_path / fate, name)
    return Attempt(task, 0, 0, {"global_batch_size": 4}, None)


def train(one: Attempt, tell: Any) -> None:
    from det_compat.search.tune.workers import train_on_workers

    # Ray Train replaces the handler of SIGINT in the main thread
    with ThreadPoolExecutor(1) as pool:
        pool.submit(train_on_workers, one, tell).result()


@pytest.mark.thorough
def test_a_trial_that_is_stopped_ends_at_its_rung(tmp_path: Path) -> None:
    one, told = attempt(tmp_path, "stopped"), []

    def tell(report: Report) -> None:
        told.append(report.batches)
        one.record.finish(Status.STOPPED)

    with pytest.raises(Exception, match="the search has stopped the trial"):
        train(one, tell)
    assert told == [report.batches for report in one.record.reports()] == [2]
    assert one.record.status is Status.STOPPED


@pytest.mark.parametrize(
    ("fate", "status", "reason"),
    [
        ("dies", Status.UNFINISHED, "the trial's process died"),
        pytest.param("invalid", Status.INVALID_HP, "no good on rank 1", marks=pytest.mark.thorough),
    ],
)
def test_one_worker_ends_the_others(fate: str, status: Status, reason: str, tmp_path: Path) -> None:
    one = attempt(tmp_path, fate)
    with pytest.raises(Exception, match=r"rank 1|died|worker"):
        train(one, lambda report: None)
    assert one.record.status is status
    assert reason in (one.record.reason or one.record.last_error())
