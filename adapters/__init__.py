"""Where trials meet Lightning."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from det_compat.shared.importing import large_imports
from det_compat.shared.lazy_names import lazy_names

if __name__ == "adapters":
    raise ImportError(
        "import det_compat.adapters, not adapters: a second copy of it would share no state with "
        "the first"
    )

if TYPE_CHECKING:
    from det_compat.adapters.module import TrialModule as TrialModule


def to_lightning(
    trial_cls: type,
    make_data_loaders: Callable[..., Any] | None = None,
    download_data: Callable[..., Any] | None = None,
) -> type[TrialModule]:
    """A LightningModule class for a PyTorchTrial class of any generation, of the same name.

    ``Module(hparams=None, exp_conf=None, aggregation_frequency=1, **trial_kwargs)`` are its
    arguments; they mean what they mean to ``TrialModule``.

    Args:
        trial_cls: the trial class.
        make_data_loaders: for a trial without loader methods: the function, called with experiment
            config and hparams, that returns training and validation data. Without it, the function
            of that name in the module of the trial class.
        download_data: likewise, the function that is called once per machine before.

    Raises:
        TypeError: ``trial_cls`` is no trial class.
    """
    # Which Lightning it is may be decided by what the program imports after this function.
    with large_imports("det_compat.adapters.module"):
        from det_compat.adapters.module import module_class

    return module_class(trial_cls, make_data_loaders, download_data)


# Some rooms of this package need no Lightning, whose import takes seconds.
__getattr__, __dir__, __all__ = lazy_names(
    __name__, {"TrialModule": "det_compat.adapters.module"}, own=("to_lightning",)
)
