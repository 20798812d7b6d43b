from __future__ import annotations

from pathlib import Path

import pytest

import det_compat
from det_compat.config import ConfigError, parse_config, read_config
from det_compat.config.keys.table import keys
from det_compat.config.lengths import Length, Unit
from tests.config.samples import ALL, parsed
from tests.fresh_python import python

SHARED = Path(det_compat.__file__).parents[2] / "shared/experiment-configs"


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/experiment-configs is not there")
def test_every_shared_config_is_understood() -> None:
    configs = {path.name: read_config(path) for path in sorted(SHARED.glob("*.yaml"))}
    assert len(configs) >= 12
    lengths = {name: str(config.length) for name, config in configs.items()}
    assert lengths["0.12-cifar10-const.yaml"] == "50000 batches"
    assert lengths["0.17-byol-nested-hparams.yaml"] == "100 epochs"
    assert lengths["0.38-mnist-adaptive.yaml"] == "937 batches"
    assert configs["0.12-cifar10-const.yaml"].hyperparameters.constants()["learning_rate"] == 1e-4
    assert configs["0.12-cifar10-adaptive.yaml"].searcher.name == "adaptive_asha"
    assert configs["0.12-cifar10-distributed.yaml"].slots_per_trial == 16
    assert not any(config.refused for config in configs.values())


def read(name: str, tmp_path: Path):
    path = tmp_path / f"{name}.yaml"
    path.write_text(ALL[name])
    return read_config(path)


def test_pedl(tmp_path: Path) -> None:
    config = read("pedl", tmp_path)
    assert config.name == "pedl" and config.length == Length(1600, Unit.BATCHES)
    assert config.global_batch_size == 64
    assert set(config.ignored) == {
        "environment.runtime_packages", "environment.image", "resources.native_parallel",
        "resources.weight", "tensorboard_storage", "security",
    }  # fmt: skip


def test_0_12(tmp_path: Path) -> None:
    config = read("old", tmp_path)
    assert config.length == Length(400, Unit.BATCHES)
    assert str(config.periods.validation) == "100 batches" and not config.periods.checkpoint.value
    assert config.checkpoint_storage.url == "file:///tmp/ckpt"
    assert config.raw["searcher"]["max_length"] == {"batches": 400}
    assert config.raw["searcher"]["max_steps"] == 8
    assert config.raw["min_validation_period"] == {"batches": 100}
    assert config.raw["scheduling_unit"] == 50


def test_0_17(tmp_path: Path) -> None:
    config = read("nested", tmp_path)
    assert config.hyperparameters.constants()["override.max_norm"] == 1e-4
    assert config.hyperparameters.constants()["mixup"] == {"alpha": 0.1, "size": 64}
    assert config.periods.records_per_epoch == 50_000 and config.periods.initial_validation
    assert config.entrypoint and config.entrypoint.trial == "model_def:Trial"
    assert "s3cret" not in repr(config)


def test_0_38(tmp_path: Path) -> None:
    config = read("new", tmp_path)
    assert config.length == Length(937, Unit.BATCHES)
    assert config.integrations == {"pachyderm": {"dataset": {"repo": "r", "token": "t"}}}
    assert "max_length" not in config.raw["searcher"]


def test_raw_is_as_on_a_cluster() -> None:
    given = {"lr": 0.1, "net": {"act": "relu", "n": {"type": "int", "minval": 1, "maxval": 2}}}
    raw = parsed(hyperparameters=given, resources={"slots_per_trial": 2}).raw
    assert raw["hyperparameters"] == {
        "lr": {"type": "const", "val": 0.1},
        "net": {"act": {"type": "const", "val": "relu"}, "n": given["net"]["n"]},
    }
    assert raw["resources"]["slots_per_trial"] == 2 and raw["resources"]["weight"] == 1
    assert raw["searcher"] == {"name": "single", "metric": "loss", "smaller_is_better": True}
    assert raw["min_checkpoint_period"] == {"batches": 0} and raw["data"] == {}
    raw["data"]["changed"] = 1
    assert parsed().raw["data"] == {}


def test_it_needs_neither_torch_nor_numpy(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(ALL["nested"])
    code = """
import sys
from det_compat.config import read_config
read_config("c.yaml")
print({"torch", "numpy", "pytorch_lightning", "determined", "rich"} & {*sys.modules})
"""
    assert python("-c", code, cwd=tmp_path).stdout == "set()\n"


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
