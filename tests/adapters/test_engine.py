from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from det_compat import pytorch
from det_compat.adapters import engine as lightning_engine
from det_compat.pytorch import Batch, Epoch
from det_compat.pytorch.context.steering import Steering
from det_compat.pytorch.engine import engine
from det_compat.script.run_paths import METRICS
from det_compat.script.task import Task
from tests.adapters.trials import Linear, built


def task(tmp_path: Path, **given: Any) -> Task:
    return Task(
        config={},
        hparams={"global_batch_size": 2},
        trial_seed=1,
        slots=1,
        run_dir=str(tmp_path),
        **given,
    )


def test_the_api_finds_it() -> None:
    assert engine() is lightning_engine


def test_rungs_are_added_to_the_period_of_the_script(tmp_path: Path) -> None:
    with pytorch.init() as context:
        Steering(context).set_epoch_length(5)
        searched = task(tmp_path, validate_at=[{"batches": 3}, {"epochs": 2}, {"records": 14}])
        period = engine().validation_period(searched, Epoch(3), context)
    assert isinstance(period, Batch)
    assert [batch for batch in range(1, 20) if period.should_stop(batch)] == [3, 7, 10, 15]


def test_reports_are_kept_in_the_run(tmp_path: Path) -> None:
    train = engine().train_context(task(tmp_path), tmp_path)
    assert train.get_tensorboard_path() == tmp_path
    train.report_training_metrics(5, {"loss": 2.0})
    train.report_validation_metrics(10, {"error": 1.0})
    lines = [*map(json.loads, (tmp_path / METRICS).read_text().splitlines())]
    assert all(line.pop("time") > 0 for line in lines)
    assert lines == [
        {"group": "training", "steps_completed": 5, "metrics": {"loss": 2.0}},
        {"group": "validation", "steps_completed": 10, "metrics": {"error": 1.0}},
    ]


def test_the_checkpoints_are_those_of_the_run(tmp_path: Path) -> None:
    checkpoints = engine().checkpoints(task(tmp_path))
    with checkpoints.store_path({"steps_completed": 1}) as (path, _):
        assert path.is_relative_to(tmp_path)


def test_a_search_hears_of_validations_and_of_their_checkpoint(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        searched = task(tmp_path, search=listening.getsockname()[1])
        train: Any = engine().train_context(searched, tmp_path)
        checkpoints = engine().checkpoints(searched)
        with checkpoints.store_path({"steps_completed": 4}) as (path, uuid):
            pass
        context = built(Linear).context
        context._core.train, context._core.checkpoint = train, checkpoints
        tell = lightning_engine._tell_search(context)
        assert tell is not None
        connection, _ = listening.accept()
        with connection, connection.makefile("rw", encoding="utf-8") as search:
            search.write("go on\n")
            search.flush()
            tell(4, {"loss": np.array([0.5])}, checkpoints.location(uuid))
            heard = json.loads(search.readline())
        train._line._file.close()
    assert heard == {"batches": 4, "metrics": {"loss": 0.5}, "checkpoint": str(path)}


def test_nobody_hears_where_there_is_no_search() -> None:
    assert lightning_engine._tell_search(built(Linear).context) is None


def test_a_trial_of_today_is_built_as_it_is() -> None:
    trial, is_older = engine().build_without_data(Linear, built(Linear).context, {})
    assert (type(trial), is_older) == (Linear, False)


def test_what_is_no_trial_class() -> None:
    with pytest.raises(TypeError, match="int is no PyTorchTrial"):
        engine().build_without_data(int, built(Linear).context, {})
