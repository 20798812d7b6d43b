"""Where trials meet Lightning."""

from __future__ import annotations

if __name__ == "adapters":
    raise ImportError(
        "import det_compat.adapters, not adapters: a second copy of it would share no state with "
        "the first"
    )

from det_compat.adapters.module import TrialModule, to_lightning

__all__ = ["TrialModule", "to_lightning"]
