"""The scripts that complete the words of a command line, as bash and zsh use them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from det_compat.cli import main


@pytest.fixture
def script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    pytest.importorskip("shtab")
    assert main(["completion", "bash"]) == 0
    file = tmp_path / "script"
    file.write_text(capsys.readouterr().out)
    return file


def _completed(script: Path, *words: str) -> set[str]:
    """What bash offers for the last of ``words``, by the function that `complete` knows."""
    asks = f"""
    source {script}
    function=$(complete -p det-compat | sed 's/.*-F \\([^ ]*\\).*/\\1/')
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    $function det-compat "${{COMP_WORDS[-1]}}" "${{COMP_WORDS[-2]}}"
    printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", asks, "bash", "det-compat", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=script.parent,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return {*done.stdout.split()}


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("ru",), {"run", "runs"}),
        (("checkpoint", "ex"), {"export"}),
        (("fit", "--trainer.max"), {"--trainer.max_epochs"}),
        (("runs", "list", "--sta"), {"--state"}),
        (("runs", "list", "--sort", "ba"), {"batches"}),
        (("search", "--qu"), {"--quiet"}),
        (("search", "con"), {"const.yaml"}),
    ],
)
def test_bash(words: tuple[str, ...], offered: set[str], script: Path) -> None:
    script.with_name("const.yaml").touch()
    assert _completed(script, *words) == offered


def test_zsh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab")
    assert main(["completion", "zsh"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("#compdef det-compat")
    if zsh := shutil.which("zsh"):
        (tmp_path / "script").write_text(text)
        subprocess.run([zsh, "-n", str(tmp_path / "script")], check=True)


def test_without_shtab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["completion", "bash"]) == 2
    assert "completion needs shtab: pip install" in capsys.readouterr().err
