"""Lengths in units that a script chooses at run time."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from tests.migrate.rewriting import HEADER, rewritten, trial

TABLE = 'UNITS = {"batches": pytorch.Batch, "epochs": pytorch.Epoch}\n'
HANDED_ON = """
def run(length, every):
    with pytorch.init() as context:
        model = Trial(context)
        trainer = pytorch.Trainer(model, context)
        trainer.fit(max_length=length, validation_period=every)


def main(name, n):
    unit = UNITS[name]
    run(unit(n), unit(2))
"""
AT_ONCE = """
def main(name, n):
    with pytorch.init() as context:
        model = Trial(context)
        trainer = pytorch.Trainer(model, context)
        trainer.fit(max_length=UNITS[name](n), validation_period=UNITS[name](2))
"""
EITHER = """
def main(name, n):
    unit = pytorch.Batch if name == "batches" else pytorch.Epoch
    with pytorch.init() as context:
        model = Trial(context)
        trainer = pytorch.Trainer(model, context)
        trainer.fit(max_length=unit(n), validation_period=unit(2))
"""


def made(folder: Any, text: str) -> str:
    source = trial(("self.context.get_per_slot_batch_size()", "4"), header="")
    header = f"from determined import pytorch\n{HEADER}"
    return rewritten(folder, f"{header}{source}\n\n{textwrap.dedent(text)}")


@pytest.mark.parametrize("script", [TABLE + HANDED_ON, TABLE + AT_ONCE, EITHER])
@pytest.mark.parametrize("unit", ["batches", "epochs"])
def test_a_unit_that_is_chosen_at_run_time_is_that_of_the_flag(script, unit, tmp_path, monkeypatch):
    source = made(tmp_path, script)
    assert "MIGRATE" not in source and "determined" not in source
    found: dict[str, Any] = {}
    flags: dict[str, Any] = {}

    class Trainer:
        global_step = current_epoch = 6
        is_last_batch = True

        def __init__(self, **given: object) -> None:
            flags.update(given)

        def __getattr__(self, name: str) -> Any:
            return lambda *args, **keywords: None

    exec(source, found)
    monkeypatch.setattr(found["pl"], "Trainer", Trainer)
    found["main"](unit, 6)
    steps, epochs = (2, None) if unit == "batches" else (None, 2)
    assert flags["max_steps" if steps else "max_epochs"] == 6
    assert {"max_steps", "max_epochs"} - {*flags}
    assert flags["val_check_interval"] == steps
    assert flags["check_val_every_n_epoch"] == epochs


@pytest.mark.parametrize(
    "other",
    [
        "for unit in UNITS.values():\n    print(unit(3).value)\n",
        "def change(name):\n    global UNITS\n    for UNITS in ({},):\n        pass\n",
    ],
)
def test_a_table_that_is_used_for_more_stays_and_is_marked(other, tmp_path):
    source = made(tmp_path, TABLE + AT_ONCE + other)
    assert "# MIGRATE: pytorch.Batch has no counterpart" in source
    assert '"batches": pytorch.Batch' in source
