from __future__ import annotations

from typing import Any

import pytest

from tests.migrate.rewriting import method, rewritten, trial

GUARD = "is not None"
MEAN = "context.wrap_reducer(lambda x: sum(x), 'mean')"


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


@pytest.mark.parametrize("is_made", [True, False])
def test_a_list_that_is_made_at_times_is_asked_for_first(is_made, tmp_path):
    wrapping = f"self.means = [{MEAN} for _ in range(2)]"
    source = trial(
        ("self.context = context\n", f"if context.get_hparam('some'):\n            {wrapping}\n")
    )
    found: dict[str, Any] = {}
    exec(rewritten(tmp_path, source), found)
    module = found["Trial"](some=is_made, global_batch_size=1)
    module.on_validation_start()
    assert hasattr(module, "means") is is_made
