from __future__ import annotations

import copy
from typing import Any

import pytest

from det_compat.checkpoint.content import check_content, check_lightning_content
from det_compat.errors import InvalidCheckpointException

RANK = dict.fromkeys(
    (
        "random",
        "cuda_random",
        "loaders_built",
        "data",
        "validation_generators",
        "period",
        "gradients",
    )
)
WHOLE: dict[str, Any] = {
    "state": {
        "models_state_dict": [{}],
        "lr_schedulers_state_dict": [],
        "rng_state": {"cpu_rng_state": 1, "np_rng_state": 2, "random_rng_state": 3},
    },
    "counters": {"batches_trained": 3, "epochs_trained": None},
    "continuation": {"ranks": [RANK], "epoch_len": 4, "stop_requested": False},
}


def test_what_is_whole_passes() -> None:
    check_content("DIR", **WHOLE)
    check_content("DIR", {}, {}, None)


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (["state"], [1], r"its state is list \[1\]; expected a dict"),
        (["state", "models_state_dict"], {"a": 1}, "models_state_dict .state. is dict"),
        (["state", "callbacks"], [1], "callbacks .state. is list .1.; expected dict"),
        (["state", "rng_state"], {"cpu_rng_state": 1}, "has no np_rng_state, random_rng_state, on"),
        (["counters"], 5, "its trial state is int 5; expected a dict"),
        (["counters"], [[1]], "its trial state is list"),
        (["continuation", "published"], "x", "published .continuation. is str 'x'; expected dict"),
        (["counters"], None, "its trial state is NoneType None; expected a dict"),
        (["counters", "batches_trained"], "3", "batches_trained .trial state. is str '3'; expec"),
        (["continuation"], 7, "its continuation is int 7; expected a dict"),
        (["continuation"], {}, "its continuation has no ranks, epoch_len, stop_requested, only no"),
        (["continuation", "ranks"], 2, "ranks .continuation. is int 2; expected list or tuple"),
        (["continuation", "ranks"], [RANK, {"data": 1}], "continuation of rank 1 has no random,"),
    ],
)
def test_what_is_missing_or_of_another_type_is_named(
    keys: list[str], value: Any, message: str
) -> None:
    given = copy.deepcopy(WHOLE)
    target = given
    for key in keys[:-1]:
        target = target[key]
    target[keys[-1]] = value
    with pytest.raises(InvalidCheckpointException, match=f"DIR cannot be gone on from.*{message}"):
        check_content("DIR", **given)


def test_what_lightnings_checkpoints_hold_is_checked_likewise() -> None:
    check_lightning_content("a.ckpt", {**WHOLE["state"], "trial_state": {"batches_trained": 3}})
    for content in ("x", {"trial_state": 5}, {"continuation": "x"}):
        with pytest.raises(InvalidCheckpointException, match=r"a\.ckpt cannot be gone on from"):
            check_lightning_content("a.ckpt", content)
