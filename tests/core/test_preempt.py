from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from det_compat.core import (
    DummyDistributedContext,
    DummyPreemptContext,
    PreemptContext,
    PreemptMode,
)
from det_compat.core.preempt import SignalPreemptContext
from det_compat.script.ending import SecondSignal
from tests.core.threads import on_ranks


@pytest.fixture
def sigterm() -> Iterator[None]:
    """SIGTERM that ends a process, as it does outside of pytest."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


def term() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0)


@pytest.mark.usefixtures("sigterm")
def test_sigterm_preempts_between_start_and_close() -> None:
    context = SignalPreemptContext(DummyDistributedContext())
    with context:
        assert context.should_preempt() is False
        term()
        assert context.should_preempt() is True
        assert context.should_preempt(auto_ack=False) is True
        assert context.has_preempted
        # It is the same, sent on; a second one would end the process.
        term()
        assert isinstance(signal.getsignal(signal.SIGTERM), SecondSignal)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.usefixtures("sigterm")
def test_a_script_that_never_asks_ends_by_the_first_signal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SignalPreemptContext, "_GRACE", 0.01)
    killed = threading.Event()
    monkeypatch.setattr("det_compat.core.preempt.os.kill", lambda *_: killed.set())
    with SignalPreemptContext(DummyDistributedContext()) as context:
        signal.raise_signal(signal.SIGTERM)
        assert killed.wait(10)
        killed.clear()
    with SignalPreemptContext(DummyDistributedContext()) as context:
        monkeypatch.setattr(SignalPreemptContext, "_GRACE", 3600)
        signal.raise_signal(signal.SIGTERM)
        waiting = context._deadline
        assert context.should_preempt() is True
        waiting.join(10)
        assert not waiting.is_alive() and not killed.is_set()


@pytest.mark.usefixtures("sigterm")
def test_a_handler_of_the_script_is_left_alone() -> None:
    received = []
    signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    with SignalPreemptContext(DummyDistributedContext()) as context:
        term()
        assert context.should_preempt() is False
    assert received == [signal.SIGTERM]


def test_all_ranks_hear_what_the_chief_hears() -> None:
    def run(distributed: object) -> list[bool]:
        context = SignalPreemptContext(distributed)
        with context:
            context._received = context._dist.rank == 0
            return [context.should_preempt(), context.should_preempt()]

    assert on_ranks(run, 3) == [[True, True]] * 3


@pytest.mark.parametrize("kind", [DummyPreemptContext, SignalPreemptContext])
def test_who_may_ask(kind: type[DummyPreemptContext]) -> None:
    def run(distributed: object) -> object:
        with kind(distributed, PreemptMode.ChiefOnly) as context:
            try:
                return context.should_preempt()
            except RuntimeError as error:
                return str(error)

    chief, worker = on_ranks(run)
    assert chief is False
    assert "non-chief worker of rank=1" in str(worker)
    context = kind(DummyDistributedContext(), PreemptMode.WorkersAskMaster)
    with pytest.raises(RuntimeError, match=r"before PreemptContext.start"):
        context.should_preempt()
    assert context.start().should_preempt() is False
    with pytest.raises(RuntimeError, match="multiple times"):
        context.start()


class Session:
    """A session with a master, which says whether to stop."""

    def __init__(self) -> None:
        self.preempts = threading.Event()
        self.asked: list[str] = []
        self.posted: list[str] = []

    def get(self, path: str, params: dict[str, str], timeout: float) -> Session:
        if params["timeout_seconds"] != "0":
            self.preempts.wait(20)
        self.asked.append(path)
        return self

    def json(self) -> dict[str, bool]:
        return {"preempt": self.preempts.is_set()}

    def post(self, path: str) -> None:
        self.posted.append(path)


def test_a_master_is_asked_where_there_is_a_session() -> None:
    session = Session()
    with PreemptContext(session, "7", DummyDistributedContext()) as context:
        assert context.should_preempt() is False
        session.preempts.set()
        watcher = context._watcher
        assert watcher is not None
        watcher.join(20)
        assert context.should_preempt(auto_ack=False) is True and session.posted == []
        assert [context.should_preempt(), context.should_preempt()] == [True, True]
    assert session.posted == ["/api/v1/allocations/7/signals/ack_preemption"]
    assert set(session.asked) == {"/api/v1/allocations/7/signals/preemption"}
