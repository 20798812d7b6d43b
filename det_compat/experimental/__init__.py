"""The names of ``determined.experimental`` 0.12 to 0.38.1 that need no cluster."""

from typing import TYPE_CHECKING

from det_compat.shared.lazy_names import lazy_names

if TYPE_CHECKING:
    from det_compat.experimental.local import create as create
    from det_compat.experimental.local import create_trial_instance as create_trial_instance
    from det_compat.experimental.local import test_one_batch as test_one_batch

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    dict.fromkeys(
        ("create", "create_trial_instance", "test_one_batch"), "det_compat.experimental.local"
    ),
)
