from __future__ import annotations

import pytest
import yaml

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


OPEN = b"""\
class Base(pl.LightningModule):
    def __init__(self, *, lr: float = 0.1, **hparams: Any):
        super().__init__()
        self.save_hyperparameters()
        self.data = self.hparams.data_config


class T(Base):
    pass
"""


@pytest.mark.parametrize(
    ("entrypoint", "hparams", "path"),
    [
        ("entrypoint: pack.model:T\n", "lr: 0.2, units: 3", "pack.model.T"),
        ("", "lr: 0.2, units: 3", "model_def.T"),
        ("", "lr: 0.2", "model_def.T"),
    ],
)
def test_what_a_module_takes_without_a_name_needs_the_mode_for_subclasses(
    entrypoint, hparams, path, tmp_path
):
    conf = tmp_path / "const.yaml"
    hparams = f"hyperparameters: {{{hparams}}}\ndata: {{n: 4}}\n"
    search = "searcher: {name: single, metric: x, max_length: {epochs: 3}}\n"
    conf.write_text(entrypoint + hparams + search)
    files = [FileResult(tmp_path / "model_def.py", b"", OPEN, trials=("T", "Base"))]
    named = files if entrypoint else [FileResult(files[0].path, b"", OPEN, trials=("T",))]
    config = lightning_config(conf, Migration(named))
    assert b", for LightningCLI(T, subclass_mode_model=True)\n" in config.after
    model = yaml.safe_load(config.after)["model"]
    assert model["class_path"] == path
    assert model["dict_kwargs"] == {
        **yaml.safe_load(hparams)["hyperparameters"],
        "data_config": {"n": 4},
    }
