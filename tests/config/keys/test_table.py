from __future__ import annotations

from det_compat.config.keys.kinds import SECTION
from det_compat.config.keys.table import SECTIONS, Fate, keys


def test_the_table_is_in_order() -> None:
    for path, key in keys().items():
        section = path.rpartition(".")[0]
        assert not section or keys()[section].kind is SECTION
        assert (key.kind is SECTION) == (path in SECTIONS), path
        assert key.becomes and not key.becomes.endswith("."), path
        assert key.fate in Fate
