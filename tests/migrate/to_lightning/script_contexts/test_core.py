from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.migrate.rewriting import rewritten, trial

HEAD = "from determined import pytorch\n"
CONFIG = """\
entrypoint: python3 train.py
hyperparameters:
  lr: 0.25
searcher:
  name: single
  metric: error
"""
FIT = """\
    with pytorch.init(hparams=hparams) as context:
        trainer = pytorch.Trainer(Trial(context), context)
        trainer.fit(max_length=pytorch.Epoch(1), latest_checkpoint=latest)
"""
READ = 'yaml.safe_load(pathlib.Path(__file__).with_name("const.yaml").read_text())'


def made_of(folder: Path, lines: str, config: str = CONFIG, name: str = "const.yaml") -> str:
    """What becomes of a script that runs on a cluster alone, beside a config."""
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(config)
    source = trial(
        ("self.context.get_per_slot_batch_size()", "4"), ("0.1", 'context.get_hparam("lr")')
    )
    lines = textwrap.indent(textwrap.dedent(lines).strip(), "    ")
    main = f"def main():\n{lines}\n{FIT}"
    made = rewritten(folder, f"{HEAD}import determined as det\n{source}\n\n{main}", name="train.py")
    return made[made.index("def main") :] if "MIGRATE" not in made else made


@pytest.mark.parametrize(
    "lines",
    [
        """
        info = det.get_cluster_info()
        hparams, latest = info.trial.hparams, info.latest_checkpoint
        """,
        """
        info = det.get_cluster_info()
        assert info is not None, "only on a cluster"
        print(info)
        hparams = info.trial.hparams
        latest = info.latest_checkpoint
        """,
        """
        if det.get_cluster_info() is None:
            raise RuntimeError("only on a cluster")
        hparams = det.get_cluster_info().trial.hparams
        latest = det.get_cluster_info().latest_checkpoint
        """,
        """
        info = det.get_cluster_info()
        if not info:
            return
        hparams = info.trial._config["hyperparameters"]
        latest = info.latest_checkpoint
        """,
    ],
)
def test_what_a_cluster_told_comes_from_the_config(lines: str, tmp_path: Path) -> None:
    made = made_of(tmp_path, lines)
    assert f'{READ}["hyperparameters"]' in made
    assert "cluster" not in made and "info" not in made and "None" in made


ASKS = """
info = det.get_cluster_info()
hparams = info.trial.hparams
latest = info.latest_checkpoint
"""


def test_a_config_in_another_folder(tmp_path: Path) -> None:
    made = made_of(tmp_path, ASKS, name="configs/const.yaml")
    assert 'pathlib.Path(__file__).parent.joinpath("configs/const.yaml").read_text()' in made


@pytest.mark.parametrize(
    ("lines", "config"),
    [
        (ASKS, CONFIG.replace("train.py", "other.py")),
        (ASKS, CONFIG.replace("0.25", "{type: double, minval: 0.1, maxval: 0.2}")),
        # PyYAML takes it for text, which Determined did not.
        (ASKS, CONFIG.replace("0.25", "1e-3")),
        (f"{ASKS}print(info.trial.trial_id)", CONFIG),
    ],
)
def test_what_no_config_tells_is_marked(lines: str, config: str, tmp_path: Path) -> None:
    made = made_of(tmp_path, lines, config)
    assert "MIGRATE: info.get_cluster_info has no counterpart" in made
    assert "yaml" not in made


def test_a_branch_for_no_cluster_counts(tmp_path: Path) -> None:
    lines = """
    info = det.get_cluster_info()
    hparams = {"lr": 0.5} if info is None else info.trial.hparams
    latest = None if info is None else info.latest_checkpoint
    """
    made = made_of(tmp_path, lines)
    assert "yaml" not in made and '"lr": 0.5' in made
