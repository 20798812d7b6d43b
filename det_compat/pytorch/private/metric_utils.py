"""``determined.pytorch._metric_utils``: metrics as ranks send them to each other."""

import logging
from typing import Any

from det_compat import core
from det_compat.pytorch import metrics as arithmetic
from det_compat.pytorch.reducer import Reducer
from det_compat.util.metrics import dict_to_list, is_numerical_scalar

logger = logging.getLogger("determined.pytorch")

convert_metrics_to_numpy = arithmetic.to_numpy
combine_and_average_training_metrics = arithmetic.combine_training_metrics


def simple_reduce_metrics(
    reducer: Reducer, metrics: Any, num_batches: list[int] | None = None
) -> Any:
    """One number of an array of metrics; averages are weighted by ``num_batches``.

    Raises:
        RuntimeError: there are not as many weights as metrics.
    """
    if reducer is Reducer.AVG and num_batches and len(metrics) != len(num_batches):
        raise RuntimeError(
            "Lengths of metrics and num_batches are not equal: "
            f"{len(metrics)} != {len(num_batches)}."
        )
    return arithmetic.reduce_values(reducer, metrics, num_batches)


def process_combined_metrics_and_batches(
    combined_metrics_and_batches: list[Any],
) -> tuple[dict[str, Any], list[int]]:
    """The metrics of ranks with a list for each name, and the ranks' numbers of batches.

    Ranks without batches are left out.
    """
    reporting = [(metrics, count) for metrics, count in combined_metrics_and_batches if count]
    first = reporting[0][0]
    lists = {key: [metrics[key] for metrics, _ in reporting] for key in first}
    return lists, [count for _, count in reporting]


def average_training_metrics(
    combined_timeseries: dict[str, Any], combined_num_batches: list[int]
) -> list[dict[str, Any]]:
    """The metrics of each batch, averaged over ranks.

    Args:
        combined_timeseries: for each name, a list of ranks, each a list of batches.
        combined_num_batches: the number of batches of each rank.
    """
    ranks = [
        dict_to_list({name: series[rank] for name, series in combined_timeseries.items()})
        for rank in range(len(combined_num_batches))
    ]
    return arithmetic.average_over_ranks(ranks)


def combine_metrics_across_processes(
    context: core.DistributedContext, metrics: dict[str, Any], num_batches: int
) -> tuple[dict[str, Any] | None, list[int] | None]:
    """On the chief, what process_combined_metrics_and_batches makes of all ranks; else None."""
    gathered = context.gather((metrics, num_batches))
    if gathered is None:
        return None, None
    return process_combined_metrics_and_batches(gathered)


def prepare_metrics_reducers(reducer: Any, keys: Any) -> dict[str, Reducer]:
    """A reducer for each of ``keys``, given one for all or a dict of them.

    Raises:
        InvalidExperimentException: the dict is not for these keys, or a reducer is none.
    """
    return arithmetic.expand_reducers(reducer, keys)


def reduce_metrics(
    context: core.DistributedContext,
    batch_metrics: list[dict[str, Any]],
    keys: Any,
    metrics_reducers: dict[str, Reducer],
) -> dict[str, Any]:
    """The metrics named by ``keys``, of all batches of all ranks, on the chief; else ``{}``."""
    chosen = [{key: metrics[key] for key in keys or ()} for metrics in batch_metrics]
    return arithmetic.reduce_validation_metrics(context, chosen, metrics_reducers)


def log_tb_metrics(
    writer: Any,
    metric_type: str,
    steps_completed: int,
    metrics: dict[str, Any],
    batch_metrics: list[dict[str, Any]] | None = None,
) -> None:
    """Give a TensorBoard writer the numbers of batches, and those that no batch has.

    Args:
        writer: has ``add_scalar(name, value, step)``.
        metric_type: ``train`` or ``val``.
        steps_completed: batches that were trained until now.
        metrics: averages.
        batch_metrics: the metrics of the last batches, each under its own step.
    """
    if metric_type not in ("train", "val"):
        logger.warning(f"Unrecognized tensorboard metric type: {metric_type}", stacklevel=2)
    seen: set[str] = set()
    batches = batch_metrics or []
    for step, batch in enumerate(batches, steps_completed - len(batches)):
        seen.update(batch)
        for name, value in batch.items():
            if is_numerical_scalar(value):
                writer.add_scalar(f"Determined/{name}", value, step)
    for name, value in metrics.items():
        if name in seen or not is_numerical_scalar(value):
            continue
        prefix = "val_" if metric_type == "val" and not name.startswith("val") else ""
        writer.add_scalar(f"Determined/{prefix}{name}", value, steps_completed)
