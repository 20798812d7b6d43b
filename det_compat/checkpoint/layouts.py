"""What each version of Determined wrote into a checkpoint directory, and how it is read.

``READERS`` is the index: newest first, each a function from the content of one file to what it
tells, under the names of ``Checkpoint``'s fields. Of what several files tell, the first counts; of
the files with a ``state`` only the first that is there is read, as in Determined.
``other_framework`` tells checkpoints that are of no PyTorchTrial.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from det_compat.errors import InvalidCheckpointException

#: Fields of ``pytorch.private.boundaries.TrialState``, which are those of ``trial_state.pkl``.
COUNTERS = ("trial_id", "last_ckpt", "step_id", "last_val", "batches_trained", "epochs_trained")


@dataclass(frozen=True)
class Reader:
    """Reads one file of a checkpoint.

    Attributes:
        file: its path in the directory.
        versions: which Determined wrote it.
        read: makes of its content what it tells; empty for a file of another version.
    """

    file: str
    versions: str
    read: Callable[[Any], dict[str, Any]]

    @property
    def has_state(self) -> bool:
        """Whether the file has the models' weights."""
        return self.file.endswith((".pth", ".pt"))

    def __str__(self) -> str:
        return f"{self.file} ({self.versions})"

    def told(self, directory: Path, content: Any) -> dict[str, Any]:
        """What the file's content tells of the checkpoint in ``directory``.

        Raises:
            InvalidCheckpointException: the content cannot be used; the message names the file.
        """
        try:
            return self.read(content)
        except InvalidCheckpointException as error:
            message = f"{directory / self.file} cannot be used: {error}"
            raise InvalidCheckpointException(message) from error


def _state(content: Any) -> dict[str, Any]:
    """PEDL to 0.38.1.

    Before 0.12.13: one model, one optimizer and one scheduler, under names in the singular.
    0.12.13 added ``callbacks``, ``rng_state`` and Apex's ``amp_state``, 0.14 ``scaler_state_dict``.
    Until 0.14 cloudpickle wrote the file, until torch 1.6 in torch's older form.
    """
    if not isinstance(content, dict) or not {"models_state_dict", "model_state_dict"} & {*content}:
        found = sorted(map(str, content)) if isinstance(content, dict) else type(content).__name__
        raise InvalidCheckpointException(
            f"it holds {found or 'nothing'} where a dict with models_state_dict (before "
            "0.12.13 model_state_dict) is expected"
        )
    state = dict(content)
    for old, new in _SINGULAR.items():
        if old in state:
            if new in state:
                raise InvalidCheckpointException(f"it has both {old} and {new}: which one counts?")
            value = state.pop(old)
            state[new] = [] if value is None else [value]
        state.setdefault(new, [])
        if not isinstance(state[new], (list, tuple)):
            raise InvalidCheckpointException(
                f"its {new} is {type(state[new]).__name__}; expected a list, an item each"
            )
    if not all(map(_is_state_dict, state["models_state_dict"])):
        raise InvalidCheckpointException("its models_state_dict holds what is no state dict")
    return {"state": state}


def _is_state_dict(model: Any) -> bool:
    return isinstance(model, dict) and all(isinstance(name, str) for name in model)


_SINGULAR = {
    "model_state_dict": "models_state_dict",
    "optimizer_state_dict": "optimizers_state_dict",
    "lr_scheduler": "lr_schedulers_state_dict",
}


def _load_data(content: dict[str, Any]) -> dict[str, Any]:
    """0.17.8 to 0.38.1; config and hparams are null where the Trainer was called by a script."""
    trial_type = content.get("trial_type", "PyTorchTrial")
    if trial_type != "PyTorchTrial":
        raise InvalidCheckpointException(
            f"it is a checkpoint of a {trial_type}; det_compat reads those of a PyTorchTrial"
        )
    return {name: content.get(name) for name in ("hparams", "experiment_config", "trial_cls_spec")}


def _metadata(content: dict[str, Any]) -> dict[str, Any]:
    """0.18 to 0.38.1, written with the checkpoint."""
    if _is_downloaded(content) or _is_of_0_12(content):
        return {}
    told = {name: content.get(name) for name in ("determined_version", "framework", "format")}
    return {**told, "batches_trained": content.get("steps_completed", content.get("latest_batch"))}


def _metadata_of_download(content: dict[str, Any]) -> dict[str, Any]:
    """0.13 and later, added by ``Checkpoint.download``, with all that is known of the experiment.

    Since 0.18 only where the checkpoint had no ``metadata.json`` of its own.
    """
    if not _is_downloaded(content):
        return {}
    config = content["experiment_config"]
    entrypoint = config.get("entrypoint")
    return {
        **{name: content.get(name) for name in ("determined_version", "framework", "format")},
        "experiment_config": config,
        "hparams": content.get("hparams"),
        "trial_cls_spec": entrypoint if isinstance(entrypoint, str) else None,
        "trial_id": content.get("trial_id"),
    }


def _metadata_of_0_12(content: dict[str, Any]) -> dict[str, Any]:
    """0.12, written with the checkpoint."""
    if not _is_of_0_12(content):
        return {}
    version = content.get("torch_version")
    return {
        "determined_version": content.get("det_version"),
        "framework": f"torch-{version}" if version else None,
        "trial_id": content.get("trial_id"),
    }


def _is_downloaded(content: dict[str, Any]) -> bool:
    return isinstance(content.get("experiment_config"), dict)


def _is_of_0_12(content: dict[str, Any]) -> bool:
    return "det_version" in content or "torch_version" in content


def _trial_state(content: Any) -> dict[str, Any]:
    """0.21 to 0.38.1."""
    return _counters(content, COUNTERS)


def _workload_sequencer(content: Any) -> dict[str, Any]:
    """0.17 to 0.20.1, which called the batches ``latest_batch``, since 0.18 ``steps_completed``."""
    told = _counters(content, ("trial_id", "last_ckpt", "step_id", "last_val"))
    batches = content.get("steps_completed", content.get("latest_batch"))
    return {**told, **_counters({"batches_trained": batches}, ["batches_trained"])}


def _counters(content: Any, names: Iterable[str]) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise InvalidCheckpointException(
            f"it holds {type(content).__name__} where a dict of counters is expected"
        )
    found = {name: content[name] for name in names if content.get(name) is not None}
    for name, value in found.items():
        if not isinstance(value, int) or value < 0:
            raise InvalidCheckpointException(f"its {name} is {value!r}; expected a count")
    return found


READERS = (
    Reader("state_dict.pth", "Determined 0.12 to 0.38.1", _state),
    Reader("determined/state_dict.pth", "Determined before 0.12", _state),
    Reader("pedl/state_dict.pth", "PEDL", _state),
    Reader("checkpoint.pt", "PEDL's first versions", _state),
    Reader("trial_state.pkl", "Determined 0.21 to 0.38.1", _trial_state),
    Reader("workload_sequencer.pkl", "Determined 0.17 to 0.20.1", _workload_sequencer),
    Reader("load_data.json", "Determined 0.17.8 to 0.38.1", _load_data),
    Reader("metadata.json", "Determined 0.18 to 0.38.1", _metadata),
    Reader("metadata.json", "downloaded by Determined 0.13 and later", _metadata_of_download),
    Reader("metadata.json", "Determined 0.12", _metadata_of_0_12),
)

_BY_FILE = {
    "saved_model.pb": "a TensorFlow estimator or Keras (TensorFlow SavedModel)",
    "determined-keras-model": "Keras",
    "determined-keras-model.h5": "Keras",
    "determined-keras-model-weights": "Keras",
    "determined-keras-model-weights.index": "Keras",
    "determined-keras-optimizer-weights.h5": "Keras",
    "callback_state": "Keras",
    "MLmodel": "PEDL in MLflow's format, which is a pickled program and no state",
    "*/saved_model.pb": "a TensorFlow estimator (TensorFlow SavedModel)",
    "det_state_dict_rank*.pth": "a DeepSpeedTrial",
    "pytorch_model.bin": "Hugging Face's Trainer",
    "model.safetensors": "Hugging Face's Trainer",
}


def other_framework(directory: Path, metadata: dict[str, Any] | None) -> str | None:
    """The framework of a checkpoint without a PyTorchTrial's state, if that can be told.

    Args:
        directory: the checkpoint.
        metadata: its ``metadata.json``, if there is one.
    """
    for pattern, framework in _BY_FILE.items():
        if next(directory.glob(pattern), None) is not None:
            return framework
    said = metadata or {}
    framework = str(said.get("framework") or "")
    if framework.startswith("tensorflow") or "tensorflow_version" in said:
        return f"TensorFlow or Keras ({framework or said['tensorflow_version']})"
    return None
