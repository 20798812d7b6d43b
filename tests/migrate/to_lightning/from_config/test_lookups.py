from __future__ import annotations

import sys

import pytest
import yaml

from det_compat.migrate.cli_config import lightning_config
from det_compat.migrate.migration import migrate
from det_compat.migrate.verification import verify_migration
from tests.migrate.rewriting import method, rewritten, trial
from tests.preloaded import executable


@pytest.fixture(autouse=True)
def preloaded(monkeypatch):
    monkeypatch.setattr(sys, "executable", executable())


CONFIG = """\
name: x
entrypoint: model_def:Trial
hyperparameters: {global_batch_size: 4}
searcher: {name: single, metric: error, max_length: {epochs: 7}}
"""
EPOCHS = '["searcher"]["max_length"]["epochs"]'
LOOKED_UP = (
    ("DataLoader([],", "DataLoader(torch.ones(8, 2),"),
    (
        "self.context = context\n",
        "self.context = context\n"
        "        config = context.get_experiment_config()\n"
        f"        self.epochs = config{EPOCHS}\n"
        '        self.title = config.get("description", "none")\n',
    ),
    (".sum()\n", f".sum() * (epoch_idx + self.context.get_experiment_config(){EPOCHS})\n"),
    ('{"error"', '{self.context.get_experiment_config()["searcher"]["metric"]'),
)


def test_values_of_the_config_are_parameters(tmp_path):
    (tmp_path / "const.yaml").write_text(CONFIG)
    made = rewritten(tmp_path, trial(*LOOKED_UP))
    init = method(made, "__init__")
    assert "max_epochs: int = 7" in init
    assert 'description: str = "none"' in init
    assert 'metric: str = "error"' in init
    assert "self.epochs = max_epochs\n" in init
    assert "self.current_epoch + self.hparams.max_epochs" in made
    assert "experiment_config" not in made


def test_each_config_has_values_of_its_own(tmp_path):
    (tmp_path / "const.yaml").write_text(CONFIG)
    other = tmp_path / "other.yaml"
    other.write_text(CONFIG.replace("epochs: 7", "epochs: 9"))
    rewritten(tmp_path, trial(*LOOKED_UP))
    migration = migrate([str(tmp_path)], "lightning")
    assert not migration.marks
    assert yaml.safe_load(lightning_config(other, migration).after)["model"]["max_epochs"] == 9
    verdicts = verify_migration([str(tmp_path)], migration, None, [], 3)
    assert [label.rpartition(" ")[2] for label, _ in verdicts] == ["(const.yaml)", "(other.yaml)"]
    assert all(verdict.is_identical for _, verdict in verdicts), verdicts


@pytest.mark.parametrize(
    ("lines", "config"),
    [
        # The whole of it is handed on, kept, or changed.
        ("self.x = str(context.get_experiment_config())", CONFIG),
        ("self.x = [context.get_experiment_config]", CONFIG),
        ('self.x = context.get_experiment_config()["searcher"]', CONFIG),
        ("self.x = context.get_experiment_config()[str(1)]", CONFIG),
        ('context.get_experiment_config()["searcher"]["metric"] = 1', CONFIG),
        # A hyperparameter has the name.
        (
            f"self.x = context.get_experiment_config(){EPOCHS}",
            CONFIG.replace("{global", "{max_epochs: 3, global"),
        ),
        (
            f'self.x = context.get_experiment_config(){EPOCHS}, context.get_hparam("max_epochs")',
            CONFIG,
        ),
        # What it is nobody knows.
        ('self.x = context.get_experiment_config()["environment"]["x"]', ""),
    ],
)
def test_others_get_the_config(lines, config, tmp_path):
    if config:
        (tmp_path / "const.yaml").write_text(config)
    made = rewritten(
        tmp_path, trial(("self.context = context\n", f"self.context = context\n        {lines}\n"))
    )
    assert "experiment_config" in method(made, "__init__")


def test_without_a_config_there_is_no_default(tmp_path):
    made = rewritten(tmp_path, trial(*LOOKED_UP))
    assert "max_epochs: int" in method(made, "__init__")
    assert "max_epochs: int =" not in made


def test_scripts_give_them(tmp_path):
    script = """\
from determined import pytorch
from model_def import Trial

CONFIG = {"searcher": {"metric": "error", "max_length": {"epochs": 3}}}
with pytorch.init(hparams={"global_batch_size": 4}, exp_conf=CONFIG) as context:
    pytorch.Trainer(Trial(context), context).fit(max_length=pytorch.Epoch(1))
"""
    (tmp_path / "main.py").write_text(script)
    made = rewritten(tmp_path, trial(*LOOKED_UP))
    assert "max_epochs: int,\n" in made
    (main,) = [f for f in migrate([str(tmp_path)], "lightning").files if f.path.name == "main.py"]
    assert f"max_epochs=CONFIG{EPOCHS}".encode() in main.after


def test_what_is_looked_up_by_name_alone_is_no_dict_of_its_own(tmp_path):
    """Some configs may have more hyperparameters, which are absent in others then."""
    (tmp_path / "const.yaml").write_text(CONFIG)
    (tmp_path / "more.yaml").write_text(CONFIG.replace("{global", "{tied: 1, global"))
    lines = (
        "hparams = context.get_hparams()\n        self.data = context.get_data_config()\n"
        "        self.x = hparams['tied']\n"
    )
    made = rewritten(tmp_path, trial(("self.context = context\n", lines)))
    assert "tied: int = 1" in method(made, "__init__")
    assert "    hparams = self.hparams\n" in method(made, "__init__")
    assert "hyperparameters(self)" not in made


MIXIN = f"""\
class Lengths:
    @property
    def epochs(self):
        return self.context.get_experiment_config(){EPOCHS}
"""
BY_FUNCTION = f"""\
def epochs_of(context):
    return context.get_experiment_config(){EPOCHS}


class Lengths:
    @property
    def epochs(self):
        return epochs_of(self.context)
"""
SCRIPT = """\
import yaml
from determined import pytorch
from model_def import Trial

with open("const.yaml") as file:
    config = yaml.safe_load(file)
with pytorch.init(hparams=config["hyperparameters"], exp_conf=config) as context:
    pytorch.Trainer(Trial(context), context).fit(max_length=pytorch.Epoch(1))
"""


@pytest.mark.parametrize("mixin", [MIXIN, BY_FUNCTION])
def test_the_config_that_a_mixin_of_another_file_asks_for_is_given(mixin, tmp_path):
    (tmp_path / "const.yaml").write_text(CONFIG)
    (tmp_path / "lengths.py").write_text(mixin)
    (tmp_path / "train.py").write_text(SCRIPT)
    changes = (
        ("import torch\n", "import torch\nfrom lengths import Lengths\n"),
        ("DataLoader([],", "DataLoader(torch.ones(8, 2),"),
        ("class Trial(", "class Trial(Lengths, "),
        ("lr=0.1", "lr=0.1 * self.epochs * len(context.get_hparams())"),
    )
    rewritten(tmp_path, trial(*changes))
    migration = migrate([str(tmp_path)], "lightning")
    made = {file.path.name: file.after.decode() for file in migration.files}
    assert 'Trial(**config["hyperparameters"], experiment_config=config)' in made["train.py"]
    assert "len(self.hyperparameters)" in made["model_def.py"]
    ((_, verdict),) = verify_migration([str(tmp_path)], migration, None, [], 3)
    assert verdict.is_identical, verdict
