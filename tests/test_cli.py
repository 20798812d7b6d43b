from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import det_compat
from det_compat.cli import main
from det_compat.shared.verbosity import verbosity
from tests.fresh_python import python


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["--help"])
    assert exited.value.code == 0
    shown = capsys.readouterr().out
    assert "run a script, with `import determined` finding det_compat" in shown
    assert "--version" in shown


def test_help_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["run", "--help"])
    assert exited.value.code == 0
    shown = capsys.readouterr().out
    assert "det-compat run SCRIPT [ARGS...]" in shown
    assert "torchrun --nproc_per_node=N --no-python det-compat run SCRIPT" in shown


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["--version"])
    assert exited.value.code == 0
    assert capsys.readouterr().out == f"det-compat {det_compat.__version__}\n"


@pytest.mark.parametrize("argv", [[], ["fly"], ["--fly"]])
def test_a_wrong_command_line_exits_with_2(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main(argv)
    assert exited.value.code == 2
    assert "usage: det-compat" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "meant"),
    [
        (["serach"], "search"),
        (["checkpoint", "exprot"], "export"),
        (["x"], ""),
        (["search", "c.yaml", "--resum_"], "--resume"),
    ],
)
def test_what_may_have_been_meant(
    argv: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(argv)
    said = capsys.readouterr().err
    assert said.endswith(f"did you mean {meant}?\n") if meant else "did you mean" not in said


@pytest.mark.parametrize("argv", [["--help"], ["run", "--help"], ["--version"]])
def test_it_starts_without_torch(argv: list[str], tmp_path: Path) -> None:
    code = f"""
import atexit, sys
heavy = {{"torch", "numpy", "yaml", "pytorch_lightning", "determined"}}
atexit.register(lambda: print("loaded:", heavy & {{*sys.modules}}))
from det_compat.cli import main
from det_compat.shared.verbosity import verbosity
main({argv!r})
"""
    assert python("-c", code, cwd=tmp_path).stdout.splitlines()[-1] == "loaded: set()"


def test_python_m_is_the_same_command(tmp_path: Path) -> None:
    done = python("-m", "det_compat", "--version", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"det-compat {det_compat.__version__}\n")


def test_what_lightning_warns_of_its_own_code_is_not_told() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with verbosity():
            warnings.warn("`isinstance(treespec, LeafSpec)` is deprecated, use", FutureWarning, 2)
            with pytest.raises(FutureWarning):
                warnings.warn("another is deprecated", FutureWarning, 2)


def test_quiet_and_the_level_of_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["runs"]) == 0
    assert capsys.readouterr().out == "no runs in .\n"
    assert main(["runs", "--quiet"]) == main(["runs", "list", "--quiet"]) == 0
    assert main(["check", "--quiet", "nowhere", "--log-level", "error"]) != 0
    shown = capsys.readouterr()
    assert shown.out == ""


def test_streams_that_are_closed_lead_nowhere(tmp_path: Path) -> None:
    code = "import sys; from det_compat.cli import main; main(); print(sys.stdout.isatty(), 'seen')"
    again = f"os.execv(sys.executable, [sys.executable, '-c', {code!r}, 'runs'])"
    (tmp_path / "kept.txt").write_text("kept")
    ended = python("-c", f"import os, sys; os.close(1); {again}", cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]
