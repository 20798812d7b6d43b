from __future__ import annotations

import logging
import random
import sys
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from det_compat.checkpoint import read_checkpoint, to_lightning_checkpoint
from det_compat.checkpoint.lightning import by_model, under_names, without_ddp_prefix
from det_compat.errors import InvalidCheckpointException
from det_compat.shared.plain_types import from_plain, to_plain
from tests.checkpoint.makers import TRIAL_STATE, of_0_12, of_0_38, save, state
from tests.preloaded import python


def converted(folder: Path, **kwargs: Any) -> dict[str, Any]:
    """As a file of it is loaded where nothing is allowed."""
    checkpoint = to_lightning_checkpoint(read_checkpoint(folder, **kwargs))
    file = save(checkpoint, folder / "out.ckpt")
    loaded: dict[str, Any] = torch.load(file, weights_only=True)
    return loaded


def test_what_lightning_needs(tmp_path: Path) -> None:
    found = converted(of_0_38(tmp_path))
    assert (found["epoch"], found["global_step"], found["lr_schedulers"]) == (2, 7, [])
    assert found["state_dict"] == {"models.0.weight": torch.full((1, 1), 2.0)}
    assert found["optimizer_states"][0]["param_groups"][0]["lr"] == 0.5
    assert found["pytorch-lightning_version"][0].isdigit() and "loops" not in found


def test_hyper_parameters_have_no_secrets(tmp_path: Path) -> None:
    found = converted(of_0_38(tmp_path))["hyper_parameters"]
    assert found["trial_cls"] == "model_def.OneWeight" and found["hparams"] == {"lr": 0.5}
    assert found["exp_conf"]["checkpoint_storage"]["type"] == "s3"
    assert "s3cr3t" not in str(found) and "AKIA" not in str(found)


def test_what_determined_kept(tmp_path: Path) -> None:
    more = {"scaler_state_dict": {"scale": 2.0}, "amp_state": {"loss_scaler0": {"unskipped": 3}}}
    found = converted(of_0_38(tmp_path, state(**more, mine={"a": np.arange(3)})))["determined"]
    assert found["trial_state"] == TRIAL_STATE and found["continuation"] is None
    assert {**found, **more} == found
    assert found["lr_schedulers_state_dict"][0]["step_size"] == 1
    best = from_plain(found["callbacks"])["best"]["value"]
    assert type(best) is np.float32 and best == 0.5
    assert np.array_equal(from_plain(found["mine"])["a"], np.arange(3))


def test_what_det_compat_kept_in_plain_types_is_what_it_was(tmp_path: Path) -> None:
    """Its own directories have what NumPy and the standard library made in plain types."""
    group = {"lr": np.float64(0.5), "params": [0]}
    own = {
        "callbacks": {"best": {"value": np.float32(0.5), "last": deque([1], maxlen=2)}},
        "optimizers_state_dict": [{"state": {}, "param_groups": [group]}],
        "mine": {"det_compat.type": 3},
    }
    folder = of_0_38(tmp_path, state(**{key: to_plain(value) for key, value in own.items()}))
    found = converted(folder)
    assert type(found["optimizer_states"][0]["param_groups"][0]["lr"]) is float
    kept = from_plain(found["determined"]["callbacks"])["best"]
    assert type(kept["value"]) is np.float32 and kept["last"].maxlen == 2
    assert from_plain(found["determined"]["mine"]) == own["mine"]
    save(state(mine={"det_compat.type": "set"}), folder / "state_dict.pth")
    with pytest.raises(InvalidCheckpointException, match="mine cannot be put back"):
        converted(folder)


def test_random_states(tmp_path: Path) -> None:
    found = converted(of_0_38(tmp_path))["determined"]["rng_state"]
    kind, keys, *rest = found["np_rng_state"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
    random.setstate(found["random_rng_state"])
    torch.random.set_rng_state(found["cpu_rng_state"])


@pytest.mark.parametrize("odd", [None, 3, {"np_rng_state": 4}, {"np_rng_state": ("MT19937",)}])
def test_odd_random_states_are_kept(tmp_path: Path, odd: Any) -> None:
    assert converted(of_0_38(tmp_path, state(rng_state=odd)))["determined"]["rng_state"] == odd


def test_the_prefix_of_ddp_is_gone(tmp_path: Path) -> None:
    models = [{"module.a": torch.ones(1)}, {"b": torch.ones(1)}]
    found = converted(of_0_38(tmp_path, state(models_state_dict=models)))
    assert list(found["state_dict"]) == ["models.0.a", "models.1.b"]


def test_of_0_12(tmp_path: Path) -> None:
    found = converted(of_0_12(tmp_path))
    assert (found["epoch"], found["global_step"]) == (0, 0)
    assert found["hyper_parameters"] == {
        "hparams": None,
        "exp_conf": None,
        "aggregation_frequency": 1,
    }
    assert found["determined"]["trial_state"]["batches_trained"] is None


def test_optimizers_have_numbers_where_numpy_was(tmp_path: Path) -> None:
    group = {"lr": np.float64(0.5), "betas": (np.float32(0.5), 0.9), "params": [0]}
    step = {0: {"step": np.array([3.0]), "exp": torch.ones(1)}}
    saved = state(optimizers_state_dict=[{"state": step, "param_groups": [group]}])
    (found,) = converted(of_0_38(tmp_path, saved))["optimizer_states"]
    assert type(found["param_groups"][0]["lr"]) is float
    assert found["param_groups"][0]["betas"] == (0.5, 0.9)
    assert found["state"][0]["step"] == torch.tensor([3.0], dtype=torch.float64)


def test_continuation_goes_along(tmp_path: Path) -> None:
    of_0_38(tmp_path)
    save({"ranks": [{"x": 1}]}, tmp_path / "det_compat_state.pth")
    assert converted(tmp_path)["determined"]["continuation"] == {"ranks": [{"x": 1}]}


def test_trusted_objects_that_are_no_data_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    callbacks = {"good": {"a": deque([1])}, "bad": {"path": Path("x")}}
    folder = of_0_38(tmp_path, state(callbacks=callbacks, worse=[Path("x")]))
    with caplog.at_level(logging.WARNING):
        found = converted(folder, trust=True)["determined"]
    assert from_plain(found["callbacks"]) == {"good": {"a": deque([1])}}
    assert "worse" not in found
    assert "['callbacks']['bad']" in caplog.text and "['worse']" in caplog.text


def test_neither_lightning_nor_code_is_imported(tmp_path: Path) -> None:
    of_0_38(tmp_path)
    code = f"""
import sys
from det_compat.checkpoint import read_checkpoint, to_lightning_checkpoint
to_lightning_checkpoint(read_checkpoint({str(tmp_path)!r}))
print({{"pytorch_lightning", "determined", "model_def"}} & {{*sys.modules}})
"""
    done = python("-c", code, cwd=tmp_path, side="neither")
    assert done.stdout == "set()\n", done.stderr
    assert sys.modules["torch"] is torch


def test_the_prefix_of_ddp_goes_where_all_names_have_it() -> None:
    assert without_ddp_prefix({"module.a": 1, "module.b.c": 2}) == {"a": 1, "b.c": 2}
    mixed = {"module.a": 1, "b": 2}
    assert without_ddp_prefix(mixed) == mixed
    assert without_ddp_prefix({}) == {}


@pytest.mark.parametrize(
    ("wanted", "state", "found"),
    [
        (["a"], {"a": 1}, {"a": 1}),
        (["a"], {"module.a": 1}, {"a": 1}),
        (["module.a"], {"a": 1}, {"module.a": 1}),
        (["module.a"], {"module.a": 1}, {"module.a": 1}),
        (["module.a"], {"module.module.a": 1}, {"module.a": 1}),
        (["b"], {"module.a": 1}, {"module.a": 1}),
    ],
)
def test_under_names(wanted: list[str], state: dict[str, Any], found: dict[str, Any]) -> None:
    assert under_names(wanted, state) == found


def test_by_model() -> None:
    state = {"models.0.a": 1, "models.10.b.models.1.c": 2}
    assert by_model(state) == {0: {"a": 1}, 10: {"b.models.1.c": 2}}
    assert by_model({"layer.a": 1, "models.0.a": 2}) == {0: {"layer.a": 1, "models.0.a": 2}}
    assert by_model({}) == {}
