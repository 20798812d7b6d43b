"""What people read: Rich, where it shows texts as they are."""

import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

#: The narrowest that a column is made for a word that is longer, such as a path.
_NARROW = 10
_BORDERS = 3  # what a column has beside its text

_ENDLESS = 10_000  # columns


def console(*, wraps: bool = True, **options: Any) -> Console:
    """A console for standard output that takes no name of a user's for markup or an emoji.

    Without it ``train.py:100:9`` has an emoji, and a metric ``[bold]`` is not to be seen. In
    a notebook it is text, too, which logs can copy, and not HTML.

    Args:
        wraps: whether lines are broken where there is no terminal, too: at 140 columns. Names and
            paths that another program reads are better left whole.
        **options: arguments of Rich's ``Console``.

    Raises:
        ImportError: Rich is not installed.
    """
    width = None if sys.stdout.isatty() else 140 if wraps else _ENDLESS
    plain = {"emoji": False, "markup": False, "force_jupyter": False}
    return Console(**{"width": width, **plain, **options})


def pairs_table(title: str, rows: Mapping[str, str]) -> Table:
    """A table of names with their values, which are broken where they are long."""
    table = Table(title=title, show_header=False, title_justify="left")
    for name, value in rows.items():
        table.add_row(Text(name, overflow="fold"), Text(value, overflow="fold"))
    return table


def print_table(table: Table, **options: Any) -> None:
    """Print a table, or, where the terminal is too narrow for its columns, a list of its rows.

    Args:
        table: the table.
        **options: those of ``console``.
    """
    printing = console(**options)
    readable = sum(map(_readable, table.columns)) + _BORDERS * len(table.columns) + 1
    if readable <= printing.width:
        printing.print(table)
        return
    if table.title:
        printing.print(table.title)
    names = [str(column.header) if table.show_header else "" for column in table.columns]
    for row in zip(*(column.cells for column in table.columns), strict=True):
        for index, (name, cell) in enumerate(zip(names, row, strict=True)):
            text = cell if isinstance(cell, Text) else Text(str(cell))
            before = ("  " if index else "") + (f"{name}: " if name else "")
            printing.print(Text(before, overflow="fold").append_text(text))


def _readable(column: Column) -> int:
    """How wide a column has to be: its head is whole, and words are not in many pieces."""
    head = max(map(len, str(column.header).split()), default=0)
    words = (word for cell in column.cells for word in str(cell).split())
    return max(head, min(_NARROW, max(map(len, words), default=0)))
