from __future__ import annotations

import pytest

from tests.migrate.rewriting import rewritten


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "from determined.pytorch import DataLoader  # why",
            "from det_compat.pytorch import DataLoader  # why",
        ),
        ("from determined import pytorch", "from det_compat import pytorch"),
        ("from determined import pytorch as p, core", "from det_compat import pytorch as p, core"),
        ("import determined.pytorch as det_torch", "import det_compat.pytorch as det_torch"),
        (
            "from determined.tensorboard.metric_writers.pytorch import TorchWriter",
            "from det_compat.tensorboard.metric_writers.pytorch import TorchWriter",
        ),
        (
            "from pedl.frameworks.pytorch.data import DataLoader",
            "from det_compat.pedl.frameworks.pytorch.data import DataLoader",
        ),
    ],
)
def test_imports(tmp_path, old, new):
    assert rewritten(tmp_path, f"{old}\nx = 1\n", "det_compat") == f"{new}\nx = 1\n"


def test_names_below_an_import_are_found_still(tmp_path):
    source = (
        "import determined as det\nimport determined.pytorch\n"
        "X = determined.pytorch.DataLoader\nY = det.InvalidHP\n"
    )
    made = rewritten(tmp_path, source, "det_compat")
    found: dict = {}
    exec(made, found)
    assert "determined" not in made
    assert found["Y"].__name__ == "InvalidHP"
    assert found["X"].__module__.startswith("det_compat.pytorch")


def test_what_is_refused_stays(tmp_path):
    source = "from determined.keras import TFKerasTrial\n"
    made = rewritten(tmp_path, source, "det_compat")
    assert made.endswith(source)
    assert "# MIGRATE: determined.keras has no such place in det_compat" in made


def test_a_second_run_changes_nothing(tmp_path):
    source = (
        "from determined.pytorch import DataLoader\nfrom determined.keras import TFKerasTrial\n"
    )
    first = rewritten(tmp_path, source, "det_compat")
    assert rewritten(tmp_path, first, "det_compat") == first


def test_all_but_names_of_determined_stays(tmp_path):
    source = """\
from determined.pytorch import PyTorchTrial


class Trial(PyTorchTrial):
    def __init__(self, context):
        self.hp, hparams = context.get_hparam, context.get_hparams()
        wrap, distributed = context.wrap_model, context.distributed
        self.model = wrap(Net(self.hp("units"), hparams["depth"]))
        self.rank = distributed.get_rank()
"""
    made = rewritten(tmp_path, source, "det_compat")
    assert made == source.replace("determined.pytorch", "det_compat.pytorch")
