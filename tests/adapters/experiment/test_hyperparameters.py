"""Hyperparameters reach the trial as the config has them: they are neither parsed nor executed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pytorch_lightning.cli import LightningCLI

from det_compat import TrialModule, to_lightning
from det_compat.cli import main
from tests.experiment.projects import CONFIG, QUIET, project

EXECUTED = "import pathlib; pathlib.Path('executed').touch()\nclass Thing:\n    pass\n"
STRINGS = {
    "null": "null",
    "yes": "yes",
    "float": "1e-4",
    "list": "[1, 2]",
    "hex": "0x10",
    "date": "2020-01-01",
    "time": "1:30",
    "empty": "",
    "path": "evil.yaml",
    "braces": "{a: b",
    "other": ["0.1", {"deep": "1_000"}],
    "number": 1e-4,
    "none": None,
}
OBJECTS = {
    "hydra": {"_target_": "evil.Thing", "init_args": {"x": "1"}},
    "lightning": {"class_path": "evil.Thing", "init_args": {"x": "1"}},
    "alone": {"class_path": "evil.Thing"},
    "text": "evil.Thing",
}
HPARAMS: dict[str, Any] = {**STRINGS, **OBJECTS, "optim": {"lr": 0.1, "momentum": "0.9"}}


@pytest.fixture(autouse=True)
def nothing_is_executed(
    here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "evil.py").write_text(EXECUTED)
    (tmp_path / "evil.yaml").write_text("class_path: evil.Thing")
    monkeypatch.setattr(sys, "argv", ["train.py"])
    yield
    assert not (tmp_path / "executed").exists()


def tells(folder: Path, hparams: dict[str, Any]) -> Path:
    """A project whose trial writes down its hyperparameters."""
    file = project(folder)
    # YAML's dumpers take 1e-4 for a word, and leave out its quotes.
    hyperparameters = {"global_batch_size": 4, **hparams}
    file.write_text(json.dumps({**CONFIG, "hyperparameters": hyperparameters}))
    code = file.with_name("model_def.py")
    told = str(folder.parent / "told.json")
    says = f"        pathlib.Path({told!r}).write_text(json.dumps(context.get_hparams()))\n"
    begin = "        self.context = context\n"
    code.write_text(code.read_text().replace(begin, begin + says, 1))
    return file


def told(tmp_path: Path) -> Any:
    return json.loads((tmp_path / "told.json").read_text())


def constants(hparams: dict[str, Any]) -> dict[str, Any]:
    return {name: {"type": "const", "val": value} for name, value in hparams.items()}


@pytest.mark.parametrize("as_constants", [True, False])
def test_the_trial_gets_what_the_config_has(as_constants: bool, tmp_path: Path) -> None:
    file = tells(tmp_path / "p", constants(HPARAMS) if as_constants else HPARAMS)
    steps = ("--trainer.max_steps", "1")
    assert main(["fit", str(file), *QUIET, *steps, "--run_dir", "r"]) == 0
    assert told(tmp_path) == {"global_batch_size": 4, **HPARAMS}
    (tmp_path / "told.json").unlink()
    assert main(["fit", str(file), *QUIET, "--config", "r/lightning.yaml"]) == 0
    assert told(tmp_path) == {"global_batch_size": 4, **HPARAMS}


def test_hyperparameters_that_are_a_class_path_themselves(tmp_path: Path) -> None:
    spec = {"class_path": "evil.Thing", "init_args": {"x": "1"}}
    (tmp_path / "f.yaml").write_text(yaml.safe_dump({"model": {"hparams": spec}}))
    file = tells(tmp_path / "p", {})
    code = file.with_name("model_def.py")
    code.write_text(code.read_text().replace("self.context.get_per_slot_batch_size()", "4"))
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), "hyperparameters": spec}))
    files = ("--config", "f.yaml", "--config", "f.yaml", "--model.hparams.init_args.y", "2")
    assert main(["fit", str(file), *QUIET, "--trainer.max_steps", "1", *files]) == 0
    assert told(tmp_path) == {"class_path": "evil.Thing", "init_args": {"x": "1", "y": 2}}


def test_what_is_typed_is_parsed(tmp_path: Path) -> None:
    typed = {
        "float": ("1e-4", 1e-4),
        "word": ("yes", True),
        "none": ("null", None),
        "text": ("a: #b", "a: #b"),
        "time": ("1:30", "1:30"),
        "octal": ("0o17", 15),
        "quoted": ('"1"', "1"),
        "list": ("[1, '2', {class_path: evil.Thing}]", [1, "2", {"class_path": "evil.Thing"}]),
        "negative": ("-1", -1),
        "empty": ("", ""),
        "thing": ("{class_path: evil.Thing}", {"class_path": "evil.Thing"}),
    }
    words = [word for key, (text, _) in typed.items() for word in (f"--model.hparams.{key}", text)]
    file = tells(tmp_path / "p", {"optim": {"lr": "0.1", "momentum": "0.9"}})
    nested = ("--model.hparams.optim.lr=0.2", "--model.hparams", "{optim: {x: '3'}}")
    assert main(["fit", str(file), *QUIET, "--trainer.max_steps", "1", *words, *nested]) == 0
    optim = {"lr": 0.2, "momentum": "0.9", "x": "3"}
    values = {key: value for key, (_, value) in typed.items()}
    assert told(tmp_path) == {"global_batch_size": 4, "optim": optim, **values}


def test_a_printed_config_gives_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tells(tmp_path / "p", HPARAMS)
    with pytest.raises(SystemExit):
        main(["fit", str(file), "--model.hparams.optim.lr", "2", "--print_config"])
    (tmp_path / "lightning.yaml").write_text(capsys.readouterr().out)
    options = ("--config", "lightning.yaml", "--trainer.max_steps", "1")
    assert main(["fit", str(file), *QUIET, *options]) == 0
    optim = {"lr": 2, "momentum": "0.9"}
    assert told(tmp_path) == {"global_batch_size": 4, **HPARAMS, "optim": optim}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model.hparams.lr"], "--model.hparams.lr has no value"),
        (["--model.hparams.lr", "--trainer.devices", "1"], "--model.hparams.lr has no value"),
        (["--model.hparams.lr", "[1,"], "--model.hparams.lr"),
        (["--model.hparams", "{"], "--model.hparams"),
        (["--model.hparams", "nothing.yaml"], "nothing.yaml"),
        (["--model.hparams.global_batch_size.x", "1"], "global_batch_size is 4, and no mapping"),
    ],
)
def test_what_is_no_hyperparameter(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", str(tells(tmp_path / "p", {})), *QUIET, *options]) == 2
    assert message in capsys.readouterr().err


def _lightning(tmp_path: Path, module: Any, *words: str) -> Any:
    """The module that LightningCLI makes of a file with HPARAMS, and what the file has."""
    given = {"hparams": HPARAMS, "exp_conf": {"labels": ["1"], "data": OBJECTS}}
    file = tmp_path / "lightning.yaml"
    made = {} if module is not TrialModule else {"trial_cls": "model_def.Trial"}
    file.write_text(json.dumps({"model": {**made, **given}}))
    argv = ["--config", str(file), *words]
    return LightningCLI(module, args=argv, run=False, seed_everything_default=1), given


@pytest.mark.parametrize("made", [True, False])
def test_lightning_cli(made: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path)
    module = TrialModule
    if made:
        import importlib

        module = to_lightning(importlib.import_module("model_def").Trial)
    words = ("--model.hparams.lr=0.1", "--model.hparams.word", "no", "--model.hparams.null=true")
    cli, given = _lightning(tmp_path, module, *words)
    typed = {"lr": 0.1, "word": False, "null": True}
    assert cli.model.hparams["hparams"] == {**given["hparams"], **typed}
    assert cli.model.hparams["exp_conf"] == given["exp_conf"]
    assert {type(value) for value in cli.model.hparams["hparams"].values()} <= {
        *(str, list, dict, float, bool, type(None))
    }
    saved = tmp_path / "saved.yaml"
    saved.write_text(cli.parser.dump(cli.config))
    again = LightningCLI(module, args=["--config", str(saved)], run=False)
    assert again.model.hparams == cli.model.hparams


def test_lightning_cli_of_any_module(tmp_path: Path) -> None:
    project(tmp_path)
    arguments = {"trial_cls": "model_def.Trial", "hparams": HPARAMS, "exp_conf": {"data": OBJECTS}}
    file = tmp_path / "lightning.yaml"
    model = {"class_path": "det_compat.TrialModule", "init_args": arguments}
    file.write_text(json.dumps({"model": model, "seed_everything": 1}))
    argv = ["--config", str(file), "--model.init_args.hparams.lr", "0.1"]
    cli = LightningCLI(args=argv, run=False, subclass_mode_model=True)
    assert cli.model.hparams["hparams"] == {**HPARAMS, "lr": 0.1}
    assert cli.model.hparams["exp_conf"] == {"data": OBJECTS}
