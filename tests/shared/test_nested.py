from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any

import pytest

from det_compat.shared.nested import by_dotted_name, map_nested

Pair = namedtuple("Pair", "a b")


def doubled(item: Any, _: str) -> Any:
    return item * 2


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 2),
        ({1: [2, (3,)], 4: {}}, {1: [4, (6,)], 4: {}}),
        (OrderedDict(a=1), {"a": 2}),
        (Pair(1, 2), (2, 4)),
    ],
)
def test_leaves_are_replaced_and_containers_are_plain(value: Any, expected: Any) -> None:
    found = map_nested(value, doubled)
    assert (type(found), found) == (type(expected), expected)


def test_keys_are_changed_if_asked_for() -> None:
    assert map_nested({1: 1, (2, 3): 2}, doubled, keys=True) == {2: 2, (4, 6): 4}


def test_a_leaf_is_told_where_it_is() -> None:
    seen: list[str] = []
    map_nested({"a": [1, {"b": 2}]}, lambda _, where: seen.append(where), "it")
    assert seen == ["it['a'][0]", "it['a'][1]['b']"]


def test_what_nested_dicts_hold_is_told_by_dotted_names() -> None:
    values = {"a": {"b": {"c": 1}, "d": {}}, "e": [{"f": 2}]}
    flat = {"x.a.b.c": 1, "x.a.d": {}, "x.e": [{"f": 2}]}
    assert dict(by_dotted_name(values, "x.")) == flat
    assert dict(by_dotted_name(values, whole="c"))["a.b"] == {"c": 1}
