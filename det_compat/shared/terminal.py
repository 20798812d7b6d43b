"""What people read: Rich, where it shows texts as they are."""

import sys
from typing import Any

from rich.console import Console

_ENDLESS = 10_000  # columns


def console(*, wraps: bool = True, **options: Any) -> Console:
    """A console for standard output that takes no name of a user's for markup or an emoji.

    Without it ``train.py:100:9`` has an emoji, and a metric ``[bold]`` is not to be seen. In
    a notebook it is text, too, which logs can copy, and not HTML.

    Args:
        wraps: whether lines are broken where there is no terminal, too: at 140 columns. Names and
            paths that another program reads are better left whole.
        **options: arguments of Rich's ``Console``.

    Raises:
        ImportError: Rich is not installed.
    """
    width = None if sys.stdout.isatty() else 140 if wraps else _ENDLESS
    plain = {"emoji": False, "markup": False, "force_jupyter": False}
    return Console(**{"width": width, **plain, **options})
