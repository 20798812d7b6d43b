from __future__ import annotations

from typing import Any

import pytest

from det_compat.errors import InvalidExperimentException
from det_compat.pytorch.context.batch_size import split_global_batch_size


@pytest.mark.parametrize(("size", "slots"), [(8, 1), (8, 2), (8, 8), (1, 1)])
def test_splits_as_determined_does(size: int, slots: int) -> None:
    split = split_global_batch_size({"global_batch_size": size}, slots)
    assert split == (size // slots, size)
    reference = pytest.importorskip("determined.util").calculate_batch_sizes
    assert split == reference({"global_batch_size": size}, slots, "PyTorchTrial")


@pytest.mark.parametrize("hparams", [None, {}, {"lr": 1}, {"global_batch_size": None}])
def test_nothing_to_split(hparams: Any) -> None:
    assert split_global_batch_size(hparams, 2) == (None, None)


@pytest.mark.parametrize("size", [8.0, "8", [8]])
def test_it_must_be_an_integer(size: Any) -> None:
    with pytest.raises(InvalidExperimentException) as caught:
        split_global_batch_size({"global_batch_size": size}, 2)
    for told in ("global_batch_size", "integer", repr(size), type(size).__name__):
        assert told in str(caught.value)
    errors = pytest.importorskip("determined.errors")
    with pytest.raises(errors.InvalidExperimentException):
        pytest.importorskip("determined.util").calculate_batch_sizes(
            {"global_batch_size": size}, 2, "PyTorchTrial"
        )


def test_true_is_no_batch_size() -> None:
    with pytest.raises(InvalidExperimentException, match="got True"):
        split_global_batch_size({"global_batch_size": True}, 1)


@pytest.mark.parametrize(("size", "example"), [(7, 6), (1, 2), (101, 100)])
def test_it_must_divide_by_the_slots(size: int, example: int) -> None:
    with pytest.raises(InvalidExperimentException) as caught:
        split_global_batch_size({"global_batch_size": size}, 2)
    assert f"global_batch_size={size}" in str(caught.value)
    assert "multiple of 2" in str(caught.value)
    assert str(caught.value).endswith(f"for example {example}.")


@pytest.mark.parametrize("hparams", [[1], "lr", 3])
def test_hparams_are_a_dict(hparams: Any) -> None:
    with pytest.raises(TypeError, match="hparams must be a dict"):
        split_global_batch_size(hparams, 1)
