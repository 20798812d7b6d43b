"""``determined.common.check``: assertions that say what they got.

Each has a second name, as the releases since 0.12 have. The texts are those of Determined 0.38.1,
since tests compare them.
"""

from collections.abc import Container, Sized
from typing import Any


class CheckFailedError(Exception):
    """A value is not what it should be."""


def _fail(found: str, reason: str | None, more: str = "") -> None:
    because = "" if reason is None else f": {reason}"
    raise CheckFailedError(f"CHECK FAILED! {found}{because}{more}")


def true(val: Any, reason: str | None = None) -> None:
    """Raise CheckFailedError unless ``val`` is true."""
    if not val:
        _fail(f"Got {val}, expected True", reason)


def false(val: Any, reason: str | None = None) -> None:
    """Raise CheckFailedError unless ``val`` is false."""
    if val:
        _fail(f"Got {val}, expected False", reason)


def is_none(val: Any, reason: str | None = None) -> None:
    """Raise CheckFailedError unless ``val`` is None."""
    if val is not None:
        _fail(f"Got {val}, expected None", reason)


def is_not_none(val: Any, reason: str | None = None) -> None:
    """Raise CheckFailedError if ``val`` is None."""
    if val is None:
        _fail(f"Got {val}, expected non-None", reason)


def eq(val: Any, expected: Any, reason: str | None = None) -> None:
    """Raise CheckFailedError unless ``val == expected``."""
    if val == expected:
        return
    _fail(f"Got {val}, expected {expected}", reason)


def not_eq(x: Any, y: Any, reason: str | None = None) -> None:
    """Raise CheckFailedError unless ``x != y``."""
    if x != y:
        return
    _fail(f"Got {x}, expected value != {y}", reason)


def gt(x: Any, y: Any, reason: str | None = None) -> None:
    """Raise CheckFailedError unless ``x > y``."""
    if not x > y:
        _fail(f"Got {x}, expected value > {y}", reason)


def gt_eq(x: Any, y: Any, reason: str | None = None) -> None:
    """Raise CheckFailedError unless ``x >= y``."""
    if not x >= y:
        _fail(f"Got {x}, expected value >= {y}", reason)


def lt(x: Any, y: Any, reason: str | None = None) -> None:
    """Raise CheckFailedError unless ``x < y``."""
    if not x < y:
        _fail(f"Got {x}, expected value < {y}", reason)


def lt_eq(x: Any, y: Any, reason: str | None = None) -> None:
    """Raise CheckFailedError unless ``x <= y``."""
    if not x <= y:
        _fail(f"Got {x}, expected value <= {y}", reason)


def equal_lengths(x: Sized, y: Sized, reason: str | None = None) -> None:
    """Raise CheckFailedError unless ``x`` and ``y`` are of one length."""
    if len(x) != len(y):
        lengths = f"Expected lengths {len(x)} and {len(y)} to be equal"
        _fail(f"{lengths}; values: {x}, {y}", reason)


def len_eq(val: Sized, expected_len: int, reason: str | None = None) -> None:
    """Raise CheckFailedError unless ``val`` has ``expected_len`` items."""
    if len(val) != expected_len:
        _fail(f"Got length {len(val)}, expected length {expected_len}", reason, f". Values: {val}")


def is_in(val: Any, expected: Container[Any], reason: str | None = None) -> None:
    """Raise CheckFailedError unless ``val in expected``."""
    if val not in expected:
        shown = list(expected) if isinstance(expected, dict) else expected
        _fail(f"'{val}' is not in {shown}", reason)


def not_in(val: Any, expected: Container[Any], reason: str | None = None) -> None:
    """Raise CheckFailedError if ``val in expected``."""
    if val in expected:
        _fail(f"Got {val}, expected value not in {expected}", reason)


def is_type(val: Any, expected: type, reason: str | None = None) -> None:
    """Raise CheckFailedError unless ``val`` is of ``expected`` itself, and of no subclass."""
    if type(val) is not expected:
        _fail(f"{val} has type {type(val)}, expected type {expected}", reason)


def is_instance(val: Any, expected: Any, reason: str | None = None) -> None:
    """Raise CheckFailedError unless ``isinstance(val, expected)``."""
    if not isinstance(val, expected):
        _fail(f"{val} has type {type(val)}, expected isinstance of {expected}", reason)


def is_not_instance(val: Any, expected: Any, reason: str | None = None) -> None:
    """Raise CheckFailedError if ``isinstance(val, expected)``."""
    if isinstance(val, expected):
        _fail(f"{val} has type {type(val)}, expected not isinstance of {expected}", reason)


def is_subclass(val: Any, expected: Any, reason: str | None = None) -> None:
    """Raise CheckFailedError unless ``issubclass(val, expected)``."""
    if not issubclass(val, expected):
        _fail(f"{val} has type {type(val)}, expected issubclass of {expected}", reason)


check_true, check_false = true, false
check_none, check_not_none = is_none, is_not_none
check_eq, check_not_eq = eq, not_eq
check_gt, check_gt_eq, check_lt, check_lt_eq = gt, gt_eq, lt, lt_eq
check_eq_len, check_len = equal_lengths, len_eq
check_in, check_not_in = is_in, not_in
check_type, check_isinstance, check_not_isinstance = is_type, is_instance, is_not_instance
check_issubclass = is_subclass
