"""A Python file or Jupyter notebook, parsed."""

import ast
import json
import re
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

#: Larger files are not read: code that people write is smaller.
MAX_BYTES = 5_000_000
#: Why a file is not read of which the parts are in one another more often than Python calls itself.
NESTED_TOO_DEEPLY = "nested too deeply to be read"
_ZIP = b"PK\x03\x04"
_MAGIC = re.compile(r"^(\s*)(?:[%!?].*|(?:[\w.]+\s*=\s*)?[%!].*|[\w.]+\?{1,2})$")
_COMMAND = re.compile(r"^\s*(?:[\w.]+\s*=\s*)?(?:!|%(?:sh|system|sx)\s)(.*)$")
_SHELL_MAGICS = ("%%bash", "%%sh", "%%system", "%%!", "%%script")
_CODE_MAGICS = ("%%capture", "%%time", "%%timeit", "%%prun", "%%snippet")


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A line and column, both from 1; in a notebook those of the code cell number ``cell``."""

    file: str
    cell: int = 0
    line: int = 1
    column: int = 1


def printable(path: Path) -> str:
    """A path for people and for JSON; one that is no UTF-8 can be printed all the same."""
    return path.as_posix().encode(errors="surrogateescape").decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What could not be read: a file, a cell, or code that decides at run time what it means."""

    position: Position
    reason: str


@dataclass
class Source:
    """One file: where it is, what could be read of it, and what could not.

    The cells of a notebook follow one another in ``lines``, and the line numbers of their
    ``trees`` are those; ``cells`` are the number of each and of the lines before it. ``shell`` has
    the number and the shell commands of a cell.
    """

    path: Path
    root: Path
    trees: list[ast.Module] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    cells: list[tuple[int, int]] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    shell: list[tuple[int, str]] = field(default_factory=list)
    _ends: dict[int, list[int]] = field(default_factory=dict)

    def position(self, line: int, column: int) -> Position:
        """A position, given a syntax tree's line and its column in UTF-8 bytes, from 0."""
        number = bisect_left(self.cells, line, key=lambda cell: cell[1])
        cell, before = self.cells[number - 1] if number else (0, 0)
        column = self.characters(line, column) + 1
        return Position(printable(self.path), cell, line - before, column)

    def characters(self, line: int, column: int) -> int:
        """How many characters of a line are whole in its first ``column`` bytes of UTF-8."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        if text.isascii():
            return min(column, len(text))
        # A line may have thousands of positions: where its characters end is found out once.
        if line not in self._ends:
            self._ends[line] = [*accumulate(len(character.encode()) for character in text)]
        return bisect_right(self._ends[line], column)

    @cached_property
    def postpones_annotations(self) -> bool:
        """Whether the file asks Python not to evaluate annotations."""
        return any(line.startswith("from __future__ import annotations") for line in self.lines)


def read(path: Path, root: Path) -> Source:
    """Read and parse a file; problems become entries of ``unreadable``."""
    source = Source(path, root)
    data = _read_bytes(source)
    if data is None:
        return source
    if data.startswith(_ZIP):
        _add_problem(source, "an archive: unpack it first")
        return source
    if path.suffix == ".ipynb":
        _read_notebook(source, data)
    else:
        _parse(source, data, cell=0)
    return source


def read_text(path: Path) -> Source:
    """Read a shell script, a Dockerfile or another file of commands."""
    source = Source(path, path.parent)
    data = _read_bytes(source)
    if data is not None:
        source.shell.append((0, data.decode("utf-8-sig", errors="replace")))
    return source


def parsed(path: Path, root: Path, data: bytes) -> Source:
    """A Python file of which the text is known already."""
    source = Source(path, root)
    _parse(source, data, cell=0)
    return source


def _read_bytes(source: Source) -> bytes | None:
    try:
        if source.path.stat().st_size > MAX_BYTES:
            _add_problem(source, f"larger than {MAX_BYTES // 1_000_000} MB")
            return None
        return source.path.read_bytes()
    except OSError as error:
        _add_problem(source, error.strerror or "cannot be read")
        return None


def _read_notebook(source: Source, data: bytes) -> None:
    try:
        cells = [*code_cells(data.decode("utf-8-sig"))]
    except ValueError as error:
        _add_problem(source, str(error))
        return
    except RecursionError:
        _add_problem(source, NESTED_TOO_DEEPLY)
        return
    for cell in cells:
        # Half a surrogate pair, which JSON can have and Python cannot, is told by the parser.
        _parse(source, cell.python.encode(errors="surrogatepass"), cell.number)
        if cell.shell.strip():
            source.shell.append((cell.number, cell.shell))


def _parse(source: Source, data: bytes, cell: int) -> None:
    try:
        with warnings.catch_warnings():
            # Python warns of escapes and comparisons in the user's code, which is not our business.
            warnings.simplefilter("ignore")
            tree = ast.parse(data, filename=str(source.path))
        lines = _lines(_decoded(data))
    except SyntaxError as error:
        reason = f"does not parse as Python 3: {error.msg}"
        _add_problem(source, reason, cell, error.lineno or 1, error.offset or 1)
    except (LookupError, ValueError, RecursionError, MemoryError) as error:
        _add_problem(source, f"cannot be parsed: {type(error).__name__} {error}".strip(), cell)
    else:
        source.cells.append((cell, len(source.lines)))
        if source.lines:
            ast.increment_lineno(tree, len(source.lines))
        source.lines.extend(lines)
        source.trees.append(tree)


def _lines(text: str) -> list[str]:
    # splitlines() would also split at characters that end no line of Python.
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _decoded(data: bytes) -> str:
    header = b"\n".join(data.split(b"\n", 2)[:2]).decode("latin-1")
    declared = re.search(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", header, re.MULTILINE)
    encoding = declared[1] if declared else "utf-8-sig"
    return data.decode(encoding, errors="replace")


def _add_problem(
    source: Source, reason: str, cell: int = 0, line: int = 1, column: int = 1
) -> None:
    position = Position(printable(source.path), cell, max(line, 1), max(column, 1))
    source.unreadable.append(Unreadable(position, reason))


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
    is_old = isinstance(notebook, dict) and isinstance(notebook.get("worksheets"), list)
    cells: list[Any] = []
    for sheet in notebook["worksheets"] if is_old else [notebook]:
        if not isinstance(sheet, dict) or not isinstance(sheet.get("cells"), list):
            raise ValueError("no notebook: it has no list of cells")
        cells += sheet["cells"]
    return cells


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
    goes_on = _going_on(lines)
    python = (_MAGIC.sub(r"\1pass", line) for line in lines)
    return "\n".join("" if on else line for line, on in zip(python, goes_on, strict=True))


def _shell(source: str) -> str:
    if source.lstrip().startswith(_SHELL_MAGICS):
        return source
    lines, is_command = [], False
    for line, on in zip(source.splitlines(), _going_on(source.splitlines()), strict=True):
        match = _COMMAND.match(line)
        is_command = is_command if on else match is not None
        lines.append(line if on and is_command else match[1] if match and not on else "")
    return "\n".join(lines)


def _going_on(lines: list[str]) -> list[bool]:
    """Which lines belong to the command or the magic above them, which ends in a backslash."""
    found: list[bool] = []
    for above, _ in pairwise(["", *lines]):
        is_of_one = above.endswith("\\") and bool((found and found[-1]) or _MAGIC.match(above))
        found.append(is_of_one)
    return found


def _holds_python(magic: str) -> bool:
    name, _, argument = magic.partition(" ")
    return name in _CODE_MAGICS or (name == "%%writefile" and argument.strip().endswith(".py"))
