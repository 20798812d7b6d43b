"""How much a command prints: ``--quiet``, ``--log-level``, and bars where somebody sees them."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator

LEVELS = ("debug", "info", "warning", "error")
# Lightning gives its loggers a level and a handler of their own.
_LOGGERS = ("", "det_compat", "determined", "pytorch_lightning", "lightning", "lightning.pytorch")

# Lightning 2.6.6 says it of its own code, with torch 2.13 or later: users can do nothing about it.
_OF_LIGHTNING_ITSELF = r"`isinstance\(treespec, LeafSpec\)` is deprecated"


def shows_progress() -> bool:
    """Whether bars are shown: in a terminal, an interactive Python or a notebook, or if told so."""
    is_seen = sys.stdout.isatty() or hasattr(sys, "ps1")
    return is_seen or os.environ.get("DET_COMPAT_PROGRESS") == "1"


@contextlib.contextmanager
def verbosity(*, quiet: bool = False, level: str | None = None) -> Iterator[None]:
    """Within the block nothing is printed to standard output if ``quiet``, and logs have a level.

    Args:
        quiet: whether only warnings and errors are told, on standard error.
        level: one of LEVELS; by default that of each logger, or ``warning`` if ``quiet``.
    """
    level = level or ("warning" if quiet else None)
    with contextlib.ExitStack() as after:
        after.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", _OF_LIGHTNING_ITSELF)
        if quiet:
            nothing = after.enter_context(open(os.devnull, "w", encoding="utf-8"))
            after.enter_context(contextlib.redirect_stdout(nothing))
        if level is not None:
            after.enter_context(_logging_at(getattr(logging, level.upper())))
        yield


@contextlib.contextmanager
def _logging_at(level: int) -> Iterator[None]:
    """Let all of a program's logging be of ``level`` or above, whoever sets levels meanwhile."""
    before = {name: logging.getLogger(name).level for name in _LOGGERS}
    disabled = logging.root.manager.disable
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(level)
    # Importing Lightning sets its levels.
    logging.disable(level - 1)
    try:
        yield
    finally:
        logging.disable(disabled)
        for name, was in before.items():
            logging.getLogger(name).setLevel(was)
