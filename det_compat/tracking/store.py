"""MLflow, as far as runs are sent to it: by its own client, to a server or a database."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from det_compat.tracking.reports import Value

_EXPERIMENT = "MLFLOW_EXPERIMENT_NAME"
_DATABASE = "mlflow.db"
_ARTIFACTS = "mlartifacts"
# What MLflow 3.17 takes in one request, and of a text.
_MOST_VALUES = 1000
_MOST_PARAMS = 100
_LONGEST_PARAM = 6000
_LONGEST_TAG = 5000
# Without it the pages of MLflow 3.17 show an experiment as one of language models, without curves.
_OF_TRAINING = {"mlflow.experimentKind": "custom_model_development"}
_ENVIRONMENT = {
    # MLflow's own defaults let a request to a server that hangs take ten minutes.
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}


class Store(Protocol):
    """Where runs are sent; every method may raise any exception."""

    uri: str

    def begin(
        self, experiment: str, name: str, started: float, tags: dict[str, str]
    ) -> tuple[str, str]:
        """Begin a run that started so many seconds after 1970; its experiment's ID and its own."""

    def describe(self, run: str, params: dict[str, str], tags: dict[str, str]) -> None:
        """Add parameters, which must not change later, and tags."""

    def report(self, run: str, values: Sequence[Value]) -> None:
        """Add numbers; those that are there already stay single."""

    def upload(self, run: str, path: Path, folder: str) -> None:
        """Add a file, or all of a directory, under ``folder``; "" is where all begins."""

    def set_state(self, run: str, state: str, ended: float | None) -> None:
        """Say that it is RUNNING, FINISHED, FAILED or KILLED, and since when, if it ended."""


class MlflowStore:
    """An MLflow server, or a database.

    Args:
        uri: as of ``MLFLOW_TRACKING_URI``.

    Raises:
        ImportError: mlflow is not installed.
    """

    def __init__(self, uri: str) -> None:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        self.uri = uri
        self._client: Any = importlib.import_module("mlflow").MlflowClient(tracking_uri=uri)
        self._entities: Any = importlib.import_module("mlflow.entities")

    def begin(
        self, experiment: str, name: str, started: float, tags: dict[str, str]
    ) -> tuple[str, str]:
        found = self._experiment(os.environ.get(_EXPERIMENT) or experiment)
        cut = {key: value[:_LONGEST_TAG] for key, value in tags.items()}
        run = self._client.create_run(
            found, start_time=_milliseconds(started), tags=cut, run_name=name
        )
        return found, run.info.run_id

    def _experiment(self, name: str) -> str:
        found = self._client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        try:
            artifacts = _artifacts_of(self.uri, name)
            return str(self._client.create_experiment(name, artifacts, tags=_OF_TRAINING))
        except Exception:
            # Another process may have been faster.
            if (found := self._client.get_experiment_by_name(name)) is None:
                raise
            return str(found.experiment_id)

    def describe(self, run: str, params: dict[str, str], tags: dict[str, str]) -> None:
        given = [self._entities.Param(key, value[:_LONGEST_PARAM]) for key, value in params.items()]
        noted = [self._entities.RunTag(key, value[:_LONGEST_TAG]) for key, value in tags.items()]
        self._client.log_batch(run, params=given[:_MOST_PARAMS], tags=noted)
        for start in range(_MOST_PARAMS, len(given), _MOST_PARAMS):
            self._client.log_batch(run, params=given[start : start + _MOST_PARAMS])

    def report(self, run: str, values: Sequence[Value]) -> None:
        metric = self._entities.Metric
        metrics = [metric(v.name, v.value, _milliseconds(v.time), v.step) for v in values]
        for start in range(0, len(metrics), _MOST_VALUES):
            self._client.log_batch(run, metrics=metrics[start : start + _MOST_VALUES])

    def upload(self, run: str, path: Path, folder: str) -> None:
        send: Any = self._client.log_artifacts if path.is_dir() else self._client.log_artifact
        send(run, str(path), folder or None)

    def set_state(self, run: str, state: str, ended: float | None) -> None:
        if state == "RUNNING":
            self._client.update_run(run, status=state)
        else:
            at = None if ended is None else _milliseconds(ended)
            self._client.set_terminated(run, state, end_time=at)

    def register(self, run: str, folder: str, name: str) -> str:
        """Make a folder of a run's files a new version of a model; returns its number."""
        try:
            self._client.create_registered_model(name)
        except Exception:
            self._client.get_registered_model(name)  # It is there, or else this says what is wrong.
        source = f"{self._client.get_run(run).info.artifact_uri}/{folder}"
        return str(self._client.create_model_version(name, source, run).version)


def where_to_look(uri: str, experiment: str, run: str) -> str:
    """A URL for a browser, or the command after which there is one."""
    page = f"/#/experiments/{experiment}/runs/{run}"
    if urlsplit(uri).scheme in ("http", "https"):
        return uri.rstrip("/") + page
    return f"mlflow server --backend-store-uri {uri}, then http://localhost:5000{page}"


def default_uri() -> str:
    """``MLFLOW_TRACKING_URI``, else a database in ``runs`` of the working directory."""
    given = os.environ.get("MLFLOW_TRACKING_URI")
    return given or f"sqlite:///{os.path.abspath(os.path.join('runs', _DATABASE))}"


def absolute(uri: str) -> str:
    """``uri``, with the path of a database or folder independent of the working directory."""
    found = urlsplit(uri)
    if found.scheme == "sqlite" and not uri.startswith("sqlite:////"):
        return f"sqlite:///{os.path.abspath(uri.removeprefix('sqlite:///'))}"
    return os.path.abspath(uri) if not found.scheme and uri != "databricks" else uri


def _artifacts_of(uri: str, experiment: str) -> str | None:
    """Where files of an experiment go; None if MLflow knows: by default, into where we are."""
    if not uri.startswith("sqlite:"):
        return None
    folder = Path(uri.removeprefix("sqlite:///")).parent / _ARTIFACTS
    return (folder / quote(experiment, safe="")).as_uri()


def make_room(uri: str) -> None:
    """Make the folder of a database.

    Raises:
        OSError: it cannot be made.
    """
    if uri.startswith("sqlite:"):
        Path(uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
