from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial

GUARD = "is not None"


@pytest.mark.parametrize(
    ("lines", "is_sure"),
    [
        ("self.prepare()", True),
        ("with torch.no_grad():\n            self.prepare()", True),
        ("self.first()", True),
        ("if self.x:\n            self.prepare()", False),
        ("if self.x:\n            return\n        self.prepare()", False),
    ],
)
def test_what_methods_make_that_init_calls_is_there(lines, is_sure, tmp_path):
    reducing = "self.context.wrap_reducer(lambda x: sum(x), 'mean')"
    first = "    def first(self):\n        self.prepare()\n\n" if "first" in lines else ""
    made = f"""\
{first}    def prepare(self):
        self.mean = {reducing}

    def build_training"""
    source = trial(
        (
            "self.context = context\n",
            f"self.context = context\n        self.x = 1\n        {lines}\n",
        ),
        ("    def build_training", made),
    )
    assert (GUARD in method(rewritten(tmp_path, source), "on_validation_start")) is not is_sure


@pytest.mark.parametrize(
    ("lines", "is_sure"),
    [
        ("", True),
        ("        if self.small:\n            return DataLoader([], batch_size=1)\n", False),
    ],
)
def test_what_a_loader_makes_is_there_when_a_validation_starts(lines, is_sure, tmp_path):
    reducing = "        self.mean = self.context.wrap_reducer(lambda x: sum(x), 'mean')\n"
    loader = "    def build_validation_data_loader(self):\n"
    made = rewritten(tmp_path, trial((loader, f"{loader}{lines}{reducing}")))
    assert (GUARD in method(made, "on_validation_start")) is not is_sure
