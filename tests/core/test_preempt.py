from __future__ import annotations

from det_compat.core import Context, PreemptContext


def test_nobody_takes_the_machine_away() -> None:
    preempt = PreemptContext()
    assert preempt.should_preempt() is False
    preempt.acknowledge_preemption_signal()
    assert preempt.should_preempt(auto_ack=False) is False


def test_a_context_has_one() -> None:
    assert isinstance(Context().preempt, PreemptContext)
