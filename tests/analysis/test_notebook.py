from __future__ import annotations

import json
from pathlib import Path

import pytest

from det_compat.check.checker import check

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


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 3}', "3"])
def test_what_is_no_notebook_is_counted(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.ipynb").write_text(text)
    report = check([str(tmp_path)])
    assert "no notebook" in report.unreadable[0].reason


def test_odd_cells_are_no_trouble(tmp_path: Path) -> None:
    cells = [3, None, {"cell_type": "code"}, {"cell_type": "code", "source": [1, 2]}]
    write(tmp_path / "a.ipynb", {"cells": cells})
    assert check([str(tmp_path)]).works
