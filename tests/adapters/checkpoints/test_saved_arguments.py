from __future__ import annotations

import collections
import logging
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from det_compat import to_lightning
from det_compat.adapters.checkpoints.saved_arguments import saved_arguments
from tests.adapters.trials import Linear, trainer


class AttrDict(dict[str, Any]):
    pass


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (AttrDict(a=AttrDict(b=1)), {"a": {"b": 1}}),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        (collections.OrderedDict(a=(1, [2])), {"a": (1, [2])}),
        (np.float64(0.5), 0.5),
        (np.arange(3), [0, 1, 2]),
        (Path("a/b"), "a/b"),
        (None, None),
    ],
)
def test_plain_types(value: Any, expected: Any) -> None:
    found = saved_arguments({"it": value})["it"]
    assert (type(found), found) == (type(expected), expected)


def test_what_is_no_data_is_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert saved_arguments({"a": 1, "fn": {"x": [print]}}) == {"a": 1}
    assert "'fn'" in caplog.text
    assert "builtin_function_or_method at fn['x'][0]" in caplog.text


def test_secrets_of_the_config_stay_out() -> None:
    conf = {"checkpoint_storage": {"type": "s3", "secret_key": "hunter2"}}
    assert "hunter2" not in str(saved_arguments({"exp_conf": conf}))
    assert conf["checkpoint_storage"]["secret_key"] == "hunter2"


def test_checkpoints_load_without_trust_whatever_the_hparams_are(tmp_path: Path) -> None:
    used = trainer(max_epochs=1)
    module_cls = to_lightning(Linear)
    used.fit(module_cls(hparams=AttrDict(lr=np.float32(0.5)), other=AttrDict(a=1)))
    used.save_checkpoint(tmp_path / "a.ckpt")
    loaded = torch.load(tmp_path / "a.ckpt", weights_only=True)
    assert loaded["hyper_parameters"]["hparams"] == {"lr": 0.5}
    again: Any = module_cls.load_from_checkpoint(tmp_path / "a.ckpt")
    assert again.trial.kwargs == {"other": {"a": 1}}
