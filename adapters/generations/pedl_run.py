"""What trials without loader methods have in common: a run of PEDL's, and data from functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from det_compat.adapters.generations.adapted import AdaptedTrial, with_hparams
from det_compat.adapters.generations.pedl_data import (
    CONTRACT,
    download,
    find_function,
    make_loaders,
)
from det_compat.adapters.generations.trial_class import (
    concrete,
    full_name,
    init_parameter,
    own_init,
)
from det_compat.errors import InvalidExperimentException
from det_compat.pedl.run import Run, begin, end, going_on, tell_processes
from det_compat.pytorch import PyTorchCallback, PyTorchTrialContext
from det_compat.pytorch.context.steering import Steering


class PedlRun(AdaptedTrial):
    """A trial whose hyperparameters ``pedl`` tells, and whose data come from functions.

    Download comes first, then what AdaptedTrial does, then both loaders from one call.
    """

    loader_functions: ClassVar[dict[str, Callable[..., Any] | None]] = {}
    contract: ClassVar[str] = f"PEDL's contract is {CONTRACT} in the trial's module"

    def __init__(self, context: PyTorchTrialContext, **kwargs: Any) -> None:
        steering = Steering(context)
        self.pedl = Run(steering.hparams or {}, steering.exp_conf or {})
        self._made: tuple[Any, Any] | None = None
        with going_on(self.pedl):
            self._find_data(context)
            super().__init__(context, **kwargs)

    def _find_data(self, context: PyTorchTrialContext) -> None:
        found = {
            name: find_function(name, self.trial_cls, given, self.pedl.exp_conf)
            for name, given in self.loader_functions.items()
        }
        if found["make_data_loaders"] is None:
            raise InvalidExperimentException(
                f"{full_name(self.trial_cls)} has no data: {self.contract}, or named by the "
                "config's entrypoints (data_loaders_function: module:function), or passed as "
                "make_data_loaders=... to to_lightning()"
            )
        self._make_data_loaders = found["make_data_loaders"]
        if found["download_data"] is not None:
            self.pedl.data_dir = download(found["download_data"], self.pedl, context.distributed)
            tell_processes()

    def make_trial(self, **kwargs: Any) -> Any:
        trial_cls = concrete(self.trial_cls)
        if init_parameter(self.trial_cls) in ("context", "trial_context"):
            return trial_cls(self.context, **kwargs)
        if own_init(self.trial_cls) is None:
            return trial_cls(**kwargs)
        return with_hparams(trial_cls, self.hparams, **kwargs)

    def build_callbacks(self) -> Any:
        with going_on(self.pedl):
            callbacks = super().build_callbacks()
        # First to start up and last to shut down: the others may ask for hyperparameters.
        own = {"det_compat.pedl": GoingOn(self.pedl)}
        return {**own, **callbacks} if isinstance(callbacks, dict) else callbacks

    def training_data(self) -> Any:
        self._made = self._make_loaders()
        return self._made[0]

    def validation_data(self) -> Any:
        # Without training data before it, when only a validation was asked for.
        _, validation = self._made or self._make_loaders()
        self._made = None
        return validation

    def _make_loaders(self) -> tuple[Any, Any]:
        with going_on(self.pedl):
            return make_loaders(self._make_data_loaders, self.pedl)


class GoingOn(PyTorchCallback):
    """Says from when to when the run is the one that ``pedl`` tells of."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def on_trial_startup(self, first_batch_idx: int, checkpoint_uuid: str | None) -> None:
        begin(self._run)

    def on_trial_shutdown(self) -> None:
        end(self._run)


def adapter(
    base: type[PedlRun],
    trial_cls: type,
    make_data_loaders: Callable[..., Any] | None,
    download_data: Callable[..., Any] | None,
) -> type:
    """A class of the context API that is ``base`` for ``trial_cls`` and these functions."""
    functions = {"make_data_loaders": make_data_loaders, "download_data": download_data}
    members = {"trial_cls": trial_cls, "loader_functions": functions}
    return type(trial_cls.__name__, (base,), members)
