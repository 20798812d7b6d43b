"""The switch for scripts whose calls have no place for ``trust=True``."""

from __future__ import annotations

import os

VARIABLE = "DET_COMPAT_TRUST_CHECKPOINTS"


def trusts_checkpoints() -> bool:
    """Whether the environment says that checkpoints may run code when they are loaded."""
    return os.environ.get(VARIABLE) == "1"
