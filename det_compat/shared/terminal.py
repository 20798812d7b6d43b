"""What people read: Rich, where it shows texts as they are."""

import sys
from typing import Any

from rich.console import Console


def console(**options: Any) -> Console:
    """A console for standard output that takes no name of a user's for markup or an emoji.

    Without it ``train.py:100:9`` has an emoji, and a metric ``[bold]`` is not to be seen. In
    a notebook it is text, too, which logs can copy, and not HTML.

    Args:
        **options: arguments of Rich's ``Console``. By default it is 140 columns wide where there is
            no terminal that a table has to fit.

    Raises:
        ImportError: Rich is not installed.
    """
    width = None if sys.stdout.isatty() else 140
    plain = {"emoji": False, "markup": False, "force_jupyter": False}
    return Console(**{"width": width, **plain, **options})
