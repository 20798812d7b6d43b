from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from det_compat.tracking.reports import Names, Value, read_new


def write(folder: Path, *lines: Any, end: str = "\n") -> None:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    with (folder / "metrics.jsonl").open("a") as file:
        file.write("\n".join(texts) + end)


def read(folder: Path, offset: int = 0) -> tuple[list[Value], int]:
    return read_new(folder, offset, began=100.0, now=200.0)


def test_all_numbers_are_read(tmp_path: Path) -> None:
    metrics = {"loss": 1, "is_good": True, "nan": math.nan, "text": "x", "list": [1], "a": {"b": 2}}
    validation = {"error": 0.5, "batches": 3, "epochs": 1}
    write(
        tmp_path,
        {"group": "training", "steps_completed": 5, "time": 150.0, "metrics": metrics},
        {"group": "validation", "steps_completed": 5, "metrics": validation},
        {"group": "mine", "steps_completed": 6, "metrics": {"batches": 3}},
        {"group": "cpu", "time": 130.4, "metrics": {"load": 0.5}},
    )
    values, _ = read(tmp_path)
    assert math.isnan(values.pop(2).value)
    assert values == [
        Value("training/loss", 1, 5, 150.0),
        Value("training/is_good", 1, 5, 150.0),
        Value("training/a.b", 2, 5, 150.0),
        Value("validation/error", 0.5, 5, 200.0),
        Value("mine/batches", 3, 6, 200.0),
        Value("cpu/load", 0.5, 30, 130.4),
    ]


def test_each_line_is_read_once_and_when_it_is_whole(tmp_path: Path) -> None:
    assert read(tmp_path) == ([], 0)
    line = {"group": "training", "steps_completed": 1, "metrics": {"loss": 1}}
    write(tmp_path, line, '{"group": "trai', end="")
    values, offset = read(tmp_path)
    assert len(values) == 1
    assert read(tmp_path, offset) == ([], offset)
    write(tmp_path, '"', "[" * 100_000, "[1]", "\0", {"group": 1, "metrics": 2}, line)
    values, offset = read(tmp_path, offset)
    assert [one.name for one in values] == ["training/loss"]
    assert read(tmp_path, offset) == ([], offset)


def test_names_that_mlflow_does_not_take_stay_different() -> None:
    known: dict[str, str] = {}
    named = Names(known)
    names = ["a/acc@1", "a/acc#1", "a/acc_1", "a//b", "a/../b", "/a", "x" * 300, "x" * 301, "é/ß"]
    made = [named(name) for name in names]
    assert len(set(made)) == len(names)
    assert made[0] == "a/acc_1" and made[8] == "é/ß"
    assert all(len(name) <= 250 and "//" not in name and ".." not in name for name in made)
    assert [Names(known)(name) for name in names] == made
