"""Where trials meet Lightning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if __name__ == "adapters":
    raise ImportError(
        "import det_compat.adapters, not adapters: a second copy of it would share no state with "
        "the first"
    )

if TYPE_CHECKING:
    from det_compat.adapters.module import TrialModule, to_lightning

__all__ = ["TrialModule", "to_lightning"]


def __getattr__(name: str) -> Any:
    # Some rooms of this package need no Lightning, whose import takes seconds.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from det_compat.adapters import module

    return getattr(module, name)
