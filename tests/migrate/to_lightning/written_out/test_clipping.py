from __future__ import annotations

import pytest

from tests.migrate.rewriting import rewritten, trial


@pytest.mark.parametrize(
    ("name", "function"),
    [("ClipGradsL2Norm", "clip_grad_norm_"), ("ClipGradsL2Value", "clip_grad_value_")],
)
def test_a_callback_that_clips_is_written_into_the_file(tmp_path, name, function):
    callbacks = f'    def build_callbacks(self):\n        return {{"clip": {name}(0.1)}}\n\n'
    change = ("    def evaluate_batch", f"{callbacks}    def evaluate_batch")
    made = rewritten(tmp_path, trial(change, ("import DataLoader", f"import {name}, DataLoader")))
    # A trial of the context API was without the effect of it, in Determined since 0.12.13.
    assert made.count("MIGRATE") == 1 and "determined" not in made
    assert f"MIGRATION.md#what-migrate-leaves-to-you\nclass {name}(pl.Callback):" in made
    assert f"        torch.nn.utils.{function}(parameters, self.clip_value)\n" in made
    assert rewritten(tmp_path, made) == made
