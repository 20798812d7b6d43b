from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial

COLLATE = """\
import numpy as np


def collate(samples):
    return np.stack(samples)


class Trial"""
STAYS = ("self.context = context", "self.context = context\n        {}")


@pytest.mark.parametrize("source", ["np.stack(samples)", "torch.stack(samples)"])
def test_arrays_become_tensors(tmp_path, source):
    changes = (
        ("class Trial", COLLATE.replace("np.stack(samples)", source)),
        ("DataLoader([], batch_size=4)", "DataLoader([], batch_size=4, collate_fn=collate)"),
    )
    made = rewritten(tmp_path, trial(*changes))
    assert ("return torch.utils.data.default_convert(batch)" in made) == ("np" in source)


def test_batches_that_stay(tmp_path):
    call = "context.experimental.disable_auto_to_device()"
    changes = (
        ("self.context = context", f"self.context = context\n        {call}"),
        ("self.model(batch).sum()}", "self.model(self.context.to_device(batch)).sum()}"),
    )
    made = rewritten(tmp_path, trial(*changes))
    assert method(made, "transfer_batch_to_device").endswith("    return batch")
    assert "self.model(move_data_to_device(batch, self.device))" in made
    assert "from pytorch_lightning.utilities import move_data_to_device\n" in made
    assert "MIGRATE" not in made
