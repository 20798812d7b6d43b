from __future__ import annotations

import pytest

from det_compat.migrate.cli_config import lightning_config
from det_compat.migrate.results import FileResult, Migration

MODULE = """\
class T(pl.LightningModule):
    def __init__(self):
        self.automatic_optimization = {0}

    def configure_optimizers(self):
        return {1}
"""


@pytest.mark.parametrize(
    ("automatic", "made", "length", "is_told"),
    [
        ("False", "self.g, self.d", "batches", True),
        ("False", "[self.g, self.d], []", "batches", True),
        ("False", "[*self.every.values()], []", "batches", True),
        ("False", "list(self.every.values())", "batches", True),
        ("False", "[self.g, self.d]", "epochs", False),
        ("False", "[self.g], [self.scheduler]", "batches", False),
        ("False", "self.g", "batches", False),
        ("True", "[self.g], [self.one, self.two]", "batches", False),
    ],
)
def test_steps_of_several_optimizers_are_no_batches(automatic, made, length, is_told, tmp_path):
    path = tmp_path / "const.yaml"
    path.write_text(f"searcher: {{name: single, metric: x, max_length: {{{length}: 3}}}}\n")
    text = MODULE.format(automatic, made).encode()
    file = FileResult(tmp_path / "model_def.py", b"", text, trials=("T",))
    config = lightning_config(path, Migration([file]))
    assert config.marks == is_told
    assert (b"# MIGRATE: max_steps counts the steps of each optimizer" in config.after) is is_told
