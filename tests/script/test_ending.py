from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any

import pytest

from det_compat.script import ending


def test_a_signal_that_is_sent_on_is_no_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, did = SimpleNamespace(now=5.0), []
    note: Any = lambda *what: did.append(what)  # noqa: E731
    monkeypatch.setattr(ending, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(signal, "signal", note)
    monkeypatch.setattr(signal, "raise_signal", note)
    second = ending.SecondSignal()
    clock.now += 0.9
    second(signal.SIGTERM, None)
    assert did == []
    clock.now += 0.2
    second(signal.SIGTERM, None)
    assert did == [(signal.SIGTERM, signal.SIG_DFL), (signal.SIGTERM,)]
