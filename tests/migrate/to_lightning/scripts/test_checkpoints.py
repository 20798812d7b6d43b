"""The files that Lightning writes where each validation has a checkpoint."""

from __future__ import annotations

import logging
import textwrap
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.migrate.rewriting import HEADER, rewritten, trial

SCRIPT = """
def main(n, m, few=True):
    with pytorch.init() as context:
        model = Trial(context)
        trainer = pytorch.Trainer(model, context)
        trainer.fit(
            max_length={},
            checkpoint_period={},
            validation_period={},
            checkpoint_policy="all",
        )
"""
EPOCH = 4


def batches(period: str, names: dict[str, Any]) -> int:
    """How many batches a period has."""
    units = {"Epoch": lambda number: number * EPOCH, "Batch": int}
    return int(eval(period.replace("pytorch.", ""), {**units, **names}))


@pytest.mark.parametrize(
    ("length", "saved", "validated"),
    [
        ("Epoch(n)", "Epoch(n)", "Epoch(1)"),
        ("Epoch(6)", "Epoch(n)", "Epoch(m)"),
        ("Epoch(6)", "Epoch(2)", "Epoch(3)"),
        ("Epoch(6)", "Epoch(2)", "Epoch(1)"),
        ("Epoch(m)", "Epoch(2)", "Epoch(m)"),
        ("Batch(14)", "Batch(n)", "Batch(m)"),
        ("Batch(20)", "Batch(10)", "Batch(5)"),
        ("Batch(16)", "Epoch(n)", "Batch(m)"),
        ("Batch(16)", "Batch(n)", "Epoch(m)"),
        ("Batch(16)", "Batch(2)", "Epoch(1)"),
        ("Epoch(4)", "Epoch(n) if few else pytorch.Batch(n)", "Epoch(1)"),
        ("Epoch(4)", "Epoch(1)", "Epoch(m) if few else pytorch.Batch(m)"),
        (
            "Epoch(4)",
            "Epoch(n) if few else pytorch.Batch(n)",
            "Epoch(m) if few else pytorch.Batch(m)",
        ),
    ],
)
def test_what_is_saved_is_saved_once(
    length: str, saved: str, validated: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    periods = [f"pytorch.{each}" for each in (length, saved, validated)]
    source = trial(
        ("self.context.get_per_slot_batch_size()", "2"),
        ("DataLoader([], batch_size=4)", "DataLoader(torch.zeros(4, 2), batch_size=4)"),
        ("DataLoader([]", f"DataLoader(torch.zeros({EPOCH * 2}, 2)"),
        header="from determined import pytorch\n" + HEADER,
    )
    made = rewritten(tmp_path, f"{source}\n\n{textwrap.dedent(SCRIPT).format(*periods)}")
    assert "MIGRATE" not in made
    names: dict[str, Any] = {}
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    made = made.replace("pl.Trainer(", f"pl.Trainer(**{quiet}, ")
    exec(compile(made, "made", "exec"), names)
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    numbers = [(n, m, few) for n in (1, 2, 3) for m in (1, 2) for few in (True, False)]
    is_open = [name in " ".join(periods) for name in ("n)", "m)", "few")]
    chosen = {
        tuple(value if asked else 1 for value, asked in zip(each, is_open, strict=True))
        for each in numbers
    }
    for n, m, few in sorted(chosen):
        folder = tmp_path / f"{n}-{m}-{few}"
        folder.mkdir()
        monkeypatch.chdir(folder)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            names["main"](n, m, few)
        files = sorted(folder.rglob("*.ckpt"))
        steps = [torch.load(file, weights_only=False)["global_step"] for file in files]
        given = {"n": n, "m": m, "few": few}
        total, *every = (batches(period, given) for period in periods)
        due = {step for each in every for step in range(each, total + 1, each)} | {total}
        assert sorted(steps) == sorted(due), (n, m, few, [file.name for file in files])
