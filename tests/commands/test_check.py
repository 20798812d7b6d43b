from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from det_compat.cli import main
from det_compat.shared.extras import how_to_install
from tests.check.trees import write
from tests.fresh_python import environment, python

GOOD = "from determined.pytorch import DataLoader\n"
DIFFERENT = "from determined.pytorch import init\n"
BAD = "from determined import keras\n"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("", 0),
        (GOOD, 0),
        (DIFFERENT, 0),
        (BAD, 1),
        ("def f(context):\n    context.wrap_model(1), context.nothing\n", 1),
        ("print 3\n", 1),
        ("exec(text)\n", 1),
    ],
)
@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_exit_status(
    tmp_path: Path, code: str, status: int, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, {"a.py": code})
    assert main(["check", str(tmp_path), "--format", form]) == status
    assert capsys.readouterr().err == ""


def test_the_readable_form_is_grouped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, {"a.py": BAD + DIFFERENT, "b.py": BAD + "print 3", "c.py": BAD})
    assert main(["check", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "Refused (2)" in shown
    assert "MIGRATION.md#determinedkeras" in shown
    assert f"{tmp_path}/a.py:1:24; {tmp_path}/c.py:1:24" in shown
    assert "Works differently (1)" in shown
    assert "Could not be read (1)" in shown
    assert "3 files, 3 references to Determined: 0 work as they are" in shown
    assert "Works as it is" not in shown


def test_verbose_lists_what_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, {"[a].py": GOOD})
    assert main(["check", "-v", str(tmp_path)]) == 0
    assert f"{tmp_path}/[a].py:1:32" in capsys.readouterr().out


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, {"a.py": BAD})
    assert main(["check", str(tmp_path), "--format", "json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["counts"] == {
        "same": 0,
        "different": 0,
        "refused": 1,
        "unknown": 0,
        "unreadable": 0,
        "dynamic": 0,
    }
    (found,) = shown["findings"]
    assert (found["file"], found["line"], found["column"]) == (f"{tmp_path}/a.py", 1, 24)
    assert (found["name"], found["status"]) == ("determined.keras", "refused")
    assert (shown["works"], shown["files"]) == (False, 1)


def test_github_annotations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, {"a,b.py": BAD + DIFFERENT + GOOD, "c.py": "exec(text)\n"})
    assert main(["check", ".", "--format", "github"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        "::error file=a%2Cb.py,line=1,col=24,title=determined.keras::refused"
    )
    assert lines[1].startswith("::notice file=a%2Cb.py,line=2,col=32,")
    assert lines[2].startswith("::warning file=c.py,line=1,col=1,title=det-compat check::not read")
    assert len(lines) == 3


@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_nothing_to_check_is_not_success(
    tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(tmp_path), "--format", form]) == 1
    assert main(["check", str(tmp_path / "nowhere"), "--format", form]) == 1
    assert capsys.readouterr().out


def test_without_rich_it_says_which_extra(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": GOOD})
    code = "import sys; sys.modules['rich'] = None; sys.modules['rich.console'] = None\n"
    code += "from det_compat.cli import main; sys.exit(main(['check', 'a.py']))"
    done = python("-c", code, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert how_to_install("cli") in done.stderr


def test_nothing_is_imported_but_read(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": GOOD + "raise SystemExit('run')\n"})
    code = """
import sys
import time
from det_compat.cli import main
status = main(["check", "a.py"])
print("loaded:", {"torch", "numpy", "determined", "pytorch_lightning"} & {*sys.modules}, status)
"""
    done = python("-c", code, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "loaded: set() 0"


def test_a_hundred_files_take_about_a_second(tmp_path: Path) -> None:
    trial = (Path(__file__).parents[2] / "examples" / "digits" / "model_def.py").read_text()
    write(tmp_path, {f"t{i}/model_def.py": trial for i in range(100)})
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = python("-m", "det_compat", "check", "--format", "json", str(tmp_path), cwd=tmp_path)
    # 0.6 s of a processor on an idle machine; the time of others on this one does not count.
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 5
    assert json.loads(done.stdout)["files"] == 100


@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_names_that_are_no_text_can_be_shown(tmp_path: Path, form: str) -> None:
    odd = os.fsdecode(b"\xff\xe9.py")
    try:
        (tmp_path / odd).write_text(BAD + "print 3")
        (tmp_path / os.fsdecode(b"\xff.yaml")).write_bytes(b"\xff")
    except OSError:
        pytest.skip("this file system wants names of text")
    done = python("-m", "det_compat", "check", ".", "--format", form, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_names_that_the_terminal_does_not_have_can_be_shown(tmp_path: Path, form: str) -> None:
    write(tmp_path, {"mödel.py": BAD})
    arguments = [sys.executable, "-m", "det_compat", "check", ".", "--format", form]
    variables = {**environment(), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(arguments, cwd=tmp_path, env=variables, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (1, b"")
    assert b"m\\xf6del.py" in done.stdout or b"m\\u00f6del.py" in done.stdout


@pytest.mark.parametrize("columns", ["1", "20", "400"])
def test_no_width_cuts_anything(tmp_path: Path, columns: str) -> None:
    write(tmp_path, {"a.py": BAD + DIFFERENT})
    arguments = [sys.executable, "-m", "det_compat", "check", "."]
    variables = {**environment(), "COLUMNS": columns, "TERM": "dumb"}
    done = subprocess.run(
        arguments, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    assert "    determined.keras  a.py:1:24\n" in done.stdout
    assert "MIGRATION.md#pytorchinit-under-torchrun\n" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_a_reader_that_goes_away_is_no_error(tmp_path: Path, form: str) -> None:
    write(tmp_path, {f"a{i}.py": BAD * 500 for i in range(20)})
    command = f"{sys.executable} -m det_compat check -v --format {form} . | head -n 1"
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr
