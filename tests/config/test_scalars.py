from __future__ import annotations

import math

import pytest

from det_compat.config.scalars import resolve


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("1E4", 1e4),
        ("1e4", 1e4),
        (".5", 0.5),
        ("-.5e-3", -0.0005),
        ("1.", 1.0),
        ("+1.5", 1.5),
        ("08", 8.0),
        ("1_0.5", 10.5),
        ("1.0e-6", 1e-6),
    ],
)
def test_floats(text: str, value: float) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is float


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-17", -17),
        ("+3", 3),
        ("1_000", 1000),
        ("50_000", 50_000),
        ("0x1F", 31),
        ("0o17", 15),
        ("017", 15),
        ("-0b101", -5),
        (str(2**64 - 1), 2**64 - 1),
    ],
)
def test_integers(text: str, value: int) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is int


@pytest.mark.parametrize("text", ["true", "True", "yes", "on", "Y", "y", "ON"])
def test_true(text: str) -> None:
    assert resolve(text) is True


@pytest.mark.parametrize("text", ["false", "FALSE", "no", "off", "N", "n"])
def test_false(text: str) -> None:
    assert resolve(text) is False


@pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL"])
def test_null(text: str) -> None:
    assert resolve(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "None",
        "tRue",
        "1:30",
        "2020-01-01",
        "1e",
        "e4",
        "0x",
        "--1",
        "1.2.3",
        "_1",
        "+",
        ".",
        "1e999",
    ],
)
def test_text(text: str) -> None:
    assert resolve(text) == text


def test_a_number_too_large_for_an_integer_is_a_float_and_none_is_endless() -> None:
    assert resolve("9" * 30) == float("9" * 30)
    assert resolve("9" * 5000) == "9" * 5000
    assert resolve("-.inf") == -math.inf
    assert math.isnan(resolve(".nan"))  # type: ignore[arg-type]
