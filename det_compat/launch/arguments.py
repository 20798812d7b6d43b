"""What the launchers have in common: their command lines, and the wait for the end."""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from types import FrameType

_FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH")


def split_overrides(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments before ``--``, which are the launcher's, and those after it."""
    if "--" not in argv:
        return [], list(argv)
    at = list(argv).index("--")
    return list(argv[:at]), list(argv[at + 1 :])


def launcher_parser(
    usage: str, description: str, *, epilog: str | None = None
) -> argparse.ArgumentParser:
    """A parser for ``--trial TRIAL`` or a script with its arguments."""
    parser = argparse.ArgumentParser(usage=usage, description=description, epilog=epilog)
    parser.add_argument(
        "--trial", help="(deprecated) module:Class of a trial, in place of the script"
    )
    parser.add_argument(
        "script", metavar="SCRIPT...", nargs=argparse.REMAINDER, help="the command of each process"
    )
    return parser


def script_of(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> list[str]:
    """The command of each process, as a launcher was given it.

    Raises:
        SystemExit: there is none, or one next to ``--trial``.
    """
    script: list[str] = parsed.script or []
    if parsed.trial is not None and script:
        _end(parser, f"error: extra arguments to --trial: {script}")
    if parsed.trial is None and not script:
        _end(parser, "error: empty script is not allowed")
    if parsed.trial is not None:
        return ["python3", "-m", "determined.exec.harness", parsed.trial]
    return script


def _end(parser: argparse.ArgumentParser, why: str) -> None:
    parser.print_usage(sys.stderr)
    print(why, file=sys.stderr)
    sys.exit(1)


@contextlib.contextmanager
def forward_signals(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass on to a process what comes in the block of signals that end or wake one."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)

    numbers = [getattr(signal, name) for name in _FORWARDED if hasattr(signal, name)]
    before = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def run(command: Sequence[str]) -> int:
    """Run a command to its end, with the signals passed on; its exit status."""
    process = subprocess.Popen(command)
    with forward_signals(process):
        status = process.wait()
    # A process that a signal has ended counts as shells count it.
    return 128 - status if isinstance(status, int) and status < 0 else status
