"""What a run prints is in its folder, too."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

import pytest

from det_compat.script.run_log import run_logged


def test_lines_of_both_streams(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    with run_logged(tmp_path):
        print("one", "two", sep="\n")
        print("bad", file=sys.stderr)
        assert sys.stdout.encoding == before[0].encoding
        print("no newline", end="")
    print("after")
    assert (sys.stdout, sys.stderr) == before
    assert (tmp_path / "log.txt").read_text() == "one\ntwo\nbad\nno newline\n"
    assert capsys.readouterr() == ("one\ntwo\nno newlineafter\n", "bad\n")


def test_what_ends_a_run_is_its_last_word(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no data"), run_logged(tmp_path):
        print("begun")
        raise ValueError("no data")
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert (lines[0], lines[-1]) == ("begun", "ValueError: no data")


def test_a_bar_is_kept_in_its_last_state(tmp_path: Path) -> None:
    shown = io.StringIO()
    with contextlib.redirect_stderr(shown), run_logged(tmp_path):
        for percent in (0, 50, 100):
            sys.stderr.write(f"\r\x1b[2K\x1b[32m{percent}%\x1b[0m")
        sys.stderr.write("\n")
        sys.stderr.write("line of windows\r\n")
    assert (tmp_path / "log.txt").read_text() == "100%\nline of windows\n"
    assert shown.getvalue().startswith("\r\x1b[2K\x1b[32m0%")


def test_who_keeps_the_stream_may_write_to_it_later(tmp_path: Path) -> None:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        with run_logged(tmp_path):
            kept = sys.stdout
        kept.write("later\n")
    assert shown.getvalue() == "later\n"
    assert (tmp_path / "log.txt").read_text() == ""


def test_a_log_that_cannot_be_written_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with run_logged(tmp_path / "nothing"):
        print("goes on")
    assert capsys.readouterr().out == "goes on\n"
