from __future__ import annotations

from pathlib import Path

import pytest

from det_compat.config import ConfigError, parse_config, read_config
from det_compat.config.keys.table import keys


def problems(text: str, tmp_path: Path) -> list[str]:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        read_config(path)
    return [str(problem).removeprefix(f"{tmp_path}/") for problem in raised.value.problems]


def test_all_problems_are_listed_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = problems(
        """\
serch: {}
searcher:
  name: singel
  metric: 3
  max_length: {batches: 1, epochs: 2}
  max_steps: 5
resources: {slot_per_trial: 2}
optimizations: {aggregation_frequency: 0, mixed_precision: 01}
hyperparameters: {lr: {type: int, minval: 3, maxval: 1}}
labels: [a, 1]
""",
        tmp_path,
    )
    assert [line.split(": ")[:2] for line in found] == [
        ["c.yaml:1:1", "serch"],
        ["c.yaml:3:9", "searcher.name"],
        ["c.yaml:4:11", "searcher.metric"],
        ["c.yaml:5:15", "searcher.max_length"],
        ["c.yaml:7:13", "resources.slot_per_trial"],
        ["c.yaml:8:40", "optimizations.aggregation_frequency"],
        ["c.yaml:8:60", "optimizations.mixed_precision"],
        ["c.yaml:9:23", "hyperparameters.lr"],
        ["c.yaml:10:13", "labels[1]"],
    ]
    assert "did you mean searcher?" in found[0]
    assert "found 'singel', expected one of single, random, grid" in found[1]
    assert "expected a whole number, 1 or more" in found[5]
    assert "found minval 3 and maxval 1, expected minval below maxval" in found[7]


def test_a_key_in_the_wrong_section_is_told_its_place(tmp_path: Path) -> None:
    (line,) = problems("searcher: {name: single, metric: a}\nslots_per_trial: 2\n", tmp_path)
    assert line == (
        "c.yaml:2:1: slots_per_trial: found a key that no version knows, "
        "expected it under resources"
    )


def test_secrets_are_not_repeated_in_errors(tmp_path: Path) -> None:
    text = """\
searcher: {name: single, metric: a}
checkpoint_storage: {type: s3, bucket: b, access_key: 12345, secret_key: [s3cret]}
environment: {environment_variables: [s3cret, [A=s3cret]], registry_auth: s3cret}
"""
    found = "\n".join(problems(text, tmp_path))
    assert "access_key" in found and "registry_auth" in found
    assert "12345" not in found and "s3cret" not in found


def test_null_is_as_good_as_absent() -> None:
    sections = {path: None for path in keys() if "." not in path}
    config = parse_config({**sections, "searcher": {"name": "single", "metric": "a"}})
    assert config.ignored == {} and config.slots_per_trial == 1


def test_whole_floats_are_whole_numbers_and_booleans_are_not() -> None:
    searcher = {"name": "single", "metric": "a"}
    assert parse_config({"searcher": searcher, "max_restarts": 2.0}).max_restarts == 2
    for value in (True, 2.5, "2", -1, [2]):
        with pytest.raises(ConfigError, match="a whole number, 0 or more"):
            parse_config({"searcher": searcher, "max_restarts": value})
