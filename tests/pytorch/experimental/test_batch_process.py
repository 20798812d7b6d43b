from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from det_compat import core, pytorch
from det_compat.pytorch import experimental
from det_compat.script.run_paths import RunPaths
from det_compat.script.task import VARIABLE, Task
from tests.core.threads import on_ranks


class Sum(pytorch.MetricReducer):
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.sum = 0

    def update(self, values: torch.Tensor) -> None:
        self.sum += int(values.sum())

    def per_slot_reduce(self) -> int:
        return self.sum

    def cross_slot_reduce(self, per_slot_metrics: list[int]) -> int:
        return sum(per_slot_metrics)


class Numbers(torch.utils.data.Dataset[int]):
    def __len__(self) -> int:
        return 23

    def __getitem__(self, index: int) -> int:
        return index


class Stop(Exception):
    """What the tests end a processing with."""


def processor(
    record: list[Any], stop: Callable[[int], bool] = lambda index: False
) -> type[experimental.TorchBatchProcessor]:
    class Processor(experimental.TorchBatchProcessor):
        def __init__(self, context: experimental.TorchBatchProcessorContext) -> None:
            self.context = context
            self.total = context.wrap_reducer(Sum(), name="total")
            model = context.prepare_model_for_inference(torch.nn.Dropout())
            assert not model.training

        def process_batch(self, batch: Any, batch_idx: int) -> None:
            if stop(batch_idx):
                raise Stop
            self.total.update(self.context.to_device(batch))
            record.append((self.context.get_distributed_rank(), batch_idx, batch.tolist()))
            with self.context.upload_path() as path:
                (path / f"{batch_idx}.json").write_text(json.dumps(batch.tolist()))

        def on_checkpoint_start(self) -> None:
            record.append("checkpoint")

        def on_finish(self) -> None:
            record.append("finish")

    return Processor


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    def task(latest: str | None = None) -> Path:
        config = {"searcher": {"name": "single", "metric": "total"}}
        given = Task(config, {"size": 4}, 0, 1, str(tmp_path / "run"), latest_checkpoint=latest)
        (tmp_path / "run").mkdir(exist_ok=True)
        monkeypatch.setenv(VARIABLE, given.variables()[VARIABLE])
        return tmp_path / "run"

    return task


def latest(run_dir: Path) -> str:
    return RunPaths(run_dir).begun_checkpoints()[-1]


def test_a_dataset_goes_through_once(run_dir: Callable[..., Path]) -> None:
    record: list[Any] = []
    folder = run_dir()
    experimental.torch_batch_process(processor(record), Numbers(), 4, checkpoint_interval=4)
    batches = [one[2] for one in record if isinstance(one, tuple)]
    assert [number for batch in batches for number in batch] == list(range(23))
    assert record[4] == "checkpoint" and record[-2:] == ["checkpoint", "finish"]
    (metrics,) = (json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines())
    assert metrics["metrics"] == {"total": sum(range(23))}
    state = json.loads((folder / "checkpoints" / latest(folder) / "metadata.json").read_text())
    assert state["steps_completed"] == 6
    outputs = folder / "checkpoints" / state["default_output_uuid"] / "rank_0"
    assert sorted(path.name for path in outputs.iterdir()) == [f"{n}.json" for n in range(6)]


def test_it_goes_on_after_the_last_checkpoint(run_dir: Callable[..., Path]) -> None:
    record: list[Any] = []
    folder = run_dir()
    with pytest.raises(Stop):
        broken = processor(record, stop=lambda index: index == 5)
        experimental.torch_batch_process(broken, Numbers(), 4, checkpoint_interval=2)
    run_dir(latest(folder))
    again: list[Any] = []
    experimental.torch_batch_process(processor(again), Numbers(), 4, checkpoint_interval=2)
    assert [one[1] for one in again if isinstance(one, tuple)] == [4, 5]
    state = json.loads((folder / "checkpoints" / latest(folder) / "metadata.json").read_text())
    outputs = folder / "checkpoints" / state["default_output_uuid"] / "rank_0"
    assert sorted(path.name for path in outputs.iterdir()) == [f"{n}.json" for n in range(6)]


def test_it_ends_after_a_checkpoint_when_preempted(
    run_dir: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    record: list[Any] = []
    run_dir()
    answers = iter([False, True])
    monkeypatch.setattr(
        "det_compat.core.tasks.TaskPreemptContext._is_preempted", lambda self: next(answers)
    )
    experimental.torch_batch_process(processor(record), Numbers(), 4, checkpoint_interval=2)
    assert [one[1] for one in record if isinstance(one, tuple)] == [0, 1, 2, 3]
    assert record[-1] == "checkpoint"


def test_ranks_share_the_batches_without_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def run(distributed: Any) -> list[Any]:
        record: list[Any] = []
        experimental.torch_batch_process(
            processor(record), Numbers(), 4, distributed_context=distributed
        )
        return record

    first, second = on_ranks(run)
    assert next(one[1:] for one in first if isinstance(one, tuple)) == (0, [0, 1, 2, 3])
    assert [one[1:] for one in second if isinstance(one, tuple)][-1] == (2, [20, 21, 22])
    both = [one[2] for record in (first, second) for one in record if isinstance(one, tuple)]
    assert sorted(number for batch in both for number in batch) == list(range(23))
    (metrics,) = (tmp_path / "runs").glob("*/metrics.jsonl")
    assert json.loads(metrics.read_text())["metrics"] == {"total": sum(range(23))}


def test_how_many_batches(run_dir: Callable[..., Path]) -> None:
    run_dir()
    record: list[Any] = []
    experimental.torch_batch_process(processor(record), Numbers(), 4, max_batches=2)
    assert [one[1] for one in record if isinstance(one, tuple)] == [0, 1]
    record.clear()
    with pytest.warns(UserWarning, match="exceeds sharded dataset length"):
        experimental.torch_batch_process(
            processor(record), Numbers(), max_batches=9, dataloader_kwargs={"batch_size": 12}
        )
    assert [one[1] for one in record if isinstance(one, tuple)] == [0, 1]


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"checkpoint_interval": 0}, "positive"),
        ({"batch_size": 0}, "batch_size should be a positive integer"),
        ({"dataloader_kwargs": {"shuffle": True}}, "'shuffle' must be false"),
        ({"dataloader_kwargs": {"sampler": []}}, "remove 'sampler'"),
        ({"dataloader_kwargs": {"batch_size": 2}, "batch_size": 2}, "batch_size is passed"),
    ],
)
def test_arguments_that_cannot_be_used(
    run_dir: Callable[..., Path], kwargs: dict[str, Any], text: str
) -> None:
    run_dir()
    with pytest.raises(ValueError, match=text):
        experimental.torch_batch_process(processor([]), Numbers(), **kwargs)


def test_hyperparameters_are_those_of_the_config(
    run_dir: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir()
    with core.init() as context:
        made = experimental.TorchBatchProcessorContext(context, "here")
        assert made.get_hparams() == {"size": 4}
        assert made.get_distributed_size() == 1
        made.report_metrics("test", 1, {"f1": 0.5})
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(AssertionError, match="det-compat fit"):
        made.get_hparams()
