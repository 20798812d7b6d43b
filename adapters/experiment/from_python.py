"""``det_compat.fit``: a run whose Trainer's flags are objects of Python, and no options."""

import inspect
import os
from collections.abc import Mapping
from typing import Any

from jsonargparse import Namespace

from det_compat.adapters.experiment.cli import Given, carry_out, size_of, what_to_mend
from det_compat.adapters.experiment.options import with_changes
from det_compat.adapters.experiment.trainer import check_devices, trainer_flags
from det_compat.adapters.generations.generation import check_trial_class
from det_compat.adapters.lightning.package import pl
from det_compat.config.experiment import ExperimentConfig
from det_compat.experiment import hyperparameters
from det_compat.experiment.errors import FitError
from det_compat.experiment.request import Request
from det_compat.experiment.run_folder import RunFolder
from det_compat.shared.spelling import did_you_mean

# What a run decides if nobody did.
_LEFT_OPEN = dict.fromkeys(("logger", "profiler", "enable_progress_bar", "callbacks"))


def train(
    request: Request,
    experiment: ExperimentConfig,
    flags: Mapping[str, Any],
    *,
    trial_cls: type | None = None,
    hparams: Mapping[str, Any] | None = None,
    seed: int | None = None,
    ckpt_path: str | os.PathLike[str] | None = None,
) -> RunFolder:
    """Train as ``experiment`` says; returns the run's folder.

    Args:
        request: where the run is, and whether it goes on.
        experiment: the config.
        flags: flags of ``pl.Trainer``, over those of the config.
        trial_cls: the trial class; by default that of the config's entrypoint is imported.
        hparams: hyperparameters over those of the config.
        seed: in place of the config's.
        ckpt_path: a checkpoint to begin with.

    Raises:
        FitError: there is something for the user to mend.
        SystemExit: the run was told to end.
    """
    _check_flags(flags)
    constants = experiment.hyperparameters.constants()
    experiment = with_changes(
        experiment, hparams=hyperparameters.merged(constants, hparams or {}), seed=seed
    )
    found = {**trainer_flags(experiment), **flags}
    check_devices(experiment, found.get("devices"), request.again())
    # The trial is trained in its MODEL_DIR.
    arguments = {"ckpt_path": None if ckpt_path is None else _path(ckpt_path)}

    def make() -> tuple[Namespace, dict[str, Any]]:
        options = Namespace(**{**_LEFT_OPEN, **found})
        return options, arguments

    given = Given(
        make, trial_cls=trial_cls, size=size_of(found.get("devices"), found.get("num_nodes"))
    )
    with what_to_mend(request.model_dir):
        if trial_cls is not None:
            _check_trial(trial_cls)
        return carry_out(request, experiment, given).start.folder


def _check_flags(flags: Mapping[str, Any]) -> None:
    known = [*inspect.signature(pl.Trainer).parameters]
    for name in flags:
        if name not in known:
            meant = did_you_mean(name, known)
            raise FitError(f"fit() and pl.Trainer have no argument {name!r}{meant}")


def _check_trial(trial_cls: type) -> None:
    try:
        check_trial_class(trial_cls)
    except TypeError as error:
        raise FitError(f"trial_cls: {error}") from error


def _path(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    return os.path.abspath(text) if os.path.exists(text) else text
