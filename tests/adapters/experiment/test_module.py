"""``ExperimentRun``: a config's schedule, checkpoints, seed and options, on Lightning."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
import yaml

from det_compat.adapters.experiment.module import ExperimentRun, imported_trial
from det_compat.adapters.experiment.options import with_changes
from det_compat.adapters.experiment.report import ExperimentReport
from det_compat.adapters.experiment.trainer import trainer_flags
from det_compat.checkpoint.reader import read_checkpoint
from det_compat.config import ConfigError, parse_config, read_config
from det_compat.config.experiment import ExperimentConfig
from det_compat.experiment.errors import FitError
from det_compat.experiment.run_folder import RunFolder
from det_compat.experiment.run_start import begin_in
from tests.config import schedules
from tests.experiment.projects import CONFIG, EPOCH, project, recorded
from tests.fresh_python import ROOT
from tests.preloaded import python
from tests.without_determined import without_determined

QUIET: dict[str, Any] = {"enable_progress_bar": False, "logger": False}


@pytest.fixture(autouse=True)
def _fresh_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "model_def", raising=False)
    with without_determined():
        yield


def run_experiment(
    config: ExperimentConfig,
    run_dir: Path,
    *,
    model_dir: Path | None = None,
    resume: bool = False,
    **flags: Any,
) -> ExperimentReport:
    """Train the trial class of a config, with ``flags`` in place of what the config says."""
    start = begin_in(RunFolder(run_dir), config, resume=resume)
    home = Path(model_dir or Path(config.file or ".").parent)
    trial_cls, functions = imported_trial(config, home)
    run = ExperimentRun(config, trial_cls, home, start, functions)
    report = ExperimentReport(run)
    trainer = pl.Trainer(**{**trainer_flags(config), **flags}, callbacks=[report])
    trainer.fit(run.module)
    return report


def _searcher(**keys: Any) -> dict[str, Any]:
    return {"name": "single", "metric": "validation_loss", **keys}


SCHEDULES: list[dict[str, Any]] = [
    {"searcher": _searcher(max_length={"epochs": 3})},
    {"searcher": _searcher(max_length={"batches": 25}), "min_validation_period": {"epochs": 1}},
    {
        "searcher": _searcher(max_length={"records": 99}),
        "min_validation_period": {"records": 12},
        "min_checkpoint_period": {"epochs": 1},
        "checkpoint_policy": "none",
    },
    {
        "searcher": _searcher(max_steps=4),
        "batches_per_step": 6,
        "min_validation_period": 2,
        "min_checkpoint_period": 3,
        "checkpoint_policy": "all",
        "perform_initial_validation": True,
    },
    {
        "searcher": _searcher(max_time=2, time_metric="epochs"),
        "min_validation_period": {"batches": 0},
        "min_checkpoint_period": {"batches": 7},
        "scheduling_unit": 4,
        "checkpoint_policy": "none",
    },
]


@pytest.mark.parametrize("keys", SCHEDULES)
def test_the_schedule_of_the_config(keys: dict[str, Any], tmp_path: Path) -> None:
    keys = {"checkpoint_policy": "all", **keys}
    config = read_config(project(tmp_path, **keys))
    result = run_experiment(config, tmp_path / "run", **QUIET)
    plan = schedules.resolved(config, EPOCH)
    seen = recorded(tmp_path)
    assert seen["validation"] == schedules.validations(plan)
    assert seen["checkpoint"] == schedules.checkpoints(plan)
    assert result.run.module.run.state.batches_trained == plan.total_batches
    assert [batches for batches, _ in result.run.validations] == seen["validation"]


def test_as_determined_trains(tmp_path: Path) -> None:
    """The same weights as a script that seeds as a cluster did and calls pytorch.Trainer."""
    folder = tmp_path / "p"
    config = read_config(project(folder))
    result = run_experiment(config, tmp_path / "run", **QUIET)
    script = folder / "script.py"
    script.write_text(
        "import random, numpy, torch, json\n"
        "import determined as det\n"
        "from determined import pytorch\n"
        "import model_def\n"
        "for seed in (random.seed, numpy.random.seed, torch.random.manual_seed): seed(7)\n"
        "hparams = {'global_batch_size': 4, 'lr': 0.1}\n"
        "with pytorch.init(hparams=hparams) as context:\n"
        "    trial = model_def.Trial(context)\n"
        "    pytorch.Trainer(trial, context).fit(max_length=pytorch.Epoch(2))\n"
        "print(json.dumps({k: v.tolist() for k, v in trial.model.state_dict().items()}))\n"
    )
    done = python("script.py", cwd=folder, side="determined")
    assert done.returncode == 0, done.stderr
    wanted = json.loads(done.stdout.splitlines()[-1])
    latest = result.run.latest_checkpoint()
    assert latest is not None
    (state,) = read_checkpoint(Path(latest)).state["models_state_dict"]
    assert {name: tensor.tolist() for name, tensor in state.items()} == wanted


def test_retention_and_results(tmp_path: Path) -> None:
    storage = {"save_trial_best": 1, "save_trial_latest": 1}
    config = read_config(
        project(tmp_path, checkpoint_storage=storage, min_validation_period={"batches": 5})
    )
    result = run_experiment(config, tmp_path / "run", **QUIET)
    kept = [path for path in (tmp_path / "run/checkpoints").iterdir() if path.is_dir()]
    assert 1 <= len(kept) <= 2
    best = result.best()
    assert best is not None
    values = [float(metrics["validation_loss"]) for _, metrics in result.run.validations]
    assert best[1]["validation_loss"] == min(values)
    speed = result.records_per_second()
    assert speed is not None and speed > 0


def test_flags_go_before_the_config(tmp_path: Path) -> None:
    config = read_config(project(tmp_path, checkpoint_policy="all"))
    run_experiment(config, tmp_path / "run", max_steps=7, val_check_interval=3, **QUIET)
    assert recorded(tmp_path)["validation"] == [3, 6, 7]
    (tmp_path / "record.txt").unlink()
    run_experiment(config, tmp_path / "run2", max_epochs=3, check_val_every_n_epoch=1, **QUIET)
    assert recorded(tmp_path)["validation"] == [10, 20, 30]


def test_resume(tmp_path: Path) -> None:
    # a validation draws from the random state
    config = read_config(project(tmp_path, min_validation_period={"batches": 7}))
    whole = run_experiment(config, tmp_path / "whole", **QUIET)
    run_experiment(config, tmp_path / "run", max_steps=7, **QUIET)
    with pytest.raises(FitError, match="nothing to resume"):
        run_experiment(config, tmp_path / "other", resume=True, **QUIET)
    resumed = run_experiment(config, tmp_path / "run", resume=True, **QUIET)
    batches = [one.run.module.run.state.batches_trained for one in (whole, resumed)]
    assert batches == [20, 20]
    latest = [one.run.latest_checkpoint() or "" for one in (whole, resumed)]
    assert all(latest)
    for one, other in zip(
        read_checkpoint(Path(latest[0])).state["models_state_dict"][0].values(),
        read_checkpoint(Path(latest[1])).state["models_state_dict"][0].values(),
        strict=True,
    ):
        assert torch.equal(one, other)


def test_a_run_without_a_seed_draws_one_and_keeps_it(tmp_path: Path) -> None:
    config = read_config(project(tmp_path, reproducibility={}))
    run_experiment(config, tmp_path / "run", max_steps=2, **QUIET)
    seed = json.loads((tmp_path / "run/det_compat_run.json").read_text())["seed"]
    result = run_experiment(config, tmp_path / "run", resume=True, **QUIET)
    latest = result.run.latest_checkpoint()
    assert latest is not None
    data = json.loads((Path(latest) / "load_data.json").read_text())
    assert data["experiment_config"]["reproducibility"]["experiment_seed"] == seed


def test_a_metric_that_the_trial_does_not_report(tmp_path: Path) -> None:
    searcher = _searcher(metric="acc", max_length={"batches": 1})
    config = read_config(project(tmp_path, searcher=searcher))
    with pytest.raises(FitError, match=r"metrics are validation_loss: set searcher\.metric"):
        run_experiment(config, tmp_path / "run", model_dir=tmp_path, **QUIET)


@pytest.mark.parametrize(
    ("entrypoint", "error", "message"),
    [
        ("nothere:Trial", FitError, "there is no module nothere in"),
        ("model_def:Nothing", FitError, "model_def has no Nothing"),
        ("model_def:json", FitError, "entrypoint model_def:json: expected a PyTorchTrial class"),
        ("broken:Trial", ZeroDivisionError, "division by zero"),
        ("needs:Trial", ModuleNotFoundError, "no_such_library"),
    ],
)
def test_entrypoints_that_cannot_be_imported(
    entrypoint: str, error: type[Exception], message: str, tmp_path: Path
) -> None:
    config = read_config(project(tmp_path, entrypoint=entrypoint))
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "needs.py").write_text("import no_such_library")
    with pytest.raises(error, match=message):
        run_experiment(config, tmp_path / "run", **QUIET)


@pytest.mark.parametrize("has_entry", [True, False])
def test_a_trial_with_loaders_of_its_own_is_given_no_functions_of_pedl(
    has_entry: bool, tmp_path: Path
) -> None:
    conf = yaml.safe_load(project(tmp_path).read_text())
    trial = conf.pop("entrypoint")
    if has_entry:
        load = f"from {trial.replace(':', ' import ')}\ndef make_data_loaders(conf, hparams): ...\n"
        (tmp_path / "__init__.py").write_text(load)
    else:
        functions = {"data_loaders_function": "data:make_data_loaders"}
        conf["entrypoints"] = {"trial_class": trial, **functions}
    _, found = imported_trial(parse_config(conf), tmp_path)
    assert not any(found)


def test_changes_to_a_config() -> None:
    config = parse_config(CONFIG)
    assert with_changes(config, hparams={"global_batch_size": 4, "lr": 0.1}) is config
    hparams = {"global_batch_size": 8, "nested": {"a": [1]}, "empty": {}}
    changed = with_changes(config, hparams=hparams, aggregation_frequency=2, seed=9)
    assert changed.hyperparameters.constants() == hparams
    assert changed.global_batch_size == 8
    assert (changed.optimizations.aggregation_frequency, changed.seed) == (2, 9)
    with pytest.raises(ConfigError):
        with_changes(config, aggregation_frequency=0)


@pytest.mark.skipif(
    not (ROOT.parent / "shared/experiment-configs").is_dir(),
    reason="../shared/experiment-configs is not there",
)
@pytest.mark.parametrize(
    "name", ["0.12-cifar10-const", "0.12-cifar10-distributed", "0.17-gan-distributed"]
)
def test_public_configs(name: str, tmp_path: Path) -> None:
    project(tmp_path)
    config = read_config(ROOT.parent / f"shared/experiment-configs/{name}.yaml")
    trial = with_changes(config, trial_cls="model_def:Trial", hparams={"global_batch_size": 4})
    flags = {"devices": 1, "strategy": "auto", "max_steps": 3, "accelerator": "cpu"}
    metric = config.searcher.metric
    source = (tmp_path / "model_def.py").read_text().replace("validation_loss", str(metric))
    (tmp_path / "model_def.py").write_text(source)
    result = run_experiment(trial, tmp_path / "run", model_dir=tmp_path, **flags, **QUIET)
    assert result.run.module.run.state.batches_trained == 3
    best = result.best()
    assert best is not None
