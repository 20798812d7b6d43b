"""What the real MLflow has in its database; without mlflow, tests beside this one use stubs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from det_compat.cli import main
from tests.checkpoint.makers import of_0_38
from tests.runs.made import make_run, make_search

mlflow = pytest.importorskip("mlflow", reason="mlflow, of the extra `mlflow`, is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")


def test_runs_searches_and_models_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    odd = {"a@b": float("nan"), "a#b": float("inf"), "../x": 1}
    folder = make_run(tmp_path / "runs/digits/001", [0.5, 0.25], lr=0.1, **odd)
    (folder / "config.yaml").write_text("name: digits\nlabels: [a]\n")
    with (folder / "metrics.jsonl").open("a") as file:
        metrics = {"n@": float("nan"), "i": float("inf")}
        line = {"group": "mine", "steps_completed": 3, "metrics": metrics}
        file.write(json.dumps(line) + "\n")
    search = make_search(tmp_path / "search_many", [[0.3], [0.8]])
    for path in (folder, search):
        assert main(["runs", "track", str(path)]) == 0
    uri = f"sqlite:///{tmp_path}/runs/mlflow.db"
    assert f"sent: mlflow server --backend-store-uri {uri}, then" in capsys.readouterr().out
    client = mlflow.MlflowClient(tracking_uri=uri)
    (run,) = client.search_runs([client.get_experiment_by_name("digits").experiment_id])
    assert (run.info.status, run.info.run_name) == ("FINISHED", "digits/001")
    assert (run.data.params["lr"], run.data.tags["labels"]) == ("0.1", "a")
    curve = client.get_metric_history(run.info.run_id, "validation/accuracy")
    assert [(one.step, one.value) for one in curve] == [(10, 0.5), (20, 0.25)]
    assert {"mine/n_", "mine/i"} <= set(run.data.metrics)
    files = {one.path for one in client.list_artifacts(run.info.run_id)}
    assert files == {"config.yaml", "best_checkpoint"}
    found = client.search_runs([client.get_experiment_by_name("many").experiment_id])
    parents = [one.data.tags.get("mlflow.parentRunId") for one in found]
    (parent,) = (one.info.run_id for one in found if "mlflow.parentRunId" not in one.data.tags)
    assert sorted(parents, key=str) == sorted([None, parent, parent], key=str)

    checkpoint = folder / "checkpoints/mine"
    checkpoint.mkdir()
    of_0_38(checkpoint)
    for version in (1, 2):
        assert main(["checkpoint", "register", str(checkpoint), "--name", "net"]) == 0
        assert f"registered models:/net/{version} at sqlite:" in capsys.readouterr().out
    assert client.get_model_version("net", "2").run_id == run.info.run_id
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    weights = mlflow.artifacts.download_artifacts("models:/net/2", tracking_uri=uri)
    state = torch.load(Path(weights) / "state_dict.pth", weights_only=True)
    assert state["weight"].item() == 2
