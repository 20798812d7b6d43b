"""Preemption, which only a Determined cluster had."""

from __future__ import annotations


class PreemptContext:
    """Never preempts."""

    def should_preempt(self, auto_ack: bool = True) -> bool:
        """False: no scheduler takes this machine away."""
        return False

    def acknowledge_preemption_signal(self) -> None:
        """Nothing to acknowledge."""
