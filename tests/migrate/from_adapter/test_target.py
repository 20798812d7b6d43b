from __future__ import annotations

import importlib
import sys

import pytest

from det_compat.adapters.lightning.package import MODULE
from det_compat.cli import main
from det_compat.migrate.migration import migrate
from det_compat.shared.importing import load_file
from tests.migrate.from_adapter.adapted import written
from tests.preloaded import executable

SCHEDULER = 'return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler}}'
FORWARD = "    def forward(self, x)"
EPOCH = "    def on_train_epoch_start(self):\n"
LOSSES = 'return {"loss": F.cross_entropy(logits, y), "accuracy": (preds == y).float().mean()}'


def migrated(folder, **changed):
    """What becomes of the files of the folder, by name; the reasons of those that stay."""
    written(folder, **changed)
    found = migrate([str(folder)], "lightning")
    texts = {file.path.name: file.after.decode() for file in found.files}
    return texts, {file.path.name: file.problem for file in found.failed}


def test_a_plain_trainer_trains_what_the_adapter_trained(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "executable", executable())
    start = f"{EPOCH}        self.layers[0].reset_parameters()\n\n"
    written(tmp_path, net=(FORWARD, f"{start}{FORWARD}"))
    command = ["migrate", str(tmp_path), "--to", "lightning", "--verify", "--batches", "16"]
    assert main(command) == 0
    verdict = "verified: 16 batches, every tensor bit for bit"
    last = [line.partition("model_def.py:")[2] for line in capsys.readouterr().out.splitlines()]
    assert [*filter(None, last)] == [
        f"NetTrial (const.yaml): {verdict}",
        f"GANTrial (gan.yaml): {verdict}",
    ]


def test_a_module_with_several_optimizers_says_what_a_trainer_needs(tmp_path):
    texts, _ = migrated(tmp_path)
    (text,) = (text for text in texts.values() if "class GAN(pl.LightningModule)" in text)
    strategy = 'pl.Trainer(strategy="ddp_find_unused_parameters_true")'
    assert (
        f"        # several devices need {strategy}\n"
        "        # max_steps counts the steps of each optimizer\n"
        "        self.automatic_optimization = False\n"
    ) in text


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_module_is_made_again_from_what_its_checkpoint_keeps(tmp_path, monkeypatch):
    texts, _ = migrated(tmp_path)
    left_out = 'for name in ("b1", "size"):\n            del checkpoint["hyper_parameters"][name]\n'
    assert left_out in texts["model_def.py"]
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JSONARGPARSE_DEPRECATION_WARNINGS", "off")
    cli = importlib.import_module(f"{MODULE}.cli").LightningCLI
    trial = load_file(tmp_path / "model_def.py").GANTrial
    flags = ["accelerator=cpu", "max_steps=4", "logger=false", "enable_progress_bar=false"]
    args = [f"--trainer.{flag}" for flag in (*flags, "enable_model_summary=false")]
    model = ["--model.global_batch_size=8", "--model.lr=0.02"]
    plain = {"seed_everything_default": 0, "save_config_callback": None}
    made = cli(trial, args=["fit", *args, *model], **plain)
    assert made.trainer.fit_loop.total_batch_idx == 1, "two optimizers, each of which stepped twice"
    # What a subclass is given by the command line is not what its base is given.
    assert (made.model.hparams.b1, made.model.hparams.size) == (0.4, 4)
    (path,) = tmp_path.glob("checkpoints/*.ckpt")
    again = trial.load_from_checkpoint(path)
    assert (again.hparams.lr, again.hparams.b1) == (0.02, 0.4)
    path = ["--ckpt_path", str(path)]
    cli(trial, args=["fit", *args[:1], "--trainer.max_steps=6", *args[2:], *model, *path], **plain)


@pytest.mark.parametrize(
    ("changed", "lines"),
    [
        pytest.param(
            {"net": (LOSSES, "return F.cross_entropy(logits, y)")},
            [
                "        loss = super().validation_step(batch, batch_idx)",
                '        self.log("val_loss", loss, batch_size=1, sync_dist=True)',
            ],
            id="a number",
        ),
        pytest.param(
            {"net": (LOSSES, 'return {"error": F.cross_entropy(logits, y)}')},
            ['        self.log("error", metrics["error"], batch_size=1, sync_dist=True)'],
            id="a metric whose name training has not",
        ),
        pytest.param(
            {"net": ("nn.Linear(hidden, 3))\n", "nn.Linear(hidden, 3)).eval()\n")},
            ["    def on_train_start(self):"],
            id="parts in evaluation mode",
        ),
        pytest.param(
            {"net": (FORWARD, f"{EPOCH}        self.layers[0].reset_parameters()\n\n{FORWARD}")},
            ["        if batch_idx == 0:", "            super().on_train_epoch_start()"],
            id="what changes as an epoch begins",
        ),
        pytest.param(
            {"trials": ("lightning_module=lm, *args, **kwargs", "lm")},
            ["        super().__init__(hidden=hidden, lr=lr)"],
            id="by position",
        ),
    ],
)
def test_steps_log_what_they_returned(tmp_path, changed, lines):
    texts, problems = migrated(tmp_path, **changed)
    assert not problems
    for line in lines:
        assert line in texts["model_def.py"].splitlines()


BASE = "        super().__init__(context, l"
LOADER = "    def build_training"
HOOK = "    def {}(self, outputs):\n        pass\n\n"
STEPS = '[optimizer], [{"scheduler": scheduler, "interval": "step", "frequency": 2}]'
OF_GAN = "[torch.optim.lr_scheduler.StepLR(g, 1)]"
LR = 'lr=context.get_hparam("lr"))\n        self'
#: What is refused, with the file, a text in it, and another one in its place.
REFUSED = {
    "gives the adapter precision=16": ("trials", "=lm, *args", "=lm, precision=16, *args"),
    "gives the adapter a precision": ("trials", "context, lightning_module=lm", "context, lm, 16"),
    "it uses lm for more": ("trials", BASE, f"        self.lm = lm\n{BASE}"),
    "parts before": ("trials", "        lm =", "        self.one = nn.Linear(2, 2)\n        lm ="),
    "all hyperparameters": ("trials", "net.Net(hidden=", "net.Net(context.get_hparams(), hidden="),
    "its LightningModule is not known": ("trials", "lm = net.", "lm = None or net."),
    "net.make is not in these files": ("trials", "lm = net.Net", "lm = net.make"),
    "other bases": ("trials", "NetTrial(", "NetTrial(object, "),
    "it uses train_batch": ("trials", LOADER, HOOK.format("train_batch") + LOADER),
    "both have layers": ("trials", "self.dm", "self.layers"),
    "Net is given another lr": ("trials", LR, LR.replace("context", "2 * context")),
    "has on_train_epoch_end": ("net", FORWARD, HOOK.format("on_train_epoch_end") + FORWARD),
    "has validation_epoch_end": ("net", FORWARD, HOOK.format("validation_epoch_end") + FORWARD),
    "asks for self.global_step": ("net", " preds = ", " preds = self.global_step * 0 + "),
    "sets self.hparams": ("net", "self.save_hyperparameters()", "self.hparams = {}"),
    "logs a metric": ("net", "        preds =", '        self.log("loss", 0)\n        preds ='),
    "whose name is not known": ("net", LOSSES, "return logits.tolist()"),
    "may return nothing": ("net", LOSSES, "return None"),
    "steps every few batches": ("net", SCHEDULER, f"return {STEPS}"),
    "several optimizers with schedulers": ("net", "return [g, d], []", f"return [g, d], {OF_GAN}"),
    "other metrics than the loss": ("net", "(real + fake) / 2}", 'real, "fake": fake}'),
    "has other bases than LightningModule": ("net", "Net(pl.LightningModule)", "Net(Base)"),
    "cleared the gradients": (
        "config",
        "searcher:",
        "optimizations: {aggregation_frequency: 2}\nsearcher:",
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_cannot_be_done_is_refused_whole(tmp_path, reason):
    name, old, new = REFUSED[reason]
    texts, problems = migrated(tmp_path, **{name: (old, new)})
    assert reason in problems["model_def.py"]
    assert "LightningAdapter, which migrate does not rewrite here" in problems["model_def.py"]
    # Nothing is changed for a trial that stays as it was.
    assert texts == {path.name: path.read_text() for path in tmp_path.glob("*.py")}
