from __future__ import annotations

from det_compat.migrate.migration import migrate
from tests.migrate.rewriting import trial


def made(folder, source: str) -> str:
    (folder / "model_def.py").write_text(source)
    (result,) = migrate([str(folder)], "lightning", "lightning").files
    assert not result.problem
    return result.after.decode()


def test_lightning_under_its_other_name(tmp_path):
    text = made(tmp_path, trial(("self.model(batch).sum()}", "self.context.device}")))
    assert "import lightning as L\n" in text
    assert "class Trial(L.LightningModule):" in text
    assert "pytorch_lightning" not in text and "pl." not in text


def test_names_that_are_imported(tmp_path):
    ranks = "self.context = context\n        print(context.distributed.get_rank())"
    text = made(tmp_path, trial(("self.context = context", ranks)))
    assert "from lightning.pytorch.utilities import rank_zero_only\n" in text


def test_a_file_that_has_an_l(tmp_path):
    text = made(tmp_path, trial(("class Trial", "L = 3\n\n\nclass Trial")))
    assert "import lightning.pytorch as pl\n" in text
    assert "class Trial(pl.LightningModule):" in text
