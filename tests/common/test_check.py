"""Each check passes, or fails with the text of Determined 0.38.1."""

from __future__ import annotations

import inspect
import math
from typing import Any

import pytest

from det_compat.common import check

VALUES: list[tuple[Any, ...]] = [
    (1, 1),
    (1, 2),
    (2, 1),
    (math.nan, math.nan),
    ([1, 2], [3, 4]),
    ("ab", 2),
    ("a", "abc"),
    ("d", {"a": 1}),
    (None, None),
    (True, int),
    (1, int),
    (bool, int),
    (str, int),
    (0, (int, str)),
]


def names() -> list[str]:
    real = pytest.importorskip("determined.common.check")
    return sorted(name for name, value in vars(real).items() if inspect.isfunction(value))


def outcome(module: Any, name: str, arguments: tuple[Any, ...]) -> str:
    try:
        return repr(getattr(module, name)(*arguments))
    except module.CheckFailedError as error:
        return f"failed: {error}"
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("name", names())
def test_a_check_is_that_of_the_reference(name: str) -> None:
    from determined.common import check as real

    takes_two = len(inspect.signature(getattr(real, name)).parameters) == 3
    for values in VALUES:
        given = values if takes_two else values[:1]
        for arguments in (given, (*given, "a reason")):
            assert outcome(check, name, arguments) == outcome(real, name, arguments), arguments
