from __future__ import annotations

import pytest
from rich.table import Table

from det_compat.shared.terminal import console


def test_texts_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("[bold]", ":100:", title=":smile:")
    table.add_row("a[0]", "train.py:100:9")
    console().print(table)
    console().print("train.py:100:9 [red]")
    shown = capsys.readouterr().out
    for text in ("[bold]", ":100:", ":smile:", "a[0]", "train.py:100:9", "[red]"):
        assert text in shown
