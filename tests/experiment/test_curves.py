from __future__ import annotations

import json
from pathlib import Path

import pytest

from det_compat.experiment import curves


def write(folder: Path, *lines: tuple[str, int, dict[str, object]]) -> None:
    keys = ("group", "steps_completed", "metrics")
    texts = [json.dumps(dict(zip(keys, line, strict=True))) + "\n" for line in lines]
    (folder / "metrics.jsonl").write_text("".join(texts) + '{"group')


def test_every_metric_has_a_plot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = {}
    plot = curves._plot

    def note(axes: object, name: str, groups: dict[str, dict[int, float]]) -> None:
        plot(axes, name, groups)
        drawn[name] = {group: dict(values) for group, values in groups.items()}

    monkeypatch.setattr(curves, "_plot", note)
    write(
        tmp_path,
        ("training", 1, {"loss": 3, "text": "x", "by": {"$class^": 0.5}}),
        ("training", 2, {"loss": float("nan"), "batches": 7}),
        ("validation", 2, {"loss": 1}),
        ("validation", 2, {"loss": 0.5}),
    )
    assert curves.draw_curves(tmp_path) == str(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert drawn == {
        "loss": {"training": {1: 3.0}, "validation": {2: 0.5}},
        "by.$class^": {"training": {1: 0.5}},
    }


def test_what_cannot_be_drawn_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert curves.draw_curves(tmp_path) == "none: nothing was reported"
    write(tmp_path, ("training", 1, {"loss": 3}))
    (tmp_path / "curves.png").mkdir()
    assert curves.draw_curves(tmp_path).startswith("cannot be drawn: IsADirectoryError")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "[cli]" in curves.draw_curves(tmp_path)
