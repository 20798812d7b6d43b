"""Processes: the signals that they are passed, and whether they can be reached."""

import contextlib
import logging
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any

logger = logging.getLogger("determined")

_FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGBREAK")


def signal_process_tree(p: "subprocess.Popen[Any]", signum: int) -> None:
    """Send a signal to every process below ``p``, and not to ``p``; a failure is logged."""
    try:
        import psutil

        for child in psutil.Process(p.pid).children(recursive=True):
            child.send_signal(signum)
    except ImportError:
        logger.error(f"signal {signum} does not reach children without psutil: pip install psutil")
    except Exception as error:
        logger.error(f"{error} trying to forward signal {signum} to children")


@contextlib.contextmanager
def forward_signals(
    p: "subprocess.Popen[Any]", *signums: int, signal_children: bool = False
) -> Iterator[None]:
    """Pass signals of this process on to ``p`` inside the block.

    Args:
        p: the process.
        signums: which signals; by default those that end or wake processes.
        signal_children: whether processes below ``p`` get them, too.
    """
    chosen = signums or tuple(getattr(signal, s) for s in _FORWARDED if hasattr(signal, s))

    def pass_on(signum: int, frame: Any) -> None:
        if signal_children:
            signal_process_tree(p, signum)
        p.send_signal(signum)

    before: dict[int, Any] = {}
    try:
        for number in chosen:
            before[number] = signal.signal(number, pass_on)
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


def check_sshd(peer_addr: str, deadline: float, port: int) -> None:
    """Wait until an SSH server greets at ``peer_addr:port``.

    Raises:
        ValueError: ``deadline``, in seconds since the epoch, has passed.
    """
    while True:
        try:
            with socket.create_connection((peer_addr, port), timeout=1) as connection:
                if connection.recv(1):
                    return
        except OSError:
            pass
        if time.time() > deadline:
            raise ValueError(
                f"Chief machine was unable to connect to sshd on peer machine at {peer_addr}:{port}"
            )
        time.sleep(0.1)
