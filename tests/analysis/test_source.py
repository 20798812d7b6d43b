from __future__ import annotations

import json
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


CELLS = [
    {"cell_type": "markdown", "source": "# import determined"},
    {
        "cell_type": "code",
        "source": ["%matplotlib inline\n", "!pip install x\n", "import determined as det"],
    },
    {"cell_type": "code", "source": "%%bash\npython -m determined.launch\n"},
    {"cell_type": "code", "source": "print 'old'"},
    {"cell_type": "code", "source": "%%time\nfiles = !ls\ndet.core.init?\n\ndet.core.init()"},
    {"cell_type": "code", "source": "%%writefile model_def.py\nfrom determined import keras"},
]


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


def write(path: Path, notebook: object) -> None:
    path.write_text(json.dumps(notebook))


@pytest.mark.parametrize(
    "notebook",
    [
        {"cells": CELLS, "nbformat": 4},
        {"worksheets": [{"cells": [{**c, "input": c["source"]} for c in CELLS]}], "nbformat": 3},
    ],
)
def test_cells_are_read(tmp_path: Path, notebook: object) -> None:
    write(tmp_path / "a.ipynb", notebook)
    report = check([str(tmp_path)])
    places = [
        (f.name, f.position.cell, f.position.line, f.position.column) for f in report.findings
    ]
    assert places == [
        ("determined", 2, 3, 8),
        ("python -m determined.launch", 3, 2, 11),
        ("determined.core.init", 5, 5, 10),
        ("determined.keras", 6, 2, 24),
    ]
    assert [(u.position.cell, u.position.line) for u in report.unreadable] == [(4, 1)]


def test_a_command_of_several_lines_is_one(tmp_path: Path) -> None:
    text = "x = 1\n!det e create \\\n    a.yaml \\\n  .\ny = x + \\\n  2\n%run a.py \\\n  --b\nz ="
    write(tmp_path / "a.ipynb", {"cells": [{"cell_type": "code", "source": text}]})
    cell = next(source.code_cells((tmp_path / "a.ipynb").read_text()))
    assert cell.python.split("\n") == [
        "x = 1",
        "pass",
        "",
        "",
        "y = x + \\",
        "  2",
        "pass",
        "",
        "z =",
    ]
    assert cell.shell.split("\n") == ["", "det e create \\", "    a.yaml \\", "  .", *[""] * 5]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 3}', "3"])
def test_what_is_no_notebook_is_counted(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.ipynb").write_text(text)
    report = check([str(tmp_path)])
    assert "no notebook" in report.unreadable[0].reason


def test_odd_cells_are_no_trouble(tmp_path: Path) -> None:
    cells = [3, None, {"cell_type": "code"}, {"cell_type": "code", "source": [1, 2]}]
    write(tmp_path / "a.ipynb", {"cells": cells})
    assert check([str(tmp_path)]).works
