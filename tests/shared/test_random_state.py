from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from det_compat.shared.random_state import (
    preserved_random_state,
    random_state,
    set_random_state,
    set_seed,
    without_array,
)


def draws() -> list[float]:
    return [random.random(), np.random.rand(), torch.rand(()).item()]


def test_seeds_and_states() -> None:
    set_seed(3)
    with preserved_random_state():
        first = draws()
    state = random_state()
    assert draws() == first
    set_random_state(state)
    assert draws() == first
    set_seed(3 + 2**32)
    np.testing.assert_array_equal(np.random.get_state()[1], state["numpy"][1])


def packed(words: tuple[int, ...]) -> bytes:
    return struct.pack(f"<{len(words)}I", *words)


@pytest.mark.parametrize("kind", [tuple, list, packed])
def test_pythons_generator_as_files_have_it(kind: Callable[[Any], Any]) -> None:
    version, words, gauss = random.getstate()
    first = draws()
    set_random_state({"python": [version, kind(words), gauss]})
    assert random.random() == first[0]


@pytest.mark.parametrize("as_list", [False, True])
def test_numpys_array_goes_and_comes_back(as_list: bool) -> None:
    state = random_state()
    first = draws()
    plain = without_array({"np_rng_state": state["numpy"], "other": 1}, as_list=as_list)
    kind, words, *_ = plain["np_rng_state"]
    assert kind == "MT19937" and isinstance(words, list if as_list else torch.Tensor)
    set_random_state({**state, "numpy": plain["np_rng_state"]})
    assert draws() == first and plain["other"] == 1


@pytest.mark.parametrize("odd", [None, 3, {}, {"np_rng_state": 4}, {"np_rng_state": ("MT19937",)}])
def test_other_states_stay_as_they_are(odd: Any) -> None:
    assert without_array(odd) is odd
