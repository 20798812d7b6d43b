"""On how many devices a script trains: Lightning has to be told, since by itself it takes all."""

from __future__ import annotations

from pathlib import Path

import pytest

from det_compat.migrate.device_notes import device_notes
from det_compat.migrate.migration import migrate
from tests.migrate.rewriting import HEADER, rewritten, trial

SCRIPT = """\
from determined import pytorch
from model_def import Trial

with pytorch.init(hparams={"global_batch_size": 4}) as context:
    trainer = pytorch.Trainer(Trial(context), context)
    trainer.fit(max_length=pytorch.Epoch(1), validation_period=pytorch.Epoch(1))
"""
FLAGS = "max_epochs=1, check_val_every_n_epoch=1"
LAUNCHED = "python3 -m determined.launch.torch_distributed python3 train.py"


def config(folder: Path, name: str, entrypoint: str, slots: int | None) -> None:
    resources = "" if slots is None else f"resources: {{slots_per_trial: {slots}}}\n"
    (folder / name).write_text(
        f"entrypoint: {entrypoint}\n{resources}"
        "searcher: {name: single, metric: x, max_length: 3}\n"
    )


@pytest.mark.parametrize(
    ("entrypoint", "slots", "devices"),
    [
        ("python3 train.py", None, 1),
        ("python3 train.py", 0, 1),
        (LAUNCHED, 1, 1),
        (LAUNCHED, 2, 2),
        ("python3 -m determined.launch.torch_distributed -- python3 ./train.py --lr 1", 2, 2),
        ("python3 -m determined.launch.torch_distributed python3 -m train", 2, 2),
        (f"cd . && {LAUNCHED}", 4, 4),
        # It starts the class, or something else, and the script is for one machine by itself.
        ("model_def:Trial", 2, 1),
        ("python3 -m determined.launch.torch_distributed --trial model_def:Trial", 2, 1),
        (LAUNCHED.replace("train", "other"), 2, 1),
    ],
)
def test_devices_are_the_slots_of_the_config(
    entrypoint: str, slots: int | None, devices: int, tmp_path: Path
) -> None:
    config(tmp_path, "const.yaml", entrypoint, slots)
    (tmp_path / "model_def.py").write_text(trial())
    made = rewritten(tmp_path, SCRIPT, name="train.py")
    assert f"trainer = pl.Trainer(devices={devices}, {FLAGS})\n" in made
    assert "MIGRATE" not in made


def test_a_script_in_a_folder_of_its_own(tmp_path: Path) -> None:
    config(tmp_path, "dist.yaml", LAUNCHED.replace("train", "src/train"), 2)
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "model_def.py").write_text(trial())
    assert f"pl.Trainer(devices=2, {FLAGS})" in rewritten(folder, SCRIPT, name="train.py")


def test_configs_that_differ_are_named(tmp_path: Path) -> None:
    """``const.yaml`` comes first, as for all that configs decide."""
    config(tmp_path, "big.yaml", LAUNCHED, 8)
    config(tmp_path, "const.yaml", "python3 train.py", None)
    config(tmp_path, "distributed.yaml", LAUNCHED, 2)
    (tmp_path / "model_def.py").write_text(trial())
    made = rewritten(tmp_path, SCRIPT, name="train.py")
    said = "# the number of devices is 8 in big.yaml and 2 in distributed.yaml"
    assert f"{said}\ntrainer = pl.Trainer(devices=1, {FLAGS})\n" in made


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("", "# on a cluster all was seeded, by 4 in const.yaml: pl.seed_everything(4)\n"),
        ("import random\n\nrandom.seed(1)\n", ""),
    ],
)
def test_a_seed_that_only_a_cluster_set_is_said(before: str, said: str, tmp_path: Path) -> None:
    config(tmp_path, "const.yaml", "python3 train.py", None)
    with (tmp_path / "const.yaml").open("a") as file:
        file.write("\nreproducibility: {experiment_seed: 4}\n")
    (tmp_path / "model_def.py").write_text(trial())
    made = rewritten(tmp_path, before + SCRIPT, name="train.py")
    assert f"{said}trainer = pl.Trainer(" in made
    assert ("seed_everything" in made) is bool(said)


def test_a_helper_trains_where_the_script_that_imports_it_does(tmp_path: Path) -> None:
    config(tmp_path, "const.yaml", LAUNCHED, 2)
    (tmp_path / "model_def.py").write_text(trial())
    (tmp_path / "train.py").write_text("from helper import main\n\nmain()\n")
    helper = SCRIPT.replace("with ", "\n\ndef main():\n    with ").replace(
        "\n    tr", "\n        tr"
    )
    assert f"pl.Trainer(devices=2, {FLAGS})" in rewritten(tmp_path, helper, name="helper.py")


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("given", ["", ", sampler=Grouped()"])
def test_the_order_of_data_is_said_where_a_script_takes_several(
    slots: int, given: str, tmp_path: Path
) -> None:
    config(tmp_path, "const.yaml", LAUNCHED, slots)
    size = "self.context.get_per_slot_batch_size()"
    header = f"{HEADER}class Grouped(torch.utils.data.Sampler):\n    pass\n\n\n"
    (tmp_path / "model_def.py").write_text(trial((size, f"{size}{given}"), header=header))
    (tmp_path / "train.py").write_text(SCRIPT)
    notes = [*device_notes(migrate([str(tmp_path)], "lightning"))]
    assert [note.startswith(f"{tmp_path / 'model_def.py'}:") for note in notes] == [True][
        : slots - 1
    ]


def test_a_helper_is_told_what_init_is_told(tmp_path: Path) -> None:
    before = """\
from determined import core, pytorch
from model_def import Trial


def train(trial, context):
    trainer = pytorch.Trainer(trial, context)
    trainer.fit(max_length=pytorch.Epoch(1), validation_period=pytorch.Epoch(1))


ranks = core.DistributedContext.from_torch_distributed()
with pytorch.init(hparams={"global_batch_size": 4}, distributed=ranks) as context:
    train(Trial(context), context)
"""
    (tmp_path / "model_def.py").write_text(trial())
    made = rewritten(tmp_path, before, name="train.py")
    assert 'devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1"))' in made
    assert "MIGRATE" not in made and "import os\n" in made
