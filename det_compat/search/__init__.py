"""Hyperparameter search: what Determined's searchers did, on Ray Tune.

``run(config, model_dir)`` is ``det-compat search CONFIG.yaml MODEL_DIR`` from Python. Ray is
imported when a search runs, and not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from det_compat.shared.lazy_names import lazy_names

if TYPE_CHECKING:
    from det_compat.search.errors import SearchError as SearchError
    from det_compat.search.search import run as run

__getattr__, __dir__, __all__ = lazy_names(
    __name__, {"SearchError": "det_compat.search.errors", "run": "det_compat.search.search"}
)
