"""Stands for mlflow where it is not installed: notes what its client is asked for in a file.

``STUB_MLFLOW`` names the file; a server whose URI has "down" in it does not answer, one with "slow"
answers after a minute.
"""

from __future__ import annotations

import json
import os
import time
from types import SimpleNamespace
from typing import Any


class MlflowClient:
    def __init__(self, tracking_uri: str) -> None:
        self._uri = tracking_uri

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            if "slow" in self._uri:
                time.sleep(60)
            if "down" in self._uri:
                raise ConnectionError("nobody\nis there")
            with open(os.environ.get("STUB_MLFLOW", os.devnull), "a") as file:
                line = {"call": name, "uri": self._uri, "args": args, **options}
                file.write(json.dumps(line, default=vars) + "\n")
            info = SimpleNamespace(run_id="abc", artifact_uri="file:///there")
            return SimpleNamespace(experiment_id="1", version="1", info=info)

        return call
