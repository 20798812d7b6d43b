from __future__ import annotations

from pathlib import Path

import pytest

from det_compat.config.document import from_mapping
from det_compat.config.keys.explain import Row, explain
from det_compat.config.keys.table import Fate
from det_compat.config.loading import load
from tests.config.samples import ALL, SINGLE


@pytest.fixture
def rows(tmp_path: Path):
    def of(name: str) -> dict[str, Row]:
        path = tmp_path / "c.yaml"
        path.write_text(ALL[name])
        return {row.key: row for row in explain(load(path))}

    return of


def test_every_key_has_its_row_and_its_line(rows) -> None:
    nested = rows("nested")
    assert nested["name"].line == 2 and nested["hyperparameters.model.depth"].line == 9
    assert nested["hyperparameters.model.depth"].becomes == (
        "whole number from 1 to 8, 4 grid points, chosen by `det-compat search`"
    )
    assert nested["hyperparameters.override.max_norm"].becomes == "constant"
    assert nested["min_validation_period"].becomes == "validation every 1 epoch, and at the end"
    assert nested["min_checkpoint_period"].becomes == "checkpoint only at the end"
    assert nested["bind_mounts"].fate is Fate.IGNORED
    assert nested["checkpoint_storage.type"].becomes == "checkpoints go to s3://b/a/b"
    assert nested["entrypoint"].becomes == "what is run: a command under a launcher"


def test_older_configs_are_translated(rows) -> None:
    old = rows("old")
    assert "runs as its successor adaptive_asha" in old["searcher.name"].becomes
    assert old["searcher.max_steps"].becomes == "a trial trains for 400 batches"
    assert old["min_checkpoint_period"].becomes == "no value, as if it were not there"
    assert rows("pedl")["searcher.step_budget"].becomes == (
        "all trials together train for 50000 batches"
    )


def test_refusals() -> None:
    document = from_mapping(
        {"searcher": {"name": "pbt", "metric": "m"}, "checkpoint_storage": {"type": "hdfs"}}
    )
    rows = {row.key: row for row in explain(document)}
    assert rows["searcher.name"].fate is rows["checkpoint_storage.type"].fate is Fate.REFUSED
    assert "population based training" in rows["searcher.name"].becomes


@pytest.mark.parametrize("name", ALL)
def test_no_secret_is_in_a_row(rows, name: str) -> None:
    shown = repr(rows(name))
    assert not any(secret in shown for secret in ("s3cret", "AKIA123", "x=y", "'token': 't'"))


def test_secret_hyperparameters_are_not_shown() -> None:
    hparams = {"token": {"a": {"b": "s3cret"}}, "password": {"type": "const", "val": "s3cret"}}
    rows = explain(from_mapping({"searcher": SINGLE, "hyperparameters": hparams}))
    assert [row.value for row in rows if row.key.startswith("hyper")] == ["********"] * 2


def test_empty_sections() -> None:
    document = from_mapping({"searcher": SINGLE, "resources": {}, "hyperparameters": {}})
    assert {row.key for row in explain(document)} == {
        "searcher.name", "searcher.metric", "resources", "hyperparameters",
    }  # fmt: skip
