from __future__ import annotations

from pathlib import Path

import pytest

from det_compat.experiment.errors import FitError
from det_compat.experiment.request import parse_request


def test_own_options_may_be_anywhere(tmp_path: Path) -> None:
    argv = ["--resume", "c.yaml", str(tmp_path), "--trainer.devices", "2", "--run_dir=x"]
    request = parse_request("fit", argv)
    assert (request.config, request.model_dir) == ("c.yaml", tmp_path)
    assert (request.run_dir, request.resume) == (Path("x"), True)
    assert request.options == ("--trainer.devices", "2")


def test_model_dir_is_the_folder_of_the_config() -> None:
    assert parse_request("fit", ["a/c.yaml"]).model_dir == Path("a")
    assert parse_request("fit", ["--model.trial_cls", "m:T"]).config is None


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["c.yaml", "a", "b"], "expected CONFIG.yaml"),
        (["c.yaml", "/no/such/folder"], "is no directory"),
        (["--resume"], "give CONFIG.yaml"),
        (["c.yaml", "--run_dir"], "expected one argument"),
    ],
)
def test_contradictions(argv: list[str], message: str) -> None:
    with pytest.raises(FitError, match=message):
        parse_request("fit", argv)


def test_the_command_that_resumes(tmp_path: Path) -> None:
    request = parse_request("fit", ["a b/c.yaml", str(tmp_path), "--trainer.max_epochs", "3"])
    assert request.resuming(Path("/r")) == (
        f"det-compat fit 'a b/c.yaml' {tmp_path} --run_dir /r --resume --trainer.max_epochs 3"
    )


@pytest.mark.parametrize("option", ["--help", "--print_config", "--print_config=skip_null"])
def test_only_shows(option: str) -> None:
    assert parse_request("fit", ["c.yaml", option]).only_shows
    assert not parse_request("fit", ["c.yaml"]).only_shows
