"""Loading a trial from a Determined checkpoint, outside of training."""

from __future__ import annotations

import importlib
import json
import warnings
from pathlib import Path
from typing import Any

import torch

from det_compat import core
from det_compat.errors import InvalidCheckpointException
from det_compat.pytorch._checkpoint_file import load_state_dict_file, load_weights
from det_compat.pytorch._context import PyTorchTrialContext
from det_compat.pytorch._trial import PyTorchTrial
from det_compat.random_state import preserved_random_state


class CheckpointLoadContext(PyTorchTrialContext):
    """A context to build a trial with that is not trained: models stay where they are built."""

    def __init__(
        self, hparams: dict[str, Any] | None = None, exp_conf: dict[str, Any] | None = None
    ) -> None:
        super().__init__(
            core_context=core.Context(),
            trial_seed=0,
            hparams=hparams,
            slots_per_trial=1,
            num_gpus=torch.cuda.device_count(),
            exp_conf=exp_conf,
            aggregation_frequency=1,
            steps_completed=0,
            managed_training=False,
            debug_enabled=False,
        )


def load_trial_from_checkpoint_path(
    path: str,
    trial_class: type[PyTorchTrial] | None = None,
    trial_kwargs: dict[str, Any] | None = None,
    torch_load_kwargs: dict[str, Any] | None = None,
    **kwargs: Any,
) -> PyTorchTrial:
    """Build the trial of a checkpoint directory and load its models' weights.

    Args:
        path: the checkpoint's directory.
        trial_class: the class; without it, it is imported from the checkpoint's ``code`` folder.
        trial_kwargs: arguments of the class beside the context.
        torch_load_kwargs: arguments of ``torch.load``, ``map_location`` for example.
        **kwargs: an older way to give ``torch_load_kwargs``.

    Raises:
        InvalidCheckpointException: the directory is not a PyTorchTrial checkpoint.
        ValueError: the trial class cannot be imported, or both ways of arguments are used.
    """
    if kwargs and torch_load_kwargs:
        raise ValueError(
            f"got torch_load_kwargs={torch_load_kwargs} and also {sorted(kwargs)}: give all of "
            "them in torch_load_kwargs"
        )
    if kwargs:
        warnings.warn(
            f"give arguments of torch.load as torch_load_kwargs={kwargs}; keyword arguments of "
            "load_trial_from_checkpoint_path() itself are deprecated, as in Determined 0.38.1",
            FutureWarning,
            stacklevel=2,
        )
    directory = Path(path)
    load_data = _load_data(directory)
    if trial_class is None:
        trial_class = _import_trial_class(directory / "code", load_data["trial_cls_spec"])
    context = CheckpointLoadContext(load_data["hparams"], load_data["experiment_config"])
    trial = _built(trial_class, context, trial_kwargs or {})
    checkpoint = load_state_dict_file(directory / "state_dict.pth", **(torch_load_kwargs or kwargs))
    load_weights(context.models, checkpoint)
    loaded: PyTorchTrial = trial
    return loaded


def _built(trial_class: Any, context: CheckpointLoadContext, kwargs: dict[str, Any]) -> Any:
    # Trials of older generations build nothing by themselves.
    if not hasattr(trial_class, "build_model"):
        return trial_class(context, **kwargs)
    with preserved_random_state():
        from det_compat.adapters.adapted import user_trial
        from det_compat.adapters.generation import in_context_api

    return user_trial(in_context_api(trial_class)(context, **kwargs))


def _load_data(directory: Path) -> dict[str, Any]:
    for name in ("load_data.json", "metadata.json"):
        file = directory / name
        if file.is_file():
            data: dict[str, Any] = json.loads(file.read_text())
            if name == "metadata.json" and "experiment_config" in data:
                data["trial_cls_spec"] = data["experiment_config"]["entrypoint"]
            if "trial_cls_spec" in data:
                return data
    found = sorted(entry.name for entry in directory.iterdir()) if directory.is_dir() else []
    raise InvalidCheckpointException(
        f"{directory} is no PyTorchTrial checkpoint: expected load_data.json (Determined 0.17.8 "
        f"and later) or the metadata.json of a downloaded checkpoint, found {found or 'nothing'}"
    )


def _import_trial_class(code: Path, spec: str) -> type[PyTorchTrial]:
    from det_compat.import_path import import_from_path

    module_name, _, qualname = spec.partition(":")
    try:
        with import_from_path(code):
            found: Any = importlib.import_module(module_name)
            for part in qualname.split("."):
                found = getattr(found, part)
    except Exception as error:
        raise ValueError(
            f"cannot import the trial class {spec} from {code}; pass it as trial_class"
        ) from error
    trial_class: type[PyTorchTrial] = found
    return trial_class
