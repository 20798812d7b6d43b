"""What rewriting code needs that det_compat itself does not."""

from __future__ import annotations

import importlib.util


def check_extra() -> None:
    """Make sure that the extra ``migrate`` is installed.

    Raises:
        ImportError: it is not.
    """
    if importlib.util.find_spec("libcst") is None:
        raise ImportError("rewriting code needs LibCST: pip install 'det-compat[migrate]'")
