"""Checkpoints in MLflow's model registry, to be loaded with torch alone, or served."""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from det_compat.errors import InvalidCheckpointException
from det_compat.experiment.errors import FitError
from det_compat.shared.masking import without_secrets
from det_compat.tracking.follow import NotSent, uri_for
from det_compat.tracking.sent import Sent
from det_compat.tracking.store import MlflowStore, make_room

if TYPE_CHECKING:
    from torch import nn

_STATE = "state_dict.pt"  # mlflow.pytorch.load_state_dict finds it by the suffix .pth
_MODEL = "registered_model"


def register(
    checkpoint: Path,
    name: str,
    tracking: str | None,
    *,
    trust: bool,
    with_code: bool,
    input_shape: Sequence[int] | None = None,
) -> tuple[str, str, int]:
    """Register the weights of a checkpoint as a new version of a model.

    It belongs to the MLflow run of the checkpoint's run, if that was sent to the same place, else
    to one of its own. ``state_dict.pth`` in it is what ``det-compat checkpoint export`` writes.

    Args:
        checkpoint: a Determined checkpoint directory or a Lightning checkpoint file.
        name: of the model in the registry.
        tracking: as for ``uri_for``.
        trust: load files that ask for code to run.
        with_code: add the model itself, for ``mlflow.pytorch.load_model`` and ``mlflow models
            serve``; the trial is built for it by the code in the checkpoint.
        input_shape: of one sample for that model, without the dimension of the batch: a server
            takes its inputs as float32 then. JSON has float64 alone, which most models refuse.

    Returns:
        Where it is, the URI of the version, and the number of models in the checkpoint.

    Raises:
        FitError, NotSent: of MLflow, see ``uri_for``; or it does not take the model.
        InvalidCheckpointException: it is no checkpoint, or cannot be loaded.
        ValueError: the trial class cannot be imported, or has not one model.
    """
    from det_compat.checkpoint.export import export

    folder = _run_of(checkpoint)
    uri = uri_for(folder or checkpoint.parent, tracking)
    with tempfile.TemporaryDirectory() as temporary:
        made = Path(temporary) / _MODEL
        if with_code:
            _save_model(checkpoint, made, trust, input_shape)
        made.mkdir(exist_ok=True)
        files = export(checkpoint, made / _STATE, trust=trust)
        for file in files:
            file.rename(file.with_suffix(".pth"))
        try:
            make_room(uri)
            version = _register(MlflowStore(uri), made, name, checkpoint, folder)
        except Exception as error:
            shown = without_secrets(f"{uri} does not take the model: {error}")
            raise NotSent(f"MLflow at {shown}") from error
    return str(without_secrets(uri)), f"models:/{name}/{version}", len(files)


def _run_of(checkpoint: Path) -> Path | None:
    """The folder of the run that a checkpoint is of; None if it lies elsewhere."""
    folder = checkpoint.resolve().parent.parent
    return folder if Sent.read(folder).run else None


def _register(
    store: MlflowStore, made: Path, name: str, checkpoint: Path, folder: Path | None
) -> str:
    sent = Sent() if folder is None else Sent.to(store.uri, folder)
    run = sent.run
    if not run:
        tags = {"det_compat.kind": "checkpoint", "det_compat.folder": str(checkpoint.resolve())}
        _, run = store.begin(name, checkpoint.name, time.time(), tags)
    target = f"{_MODEL}/{checkpoint.name}"
    store.upload(run, made, target)
    if not sent.run:
        store.set_state(run, "FINISHED", None)
    return store.register(run, target, name)


def _save_model(
    checkpoint: Path, target: Path, trust: bool, input_shape: Sequence[int] | None
) -> None:
    """Save the checkpoint's one model with MLflow, with the code that defines it."""
    if not checkpoint.is_dir():
        raise InvalidCheckpointException(
            f"{checkpoint} is a file: only the directory of a checkpoint has the code of its model"
        )
    model = _model(checkpoint, trust)
    code = sorted(path for path in (checkpoint / "code").glob("*") if _is_code(path))
    options: dict[str, Any] = {"code_paths": [str(path) for path in code] or None}
    if input_shape is not None:
        import numpy as np

        types = importlib.import_module("mlflow.types")
        inputs = types.Schema([types.TensorSpec(np.dtype(np.float32), (-1, *input_shape))])
        models = importlib.import_module("mlflow.models")
        options["signature"] = models.ModelSignature(inputs=inputs)
    flavour = importlib.import_module("mlflow.pytorch")
    flavour.save_model(model, str(target), serialization_format="pickle", **options)


def _model(checkpoint: Path, trust: bool) -> nn.Module:
    from det_compat.alias import alias_determined
    from det_compat.pytorch.load import models_of_checkpoint

    alias_determined()
    models = models_of_checkpoint(str(checkpoint), trust=trust)
    if len(models) != 1:
        raise FitError(
            f"the trial has {len(models)} models, and MLflow's model is one: without --with-code "
            "all their weights are registered"
        )
    return models[0].cpu().eval()


def _is_code(path: Path) -> bool:
    return path.suffix == ".py" or (path.is_dir() and next(_python_files(path), None) is not None)


def _python_files(folder: Path) -> Iterator[Path]:
    return folder.rglob("*.py")
