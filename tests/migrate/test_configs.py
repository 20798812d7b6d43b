from __future__ import annotations

from pathlib import Path

import pytest

from det_compat.migrate.configs import configs_of, hparams_of_clusters, trial_arguments

CONFIG = "searcher: {name: single, metric: x, max_length: {batches: 1}}\n"
LAUNCH = "python3 -m determined.launch.torch_distributed"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        pytest.param(
            {"a.yaml": "model_def:T", "const.yaml": "model_def:T", "const-2.yaml": "model_def:T"},
            ["const.yaml", "const-2.yaml", "a.yaml"],
            id="const.yaml comes first, and what begins so",
        ),
        pytest.param(
            {"configs/deep.yaml": "model_def:T", "../top.yaml": "src.model_def:T"},
            ["configs/deep.yaml", "../top.yaml"],
            id="a folder below, and the one above",
        ),
        pytest.param(
            {"a.yaml": "model_def:Other", "b.yaml": "python3 model_def.py"},
            ["b.yaml"],
            id="a script, and no other class",
        ),
        pytest.param(
            {"configs/own.yaml": "own:T", "../model_def.yaml": "model_def:T"},
            [],
            id="configs of other files with such a class",
        ),
        pytest.param(
            {
                "../own/a/b.yaml": "own:T",
                "../far/a/b.yaml": "model_def:T",
                "../far/c.yaml": "src.model_def:T",
            },
            ["../far/a/b.yaml", "../far/c.yaml"],
            id="anywhere in a repository",
        ),
        pytest.param(
            {"../far/a/b.yaml": f"{LAUNCH} --trial model_def:T"},
            ["../far/a/b.yaml"],
            id="anywhere in a repository, below a launcher",
        ),
        pytest.param(
            {"../near/a/b.yaml": "model_def:T"}, [], id="configs of a file nearer to them"
        ),
        pytest.param(
            {"scripts/one.yaml": "model_def:T", "scripts/two.yaml": "other:T"},
            ["scripts/one.yaml"],
            id="configs of another file with a class of the same name",
        ),
        pytest.param({"a.yaml": "", "b.yaml": "model_def:T"}, ["b.yaml"], id="a name wins"),
        pytest.param({"a.yaml": ""}, ["a.yaml"], id="none has a name"),
    ],
)
@pytest.mark.parametrize("is_relative", [False, True])
def test_the_configs_of_a_trial(
    is_relative: bool,
    files: dict[str, str],
    found: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "src"
    (folder / "configs").mkdir(parents=True)
    (folder / "model_def.py").write_text("class T: ...\n")
    (folder / "configs" / "own.py").write_text("class T: ...\n")
    (folder / "other.py").write_text("class T: ...\n")
    (folder / "other.yaml").write_text("services: {}\n")
    (tmp_path / ".git").mkdir()
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / "model_def.py").write_text("class T: ...\n")
    for name, entrypoint in files.items():
        text = f"entrypoint: {entrypoint}\n" if entrypoint else ""
        (tmp_path / "src" / name).resolve().parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / name).resolve().write_text(text + CONFIG)
    monkeypatch.chdir(folder)
    named = Path("model_def.py") if is_relative else folder / "model_def.py"
    configs = configs_of(named, "T")
    expected = [str((folder / name).resolve()) for name in found]
    assert [config.file for config in configs] == expected


@pytest.mark.parametrize("config", ["configs/a.yaml", "a.yaml", "package/trials/a.yaml"])
def test_a_package_gives_the_class_of_a_module(config: str, tmp_path: Path) -> None:
    package = tmp_path / "package" / "trials"
    package.mkdir(parents=True)
    (tmp_path / "configs").mkdir()
    (tmp_path / ".git").mkdir()
    (package / "__init__.py").write_text("from .one import T\n")
    (package / "one.py").write_text("class T: ...\n")
    (package / "two.py").write_text("class U: ...\n")
    (tmp_path / config).write_text(f"entrypoint: package.trials:T\n{CONFIG}")
    assert [each.file for each in configs_of(package / "one.py", "T")] == [str(tmp_path / config)]
    assert configs_of(package / "two.py", "U") == []


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("python3 train.py --lr 1", "train.py"),
        (f"{LAUNCH} python3 scripts/train.py", "scripts/train.py"),
        ("python3 -m scripts.train", "scripts/train.py"),
    ],
)
@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("from model_def import T", True),
        ("import x\nif x:\n    from .model_def import T as A, U", True),
        ("from other import T", False),
        ("from model_def import U", False),
        ("from model_def import (", False),
    ],
)
def test_a_script_imports_the_class_that_its_config_starts(
    command: str, script: str, line: str, is_found: bool, tmp_path: Path
) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "model_def.py").write_text("class T: ...\n")
    (tmp_path / script).write_text(line)
    config = tmp_path / "a.yaml"
    config.write_text(f"entrypoint: {command}\n{CONFIG}")
    found = [each.file for each in configs_of(tmp_path / "model_def.py", "T")]
    assert found == ([str(config)] if is_found else [])


def test_configs_below_what_is_no_repository(tmp_path: Path) -> None:
    (tmp_path / "model_def.py").write_text("class T: ...\n")
    (tmp_path / "scripts" / "eval").mkdir(parents=True)
    below = tmp_path / "scripts" / "eval" / "far.yaml"
    below.write_text(f"entrypoint: model_def:T\n{CONFIG}")
    assert [config.file for config in configs_of(tmp_path / "model_def.py", "T")] == [str(below)]


def test_a_folder_of_all_kinds_of_things_is_no_project(tmp_path: Path) -> None:
    (tmp_path / "model_def.py").write_text("class T: ...\n")
    (tmp_path / "other" / "eval").mkdir(parents=True)
    config = tmp_path / "other" / "eval" / "far.yaml"
    config.write_text(f"entrypoint: model_def:T\n{CONFIG}")
    for number in range(501):
        (tmp_path / f"folder{number}").mkdir()
    assert configs_of(tmp_path / "model_def.py", "T") == []


def test_what_is_searched_has_its_first_value(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        f"{CONFIG}hyperparameters:\n"
        "  a: {type: int, minval: 2, maxval: 5}\n"
        "  b: {type: log, base: 10, minval: -3, maxval: -1}\n"
        "  c: {type: categorical, vals: [x, y]}\n"
        "  d: {e: 1}\n"
    )
    hparams, config = trial_arguments({"a": 3}, str(tmp_path / "a.yaml"))
    assert hparams == {"a": 3, "b": 0.001, "c": "x", "d": {"e": 1}}
    assert config is not None


@pytest.mark.parametrize(
    ("after", "entrypoint", "is_said"),
    [
        (b"hparams = {}", "python3 train.py", True),
        (b"hparams = yaml.safe_load(open('a.yaml'))", "python3 train.py", False),
        (b"hparams = info.trial.hparams", "python3 train.py", False),
        (b"hparams = {}", "python3 other.py", False),
    ],
)
def test_hyperparameters_that_only_a_cluster_gave(after, entrypoint, is_said, tmp_path):
    (tmp_path / "a.yaml").write_text(f"{CONFIG}entrypoint: {entrypoint}\n")
    before = b"info = det.get_cluster_info()\nhparams = info.trial.hparams if info else {}\n"
    found = [*hparams_of_clusters([(tmp_path / "train.py", before, after)])]
    assert [each.partition(": ")[2] for each in found] == [
        "on a cluster it had the hyperparameters of a.yaml, which nothing gives it now; "
        "it has what it had off one"
    ] * is_said


def test_configs_that_a_script_does_not_read_off_a_cluster_are_named(tmp_path):
    for name in ("a", "const", "local"):
        (tmp_path / f"{name}.yaml").write_text(f"{CONFIG}entrypoint: python3 train.py\n")
    before = (
        b"hparams = info.trial.hparams if info else yaml.load('local.yaml')\nmax_length = None\n"
    )
    after = b"hparams = yaml.load('local.yaml')\nmax_length = 3\n"
    (found,) = hparams_of_clusters([(tmp_path / "train.py", before, after)])
    assert "it had the hyperparameters, and the length, of const.yaml or a.yaml, which" in found
