"""``DetCallback`` with a tiny model of transformers, made by configuration."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from det_compat import core
from det_compat.script.run_paths import RunPaths
from det_compat.script.task import VARIABLE, Task

transformers: Any = pytest.importorskip("transformers", reason="needs the extra transformers")
pytest.importorskip("accelerate", reason="needs the extra transformers")

# Warnings of the versions of transformers that there are.
pytestmark = pytest.mark.filterwarnings("ignore")


class Data(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input_ids": torch.full((4,), index), "labels": index % 2}


class Dies(transformers.TrainerCallback):
    """Raises after a step, as a crash would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.step:
            raise InterruptedError


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)

    def train(
        length: Any = None,
        latest: str | None = None,
        dies_at: int | None = None,
        on_task: bool = True,
        trial_id: int = 0,
        evaluates_first: bool = False,
        **kwargs: Any,
    ) -> Any:
        if on_task:
            searcher = {"name": "single", "metric": "eval_loss", "max_length": length}
            task = Task({"searcher": searcher}, {}, 0, 1, str(tmp_path / "run"), latest)
            task = replace(task, trial_id=trial_id)
            (tmp_path / "run").mkdir(exist_ok=True)
            monkeypatch.setenv(VARIABLE, task.variables()[VARIABLE])
        from det_compat.transformers import DetCallback

        args = transformers.TrainingArguments(
            output_dir=str(tmp_path / f"out-{latest}-{dies_at}"),
            max_steps=8,
            per_device_train_batch_size=4,
            eval_strategy="steps",
            eval_steps=4,
            save_steps=2,
            logging_steps=2,
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        )
        torch.manual_seed(0)
        config = transformers.BertConfig(
            vocab_size=16, hidden_size=4, num_hidden_layers=1, num_attention_heads=1,
            intermediate_size=4, max_position_embeddings=8,
        )  # fmt: skip
        model = transformers.BertForSequenceClassification(config)
        with core.init() as context:
            callbacks = [DetCallback(context, args, **kwargs)]
            callbacks += [Dies(dies_at)] if dies_at else []
            trainer = transformers.Trainer(
                model, args, train_dataset=Data(), eval_dataset=Data(), callbacks=callbacks
            )
            if evaluates_first:
                trainer.evaluate()
            trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
        return model.state_dict()

    return train


def reports(tmp_path: Path) -> list[tuple[str, int, list[str]]]:
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    read = [json.loads(line) for line in lines]
    return [(one["group"], one["steps_completed"], sorted(one["metrics"])) for one in read]


def test_metrics_and_checkpoints_arrive(train: Callable[..., Any], tmp_path: Path) -> None:
    train({"batches": 8}, user_data={"mine": 1})
    found = reports(tmp_path)
    assert [(group, steps) for group, steps, _ in found] == [
        *[("training", 2), ("training", 4), ("validation", 4)],
        *[("training", 6), ("training", 8), ("validation", 8)],
    ]
    assert all({"batches", "epochs"} <= set(names) for _, _, names in found)
    assert all("runtime" not in name for _, _, names in found for name in names)
    (kept,) = {RunPaths(tmp_path / "run").begun_checkpoints()[-1]}
    folder = tmp_path / "run" / "checkpoints" / kept
    assert json.loads((folder / "metadata.json").read_text())["steps_completed"] == 8
    assert json.loads((folder / "checkpoint-8" / "my_data.json").read_text()) == {"mine": 1}


def test_a_run_that_died_goes_on_to_the_same_weights(
    train: Callable[..., Any], tmp_path: Path
) -> None:
    whole = train()
    with pytest.raises(InterruptedError):
        train(dies_at=5)
    latest = RunPaths(tmp_path / "run").begun_checkpoints()[-1]
    (tmp_path / f"out-{latest}-None" / "checkpoint-7").mkdir(parents=True)  # of another run
    resumed = train(latest=latest)
    assert reports(tmp_path)[-1][1] == 8
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_a_model_may_be_evaluated_before_it_is_trained(
    train: Callable[..., Any], tmp_path: Path
) -> None:
    train(evaluates_first=True)
    assert reports(tmp_path)[0][:2] == ("validation", 0)


def test_trials_of_a_search_write_apart(train: Callable[..., Any], tmp_path: Path) -> None:
    train(trial_id=3)
    assert {file.name for file in tmp_path.glob("out-*/*")} == {"trial-3"}


def test_it_works_without_a_config(train: Callable[..., Any], tmp_path: Path) -> None:
    train(on_task=False, filter_metrics=["loss"])
    (metrics,) = (tmp_path / "runs").glob("*/metrics.jsonl")
    names = {
        name for line in metrics.read_text().splitlines() for name in json.loads(line)["metrics"]
    }
    assert {"loss", "eval_loss", "batches", "epochs"} <= names and "grad_norm" not in names


@pytest.mark.parametrize("length", [8, {"batches": 9}, {"epochs": 8}])
def test_lengths_that_differ_are_refused(train: Callable[..., Any], length: Any) -> None:
    with pytest.raises(ValueError, match=r"searcher\.max_length"):
        train(length)
