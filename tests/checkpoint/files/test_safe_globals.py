from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from det_compat.checkpoint.files.safe_globals import allowed, without_substitutes
from det_compat.checkpoint.files.torch_file import load_torch_file
from det_compat.errors import UnsafeCheckpointError
from tests.checkpoint.makers import Evil, save

VALUES = [
    np.float64(0.5),
    np.float32(0.5),
    np.int32(3),
    np.bool_(True),
    np.complex64(1j),
    np.str_("x"),
    np.zeros(0),
    np.array(5),
    np.arange(3, dtype="int16"),
    np.arange(3, dtype=">i4"),
    np.ones((2, 3, 4), dtype=bool),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.array(["a", "bc"]),
    np.array([b"a"]),
]


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{type(value).__name__}-{value.dtype}")
def test_numpys_values_come_back_as_they_were(tmp_path: Path, value: Any, legacy: bool) -> None:
    file = save({"callbacks": [(value,), value]}, tmp_path / "x", legacy=legacy)
    ((loaded,), same) = load_torch_file(file)["callbacks"]
    assert type(loaded) is type(value) and loaded.dtype == value.dtype
    assert np.array_equal(loaded, value) and np.array_equal(same, value)
    if isinstance(loaded, np.ndarray):
        assert loaded.flags.writeable and loaded.flags.fnc == value.flags.fnc


def test_bytes_come_back(tmp_path: Path) -> None:
    assert load_torch_file(save([b"", b"\xff\x00"], tmp_path / "x")) == [b"", b"\xff\x00"]


def test_the_function_of_onecyclelr_becomes_its_name(tmp_path: Path) -> None:
    function = torch.optim.lr_scheduler.OneCycleLR._annealing_linear
    file = save({"anneal_func": function}, tmp_path / "x")
    assert load_torch_file(file) == {"anneal_func": "_annealing_linear"}


@pytest.mark.parametrize(
    "value",
    [
        np.array([None], dtype=object),
        np.zeros(2, dtype=[("x", "f4")]),
        np.array(["2020-01-01"], dtype="M8[D]"),
        np.ndarray((10**12,), "S0", b""),
    ],
    ids=["objects", "fields", "dates", "nothing"],
)
def test_other_arrays_are_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(UnsafeCheckpointError, match="NumPy values of dtype"):
        load_torch_file(save({"a": value}, tmp_path / "x"))


def test_a_pickle_hidden_in_an_array_is_not_run(tmp_path: Path) -> None:
    made = tmp_path / "made"
    file = save({"a": np.array([Evil(made)], dtype=object)}, tmp_path / "x")
    with pytest.raises(UnsafeCheckpointError, match=r"asks for posix\.mkdir\."):
        load_torch_file(file)
    assert not made.exists()


class Pointers:
    """What NumPy itself would take for the addresses of objects."""

    def __reduce__(self) -> Any:
        return np.ndarray, ((1,), "O", b"\x41" * 8)


@pytest.mark.parametrize("legacy", [False, True])
def test_arrays_are_not_made_of_pointers(tmp_path: Path, legacy: bool) -> None:
    with pytest.raises(UnsafeCheckpointError, match=r"calls numpy\.ndarray"):
        load_torch_file(save({"a": Pointers()}, tmp_path / "x", legacy=legacy))


@pytest.mark.parametrize("value", [getattr, np.ndarray, np.dtype])
def test_what_stands_for_code_does_not_come_out(tmp_path: Path, value: Any) -> None:
    with pytest.raises(UnsafeCheckpointError, match="itself"):
        load_torch_file(save({"a": value}, tmp_path / "x"))


def test_nothing_stays_allowed() -> None:
    before = {*torch.serialization.get_safe_globals()}
    with pytest.raises(KeyError), allowed():
        assert {*torch.serialization.get_safe_globals()} > before
        raise KeyError
    assert {*torch.serialization.get_safe_globals()} == before


def test_structures_that_hold_themselves_or_one_thing_often() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert without_substitutes(loop) is loop
    wide: Any = ()
    for _ in range(100):
        wide = (wide, wide)
    without_substitutes(wide)
