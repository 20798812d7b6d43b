from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from det_compat.cli import main
from det_compat.shared.extras import how_to_install
from tests.config.samples import ALL
from tests.fresh_python import python


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "c.yaml"
    path.write_text(ALL["nested"])
    return str(path)


def test_table(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rich")
    assert main(["config", "explain", config]) == 0
    shown = capsys.readouterr().out
    assert "searcher.max_length" in shown and "a trial trains for 2 epochs" in shown
    assert "ignored" in shown and "s3cret" not in shown


def test_json(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "explain", "--format", "json", config]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["file"] == config and shown["errors"] == []
    by_key = {row["key"]: row for row in shown["keys"]}
    assert by_key["environment.image"]["fate"] == "ignored"
    assert by_key["checkpoint_storage.secret_key"]["value"] == "********"


def test_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("serch: 1\nsearcher: {name: single, metric: 2}\n")
    assert main(["config", "explain", str(path)]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    first, second = shown.err.splitlines()
    assert first.startswith(f"{path}:1:1: serch: found a key that no version knows")
    assert second == f"{path}:2:34: searcher.metric: found 2, expected text"
    assert main(["config", "explain", "--format=json", str(path)]) == 1
    errors = json.loads(capsys.readouterr().out)["errors"]
    assert (errors[1]["line"], errors[1]["column"], errors[1]["expected"]) == (2, 34, "text")


def test_a_missing_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "explain", "/no/such/file.yaml"]) == 1
    assert "cannot be read (No such file or directory)" in capsys.readouterr().err


def test_without_rich_it_says_what_to_install(
    config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["config", "explain", config]) == 2
    assert how_to_install("cli") in capsys.readouterr().err


def test_characters_that_a_terminal_cannot_show(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text('name: "a\\ud800\\x1b[31m\\u2028ü"\nsearcher: {name: single, metric: "[/b]"}')
    for arguments in ([], ["--format", "json"]):
        done = python(
            "-X", "utf8=0", "-m", "det_compat", "config", "explain", *arguments, str(path),
            cwd=tmp_path,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert "\x1b[31m" not in done.stdout


def test_torch_is_not_imported(config: str, tmp_path: Path) -> None:
    code = f"""
import sys
from det_compat.cli import main
main(["config", "explain", {config!r}])
print({{"torch", "numpy", "pytorch_lightning", "determined"}} & {{*sys.modules}})
"""
    assert python("-c", code, cwd=tmp_path).stdout.splitlines()[-1] == "set()"
