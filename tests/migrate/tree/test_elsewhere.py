from __future__ import annotations

from det_compat.migrate.tree.elsewhere import elsewhere

SOURCE = b"""\
import torch

TOTAL, SEEN = 0, []

class Meter: ...

class Trial: ...

def count():
    global TOTAL
    TOTAL += 1

def start(METER):
    return count() or lib.count()

METER = Meter()

def note(SEEN):
    SEEN.append(getattr(TOTAL, "real"))
"""


def test_what_is_elsewhere():
    found = elsewhere([SOURCE])
    assert found.variables == {"TOTAL", "SEEN", "METER"}
    assert found.asked >= {"real"}


def test_functions_that_two_files_have_are_not_known():
    found = elsewhere([SOURCE, b"def note():\n    return 1\n"])
    assert "note" not in found.functions
    assert found.functions["count"].name.value == "count"
