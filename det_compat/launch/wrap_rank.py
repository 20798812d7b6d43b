"""``python -m determined.launch.wrap_rank RANK COMMAND...``: marks each line of output with a rank.

``RANK`` is a number, or names of environment variables, of which the first that is set has it. What
a carriage return ends counts as a line, so that progress bars are seen.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

_END = re.compile(rb"[\r\n]")


def lines(stream: Any) -> Iterator[str]:
    """The lines of an unbuffered stream, each with a line feed at its end.

    A line that is longer than a buffer comes in parts.
    """
    begun = b""
    while block := stream.read(io.DEFAULT_BUFFER_SIZE - 1 - len(begun)):
        *whole, begun = _END.split(begun + block)
        for line in whole:
            yield line.decode("utf-8", "replace") + "\n"
        if len(begun) >= io.DEFAULT_BUFFER_SIZE - 1:
            yield begun.decode("utf-8", "replace") + "\n"
            begun = b""
    if begun:
        yield begun.decode("utf-8", "replace") + "\n"


def _mark(stream: Any, to: Any, rank: int) -> None:
    for line in lines(stream):
        os.write(to.fileno(), f"[rank={rank}] {line}".encode())


def _rank(given: str) -> int | None:
    if given.isdecimal():
        return int(given)
    found = (os.environ[name] for name in given.split(",") if name in os.environ)
    return next(map(int, found), None)


def main() -> int:
    """Run the command that the arguments name; its exit status, 1 if there is no rank."""
    # A launcher may run this file by its path, without det_compat on the path.
    parser = argparse.ArgumentParser(
        usage="wrap_rank.py [-h] [--no-redirect-stdio] RANK SCRIPT...", description=__doc__
    )
    parser.add_argument("--no-redirect-stdio", action="store_true", help="has no effect")
    parser.add_argument("rank", metavar="RANK", help="a number, or names of variables")
    parser.add_argument("script", nargs=argparse.REMAINDER, metavar="SCRIPT...", help="the command")
    args = parser.parse_args()
    rank = _rank(args.rank)
    if rank is None:
        print(f"wrap_rank: none of the variables {args.rank} is set", file=sys.stderr)
        return 1
    process = subprocess.Popen(
        args.script, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    from det_compat.util.processes import forward_signals

    with forward_signals(process):
        marked = [
            threading.Thread(target=_mark, args=(process.stdout, sys.stdout, rank)),
            threading.Thread(target=_mark, args=(process.stderr, sys.stderr, rank)),
        ]
        for thread in marked:
            thread.start()
        for thread in marked:
            thread.join()
        return process.wait()


if __name__ == "__main__":
    sys.exit(main())
