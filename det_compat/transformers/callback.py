"""``DetCallback``: a ``transformers.Trainer`` on the context of a task."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from det_compat import core, info
from det_compat.shared.extras import how_to_install

try:
    import transformers
    from transformers import TrainerCallback, trainer_utils
except ImportError:
    # Whoever imports DetCallback need not use it.
    TrainerCallback = object

logger = logging.getLogger("det.transformers")

_EVAL, _TEST, _TRAIN = "eval_", "test_", "train_"
_SPEEDS = ("_runtime", "_per_second", "_compilation_time")


class DetCallback(TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Reports metrics, keeps checkpoints, goes on from the last one, and ends when preempted.

    As in Determined 0.38.1, where it worked on a cluster only. A run that ends, preempted or not,
    saves a checkpoint; one that ends by itself validates first, if it has not.

    Trials of a search write below ``output_dir/trial-N``, and a run goes on from the trainer's
    checkpoint that its own has, whatever else is in that folder.

    Args:
        core_context: what ``core.init()`` gave.
        args: those of the trainer; its ``resume_from_checkpoint`` is set where there is a
            checkpoint to go on from.
        filter_metrics: parts of the names of metrics that are reported; all without it.
        user_data: JSON that is kept in every checkpoint, in ``my_data.json``.

    Raises:
        ImportError: the package transformers is not installed.
        ValueError: the config's ``searcher`` says another length than ``args``.
    """

    def __init__(
        self,
        core_context: core.Context,
        args: transformers.TrainingArguments,
        filter_metrics: list[str] | None = None,
        user_data: dict[str, Any] | None = None,
    ) -> None:
        if TrainerCallback is object:
            raise ImportError(
                f"DetCallback needs the package transformers: {how_to_install('transformers')}"
            )
        super().__init__()
        self.core_context = core_context
        self.filter_metrics = filter_metrics
        self.user_data = user_data
        self.last_train_metrics = self.last_eval_metrics = self.last_save = -1
        self.last_progress = 0
        self.info = info.get_cluster_info()
        if self.info is not None and (trial := self.info.trial.trial_id):
            # The trials of a search had a container each, where they were alone.
            args.output_dir = str(Path(args.output_dir) / f"trial-{trial}")
        self.load_last_checkpoint(args)
        self.searcher_metric: str | None = None
        self.time_metric: str | None = None
        if self.info is not None and self.info.task_type == "TRIAL":
            self._read_searcher(self.info.trial._config["searcher"], args)
        # As in Determined, for those who know of it.
        self._force_final_save = True
        self._force_final_evaluate = True

    def _read_searcher(
        self, searcher: Mapping[str, Any], args: transformers.TrainingArguments
    ) -> None:
        _check_length(searcher, args)
        self.searcher_metric = searcher["metric"]
        self.time_metric = searcher.get("time_metric")
        if self.filter_metrics:
            # What the searcher goes by is reported in any case.
            needed = (self.searcher_metric, self.time_metric)
            self.filter_metrics.extend(name for name in needed if name)

    def load_last_checkpoint(self, args: transformers.TrainingArguments) -> None:
        """Download the checkpoint to go on from, if there is one, to where the trainer looks."""
        latest = None if self.info is None else self.info.latest_checkpoint
        if latest is None:
            return
        if getattr(args, "overwrite_output_dir", False) is True:
            logger.info("overwrite_output_dir is True: the last checkpoint is not downloaded")
            return
        self.core_context.checkpoint.download(latest, args.output_dir)
        args.resume_from_checkpoint = self._downloaded(latest, args.output_dir)
        _trust_random_states()
        logger.info(f"Latest checkpoint downloaded to {args.resume_from_checkpoint}.")

    def _downloaded(self, latest: str, folder: str) -> str | None:
        """The trainer's checkpoint in the one that was downloaded.

        Its folder may have those of other runs beside it, which a container of a cluster had not.
        """
        steps = self.core_context.checkpoint.get_metadata(latest).get("steps_completed")
        own = Path(folder) / f"checkpoint-{steps}"
        found: str | None = trainer_utils.get_last_checkpoint(folder)
        return str(own) if own.is_dir() else found

    def on_log(
        self,
        args: transformers.TrainingArguments,
        state: transformers.TrainerState,
        control: transformers.TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Report metrics, once for each step of training and of validation."""
        if logs is None:
            logger.warning("on_log called with empty logs")
            return
        kind, metrics = _kind(logs), self._reported(logs)
        metrics.setdefault("batches", state.global_step)
        # The trainer has none before it trains, where Determined 0.38.1 ended the run.
        metrics.setdefault("epochs", state.epoch or 0.0)
        if kind == _TRAIN:
            # After training, the trainer logs averages at the step that it logged last.
            if self.last_train_metrics != state.global_step:
                self.last_train_metrics = state.global_step
                self._report(state, "training", metrics)
        elif kind == _EVAL:
            if self.last_eval_metrics != state.global_step:
                self.last_eval_metrics = state.global_step
                self._check_metrics(metrics)
                self._report(state, "validation", metrics)
        else:
            logger.warning(f"Metrics not reported: metric type = {kind}.")
        if self.core_context.preempt.should_preempt():
            # The checkpoint is saved at the end, once, whoever else asks for one.
            control.should_training_stop = True

    def _report(
        self, state: transformers.TrainerState, group: str, metrics: dict[str, Any]
    ) -> None:
        if state.is_world_process_zero:
            self.core_context.train.report_metrics(
                group=group, steps_completed=state.global_step, metrics=metrics
            )

    def _reported(self, logs: dict[str, Any]) -> dict[str, Any]:
        """What is reported of what the trainer logs: no speeds, and not its rounded epoch."""
        parts = self.filter_metrics
        return {
            name: value
            for name, value in logs.items()
            if name != "epoch"
            and not name.endswith(_SPEEDS)
            and (not parts or any(part in name for part in parts))
        }

    def _check_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Raise ValueError if a validation lacks what the searcher goes by."""
        needed = {"metric": self.searcher_metric, "time_metric": self.time_metric}
        missing = [
            f"'{name}' set by searcher.{key} config field"
            for key, name in needed.items()
            if name is not None and name not in metrics
        ]
        if missing:
            raise ValueError(
                f"{' and '.join(missing)} missing: you must emit that metric for a hyperparameter "
                f"search to work; there are {', '.join(map(str, metrics))}"
            )

    def on_save(
        self,
        args: transformers.TrainingArguments,
        state: transformers.TrainerState,
        control: transformers.TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Keep what the trainer has saved as a checkpoint of the task."""
        self.last_save = state.global_step
        name = f"checkpoint-{state.global_step}"
        if state.is_world_process_zero and self.user_data is not None:
            (Path(args.output_dir) / name / "my_data.json").write_text(json.dumps(self.user_data))
        metadata = {"steps_completed": state.global_step}
        if self.info is not None and self.info.task_type == "TRIAL":
            metadata["trial_id"] = self.info.trial.trial_id
        self.core_context.checkpoint.upload(
            args.output_dir,
            metadata=metadata,
            shard=True,
            selector=lambda path: path.startswith((f"{name}/", "runs/")),
        )

    def on_step_end(
        self,
        args: transformers.TrainingArguments,
        state: transformers.TrainerState,
        control: transformers.TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Report progress, a hundred times at most."""
        if state.is_world_process_zero and args.max_steps > -1:
            progress = state.global_step / args.max_steps
            if int(progress * 100) > self.last_progress:
                self.last_progress = int(progress * 100)
                self.core_context.train.report_progress(progress)

    def on_epoch_end(
        self,
        args: transformers.TrainingArguments,
        state: transformers.TrainerState,
        control: transformers.TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Ask for the validation and the checkpoint of the end, which comes after this."""
        if control.should_training_stop or _is_done(args, state):
            self._ask_for_end(state, control)
        if state.is_world_process_zero and args.max_steps == -1:
            self.core_context.train.report_progress(min(state.epoch / args.num_train_epochs, 1.0))

    def _ask_for_end(
        self, state: transformers.TrainerState, control: transformers.TrainerControl
    ) -> None:
        should_preempt = self.core_context.preempt.should_preempt
        is_new = state.global_step > self.last_eval_metrics
        if is_new and self._force_final_evaluate and not should_preempt():
            control.should_evaluate = True
        # Without its checkpoint, a run that is preempted would be lost.
        is_new = state.global_step > self.last_save
        if is_new and (self._force_final_save or should_preempt()):
            control.should_save = True


def _is_done(args: transformers.TrainingArguments, state: transformers.TrainerState) -> bool:
    if args.max_steps > -1:
        return bool(state.global_step >= args.max_steps)
    return bool(state.epoch >= args.num_train_epochs)


def _trust_random_states() -> None:
    """Let ``torch.load`` read NumPy's random states, which transformers saves.

    transformers 4.46 loads them as torch before 2.6 did; later versions of it allow the same.
    """
    import numpy as np
    import torch

    array = np.zeros(1, np.uint32)
    rebuilt_by: Any = array.__reduce__()[0]
    torch.serialization.add_safe_globals([rebuilt_by, np.ndarray, np.dtype, type(array.dtype)])


def _kind(logs: Mapping[str, Any]) -> str:
    for kind in (_EVAL, _TEST):
        if any(name.startswith(kind) for name in logs):
            return kind
    return _TRAIN


def _check_length(searcher: Mapping[str, Any], args: transformers.TrainingArguments) -> None:
    """Raise ValueError if a searcher and a trainer's arguments say different lengths."""
    if args.max_steps > -1:
        own, option = ("batches", args.max_steps), "--max_steps"
    else:
        own, option = ("epochs", args.num_train_epochs), "--num_train_epochs"
    length = searcher.get("max_length")
    if isinstance(length, int):
        raise ValueError(
            f"searcher.max_length is {length}, without a unit: remove it and rely on {option}"
        )
    if isinstance(length, Mapping):
        said, key = next(iter(length.items())), "searcher.max_length"
    elif searcher.get("time_metric") in ("batches", "epochs"):
        said, key = (searcher["time_metric"], searcher["max_time"]), "searcher.max_time"
    else:
        return
    if said != own:
        raise ValueError(
            f"HF trainer units does not match configured {key} "
            f"({own[0]}={own[1]} != {said[0]}={said[1]}): change {key} or {option}"
        )
