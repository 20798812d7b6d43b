from __future__ import annotations

import sys

import pytest

from det_compat.cli import main
from tests.migrate.rewriting import TRIAL, method, rewritten, trial
from tests.preloaded import executable

OPTIMIZER = next(line for line in TRIAL.splitlines(True) if "wrap_optimizer" in line)
STEP = "LRScheduler.StepMode.STEP_EVERY_EPOCH"
BRANCHES = f"""\
        kind = context.get_hparam("kind")
        if kind == "sgd":
            # plain
            self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))
        elif kind == "adam":
            rate = 0.2
            self.opt = context.wrap_optimizer(torch.optim.Adam(self.model.parameters(), lr=rate))
        else:
            raise ValueError(kind)
        if kind == "sgd":
            self.lr = context.wrap_lr_scheduler(
                torch.optim.lr_scheduler.StepLR(self.opt, 1), {STEP}
            )
        else:
            self.lr = context.wrap_lr_scheduler(
                torch.optim.lr_scheduler.ExponentialLR(self.opt, 0.5), {STEP}
            )
"""
SOURCE = trial((OPTIMIZER, BRANCHES))
CONFIGURE = """\
def configure_optimizers(self):
    kind = self.hparams.kind
    if kind == "sgd":
        # plain
        opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
    elif kind == "adam":
        rate = 0.2
        opt = torch.optim.Adam(self.model.parameters(), lr=rate)
    else:
        raise ValueError(kind)
    if kind == "sgd":
        lr = torch.optim.lr_scheduler.StepLR(opt, 1)
    else:
        lr = torch.optim.lr_scheduler.ExponentialLR(opt, 0.5)
    return {
        "optimizer": opt,
        "lr_scheduler": {"scheduler": lr, "interval": "epoch"},
    }"""
CONFIG = """\
entrypoint: model_def:Trial
searcher: {{name: single, metric: error, max_length: {{batches: 5}}}}
hyperparameters: {{global_batch_size: 4, kind: {0}}}
"""


def test_branches_make_optimizers_where_lightning_asks_for_them(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "executable", executable())
    path = tmp_path / "model_def.py"
    path.write_text(SOURCE.replace("DataLoader([]", "DataLoader(torch.ones(8, 2)"))
    for kind in ("sgd", "adam"):
        (tmp_path / f"{kind}.yaml").write_text(CONFIG.format(kind))
    command = ["migrate", str(tmp_path), "--to", "lightning", "--write", "--force"]
    assert main([*command, "--verify", "--batches", "5"]) == 0
    assert capsys.readouterr().out.count("verified: 5 batches") == 2
    assert method(path.read_text(), "configure_optimizers") == CONFIGURE
    assert "automatic_optimization" not in path.read_text()


def test_the_only_optimizer_needs_no_last_branch(tmp_path):
    start, end = (
        BRANCHES.index("        else:"),
        BRANCHES.index('        if kind == "sgd":\n            self.lr'),
    )
    made = rewritten(tmp_path, trial((OPTIMIZER, BRANCHES[:start] + BRANCHES[end:])))
    assert method(made, "configure_optimizers") == CONFIGURE.replace(
        "    else:\n        raise ValueError(kind)\n", ""
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # what else a branch does stays with what it makes
        ("            rate = 0.2\n", "            rate = self.rate = 0.2\n"),
        # without a scheduler it trains, too
        (
            BRANCHES[BRANCHES.rindex("        else:") :],
            BRANCHES[BRANCHES.rindex("        else:") :].replace("else", 'elif kind == "adam"'),
        ),
        # each scheduler steps in its own way
        (f"(self.opt, 0.5), {STEP}", f"(self.opt, 0.5), {STEP.replace('EPOCH', 'BATCH')}"),
    ],
)
def test_other_branches_stay(tmp_path, old, new):
    assert old in SOURCE
    made = rewritten(tmp_path, SOURCE.replace(old, new))
    assert CONFIGURE not in made
    assert "    lr = torch" not in made or "rate = self.rate" in new


def test_a_variable_that_is_called_as_the_optimizer_stays_what_it_is(tmp_path):
    plain = OPTIMIZER + BRANCHES[BRANCHES.index('        if kind == "sgd":\n            self.lr') :]
    for source in (
        SOURCE,
        trial((OPTIMIZER, f'        kind = context.get_hparam("kind")\n{plain}')),
    ):
        source = source.replace("kind = ", "opt = ").replace("if kind ==", "if opt ==")
        made = method(
            rewritten(tmp_path, source.replace("(kind)", "(opt)")), "configure_optimizers"
        )
        last = made[made.rindex('    if opt == "sgd":') :]
        assert made.count("    opt = ") == made.count("    opt = self.hparams.kind\n") == 1
        assert "StepLR(optimizer, 1)" in last or "StepLR(self.opt, 1)" in last
