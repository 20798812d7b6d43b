from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from det_compat.adapters.run.training import MetricsWindow


def test_metrics_come_back_as_numpy_in_order() -> None:
    window = MetricsWindow("train_batch")
    for index in range(3):
        window.append({"loss": torch.tensor(float(index), requires_grad=True), "n": index})
    assert len(window) == 3
    batches = window.close()
    assert [batch["n"] for batch in batches] == [0, 1, 2]
    assert all(isinstance(batch["loss"], np.ndarray) for batch in batches)
    assert [float(batch["loss"]) for batch in batches] == [0.0, 1.0, 2.0]


def test_closing_empties_the_window() -> None:
    window = MetricsWindow("train_batch")
    window.append({"loss": 1.0})
    assert len(window.close()) == 1
    assert len(window) == 0
    assert window.close() == []


def test_clearing_empties_the_window() -> None:
    window = MetricsWindow("train_batch")
    window.append({"loss": torch.ones((), dtype=torch.bfloat16)})
    window.clear()
    assert window.close() == []


def test_peeking_leaves_the_window_open() -> None:
    window = MetricsWindow("train_batch")
    window.append({"loss": torch.tensor(1.5, dtype=torch.bfloat16)})
    assert window.peek()[0]["loss"] == np.float32(1.5)
    window.append({"loss": torch.tensor(2.5, dtype=torch.bfloat16)})
    assert [float(batch["loss"]) for batch in window.close()] == [1.5, 2.5]


def test_the_users_dict_sees_the_arrays_as_in_determined() -> None:
    # Determined 0.38.1 replaces the values in the dict that train_batch returned.
    metrics: dict[str, Any] = {"loss": torch.tensor(1.0)}
    MetricsWindow("train_batch").append(metrics)
    assert isinstance(metrics["loss"], np.ndarray)


def test_a_tensor_of_the_cpu_shares_its_memory_as_in_determined() -> None:
    total = torch.zeros(())
    window = MetricsWindow("train_batch")
    window.append({"total": total})
    total += 5
    assert float(window.close()[0]["total"]) == 5.0


@pytest.mark.parametrize("metrics", [None, 1.0, [1.0], "loss"])
def test_what_is_no_dict(metrics: Any) -> None:
    window = MetricsWindow("evaluate_batch")
    kind = type(metrics).__name__
    with pytest.raises(TypeError, match=rf"evaluate_batch\(\) must return a dict.*got {kind}"):
        window.append(metrics)
