"""Where trials meet Lightning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from det_compat.shared.lazy_names import lazy_names

if __name__ == "adapters":
    raise ImportError(
        "import det_compat.adapters, not adapters: a second copy of it would share no state with "
        "the first"
    )

if TYPE_CHECKING:
    from det_compat.adapters.module import TrialModule as TrialModule
    from det_compat.adapters.module import to_lightning as to_lightning

# Some rooms of this package need no Lightning, whose import takes seconds.
__getattr__, __dir__, __all__ = lazy_names(
    __name__, dict.fromkeys(("TrialModule", "to_lightning"), "det_compat.adapters.module")
)
