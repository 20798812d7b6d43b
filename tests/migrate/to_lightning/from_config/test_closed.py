from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import pytorch_lightning as pl

from det_compat.migrate.migration import migrate
from det_compat.shared.importing import load_file
from tests.migrate.rewriting import HEADER, method, rewritten, trial

CONFIG = """\
entrypoint: model_def:Trial
searcher: {{name: single, metric: loss, max_length: {{batches: 1}}}}
hyperparameters: {{global_batch_size: 4{}}}
"""
KEPT = "self.context = context\n"


def migrated(
    folder: Path,
    *lines: str,
    more: str = "",
    loss: str = "self.model(batch).sum()",
    has_configs: bool = True,
) -> str:
    """The migrated trial whose ``__init__`` has these lines, with the names of a second config."""
    if has_configs:
        (folder / "const.yaml").write_text(CONFIG.format(""))
        (folder / "more.yaml").write_text(CONFIG.format(more))
    text = "".join(f"        {line}\n" for line in lines)
    source = trial((KEPT, KEPT + text), ("loss = self.model(batch).sum()", f"loss = {loss}"))
    return rewritten(folder, source)


def loaded(folder: Path, made: str) -> ModuleType:
    path = folder / "made.py"
    path.write_text(made)
    return load_file(path)


@pytest.mark.parametrize(
    ("loss", "is_sure"),
    [
        ("self.model(batch).sum() * self.context.get_hparam('scale')", True),
        ("self.weighted(batch) if self.context.get_hparam('scale') else 0", True),
        ("self.model(batch).sum() * (batch_idx and self.context.get_hparam('scale'))", False),
        ("0 if batch_idx else self.context.get_hparam('scale')", False),
    ],
)
def test_what_the_code_is_sure_to_read_is_required(loss, is_sure, tmp_path):
    """Nobody knows a default, and who has run the trial has given it one."""
    made = migrated(tmp_path, loss=loss)
    assert ("scale: Any, " in made) is is_sure
    assert ("scale: Any = None" in made) is not is_sure
    assert "**hparams" not in made
    path = tmp_path / "model_def.py"
    marks = [file.marks for file in migrate([str(path)], "lightning").files]
    assert not any(marks)


@pytest.mark.parametrize("given", [{}, {"width": 3}, {"width": 3, "depth": [1]}])
def test_what_nobody_gives_is_not_there(given, tmp_path):
    lines = (
        "hp = context.get_hparams()",
        "self.seen = ['width' in hp, hp.get('depth', [2])]",
        "self.total = sum(1 for _ in hp)",
    )
    made = migrated(tmp_path, *lines, more=", width: 3, depth: [1]")
    assert "width: int | None = None" in made
    assert "**hparams" not in made
    module = loaded(tmp_path, made).Trial(global_batch_size=4, **given)
    assert module.seen == ["width" in given, given.get("depth", [2])]
    assert {*module.hparams} == {"global_batch_size", *given}
    trainer = pl.Trainer(logger=False, enable_checkpointing=False, accelerator="cpu")
    trainer.strategy.connect(module)
    trainer.save_checkpoint(path := tmp_path / "x.ckpt")
    again = type(module).load_from_checkpoint(path)
    assert again.hparams == module.hparams and again.seen == module.seen


def test_one_that_is_not_there_is_named_by_itself(tmp_path):
    made = migrated(tmp_path, "hp = context.get_hparams()", "self.w = hp.get('width', 2)")
    init = method(made, "__init__")
    assert 'absent = ["width"] if width is None else []\n' in init
    assert "self.save_hyperparameters(ignore=absent)\n" in init
    assert loaded(tmp_path, made).Trial().w == 2


@pytest.mark.parametrize(
    "more", [", lambda: 1", ", width: null", "".join(f", n{i}: {i}" for i in range(9))]
)
def test_what_can_be_no_parameter_comes_by_two_stars(more, tmp_path):
    made = migrated(tmp_path, "hp = context.get_hparams()", "self.w = hp.get('a')", more=more)
    assert "**hparams: Any" in made


def test_a_trial_whose_batch_method_others_call_takes_what_its_configs_have(tmp_path):
    script = "\n\ndef main(context):\n    Trial(context).train_batch([], 0, 0)\n"
    (tmp_path / "const.yaml").write_text(CONFIG.format(", lr: 0.5"))
    made = rewritten(tmp_path, trial(("lr=0.1", "lr=context.get_hparam('lr')")) + script)
    assert "def __init__(self, *, lr: float = 0.5, global_batch_size: int = 4):" in made
    said = "# MIGRATE: Trial is a LightningModule, which takes global_batch_size, lr and no context"
    assert said in made


@pytest.mark.parametrize("has_config", [True, False])
def test_names_that_no_parameter_can_have_come_by_two_stars(has_config, tmp_path):
    lines = ("self.seen = context.get_hparam('drop-out'), context.get_hparams()['continue']",)
    loss = "self.model(batch).sum() * self.context.get_hparam('lambda')"
    made = migrated(tmp_path, *lines, loss=loss, has_configs=has_config)
    assert "**hparams" in made
    given = {"drop-out": 0.5, "continue": None, "lambda": 2.0}
    module = loaded(tmp_path, made).Trial(global_batch_size=4, **given)
    assert module.seen == (0.5, None)
    assert {*module.hparams} == {"global_batch_size", *given}


MIXIN = """\
class Data:
{init}    def rows(self):
        return torch.ones(self.context.get_hparam("rows"), 2)


"""


@pytest.mark.parametrize("is_elsewhere", [False, True])
@pytest.mark.parametrize("init", ["", "    def __init__(self):\n        pass\n\n"])
def test_what_a_mixin_asks_for_are_parameters_of_the_trial(init, is_elsewhere, tmp_path):
    mixin, header = MIXIN.format(init=init), HEADER
    if is_elsewhere:
        (tmp_path / "data.py").write_text(f"import torch\n\n\n{mixin}")
        header, mixin = f"{header}from data import Data\n", ""
    (tmp_path / "const.yaml").write_text(CONFIG.format(", rows: 8"))
    made = rewritten(
        tmp_path,
        trial(
            ("class Trial(", f"{mixin}class Trial(Data, "),
            ("DataLoader([]", "DataLoader(self.rows()"),
            header=header,
        ),
    )
    # One that makes something of its own has its own parameters.
    assert ("rows: int = 8" in made) is not bool(init)


@pytest.mark.parametrize(
    ("condition", "is_kept"),
    [
        ("hparams['start'] != None", True),
        ("hparams.start is not None", True),
        ("'start' in hparams and hparams['start'] is not None", False),
    ],
)
def test_what_is_compared_with_none_is_a_hyperparameter_where_it_is_none(
    condition, is_kept, tmp_path
):
    lines = (
        "class Attributes(dict):",
        "    __getattr__ = dict.__getitem__",
        "hparams = Attributes(context.get_hparams())",
        f"self.loaded = bool({condition})",
    )
    made = migrated(tmp_path, *lines, more=", start: some.pth")
    module = loaded(tmp_path, made).Trial(global_batch_size=4)
    assert ("start" in module.hparams) is is_kept
    assert not module.loaded


@pytest.mark.parametrize(
    ("params", "body", "there", "lacking"),
    [
        ("self, opt, **rest", "rest.get('depth', 1)", ["depth"], ["b2"]),
        ("self, opt, depth=1, **rest", "print(rest)", ["depth"], ["b2"]),
        ("self, opt, *, depth=1, **_", "print(depth)", ["depth"], ["b2"]),
    ],
)
def test_what_a_method_takes_apart_is_read_of_it(params, body, there, lacking, tmp_path):
    (tmp_path / "const.yaml").write_text(CONFIG.format(", opt: {lr: 0.1}"))
    taking = f"    def take({params}):\n        print(opt.get('b2'))\n        {body}\n\n"
    lines = "        self.hp = context.get_hparams()\n        self.take(**self.hp)\n"
    source = trial(
        (KEPT, KEPT + lines), ("    def build_training", f"{taking}    def build_training")
    )
    made = method(rewritten(tmp_path, source), "__init__")
    assert all(f"{name}: Any = None" in made for name in there)
    assert not any(f"{name}:" in made for name in lacking)
