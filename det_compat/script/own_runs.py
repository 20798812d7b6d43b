"""Runs of scripts without a config: who keeps how they go, beside what they report.

``det-compat run`` has that kept; a script that ``python`` runs leaves its reports alone.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

logger = logging.getLogger("determined.core")


class Keeper(Protocol):
    """Keeps a run while the block lasts."""

    def __call__(
        self,
        folder: Path,
        config: Mapping[str, Any],
        storage: str,
        is_preempted: Callable[[], bool],
    ) -> AbstractContextManager[None]:
        """Begin with it.

        Args:
            folder: the run's, in which its reports are.
            config: what is known of it, as in an experiment config.
            storage: the path or URL of its checkpoints.
            is_preempted: whether it has been told to stop.
        """


_keeper: Keeper | None = None


def keep_by(keeper: Keeper) -> None:
    """Have ``keeper`` keep what begins from now on."""
    global _keeper
    _keeper = keeper


def are_kept(folder: Path) -> bool:
    """Whether somebody keeps the runs of this process, and one can be kept in ``folder``.

    A folder that cannot be written to is told of: no script ends for it.
    """
    if _keeper is None:
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError as error:
        logger.warning(f"det-compat runs will not list this run: {error}")
        return False


def kept(
    folder: Path,
    config: Mapping[str, Any],
    storage: str,
    is_preempted: Callable[[], bool] = lambda: False,
) -> AbstractContextManager[None]:
    """Keep a run while the block lasts, if somebody does; see ``Keeper``."""
    if _keeper is None:
        return contextlib.nullcontext()
    return _keeper(folder, config, storage, is_preempted)
