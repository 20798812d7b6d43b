from __future__ import annotations

import datetime
import enum
import functools
import inspect
import math
import random
import sys
import uuid
from typing import Any

import numpy as np
import pytest

from det_compat import util


@pytest.fixture
def reference() -> Any:
    return pytest.importorskip("determined").util


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds: list[float] = []
    monkeypatch.setattr("det_compat.util.downloads.time.sleep", seconds.append)
    return seconds


def blob(failures: int) -> Any:
    """A Blob whose first downloads fail, and draw from ``random`` as google's own retries do."""
    storage = pytest.importorskip("google.cloud.storage")

    class Flaky(storage.Blob):
        tries = 0

        def download_as_bytes(self) -> bytes:
            self.tries += 1
            random.random()
            if self.tries <= failures:
                raise ConnectionError(f"try {self.tries}")
            return b"data"

    return Flaky("name", bucket=None)


def test_a_download_is_tried_again_after_longer_and_longer_waits(slept: list[float]) -> None:
    assert util.download_gcs_blob_with_backoff(blob(failures=4), max_backoff=3) == b"data"
    assert [1 <= slept[0] < 2, 2 <= slept[1] <= 3, slept[2:]] == [True, True, [3, 3]]


@pytest.mark.parametrize("failures", [0, 2, 9])
def test_a_download_leaves_the_random_state_alone(slept: list[float], failures: int) -> None:
    state = random.getstate()
    try:
        util.download_gcs_blob_with_backoff(blob(failures), n_retries=3)
    except RuntimeError:
        assert failures == 9
    assert random.getstate() == state


def test_a_download_that_never_works_says_why(slept: list[float]) -> None:
    with pytest.raises(RuntimeError, match=r"'name': 3 tries failed.*try 3") as raised:
        util.download_gcs_blob_with_backoff(blob(failures=9), n_retries=3)
    assert isinstance(raised.value.__cause__, ConnectionError)
    assert len(slept) == 2


def test_a_download_takes_a_blob_only() -> None:
    pytest.importorskip("google.cloud.storage")
    with pytest.raises(TypeError, match=r"google\.cloud\.storage\.Blob, got str"):
        util.download_gcs_blob_with_backoff("gs://bucket/name")


def test_a_download_without_the_package_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.cloud", None)
    with pytest.raises(ImportError, match="pip install google-cloud-storage"):
        util.download_gcs_blob_with_backoff(object())


class Base:
    def method(self, a: int, b: int = 0) -> None: ...


class Child(Base):
    def method(self, a: int, b: int = 0) -> None: ...


class Heir(Base):
    value = 3


@pytest.mark.parametrize("method", [Base().method, Child().method, Heir().method, 3, None])
def test_is_overridden(reference: Any, method: Any) -> None:
    assert util.is_overridden(method, Base) is reference.is_overridden(method, Base)
    assert util.is_overridden(Child().method, Base) is True


def test_a_partial_overrides() -> None:
    assert util.is_overridden(functools.partial(print), Base) is True


@pytest.mark.parametrize("name", ["self", "a", "b", "c"])
@pytest.mark.parametrize("pos", [None, 1, 2, 3])
def test_has_param(reference: Any, name: str, pos: int | None) -> None:
    method = Base().method
    assert util.has_param(method, name, pos) is reference.has_param(method, name, pos)


def test_get_member_func() -> None:
    heir = Heir()
    assert util.get_member_func(heir, "method") == heir.method
    assert util.get_member_func(heir, "value") is None
    assert util.get_member_func(heir, "absent") is None


@pytest.mark.parametrize(
    "number",
    [0, 0.0, 1, -1.33333, 3333.333, 12345.678, 1e-9 / 3, 0.99996, 1000, -math.inf, 2 / 3e5],
)
def test_humanize_float(reference: Any, number: float) -> None:
    assert util.humanize_float(number) == reference.humanize_float(number)


def test_humanize_nan() -> None:
    assert math.isnan(util.humanize_float(math.nan))


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    HIGH = 2


class Custom:
    def __json__(self) -> list[int]:
        return [1, 2]


ENCODED = [
    {"a": [1, 2.5, True, None, "x"], "b": {"c": (1, 2)}},
    [math.nan, math.inf, -math.inf, np.float32("nan"), np.float64(0.5), np.int64(3)],
    [np.arange(4).reshape(2, 2), np.array(1.5), b"bytes", Colour.RED, Level.HIGH],
    [datetime.datetime(2024, 1, 2, 3, 4, 5), uuid.UUID(int=5), Custom()],
    {"z": 1, "a": 2},
]


@pytest.mark.parametrize("obj", ENCODED, ids=range(len(ENCODED)))
@pytest.mark.parametrize("options", [{}, {"indent": "  ", "sort_keys": True}], ids=str)
def test_json_encode(reference: Any, obj: Any, options: dict[str, Any]) -> None:
    assert util.json_encode(obj, **options) == reference.json_encode(obj, **options)


@pytest.mark.parametrize("obj", [object(), {1, 2}, 1j, [object()]], ids=range(4))
def test_json_encode_refuses_what_json_does_not_have(reference: Any, obj: Any) -> None:
    for encode in (util.json_encode, reference.json_encode):
        with pytest.raises(TypeError):
            encode(obj)


@pytest.mark.parametrize("name", util.__all__)
def test_signatures_are_the_references(reference: Any, name: str) -> None:
    theirs = inspect.signature(getattr(reference, name)).parameters.values()
    ours = inspect.signature(getattr(util, name)).parameters.values()
    assert [(p.name, p.default) for p in ours] == [(p.name, p.default) for p in theirs]
