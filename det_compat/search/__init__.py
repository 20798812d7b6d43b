"""Hyperparameter search: what Determined's searchers did, on Ray Tune.

``run(config, model_dir)`` is ``det-compat search CONFIG.yaml MODEL_DIR`` from Python. Ray is
imported when a search runs, and not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from det_compat.search.errors import SearchError

if TYPE_CHECKING:
    from det_compat.search.search import run as run

__all__ = ["SearchError", "run"]


def __getattr__(name: str) -> Any:
    if name == "run":
        from det_compat.search.search import run

        return run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
