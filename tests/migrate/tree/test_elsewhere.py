from __future__ import annotations

from det_compat.migrate.tree.elsewhere import elsewhere

SOURCE = b"""\
import torch

TOTAL, SEEN = 0, []

class Meter:
    def __init__(self):
        self.sum = 0

    def update(self, value):
        self.sum += value

    def mean(self):
        total = self.sum
        return total

class Named(Meter):
    def __call__(self, value):
        self.values[0] = value

class Net(torch.nn.Module):
    def forward(self, x):
        self.last = x
        return self.l(x).relu_()

    def draw(self):
        return next(self.numbers), torch.rand(2, generator=self.source)

    def forget(self):
        del self.cache[0]
        self.hist.zero_()

class Trial:
    def train(self):
        self.step = 1

def count():
    global TOTAL
    TOTAL += 1

def note(value):
    SEEN.append(value)

def reset():
    Meter.limit = torch.backends.flag = 0

def start(METER):
    METER.update(1)
    return count() or reset() or lib.count()

METER = Meter()

def tell():
    METER.update(METER.mean())

def quiet(SEEN):
    TOTAL = 2
    SEEN.append(getattr(TOTAL, "real"))
"""


def test_what_changes_elsewhere():
    found = elsewhere([SOURCE], but={"Trial"})
    assert found.classes == {
        "Meter": {"update"},
        "Named": {"update", "__call__"},
        "Net": {"draw", "forget"},
    }
    changed = {name: set(names) for name, names in found.changed.items() if names}
    assert changed == {
        "count": {"TOTAL"},
        "note": {"SEEN"},
        "reset": {"Meter"},
        "start": {"TOTAL", "Meter"},
        "tell": {"METER"},
    }
    assert "TOTAL" in found.names["start"]
    assert found.asked >= {"real"}


def test_what_a_library_has_made_is_not_known_to_change():
    found = elsewhere([SOURCE], but={"Trial"})
    assert found.changes("update", made_by="Named")
    assert not found.changes("__call__", made_by="Meter")
    assert found.changes("update", made_by="")
    assert not found.changes("update", made_by="Accuracy")
    assert found.changes("update", made_by="Counter")
    assert found.changes("choice", made_by="RandomState")
    assert not found.changes("get", made_by="dict")


def test_functions_that_two_files_have_are_not_known():
    found = elsewhere([SOURCE, b"def note():\n    return 1\n"], but=())
    assert "note" not in found.functions
    assert found.functions["count"].name.value == "count"
