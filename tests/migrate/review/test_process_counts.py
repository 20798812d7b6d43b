"""A module whose ``__init__`` divides batches is told among how many processes, by scripts."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from det_compat.migrate.cli_config import lightning_config
from det_compat.migrate.migration import migrate
from tests.migrate.rewriting import rewritten, trial

DIVIDING = (
    "self.context = context\n",
    "self.data = loaders(context.get_per_slot_batch_size())\n",
)
SCRIPT = """\
from determined import core, pytorch
from model_def import Trial

with pytorch.init(hparams={"global_batch_size": 4}{given}) as context:
    trainer = pytorch.Trainer(Trial(context), context)
    trainer.fit(max_length=pytorch.Epoch(1), validation_period=pytorch.Epoch(1))
"""
RANKS = ", distributed=core.DistributedContext.from_torch_distributed()"


def config(folder: Path, entrypoint: str, slots: int) -> Path:
    path = folder / "const.yaml"
    path.write_text(
        f"entrypoint: {entrypoint}\nresources: {{slots_per_trial: {slots}}}\n"
        "hyperparameters: {global_batch_size: 4}\n"
        "searcher: {name: single, metric: x, max_length: {epochs: 3}}\n"
    )
    return path


@pytest.mark.parametrize(
    ("change", "given", "slots", "size"),
    [
        (DIVIDING, "", 2, "2"),
        (DIVIDING, "", 1, None),
        (DIVIDING, RANKS, 1, 'int(os.environ.get("WORLD_SIZE", "1"))'),
        (None, "", 2, None),
    ],
)
def test_a_script_tells_its_module(
    change: tuple[str, str] | None, given: str, slots: int, size: str | None, tmp_path: Path
) -> None:
    config(tmp_path, "python3 -m determined.launch.torch_distributed python3 train.py", slots)
    (tmp_path / "model_def.py").write_text(trial(*([change] if change else [])))
    made = rewritten(tmp_path, SCRIPT.replace("{given}", given), name="train.py")
    assert "Trial(global_batch_size=4" in made and "MIGRATE" not in made
    assert (f"world_size={size})" in made) is (size is not None)
    assert ("world_size" in made) is (size is not None)


@pytest.mark.parametrize("slots", [1, 2])
def test_a_config_tells_its_module(slots: int, tmp_path: Path) -> None:
    path = config(tmp_path, "model_def:Trial", slots)
    (tmp_path / "model_def.py").write_text(trial(DIVIDING))
    migration = migrate([str(tmp_path)], "lightning")
    found = yaml.safe_load(lightning_config(path, migration).after)
    assert found["trainer"]["devices"] == slots
    assert found["model"].get("world_size") == (slots if slots > 1 else None)


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("draws", [True, False])
def test_a_script_seeds_all_processes_alike_where_its_module_draws_data(
    slots: int, *, draws: bool, tmp_path: Path
) -> None:
    config(tmp_path, "python3 -m determined.launch.torch_distributed python3 train.py", slots)
    line = "        self.rows = torch.randperm(9)\n" if draws else ""
    begin = "self.context = context\n"
    (tmp_path / "model_def.py").write_text(trial((begin, f"{begin}{line}")))
    made = rewritten(tmp_path, SCRIPT.replace("{given}", ""), name="train.py")
    assert ("pl.seed_everything(0)" in made) is (draws and slots > 1)
    if draws and slots > 1:
        assert made.index("seed_everything") < made.index("Trial(")
