from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from det_compat.analysis import source
from det_compat.check.checker import check

BAD = {
    "print 'Python 2'\n": "does not parse",
    "def f(:\n": "does not parse",
    "x = '\0'\n": "",
    "# coding: nonsense\n": "unknown encoding",
}


@pytest.mark.parametrize("text", BAD)
def test_what_does_not_parse_is_counted(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.py").write_text(text)
    report = check([str(tmp_path)])
    assert (report.files, len(report.unreadable), report.works) == (1, 1, False)
    assert BAD[text] in report.unreadable[0].reason


@pytest.mark.parametrize("data", [b"\xff\xfe\x00\x01", b"x = '\xe9'\n", bytes(range(256))])
def test_what_is_no_text_is_counted(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.py").write_bytes(data)
    assert len(check([str(tmp_path)]).unreadable) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbfimport determined\r\n",
        "# coding: latin-1\ns = 'é'; import determined\n".encode("latin-1"),
        b"import determined\r# old Mac\r",
        b"x = '\\d'\nimport determined\n",
    ],
)
def test_encodings_and_line_ends(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.py").write_bytes(data)
    report = check([str(tmp_path)])
    assert [found.name for found in report.findings] == ["determined"]
    assert report.works


def test_a_huge_file_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_BYTES", 10)
    (tmp_path / "a.py").write_text("import determined\n")
    assert "larger than" in check([str(tmp_path)]).unreadable[0].reason


def test_an_archive_is_to_be_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.py", "import determined")
    report = check([str(tmp_path / "a.zip")])
    assert [problem.reason for problem in report.unreadable] == ["an archive: unpack it first"]


def test_deep_nesting_is_counted(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = " + "(" * 5000 + ")" * 5000)
    (tmp_path / "b.py").write_text("x = " + "-" * 100_000 + "1")
    assert len(check([str(tmp_path)]).unreadable) == 2


def test_long_chains_are_read(tmp_path: Path) -> None:
    chain = "import determined\nx = determined" + ".a" * 300 + "\ny = " + "x + " * 300 + "x\n"
    (tmp_path / "a.py").write_text(chain)
    assert check([str(tmp_path)]).unreadable == []
