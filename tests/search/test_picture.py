"""What the picture of a search shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from det_compat.config import parse_config
from det_compat.search import picture
from det_compat.search.records import Report, Status
from det_compat.search.results import TrialResult
from det_compat.search.searchers.plan import plan_search

CONFIG = {
    "name": "cost of $5",
    "entrypoint": "m:T",
    "hyperparameters": {
        "global_batch_size": 4,
        "lr": {"type": "log", "base": 10, "minval": -3, "maxval": -1},
        "net": {"kind": {"type": "categorical", "vals": ["a", "b", [1]]}},
    },
    "searcher": {
        "name": "random",
        "metric": "error",
        "max_length": {"batches": 8},
        "max_trials": 4,
    },
}


def result(index: int, metric: float | None, **hparams: Any) -> TrialResult:
    reports = () if metric is None else (Report(8, 0, metric, {}),)
    ended = (8, 8, Status.COMPLETED, None, None, "", reports)
    return TrialResult(index, 0, hparams, metric, *ended)


def test_each_trial_is_a_line_through_its_hyperparameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    axes: dict[str, list[float | None]] = {}
    axis = picture._axis

    def note(plot: Any, x: int, name: str, *values: Any) -> list[float | None]:
        axes[name] = axis(plot, x, name, *values)
        return axes[name]

    monkeypatch.setattr(picture, "_axis", note)
    results = [
        result(0, 0.1, lr=0.1, net={"kind": "a"}),
        result(1, 0.2, lr=0.01, net={"kind": [1]}),
        result(2, 0.3, lr=0.001, net={}),
        result(3, None, lr=0.001, net={"kind": "b"}),
    ]
    picture.draw(tmp_path / "p.png", plan_search(parse_config(CONFIG), 1), results)
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    # A trial without a metric has no line.
    assert axes["lr"] == pytest.approx([1, 0.5, 0])
    assert axes["net.kind"] == [1, 0, None]
    assert axes["error"] == pytest.approx([0, 0.5, 1])


@pytest.mark.parametrize("results", [[], [result(0, None, lr=1)], [result(0, 0.5, lr=1)]])
def test_a_search_that_has_found_little_has_its_picture_too(
    tmp_path: Path, results: list[TrialResult]
) -> None:
    picture.draw(tmp_path / "p.png", plan_search(parse_config(CONFIG), 1), results)
    assert (tmp_path / "p.png").exists()


def test_where_it_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "missing" / "p.png"
    picture.draw(file, plan_search(parse_config(CONFIG), 1), [])
    assert f"cannot draw {file}: " in caplog.text
