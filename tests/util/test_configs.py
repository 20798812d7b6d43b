from __future__ import annotations

import logging
from typing import Any

import pytest

from det_compat.errors import InvalidExperimentException
from det_compat.util import configs

CONFIG = {
    "checkpoint_storage": {"type": "s3", "access_key": "a", "secret_key": "b"},
    "environment": {"registry_auth": {"username": "u", "password": "p"}},
    "data": {"secrets": {"token": "t"}, "path": "/data"},
}
CONFIGS: list[dict[str, Any]] = [
    CONFIG,
    {},
    {"environment": {"registry_auth": {"password": None}}, "data": {"secrets": None}},
]


@pytest.fixture
def real() -> Any:
    return pytest.importorskip("determined").util


@pytest.mark.parametrize("config", CONFIGS)
def test_secrets_are_masked_in_a_copy(real: Any, config: dict[str, Any]) -> None:
    before = repr(config)
    assert configs.mask_config_dict(config) == real.mask_config_dict(config)
    assert repr(config) == before


def test_merging(real: Any) -> None:
    base = {"a": {"b": 1, "c": {"d": 2}}, "e": [1]}
    for source in ({}, {"a": {"c": {"x": 1}}}, {"a": 3}, {"e": {"f": 1}, "g": {}}):
        if "e" in source:
            continue  # The reference fails where a dict meets what is none.
        assert configs.merge_dicts(base, source) == real.merge_dicts(base, source)


@pytest.mark.parametrize("hparams", [{}, {"global_batch_size": "1"}, {"global_batch_size": 1}])
def test_batch_sizes_that_cannot_be(real: Any, hparams: dict[str, Any]) -> None:
    with pytest.raises(InvalidExperimentException) as ours:
        configs.calculate_batch_sizes(hparams, 2, "Trial")
    with pytest.raises(BaseException) as theirs:
        real.calculate_batch_sizes(hparams, 2, "Trial")
    assert str(ours.value) == str(theirs.value)


def test_batch_sizes(real: Any, caplog: pytest.LogCaptureFixture) -> None:
    for size, slots in ((8, 2), (9, 2), (5, 0), (1, 1)):
        arguments = ({"global_batch_size": size}, slots, "Trial")
        with caplog.at_level(logging.WARNING):
            caplog.clear()
            ours = configs.calculate_batch_sizes(*arguments), caplog.messages[:]
            caplog.clear()
            assert ours == (real.calculate_batch_sizes(*arguments), caplog.messages)


def test_entrypoints_and_duplicates(real: Any) -> None:
    for text in ("a:B", "a.b:C", "python3 train.py", "a:B.c", ":B", "a:"):
        assert configs.match_legacy_trial_class(text) is real.match_legacy_trial_class(text)
    for items in ([], [1, 2, 1], ["a", "b"], [3, 3, 3]):
        assert configs.filter_duplicates(items) == real.filter_duplicates(items)
