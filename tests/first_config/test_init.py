"""det-compat init: trials are found, and what is written trains."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from det_compat.cli import main
from det_compat.config import read_config
from tests.experiment.projects import MODEL_DEF
from tests.without_determined import without_determined

TRIAL = """
import determined.pytorch as dp
from attrdict import AttrDict

def made(context):
    return context.get_hparam("width")

class Base(dp.PyTorchTrial):
    def __init__(self, context):
        self.hparams = AttrDict(context.get_hparams())
        all_of_them = context.get_hparams()
        self.lr = self.hparams.lr
        self.decay = all_of_them["optimizer"]["decay"]
        self.momentum = context.get_hparams()["optimizer"].get("momentum", 0.9)
        self.keys = self.hparams.keys()
        self.bias = all_of_them.get("bias", True)
        self.copied = context.get_hparams().copy()
        self.depth = self.copied["depth"]
        self.net = Net(context.get_hparams().get("heads", 2))
        self.other = Net(context.get_hparams())
        self.parameters = [*self.net.parameters(), *self.other.parameters(), self.other.head.weight]

    def train_batch(self, batch, epoch_idx, batch_idx):
        return {"loss": 1}

class Second(Base):
    def build_training_data_loader(self): ...
    def build_validation_data_loader(self): ...
    def evaluate_batch(self, batch):
        return {"top1_accuracy": 1, "val_loss": 2}

class Third(Second):
    def evaluate_batch(self, batch):
        return {"loss": self.context.get_hparam("only-third")}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with without_determined():
        yield


def _init(*words: str) -> int:
    return main(["init", *words])


def test_one_trial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("model_def.py").write_text(MODEL_DEF)
    assert _init() == 0
    assert f"train by: det-compat fit {tmp_path}/const.yaml" in capsys.readouterr().out
    config = read_config("const.yaml")
    assert config.hyperparameters.constants() == {"global_batch_size": 32, "lr": 0.01}
    assert config.entrypoint is not None
    assert config.entrypoint.trial == "model_def:Trial"
    assert (config.searcher.metric, config.searcher.smaller_is_better) == ("validation_loss", True)
    Path("train.py").unlink()
    Path("const.yaml").write_text("mine")
    assert _init() == 0
    assert Path("const.yaml").read_text() == "mine"
    assert "is there, and stays as it is" in capsys.readouterr().out
    assert _init() == 1


def test_the_script_trains(capsys: pytest.CaptureFixture[str]) -> None:
    Path("model_def.py").write_text(MODEL_DEF)
    assert _init() == 0
    program = Path("train.py").read_text()
    exec(compile(program, "train.py", "exec"), {"__name__": "__main__", "__file__": "train.py"})
    assert "runs/Trial/001', done, 2 batches, best validation_loss" in capsys.readouterr().out


def test_several_trials_in_a_package(capsys: pytest.CaptureFixture[str]) -> None:
    Path("project/code").mkdir(parents=True)
    Path("project/code/__init__.py").touch()
    Path("project/code/trials.py").write_text(TRIAL)
    assert _init("project") == 0
    shown = capsys.readouterr().out
    assert "fill in depth, lr, only-third, optimizer.decay, width; then" in shown
    second = Path("project/Second.yaml").read_text()
    config = yaml.safe_load(second)
    assert config["entrypoint"] == "code.trials:Second"
    assert config["hyperparameters"] == {"bias": True, "global_batch_size": 32, "heads": 2}
    filled = re.sub("^  # ", "  ", second, flags=re.MULTILINE)
    assert yaml.safe_load(filled)["hyperparameters"] == {
        **{"bias": True, "depth": None, "global_batch_size": 32, "heads": 2},
        **{"lr": None, "width": None},
        "optimizer": {"decay": None, "momentum": 0.9},
    }
    assert config["searcher"]["metric"] == "top1_accuracy"
    assert config["searcher"]["smaller_is_better"] is False
    assert {path.name for path in Path("project").iterdir()} == {
        *("code", "Second.yaml", "Third.yaml", "train_Second.py", "train_Third.py"),
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--trial", "secnd"), "it has Second, Third; did you mean Second?"),
        (("nowhere",), "there is no folder nowhere"),
        (("empty",), "has no trial class"),
    ],
)
def test_what_is_to_be_mended(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("trials.py").write_text(TRIAL)
    Path("empty").mkdir()
    assert _init(*words) == 2
    assert message in capsys.readouterr().err
    assert {path.name for path in Path().iterdir()} == {"trials.py", "empty"}


@pytest.mark.parametrize(
    ("metric", "smaller"),
    [
        ("val_acc", False),
        ("mAP", False),
        ("top5_correct", False),
        ("mape", True),
        ("accuracy_error", True),
        ("f1-loss", True),
        ("r2", False),
        ("rmse", True),
    ],
)
def test_what_more_of_a_metric_means(metric: str, smaller: bool) -> None:
    Path("model_def.py").write_text(MODEL_DEF.replace("validation_loss", metric))
    assert metric in Path("model_def.py").read_text()
    assert _init() == 0
    config = yaml.safe_load(Path("const.yaml").read_text())
    assert config["searcher"]["smaller_is_better"] is smaller
