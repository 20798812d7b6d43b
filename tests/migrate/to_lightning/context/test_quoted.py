from __future__ import annotations

import pytest

from tests.migrate.rewriting import rewritten, trial

HELPER = """\
from typing import TYPE_CHECKING, Literal, Optional

import determined.pytorch as dp
import torch
from determined.pytorch import DataLoader, PyTorchTrial

if TYPE_CHECKING:
    from determined.pytorch import PyTorchTrialContext, TorchData


class Net(torch.nn.Linear):
    def merge(self, data: {0}):
        return data


class Trial"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"PyTorchTrialContext"', "pl.LightningModule"),
        ('"TorchData"', "Any"),
        ('Optional["TorchData"]', "Optional[Any]"),
        ('"Optional[dp.PyTorchTrialContext]"', "Optional[pl.LightningModule]"),
        # Nothing of these is Determined's, or they are no types.
        ('"Net"', '"Net"'),
        ('Literal["TorchData"]', 'Literal["TorchData"]'),
        ('"no type"', '"no type"'),
        # It is not there yet when the method is made.
        ('"Optional[TorchData | Net]"', '"Optional[TorchData | Net]"'),
    ],
)
def test_texts_in_annotations_are_what_they_name(before, after, tmp_path):
    header = HELPER.format(before).removesuffix("class Trial")
    made = rewritten(tmp_path, trial(header=header))
    assert f"def merge(self, data: {after}):" in made
    assert "MIGRATE" not in made


def test_names_that_come_later_may_stand_in_annotations_that_are_not_run(tmp_path):
    header = HELPER.format('"TorchData | Net"').removesuffix("class Trial")
    made = rewritten(tmp_path, trial(header=f"from __future__ import annotations\n\n{header}"))
    assert "def merge(self, data: Any | Net):" in made
