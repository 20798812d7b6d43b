from __future__ import annotations

import pytest
import pytorch_lightning as pl
import yaml
from pytorch_lightning.demos.boring_classes import BoringModel

from det_compat.migrate.cli_config import lightning_config
from det_compat.migrate.results import FileResult, Migration
from det_compat.migrate.to_lightning.data.shared_out import FLAG
from det_compat.migrate.to_lightning.plan import UNUSED

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


def test_steps_of_one_optimizer_that_are_no_batches_are_to_be_counted(tmp_path):
    path = tmp_path / "const.yaml"
    path.write_text("searcher: {name: single, metric: x, max_length: {batches: 3}}\n")
    step = (
        "    def training_step(self, batch, batch_idx):\n"
        "        if batch:\n"
        "            self.optimizers().step()\n"
    )
    text = f"{MODULE.format('False', 'self.g')}{step}".encode()
    file = FileResult(tmp_path / "model_def.py", b"", text, trials=("T",))
    after = lightning_config(path, Migration([file])).after
    assert b"# MIGRATE: max_steps counts steps of the optimizer, which are not the batches" in after


STEPPING = """\
class T(pl.LightningModule):
    def __init__(self):
        self.automatic_optimization = False

    def configure_optimizers(self):
        return self.g

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
{0}
        self.lr_schedulers().step()

    def twice(self):
        optimizer = self.optimizers()
        optimizer.step()
        optimizer.step()

    def tell(self):
        self.log("x", self.number())

    def number(self):
        return 1
"""


@pytest.mark.parametrize(
    ("lines", "steps"),
    [
        (["optimizer.step()"], 3),
        (["optimizer.step()", "optimizer.zero_grad()", "optimizer.step()"], 6),
        (["optimizer.step()", "self.twice()"], 9),
        (["with x:", "    optimizer.step()"], 3),
        (["if x:", "    optimizer.step()", "else:", "    optimizer.step()"], 3),
        (["self.env.step(1)", "optimizer.step()", "if x:", "    return"], 3),
        (["if x:", "    optimizer.step()"], 0),
        (["if x:", "    return", "optimizer.step()"], 0),
        (["for x in optimizer, optimizer:", "    x.step()"], 6),
        (["for x in optimizer, optimizer:", "    x.step()", "    break"], 0),
        (["for x in optimizer, *more:", "    x.step()"], 0),
        (["for x in y:", "    optimizer.step()"], 0),
        (["try:", "    optimizer.step()", "finally:", "    pass"], 0),
        (["other.step()"], 0),
        (["rate = lr_scheduler.StepLR(optimizer, 1)", "rate.step()", "optimizer.step()"], 3),
        (["rate = ReduceLROnPlateau(optimizer)", "rate.step()", "optimizer.step()"], 3),
        (["rate = self.lr_schedulers()", "rate.step()", "optimizer.step()"], 3),
        (["train(self, optimizer)"], 0),
        (["def more():", "    optimizer.step()", "optimizer.step()"], 0),
        (["super().twice()", "optimizer.step()"], 0),
        (["super().tell()", "optimizer.step()"], 3),
    ],
)
def test_the_steps_of_a_batch_are_counted(lines, steps, tmp_path):
    path = tmp_path / "const.yaml"
    path.write_text("searcher: {name: single, metric: x, max_length: {batches: 3}}\n")
    text = STEPPING.format("\n".join(f"        {line}" for line in lines)).encode()
    file = FileResult(tmp_path / "model_def.py", b"", text, trials=("T",))
    config = lightning_config(path, Migration([file]))
    made = yaml.safe_load(config.after)["trainer"]
    assert made["max_steps"] == (steps or 3)
    assert made["val_check_interval"] == 3
    assert config.marks == (not steps)


@pytest.mark.parametrize(
    ("base", "heir", "steps"),
    [
        ("training_step", "other", 6),
        ("other", "training_step", 6),
        ("training_step", "twice", 3),
    ],
)
def test_the_steps_of_a_batch_are_those_of_all_the_class_has(base, heir, steps, tmp_path):
    path = tmp_path / "const.yaml"
    path.write_text("searcher: {name: single, metric: x, max_length: {batches: 3}}\n")
    called = "self.twice()" if base == "training_step" else "self.optimizers().step()"
    text = STEPPING.format(f"        {called}").replace("training_step", base)
    lines = "self.twice()" if heir == "training_step" else "self.optimizers().step()"
    text += f"\n\nclass H(T):\n    def {heir}(self, *args):\n        {lines}\n"
    file = FileResult(tmp_path / "model_def.py", b"", text.encode(), trials=("T", "H"))
    config = lightning_config(path, Migration([file]))
    assert yaml.safe_load(config.after)["trainer"]["max_steps"] == steps
    assert not config.marks


def test_the_steps_of_a_batch_are_those_of_the_base_that_an_heir_calls(tmp_path):
    path = tmp_path / "const.yaml"
    path.write_text("searcher: {name: single, metric: x, max_length: {batches: 3}}\n")
    step = "        self.optimizers().step()\n"
    text = STEPPING.format(f"{step}{step}").replace("training_step", "train_batch")
    calling = "def {0}(self, *args):\n        {1}.train_batch(*args)\n"
    text += f"\n\nclass H(T):\n    {calling.format('train_batch', 'super()')}{step}"
    text += f"\n    {calling.format('training_step', 'self')}"
    file = FileResult(tmp_path / "model_def.py", b"", text.encode(), trials=("T", "H"))
    config = lightning_config(path, Migration([file]))
    assert yaml.safe_load(config.after)["trainer"]["max_steps"] == 9
    assert not config.marks


@pytest.mark.parametrize("command", ["python3 train.py --epochs 3", ["python3", "train.py"]])
def test_a_config_that_starts_a_script_is_marked(command, tmp_path):
    path = tmp_path / "const.yaml"
    searcher = {"name": "single", "metric": "x", "max_length": {"batches": 3}}
    path.write_text(yaml.safe_dump({"entrypoint": command, "searcher": searcher}))
    text = STEPPING.format("        self.optimizers().step()\n").encode()
    file = FileResult(tmp_path / "model_def.py", b"", text, trials=("T",))
    config = lightning_config(path, Migration([file]))
    assert config.marks == 1
    assert "# MIGRATE: a script is started by this config" in config.after.decode()
    assert "Determined validated" not in config.after.decode()


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
    config = lightning_config(conf, Migration(files))
    assert b", for LightningCLI(T, subclass_mode_model=True)\n" in config.after
    model = yaml.safe_load(config.after)["model"]
    assert model["class_path"] == path
    assert model["dict_kwargs"] == {
        **yaml.safe_load(hparams)["hyperparameters"],
        "data_config": {"n": 4},
    }


ALONE = "# without min_validation_period Determined validated after the last batch alone\n"
TOO = "# Determined validated after the last batch, too: `main.py validate` does\n"
FIRST = "# MIGRATE: Determined validated before the first batch, too;"


@pytest.mark.parametrize(
    ("length", "periods", "flags", "said"),
    [
        ("epochs: 4", "", {"check_val_every_n_epoch": 4}, ALONE),
        ("batches: 30", "", {"val_check_interval": 30, "check_val_every_n_epoch": None}, ALONE),
        ("epochs: 1", "", {}, ALONE),
        ("epochs: 4", "min_validation_period: {epochs: 1}", {}, ""),
        ("epochs: 4", "min_validation_period: {epochs: 2}", {"check_val_every_n_epoch": 2}, ""),
        ("epochs: 4", "min_validation_period: {epochs: 3}", {"check_val_every_n_epoch": 3}, TOO),
        (
            "batches: 30",
            "min_validation_period: {records: 50}",
            {"val_check_interval": 10, "check_val_every_n_epoch": None},
            "",
        ),
        ("batches: 30", "min_validation_period: {epochs: 1}", {}, TOO),
        (
            "epochs: 4",
            "min_validation_period: {epochs: 1}\nperform_initial_validation: true",
            {},
            FIRST,
        ),
    ],
)
def test_lightning_validates_when_determined_did(length, periods, flags, said, tmp_path):
    conf = tmp_path / "const.yaml"
    search = f"searcher: {{name: single, metric: x, max_length: {{{length}}}}}\n"
    conf.write_text(f"hyperparameters: {{global_batch_size: 5}}\n{search}{periods}\n")
    text = lightning_config(conf, Migration([])).after.decode()
    trainer = yaml.safe_load(text)["trainer"]
    # Without a validation Lightning saves nothing, where it does not validate every epoch.
    assert bool(trainer.pop("callbacks", None)) is bool(flags)
    trainer = {name: value for name, value in trainer.items() if "check" in name}
    assert trainer == flags
    assert [each for each in (ALONE, TOO, FIRST) if each in text] == ([said] if said else [])


def test_what_is_searched_is_named_where_it_is_nested(tmp_path):
    conf = tmp_path / "const.yaml"
    lr = "{type: log, base: 10, minval: -3, maxval: -1}"
    conf.write_text(
        f"hyperparameters: {{lr: {lr}, optim: {{lr: {lr}, momentum: 0.9}}}}\n"
        "searcher: {name: random, max_trials: 2, metric: x, max_length: {epochs: 1}}\n"
    )
    text = lightning_config(conf, Migration([])).after.decode()
    assert "# searched, so to be set: lr, optim.lr\n" in text
    assert yaml.safe_load(text)["model"] == {"optim": {"momentum": 0.9}}


def test_what_is_searched_is_given_as_what_is_not(tmp_path):
    """A module that has no name for it takes it in the mode for subclasses alone."""
    conf = tmp_path / "const.yaml"
    conf.write_text(
        "hyperparameters: {lr: 0.2, units: {type: int, minval: 1, maxval: 3}}\n"
        "searcher: {name: random, max_trials: 2, metric: x, max_length: {epochs: 1}}\n"
    )
    source = b"class T(pl.LightningModule):\n    def __init__(self, lr, **hparams):\n        pass\n"
    files = [FileResult(tmp_path / "model_def.py", b"", source, trials=("T",))]
    text = lightning_config(conf, Migration(files)).after.decode()
    assert "LightningCLI(T, subclass_mode_model=True)" in text
    assert yaml.safe_load(text)["model"]["dict_kwargs"] == {"lr": 0.2}


@pytest.mark.parametrize(
    ("slots", "comment"), [(2, f"# {UNUSED}\n"), (1, f"# {UNUSED}\n"), (2, "")]
)
def test_what_several_devices_need_is_in_the_config(slots, comment, tmp_path):
    path = tmp_path / "const.yaml"
    path.write_text(
        "searcher: {name: single, metric: x, max_length: {epochs: 3}}\n"
        f"resources: {{slots_per_trial: {slots}}}\n"
    )
    text = f"{comment}{MODULE.format('False', 'self.g')}".encode()
    file = FileResult(tmp_path / "model_def.py", b"", text, trials=("T",))
    trainer = yaml.safe_load(lightning_config(path, Migration([file])).after)["trainer"]
    assert trainer["devices"] == slots
    assert trainer.get("strategy") == (UNUSED if comment and slots > 1 else None)


EPOCHS = {"every_n_epochs": 2, "save_on_train_epoch_end": True}


@pytest.mark.parametrize(
    ("period", "aggregation", "flags"),
    [
        ("", 1, None),
        ("min_checkpoint_period: {epochs: 1}", 1, None),
        ("min_checkpoint_period: {epochs: 2}", 1, EPOCHS),
        ("min_checkpoint_period: {batches: 12}", 1, {"every_n_train_steps": 12}),
        ("min_checkpoint_period: {batches: 12}", 4, {"every_n_train_steps": 3}),
        ("min_checkpoint_period: {records: 60}", 1, {"every_n_train_steps": 12}),
        (
            "min_checkpoint_period: {epochs: 1}\n"
            "checkpoint_storage: {type: shared_fs, host_path: /tmp, save_trial_latest: 3}",
            1,
            {
                "every_n_epochs": 1,
                "save_on_train_epoch_end": True,
                "monitor": "step",
                "mode": "max",
                "save_top_k": 3,
            },
        ),
    ],
)
def test_checkpoints_are_written_when_they_were(period, aggregation, flags, tmp_path):
    conf = tmp_path / "const.yaml"
    conf.write_text(
        "searcher: {name: single, metric: x, max_length: {epochs: 3}}\n"
        f"hyperparameters: {{global_batch_size: 5}}\n{period}\n"
        f"optimizations: {{aggregation_frequency: {aggregation}}}\n"
    )
    text = lightning_config(conf, Migration([])).after.decode()
    saving = yaml.safe_load(text)["trainer"]["callbacks"]
    last = {"save_on_train_epoch_end": True}
    assert [each["init_args"] for each in saving] == ([] if flags is None else [flags]) + [last]


VALIDATED = {"monitor": "val_x", "mode": "min", "save_top_k": 1}
EVALUATING = """\
    def validation_step(self, batch, batch_idx):
        self.log({0}, 1)
"""


@pytest.mark.parametrize(
    ("logged", "was", "more", "kept"),
    [
        ('"x"', "", "", {"monitor": "x", "mode": "min", "save_top_k": 1}),
        ('"val_x"', "", "", {"monitor": "val_x", "mode": "min", "save_top_k": 1}),
        # It was a metric of its own.
        (
            '"val_x", self.log("x", 1)',
            "val_x",
            "",
            {"monitor": "x", "mode": "min", "save_top_k": 1},
        ),
        ('"y"', "", "", None),
        ('"y", 1)\n\n    def training_step(self): self.log("x"', "", "", None),
        ('f"val_{name}" if name == "x" else name', "", "", VALIDATED),
        ('f"val_{name}" if name == "y" else name, {"x": 1}', "", "", None),
        ('f"val_{name}" if name in own else name, {"x": 1}', "", "", None),
        ('f"val_{name}", {"x": 1}', "", "", VALIDATED),
        ('f"val_{name}", {"x": 1})\n        self.log("y", 1', "", "", VALIDATED),
        ('f"val_{name}", {"y": 1})\n        self.log("x", 1', "", "", None),
        ('f"val_{name}", {"y": 1})\n        self.log_dict({"x": 1}', "", "", None),
        ('f"val_{name}", {"x": 1})\n        self.log_dict(found', "", "", None),
        ('f"val_{name}", {"y": 1}', "", "", None),
        ('"x"', "", "checkpoint_policy: none", {}),
        (
            '"x"',
            "",
            "checkpoint_storage: {type: shared_fs, host_path: /tmp, save_trial_best: 0}",
            {},
        ),
        (
            '"x"',
            "",
            "checkpoint_storage: {type: shared_fs, host_path: /tmp, save_trial_best: 2}\n"
            "min_validation_period: {batches: 4}\nmin_checkpoint_period: {batches: 8}",
            {"monitor": "x", "mode": "min", "save_top_k": 2, "save_last": True},
        ),
    ],
)
def test_the_best_checkpoints_are_kept_as_well(logged, was, more, kept, tmp_path):
    path = tmp_path / "const.yaml"
    path.write_text(
        f"searcher: {{name: single, metric: x, max_length: {{batches: 30}}}}\n{more}\n"
        "hyperparameters: {global_batch_size: 5}\n"
    )
    text = f"{MODULE.format('True', 'self.g')}{EVALUATING.format(logged)}".encode()
    file = FileResult(tmp_path / "model_def.py", was.encode(), text, trials=("T",))
    after = lightning_config(path, Migration([file])).after.decode()
    saving = [each["init_args"] for each in yaml.safe_load(after)["trainer"]["callbacks"]]
    best = [
        {n: v for n, v in each.items() if n != "filename"} for each in saving if "monitor" in each
    ]
    assert best == ([kept] if kept else [])
    assert ("# Determined kept the checkpoint of the best x, too" in after) is (kept is None)
    assert saving[-1] == {"save_on_train_epoch_end": True}


@pytest.mark.parametrize(("slots", "is_marked"), [(1, False), (2, True)])
def test_loaders_that_several_devices_share_otherwise_are_spoken_of(slots, is_marked, tmp_path):
    path = tmp_path / "const.yaml"
    path.write_text(
        "searcher: {name: single, metric: x, max_length: {batches: 30}}\n"
        f"resources: {{slots_per_trial: {slots}}}\n"
    )
    loader = f"    # several processes share this out, unless pl.Trainer({FLAG})\n    loader = 1\n"
    text = f"{MODULE.format('True', 'self.g')}\n{loader}".encode()
    file = FileResult(tmp_path / "model_def.py", b"", text, trials=("T",))
    after = lightning_config(path, Migration([file])).after.decode()
    said = "# MIGRATE: several devices have other batches than Determined's, unless what a comment"
    assert (said in after) is is_marked
    assert ("on a loader in model_def.py says is done" in after) is is_marked


def test_as_many_of_the_latest_checkpoints_are_left_as_there_were(tmp_path):
    path = tmp_path / "const.yaml"
    path.write_text(
        "searcher: {name: single, metric: x, max_length: {batches: 11}}\n"
        "min_checkpoint_period: {batches: 2}\nmin_validation_period: {batches: 2}\n"
        "checkpoint_storage: {type: shared_fs, host_path: /tmp, save_trial_latest: 2}\n"
    )
    found = yaml.safe_load(lightning_config(path, Migration([])).after)["trainer"]
    callbacks = [
        pl.callbacks.ModelCheckpoint(dirpath=tmp_path / "kept", **each["init_args"])
        for each in found.pop("callbacks")
    ]
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = pl.Trainer(**found, **quiet, accelerator="cpu", callbacks=callbacks)
    trainer.fit(BoringModel())
    names = {file.stem.partition("-v")[0] for file in (tmp_path / "kept").iterdir()}
    assert names == {"epoch=0-step=8", "epoch=0-step=10", "epoch=0-step=11"}


@pytest.mark.parametrize("accumulates", [True, False])
def test_steps_of_a_module_that_is_to_accumulate_are_spoken_of(accumulates, tmp_path):
    path = tmp_path / "const.yaml"
    path.write_text(
        "searcher: {name: single, metric: x, max_length: {batches: 30}}\n"
        "optimizations: {aggregation_frequency: 3}\n"
    )
    init = "self, accumulate_grad_batches=3" if accumulates else "self"
    text = MODULE.format("False", "self.g").replace("(self)", f"({init})", 1).encode()
    file = FileResult(tmp_path / "model_def.py", b"", text, trials=("T",))
    after = lightning_config(path, Migration([file])).after.decode()
    said = "# 3 batches made one step: max_steps is 10 for a module that does so\n"
    assert (said in after) is not accumulates
    assert yaml.safe_load(after)["trainer"]["max_steps"] == (10 if accumulates else 30)
