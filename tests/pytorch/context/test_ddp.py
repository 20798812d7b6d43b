from __future__ import annotations

from typing import Any

from torch import nn

from det_compat.pytorch.context.ddp import distribute, no_gradient_sync


def test_nothing_to_train_is_not_distributed() -> None:
    for model in (nn.MSELoss(), nn.Linear(1, 1).requires_grad_(False)):
        assert distribute(model) is model


def test_models_that_are_not_distributed_need_no_sync() -> None:
    with no_gradient_sync([nn.Linear(1, 1), nn.MSELoss()]):
        pass


def test_each_model_is_in_its_own(two_ranks: list[dict[str, Any]]) -> None:
    for found in two_ranks:
        assert found["models"]["wrapped"] is True
        assert found["models"]["classes"] == ["MSELoss", "Linear"]
        assert found["models"]["state"] == ["module.linear.weight"]
        assert found["models"]["weight"] == 0.0  # the chief's


def test_attributes_of_the_model_are_within_reach(two_ranks: list[dict[str, Any]]) -> None:
    for found in two_ranks:
        assert found["models"]["pass through"] == ("of the model", "helped", True)
        assert found["models"]["unknown"] is False


def test_ddp_kwargs_are_passed_on(two_ranks: list[dict[str, Any]]) -> None:
    assert [found["models"]["kwargs"] for found in two_ranks] == [False, False]


def test_gradients_while_accumulating(two_ranks: list[dict[str, Any]]) -> None:
    """Gradients are 1 and 3 in each of two batches."""
    for found, own in zip(two_ranks, (1.0, 3.0), strict=True):
        assert found["gradients"][True] == [2.0, 4.0]
        assert found["gradients"][False] == [own, 4.0]


def test_ranks_may_evaluate_different_numbers_of_batches(two_ranks: list[dict[str, Any]]) -> None:
    assert [found["uneven_evaluation"]["first"] for found in two_ranks] == [5.0, 5.0]


def test_training_makes_buffers_be_copied_again(two_ranks: list[dict[str, Any]]) -> None:
    assert [found["uneven_evaluation"]["later"] for found in two_ranks] == [4.5, 4.5]


def test_the_chief_may_evaluate_alone(two_ranks: list[dict[str, Any]]) -> None:
    assert [found["chief_alone"] for found in two_ranks] == [[0, 1], [0, 1]]
