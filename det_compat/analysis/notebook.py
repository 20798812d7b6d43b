"""The code of a Jupyter notebook."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_MAGIC = re.compile(r"^(\s*)(?:[%!?].*|(?:[\w.]+\s*=\s*)?[%!].*|[\w.]+\?{1,2})$")
_COMMAND = re.compile(r"^\s*(?:[\w.]+\s*=\s*)?(?:!|%(?:sh|system|sx)\s)(.*)$")
_SHELL_MAGICS = ("%%bash", "%%sh", "%%system", "%%!", "%%script")
_CODE_MAGICS = ("%%capture", "%%time", "%%timeit", "%%prun", "%%snippet")


class Cell(NamedTuple):
    """A code cell: its number among all cells, from 1, its Python and its shell commands.

    Both have all lines of the cell; those that are in the other language are without effect.
    """

    number: int
    python: str
    shell: str


def code_cells(text: str) -> Iterator[Cell]:
    """The code cells of a notebook, IPython's own syntax left out.

    A cell that ``%%writefile`` saves as a Python file is code too; cells in other languages than
    Python and a shell's are not.

    Raises:
        ValueError: ``text`` is no notebook.
    """
    for number, cell in enumerate(_cells(text), start=1):
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            source = _source(cell)
            yield Cell(number, _python(source), _shell(source))


def _cells(text: str) -> list[Any]:
    try:
        notebook = json.loads(text)
    except ValueError as error:
        raise ValueError(f"no notebook: {error}") from error
    if isinstance(notebook, dict) and isinstance(notebook.get("worksheets"), list):
        sheets = notebook["worksheets"]
        return [
            cell for sheet in sheets if isinstance(sheet, dict) for cell in sheet.get("cells", [])
        ]
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise ValueError("no notebook: it has no list of cells")
    return list(notebook["cells"])


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", cell.get("input", ""))
    return "".join(map(str, source)) if isinstance(source, list) else str(source)


def _python(source: str) -> str:
    lines = source.splitlines()
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    if lines and lines[first].startswith("%%"):
        if not _holds_python(lines[first]):
            return ""
        lines[first] = ""
    return "\n".join(_MAGIC.sub(r"\1pass", line) for line in lines)


def _shell(source: str) -> str:
    lines = source.splitlines()
    if source.lstrip().startswith(_SHELL_MAGICS):
        return source
    return "\n".join(match[1] if (match := _COMMAND.match(line)) else "" for line in lines)


def _holds_python(magic: str) -> bool:
    name, _, argument = magic.partition(" ")
    return name in _CODE_MAGICS or (name == "%%writefile" and argument.strip().endswith(".py"))
