from __future__ import annotations

import pytest
from rich.table import Table
from rich.text import Text

from det_compat.shared.terminal import console, print_table


def test_texts_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("[bold]", ":100:", title=":smile:")
    table.add_row("a[0]", "train.py:100:9")
    console().print(table)
    console().print("train.py:100:9 [red]")
    shown = capsys.readouterr().out
    for text in ("[bold]", ":100:", ":smile:", "a[0]", "train.py:100:9", "[red]"):
        assert text in shown


@pytest.mark.parametrize("width", [30, 60])
def test_a_table_that_does_not_fit_is_a_list(
    width: int, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table("run", "started", "", "best checkpoint", title="all")
    for number in range(2):
        table.add_row(f"runs/{number}", "05:30", Text("done"), Text("x" * 36, overflow="fold"))
    print_table(table, width=width)
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= width
    listed = "run: runs/0\n  started: 05:30\n  done\n  best checkpoint: "
    assert shown.startswith("all\n" + listed) == (width == 30)
    assert ("started" in shown, "checkpoint" in shown, "…" in shown) == (True, True, False)
    assert shown.count("x") == 2 * 36
