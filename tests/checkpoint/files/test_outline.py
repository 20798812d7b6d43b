from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from det_compat.checkpoint.files.outline import Opaque, Shape, outline
from det_compat.errors import CorruptCheckpointError
from tests.checkpoint.makers import Evil, save

both = pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])


@both
def test_structure_and_shapes(tmp_path: Path, legacy: bool) -> None:
    content = {
        "model": nn.BatchNorm1d(3).state_dict(),
        "parameter": nn.Parameter(torch.ones(2, 5)),
        "list": [1, "a", None, (2.5, {"b": True})],
    }
    found = outline(save(content, tmp_path / "x", legacy=legacy))
    assert found["model"]["weight"] == Shape([3]) and found["model"]["weight"].elements == 3
    assert found["model"]["num_batches_tracked"].elements == 1
    assert found["parameter"] == (2, 5)
    assert found["list"] == content["list"]


@both
def test_nothing_is_run(tmp_path: Path, legacy: bool) -> None:
    made = tmp_path / "made"
    content = {"w": torch.ones(4), "evil": [Evil(made)], "set": {Evil(made)}}
    file = save({**content, "np": np.array([Evil(made)])}, tmp_path / "x", legacy=legacy)
    found = outline(file)
    assert not made.exists() and found["w"].elements == 4
    assert isinstance(found["evil"][0], Opaque) and repr(found["evil"]) == "[?]"


@both
def test_any_object_is_passed_over(tmp_path: Path, legacy: bool) -> None:
    content: list[Any] = [
        collections.deque([1, 2]),
        collections.defaultdict(list, a=[1]),
        collections.Counter("aab"),
        nn.Linear(1, 1),
        torch.optim.lr_scheduler.OneCycleLR._annealing_cos,
        torch.Size([1]),
        torch.float32,
    ]
    assert len(outline(save(content, tmp_path / "x", legacy=legacy))) == len(content)


@both
def test_a_file_that_is_cut_off(tmp_path: Path, legacy: bool) -> None:
    file = save({"a": "b" * 100, "w": torch.ones(10)}, tmp_path / "x", legacy=legacy)
    for length in (0, 10, 150):
        file.write_bytes(file.read_bytes()[:length])
        with pytest.raises(CorruptCheckpointError):
            outline(file)


def test_a_tensor_of_strange_shape_is_no_tensor(tmp_path: Path) -> None:
    class Strange:
        def __reduce__(self) -> Any:
            return torch._utils._rebuild_tensor_v2, (1, 2, ("x",))

    assert isinstance(outline(save(Strange(), tmp_path / "x")), Opaque)
