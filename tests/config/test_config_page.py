from __future__ import annotations

from det_compat.config.keys.table import keys
from docs.make_config_page import PAGE, render


def test_the_page_is_what_the_table_says() -> None:
    assert PAGE.read_text() == render(), "python docs/make_config_page.py"


def test_every_key_has_one_row() -> None:
    page = render()
    for path in keys():
        assert page.count(f"\n| `{path}` |") == 1
