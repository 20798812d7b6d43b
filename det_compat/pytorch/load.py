"""A trial is loaded here from a Determined checkpoint, outside of training."""

import logging
import warnings
from typing import Any, cast

import torch
from torch import nn

from det_compat import core
from det_compat.checkpoint.lightning import under_names
from det_compat.checkpoint.reader import Checkpoint, read_checkpoint
from det_compat.errors import InvalidCheckpointException
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.pytorch.engine import engine
from det_compat.pytorch.trial import PyTorchTrial
from det_compat.shared.importing import imported

logger = logging.getLogger("determined.pytorch")


class CheckpointLoadContext(PyTorchTrialContext):
    """A context to build a trial with that is not trained: models stay where they are built."""

    def __init__(
        self, hparams: dict[str, Any] | None = None, exp_conf: dict[str, Any] | None = None
    ) -> None:
        super().__init__(
            core_context=core.TrialCore(),
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

    Checkpoints of Determined 0.12 to 0.38.1 and of PEDL are read. Nothing in them is run but, where
    no class is given, the trial's own code. As in 0.38.1, of a trial that has ``build_model``, in a
    checkpoint from before ``load_data.json`` (0.17.7 and earlier), the bare model is returned.

    Args:
        path: the checkpoint's directory.
        trial_class: the class; without it, it is imported from the checkpoint's ``code`` folder.
        trial_kwargs: arguments of the class beside the context.
        torch_load_kwargs: arguments of ``torch.load``, ``map_location`` for example, which is
            ``"cpu"`` without it. ``weights_only=False`` lets the weights' file run code.
        **kwargs: ``trust=True``, which is no argument in Determined, lets every file run code;
            others are an older way to give ``torch_load_kwargs``.

    Raises:
        CorruptCheckpointError: a file of it is there and cannot be read.
        InvalidCheckpointException: the directory is not a PyTorchTrial checkpoint, or is not there.
        UnsafeCheckpointError: a file of it asks for code to run.
        ValueError: the trial class cannot be imported, both ways of arguments are used, or the
            trial has another number of models.
    """
    trust = kwargs.pop("trust", False)
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
    checkpoint = read_checkpoint(
        path, trust=trust, continuing=False, **(torch_load_kwargs or kwargs)
    )
    trial, models, is_older = _built(checkpoint, trial_class, trial_kwargs or {})
    if is_older and not (checkpoint.path / "load_data.json").exists():
        trial = models[0]
    return cast("PyTorchTrial", trial)


def models_of_checkpoint(path: str, *, trust: bool = False) -> list[nn.Module]:
    """The models of a checkpoint with their weights, built by the code in the checkpoint.

    Raises:
        Exception: as ``load_trial_from_checkpoint_path``.
    """
    return _built(read_checkpoint(path, trust=trust, continuing=False), None, {})[1]


def _built(
    checkpoint: Checkpoint, trial_class: type[PyTorchTrial] | None, arguments: dict[str, Any]
) -> tuple[Any, list[nn.Module], bool]:
    """The trial, its models, and whether it is one with ``build_model``."""
    if trial_class is None:
        trial_class = _import_trial_class(checkpoint)
    context = CheckpointLoadContext(checkpoint.hparams, checkpoint.experiment_config)
    if hasattr(trial_class, "build_model"):
        trial, is_older = engine().build_without_data(trial_class, context, arguments)
    else:
        trial, is_older = trial_class(context, **arguments), False
    load_weights(context.models, checkpoint.state)
    return trial, context.models, is_older


def load_weights(models: list[nn.Module], checkpoint: dict[str, Any]) -> None:
    """Load each model's weights, whether they were saved from a distributed model or not.

    ``checkpoint`` has ``models_state_dict``, one state dict a model, or ``model_state_dict``.

    Raises:
        ValueError: there are more or fewer models than in the checkpoint.
    """
    states = checkpoint.get("models_state_dict") or [checkpoint["model_state_dict"]]
    if len(states) != len(models):
        raise ValueError(f"the checkpoint has {len(states)} models, the trial has {len(models)}")
    for model, state in zip(models, states, strict=True):
        model.load_state_dict(under_names(model.state_dict().keys(), state))


def _import_trial_class(checkpoint: Checkpoint) -> type[PyTorchTrial]:
    from det_compat.import_path import import_from_path

    spec, code = checkpoint.trial_cls_spec, checkpoint.path / "code"
    if spec is None:
        raise InvalidCheckpointException(
            f"{checkpoint.path} does not say its trial's class: expected load_data.json "
            "(Determined 0.17.8 and later) or the metadata.json of a downloaded checkpoint; pass "
            "the class as trial_class"
        )
    logger.warning(f"importing the trial class {spec} runs code of the checkpoint, from {code}")
    try:
        with import_from_path(code):
            trial_class: type[PyTorchTrial] = imported(spec)
    except Exception as error:
        raise ValueError(
            f"cannot import the trial class {spec} from {code}; pass it as trial_class"
            f"{_hint(error)}"
        ) from error
    return trial_class


def _hint(error: Exception) -> str:
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    top = (name or "").partition(".")[0]
    if top not in ("determined", "pedl"):
        return f" ({error})"
    return f". It imports {top}: call det_compat.alias_determined() before, which provides it"
