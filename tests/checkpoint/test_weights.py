from __future__ import annotations

from typing import Any

import pytest

from det_compat.checkpoint.weights import by_model, under_names, without_ddp_prefix


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
