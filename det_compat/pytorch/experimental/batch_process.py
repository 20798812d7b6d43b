"""``torch_batch_process``: a dataset goes through a processor, batch by batch, on every rank."""

from __future__ import annotations

import abc
import contextlib
import json
import logging
import math
import os
import uuid
import warnings
from collections.abc import Sized
from pathlib import Path
from typing import Any

import torch
from torch import nn

from det_compat import core, info, pytorch
from det_compat.pytorch.reducer import ReducerContext

logger = logging.getLogger("determined.pytorch")

DEFAULT_BATCH_SIZE = 1


class TorchBatchProcessorContext(ReducerContext):
    """The context of a processor on one rank.

    Args:
        core_context: the context of the task.
        storage_path: where in the checkpoint storage this rank has its files.
    """

    def __init__(self, core_context: core.Context, storage_path: str) -> None:
        super().__init__()
        self._core_context = core_context
        self._distributed = core_context.distributed
        self.device = get_default_device(core_context)
        self._tensorboard_path = core_context.train.get_tensorboard_path()
        self._storage_path = storage_path
        self._use_default_storage = False

    def get_hparams(self) -> dict[str, Any]:
        """The hyperparameters of the config.

        Raises:
            AssertionError: there is no config: no run of ``det-compat fit`` has started the script.
        """
        task = info.get_cluster_info()
        if task is None or task.task_type != "TRIAL":
            raise AssertionError(
                "get_hparams() needs an experiment config: run it by `det-compat fit CONFIG.yaml` "
                "with this script as the entrypoint"
            )
        return task.trial.hparams

    def to_device(self, data: Any, warned_types: set[type] | None = None) -> Any:
        """``data`` on this rank's device, as ``det_compat.pytorch.to_device`` moves it."""
        return pytorch.to_device(data, self.device, warned_types)

    def get_tensorboard_path(self) -> Path:
        """The directory of the task's TensorBoard files."""
        return self._tensorboard_path

    def prepare_model_for_inference(self, model: nn.Module) -> nn.Module:
        """The model, in eval mode and on this rank's device."""
        model.eval()
        model.to(self.device)
        return model

    def upload_path(self) -> contextlib.AbstractContextManager[Path]:
        """A directory, whose content is added to this rank's files in the checkpoint storage."""
        self._use_default_storage = True
        return self._core_context.checkpoint._storage_manager.store_path(self._storage_path)

    def report_metrics(self, group: str, steps_completed: int, metrics: dict[str, Any]) -> None:
        """Report metrics; see ``core_context.train.report_metrics``."""
        self._core_context.train.report_metrics(
            group=group, steps_completed=steps_completed, metrics=metrics
        )

    def report_task_using_model_version(self, model_version: Any) -> None:
        """Do nothing: there is no registry of models."""
        self._core_context.experimental.report_task_using_model_version(model_version)

    def report_task_using_checkpoint(self, checkpoint: Any) -> None:
        """Do nothing: there is no registry of checkpoints."""
        self._core_context.experimental.report_task_using_checkpoint(checkpoint)

    def get_distributed_rank(self) -> int:
        """Index of this process among all of the task."""
        return self._core_context.distributed.get_rank()

    def get_distributed_size(self) -> int:
        """Number of processes of the task."""
        return self._core_context.distributed.get_size()


def get_default_device(core_context: core.Context) -> torch.device:
    """The GPU of this process, the CPU where there is none."""
    if torch.cuda.device_count() == 0:
        return torch.device("cpu")
    return torch.device("cuda", core_context.distributed.local_rank)


class TorchBatchProcessor(abc.ABC):
    """What is done with each batch; users derive from it."""

    @abc.abstractmethod
    def __init__(self, context: TorchBatchProcessorContext) -> None:
        """Make what batches are processed with, such as a model."""

    @abc.abstractmethod
    def process_batch(self, batch: Any, batch_idx: int) -> None:
        """Process a batch, ``batch_idx`` of those of this rank."""

    def on_checkpoint_start(self) -> None:  # noqa: B027 (need not be overridden)
        """Called before each checkpoint."""

    def on_finish(self) -> None:  # noqa: B027 (need not be overridden)
        """Called when all batches are processed."""


def torch_batch_process(
    batch_processor_cls: type[TorchBatchProcessor],
    dataset: torch.utils.data.Dataset[Any],
    batch_size: int | None = None,
    max_batches: int | None = None,
    checkpoint_interval: int = 5,
    dataloader_kwargs: dict[str, Any] | None = None,
    distributed_context: core.DistributedContext | None = None,
) -> None:
    """Process a dataset as Determined 0.38.1 does on a cluster, there or anywhere.

    Batches are dealt to the ranks in turn. Every so many of them it is noted, in a checkpoint, how
    many every rank has processed: a run that is resumed by ``det-compat fit --resume`` goes on from
    there, and one that is preempted ends there. What the processor's reducers reduce to is reported
    as the metrics of a validation.

    Args:
        batch_processor_cls: makes the processor of each rank, of a ``TorchBatchProcessorContext``.
        dataset: has ``__len__`` and ``__getitem__``.
        batch_size: records in a batch, by default 1.
        max_batches: how many batches each rank processes at most.
        checkpoint_interval: batches of a rank from one checkpoint to the next.
        dataloader_kwargs: arguments of ``det_compat.pytorch.DataLoader``.
        distributed_context: the ranks, by default those of torchrun.

    Raises:
        TypeError: the dataset has no length.
        ValueError: an argument cannot be used.
    """
    with _initialize_default_inference_context(distributed_context) as core_context:
        if checkpoint_interval <= 0:
            raise ValueError("checkpoint_interval should be a positive integer")
        arguments = dict(dataloader_kwargs or {})
        _validate_dataloader_kwargs(arguments, batch_size)
        size = arguments.pop("batch_size", DEFAULT_BATCH_SIZE) if batch_size is None else batch_size
        if not isinstance(dataset, Sized):
            raise TypeError("Dataset must implement __len__()")
        loader = pytorch.DataLoader(dataset, batch_size=size, shuffle=False, **arguments)
        ranks = _ranks(core_context)
        batches = math.ceil(len(dataset) / size / ranks)
        _Process(
            core_context,
            batch_processor_cls,
            loader,
            ranks,
            _validate_iterate_length(max_batches, batches),
            checkpoint_interval,
        ).run()


def _ranks(core_context: core.Context) -> int:
    """How many processes share the batches."""
    task = info.get_cluster_info()
    if task is None:
        return core_context.distributed.size
    return len(task.container_addrs) * max(len(task.slot_ids), 1)


class _Process:
    """The processing of one rank's batches.

    All ranks take the same number of steps, since they meet at each checkpoint: one that has a
    batch less takes its last step without any.
    """

    def __init__(
        self,
        core_context: core.Context,
        batch_processor_cls: type[TorchBatchProcessor],
        loader: pytorch.DataLoader,
        ranks: int,
        steps: int,
        checkpoint_interval: int,
    ) -> None:
        self._core = core_context
        self._rank = core_context.distributed.get_rank()
        self._steps = steps
        self._interval = checkpoint_interval
        self._skip, self._output = self._start()
        self._context = TorchBatchProcessorContext(
            core_context, f"{self._output}/rank_{self._rank}"
        )
        self._processor = batch_processor_cls(context=self._context)
        torch_loader = loader.get_data_loader(
            repeat=False, skip=self._skip, num_replicas=ranks, rank=self._rank
        )
        self._batches = iter(torch_loader)
        self._operation = core.DummySearcherOperation(1, self._rank == 0)

    def _start(self) -> tuple[int, str]:
        """The steps that were taken before, and the name of the outputs in the storage."""
        output = self._core.distributed.broadcast(str(uuid.uuid4()))
        task = info.get_cluster_info()
        if task is None or task.latest_checkpoint is None:
            return 0, output
        with self._core.checkpoint.restore_path(task.latest_checkpoint) as path:
            state = _load_state(path)
        logger.info(f"Previous run completed {state['steps_completed']} steps")
        return state["steps_completed"], state["default_output_uuid"]

    def run(self) -> None:
        """Process all batches, or as many as there is time for."""
        completed, saved = self._skip, -1
        for index in range(self._skip, self._steps):
            batch = next(self._batches, None)
            if batch is not None:
                self._processor.process_batch(batch=batch, batch_idx=index)
            completed = index + 1
            if completed % self._interval == 0:
                self._save(completed)
                saved = completed
                if self._rank == 0:
                    _report_progress_to_master(self._operation, completed, self._steps)
                if self._core.preempt.should_preempt():
                    _reduce_metrics(self._context, self._core, self._rank, completed)
                    return
        if completed != saved:
            self._save(completed)
        _reduce_metrics(self._context, self._core, self._rank, completed)
        self._processor.on_finish()
        self._finish()

    def _save(self, completed: int) -> None:
        logger.info(f"Completed steps:  {completed} and checkpointing")
        self._processor.on_checkpoint_start()
        _synchronize_and_checkpoint(self._core, completed, self._output)

    def _finish(self) -> None:
        if self._rank == 0 and self._context._use_default_storage:
            where = self._core.checkpoint._storage_manager.location(self._output)
            logger.info(f"Files stored with default paths are at: {where}")
        # The task is completed when all ranks are.
        self._core.distributed.gather(None)
        if self._rank == 0:
            self._operation.report_completed(1)


def _initialize_default_inference_context(
    distributed_context: core.DistributedContext | None,
) -> core.Context:
    """The context of the task, whose ranks ask the chief whether to stop: they stop together."""
    return core.init(
        distributed=distributed_context or _launched(),
        preempt_mode=core.PreemptMode.WorkersAskChief,
    )


def _launched() -> core.DistributedContext | None:
    """The ranks of torchrun, with a process group, as Determined has it; None without them."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return None
    distributed = core.DistributedContext.from_torch_distributed()
    distributed.init_process_group()
    return distributed


def _load_state(checkpoint_directory: Path) -> Any:
    """What a checkpoint says of the steps that were taken."""
    return json.loads(Path(checkpoint_directory, "metadata.json").read_text("utf-8"))


def _synchronize_and_checkpoint(
    core_context: core.Context, steps_completed: int, default_output_uuid: str
) -> None:
    """Note, when all ranks have come so far, how many steps they have taken."""
    everyone = core_context.distributed.gather(steps_completed)
    if core_context.distributed.get_rank() != 0 or everyone is None:
        return
    completed = min(everyone)
    metadata = {"steps_completed": completed, "default_output_uuid": default_output_uuid}
    with core_context.checkpoint.store_path(metadata) as (path, _):
        (path / "batch_completed.json").write_text(json.dumps({"batch_completed": completed}))


def _report_progress_to_master(
    searcher_op: core.SearcherOperation, steps_completed: int, steps: int
) -> None:
    """Report which share of the steps is taken."""
    searcher_op.report_progress(steps_completed / steps)


def _validate_dataloader_kwargs(dataloader_kwargs: dict[str, Any], batch_size: int | None) -> None:
    """Raise ValueError for what would change which batches there are."""
    if dataloader_kwargs.get("shuffle"):
        raise ValueError("'shuffle' must be false for accurate sharding and checkpointing")
    for name in ("sampler", "batch_sampler"):
        if name in dataloader_kwargs:
            raise ValueError(
                f"Please remove '{name}' arg as we will initialize a {name} automatically."
            )
    if batch_size is not None and "batch_size" in dataloader_kwargs:
        raise ValueError("batch_size is passed into torch_batch_process and dataloader_kwargs")


def _validate_iterate_length(iterate_length: int | None, times_iterate: int) -> int:
    """How many steps to take: ``iterate_length``, if that is possible."""
    if iterate_length is None:
        return times_iterate
    if 0 < iterate_length <= times_iterate:
        return iterate_length
    why = "is not valid" if iterate_length <= 0 else "exceeds sharded dataset length"
    warnings.warn(
        f"iterate_length {iterate_length} {why}. "
        f"Ignoring this argument and iterate over entire dataset once",
        stacklevel=3,
    )
    return times_iterate


def _reduce_metrics(
    context: TorchBatchProcessorContext,
    core_context: core.Context,
    rank: int,
    steps_completed: int,
) -> None:
    """Report what the processor's reducers reduce to, over all ranks."""
    reducers = list(context._wrapped_reducers)
    if not reducers:
        return
    gathered = core_context.distributed.gather(
        [wrapped.call("per_slot_reduce") for wrapped in reducers]
    )
    if rank == 0 and gathered is not None:
        core_context.train.report_validation_metrics(
            steps_completed=steps_completed,
            metrics=context.run_cross_slot_reduction(reducers, gathered),
        )
