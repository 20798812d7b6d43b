"""The models of a trial as submodules of a module: called, saved and loaded like any others."""

from collections.abc import Mapping
from typing import Any

import torch

from det_compat.adapters.checkpoints import run_state
from det_compat.adapters.lightning.features.refusals import has_no_forward
from det_compat.adapters.lightning.package import pl
from det_compat.adapters.run.trial_run import TrialRun


class HasModels(pl.LightningModule):
    """Has the models of its run, without DistributedDataParallel, as the submodules of ``models``.

    So checkpoints have the same names on any number of ranks.
    """

    models: torch.nn.ModuleList
    _run: TrialRun | None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the trial's model makes of its input: for summaries, graphs and exports.

        Raises:
            InvalidExperimentException: it has another number of models than one.
        """
        if len(self.models) != 1:
            raise has_no_forward(type(self).__name__, len(self.models))
        return self.models[0](*args, **kwargs)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Weights as ``nn.Module`` has them; of sharded models whole, which every rank calls."""
        state = super().state_dict(*args, **kwargs)
        return state if self._run is None else self._run.steering.whole(state)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Load weights as ``nn.Module`` does; the trial is built first, if nothing has yet.

        The ``module.`` that DistributedDataParallel puts into names may be there or not.
        """
        self.configure_model()
        state_dict = run_state.under_names_of(self.models, state_dict)
        return super().load_state_dict(state_dict, strict=strict, assign=assign)
