"""The cells of examples/digits/digits.ipynb print what the file has, but for the numbers."""

from __future__ import annotations

import ast
import json
import re
import shutil
from pathlib import Path

from tests.preloaded import python

FOLDER = Path(__file__).parents[1] / "examples" / "digits"


def _as_program(source: str) -> str:
    """A cell that prints the value of its last expression, as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body[-1]
    if isinstance(last, ast.Expr) and not ast.unparse(last).startswith("print("):
        tree.body[-1] = ast.parse(f"_ = {ast.unparse(last)}\nif _ is not None: print(repr(_))")
    return ast.unparse(tree)


def _numbers_aside(text: str) -> list[str]:
    return re.sub(r"\d+(\.\d+)?", "0", re.sub(" +", " ", text)).split("\n")


def test_the_cells_run(tmp_path: Path) -> None:
    cells = [
        cell
        for cell in json.loads((FOLDER / "digits.ipynb").read_text())["cells"]
        if cell["cell_type"] == "code"
    ]
    shown = [
        "".join(output.get("text") or [*output["data"]["text/plain"], "\n"])
        for cell in cells
        for output in cell["outputs"]
    ]
    assert len(shown) > len(cells) / 2
    shutil.copytree(FOLDER, tmp_path / "digits")
    program = "\n".join(_as_program("".join(cell["source"])) for cell in cells)
    (tmp_path / "digits" / "cells.py").write_text(program)
    done = python("cells.py", cwd=tmp_path / "digits")
    assert done.returncode == 0, done.stderr
    bar_aside = "".join(line for line in done.stdout.splitlines(True) if "it/s" not in line)
    assert _numbers_aside(bar_aside) == _numbers_aside("".join(shown))
