from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from det_compat.cli import main
from det_compat.migrate.to_lightning.target import Lightning
from det_compat.shared.extras import how_to_install
from tests.migrate.rewriting import trial


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "model_def.py").write_text(trial())
    for command in (
        ["init", "--quiet"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "x"],
    ):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    return tmp_path


def test_shows_and_writes_nothing(repository, capsys):
    assert main(["migrate", str(repository), "--to", "lightning"]) == 0
    output = capsys.readouterr()
    assert "+class Trial(pl.LightningModule):" in output.out
    assert "1 of 1 files would change, 1 trials rewritten" in output.err
    assert (repository / "model_def.py").read_text() == trial()


def test_writes(repository, capsys):
    assert main(["migrate", str(repository), "--to", "lightning", "--write"]) == 0
    assert "pl.LightningModule" in (repository / "model_def.py").read_text()
    capsys.readouterr()
    assert main(["migrate", str(repository), "--to", "lightning", "--write"]) == 0
    assert capsys.readouterr().out == ""


def test_what_git_would_lose_is_not_written(repository, capsys):
    new = repository / "other.py"
    new.write_text(trial())
    changed = repository / "model_def.py"
    changed.write_text(f"{trial()}\n# a note\n")
    assert main(["migrate", str(repository), "--to", "lightning", "--write"]) == 1
    assert new.read_text() == trial()
    errors = capsys.readouterr().err
    assert "other.py: it is not under version control" in errors
    assert "model_def.py: it has changes that are not committed" in errors
    assert main(["migrate", str(repository), "--to", "lightning", "--write", "--force"]) == 0
    assert "pl.LightningModule" in new.read_text()


def test_one_file_does_not_stop_the_others(repository, capsys):
    (repository / "broken.py").write_text("from determined import pytorch\ndef (:\n")
    (repository / "notes.ipynb").write_text(
        '{"cells": [{"cell_type": "code", "source": ["import determined"], "metadata": {}, '
        '"outputs": [], "execution_count": null}], "metadata": {}, "nbformat": 4, '
        '"nbformat_minor": 5}'
    )
    assert main(["migrate", str(repository), "--to", "lightning"]) == 1
    output = capsys.readouterr()
    assert "+class Trial(pl.LightningModule):" in output.out
    assert "broken.py: not migrated: does not parse" in output.err
    assert "notes.ipynb: not migrated: a notebook" in output.err


def test_a_bug_is_reported_and_does_not_stop_the_others(repository, capsys, monkeypatch):
    (repository / "other.py").write_text("from determined import pytorch\n# odd\n")
    real = Lightning.migrated

    def migrated(self, path):
        if path.name == "other.py":
            raise AttributeError("no such node")
        return real(self, path)

    monkeypatch.setattr(Lightning, "migrated", migrated)
    assert main(["migrate", str(repository), "--to", "lightning"]) == 3
    output = capsys.readouterr()
    assert "+class Trial(pl.LightningModule):" in output.out
    assert "other.py: not migrated: internal error: AttributeError: no such node; please" in (
        output.err
    )
    assert "Traceback (most recent call last)" in output.err


def test_odd_files_keep_their_bytes(repository):
    path = repository / "odd.py"
    text = "# -*- coding: latin-1 -*-\r\nfrom determined import pytorch\r\nx = 'é'\r\n"
    path.write_bytes(text.encode("latin-1"))
    assert main(["migrate", str(path), "--to", "det_compat", "--write", "--force"]) == 0
    expected = text.replace("determined", "det_compat").encode("latin-1")
    assert path.read_bytes() == expected


def test_the_config_of_lightning_cli(repository, capsys):
    config = repository / "const.yaml"
    config.write_text(
        "name: x\nentrypoint: model_def:Trial\nhyperparameters:\n  global_batch_size: 8\n"
        "  lr: {type: double, minval: 0.1, maxval: 1}\nsearcher:\n  name: single\n  metric: error\n"
        "  max_length: {epochs: 3}\nreproducibility: {experiment_seed: 7}\n"
    )
    command = ["migrate", str(repository / "model_def.py"), "--to", "lightning", "--write"]
    assert main([*command, "--config", str(config)]) == 0
    assert (repository / "const.lightning.yaml").read_text() == (
        "# made from const.yaml\n# searched, so to be set: lr\n"
        "# without min_validation_period Determined validated after the last batch alone\n"
        "seed_everything: 7\n"
        "trainer:\n  devices: 1\n  num_sanity_val_steps: 0\n  max_epochs: 3\n"
        "  check_val_every_n_epoch: 3\n  callbacks:\n  - class_path: ModelCheckpoint\n"
        "    init_args:\n      monitor: error\n      mode: min\n      save_top_k: 1\n"
        "      filename: best-{epoch}-{step}\n  - class_path: ModelCheckpoint\n"
        "    init_args:\n      save_on_train_epoch_end: true\n"
        "model:\n  global_batch_size: 8\n"
    )


@pytest.mark.parametrize(
    ("frequency", "batches", "second", "lines"),
    [
        (4, 100, "", ["  max_steps: 25", "  accumulate_grad_batches: 4"]),
        (3, 10, "", ["# MIGRATE: Determined trained 1 more,", "  max_steps: 3"]),
        (1, 10, "self.other", ["  max_steps: 10"]),
    ],
)
def test_lightning_counts_steps_and_not_batches(repository, frequency, batches, second, lines):
    model, config = repository / "model_def.py", repository / "const.yaml"
    if second:
        own = next(line for line in model.read_text().splitlines() if "wrap_optimizer(" in line)
        other = own.replace("self.opt", second)
        model.write_text(model.read_text().replace(own, f"{own}\n{other}"))
    config.write_text(
        "name: x\nentrypoint: model_def:Trial\nhyperparameters: {global_batch_size: 8}\n"
        f"searcher: {{name: single, metric: error, max_length: {{batches: {batches}}}}}\n"
        f"optimizations: {{aggregation_frequency: {frequency}}}\n"
    )
    command = ["migrate", str(model), "--to", "lightning", "--write", "--force"]
    assert main([*command, "--config", str(config)]) == (1 if "MIGRATE" in lines[0] else 0)
    text = (repository / "const.lightning.yaml").read_text()
    assert all(f"\n{line}" in text for line in lines)
    assert ("accumulate_grad_batches" in text) == (frequency > 1)


@pytest.mark.parametrize(
    ("slots", "shuffled", "is_said"), [(2, "", True), (1, "", False), (2, ", shuffle=True", False)]
)
def test_an_order_that_several_devices_do_not_keep(repository, capsys, slots, shuffled, is_said):
    model, config = repository / "model_def.py", repository / "const.yaml"
    text = model.read_text()
    own = next(line for line in text.splitlines() if "DataLoader(" in line)
    model.write_text(text.replace(own, f"{own.rstrip()[:-1]}{shuffled})"))
    config.write_text(
        "name: x\nentrypoint: model_def:Trial\nhyperparameters: {global_batch_size: 8}\n"
        "searcher: {name: single, metric: error, max_length: {batches: 10}}\n"
        f"resources: {{slots_per_trial: {slots}}}\n"
    )
    assert main(["migrate", str(model), "--to", "lightning"]) == 0
    assert ("Lightning shuffles what this loads" in capsys.readouterr().err) == is_said


def test_each_config_that_is_given_has_one_for_lightning_cli(repository, capsys):
    command = ["migrate", str(repository / "model_def.py"), "--to", "lightning", "--write"]
    for epochs, name in enumerate(("one", "two"), start=1):
        (repository / f"{name}.yaml").write_text(
            "name: x\nentrypoint: model_def:Trial\nhyperparameters: {global_batch_size: 8}\n"
            f"searcher: {{name: single, metric: error, max_length: {{epochs: {epochs}}}}}\n"
        )
        command += ["--config", str(repository / f"{name}.yaml")]
    assert main(command) == 0
    for epochs, name in enumerate(("one", "two"), start=1):
        made = yaml.safe_load((repository / f"{name}.lightning.yaml").read_text())
        assert made["trainer"]["max_epochs"] == epochs
    before = (repository / "one.lightning.yaml").read_text()
    capsys.readouterr()
    # A second run knows no trials of which it could make them.
    assert main([*command, "--force"]) == 0
    assert (repository / "one.lightning.yaml").read_text() == before
    assert "one.lightning.yaml: left as it is: no trial is" in capsys.readouterr().err


def test_a_seed_that_a_cluster_would_have_drawn(repository):
    model, config = repository / "model_def.py", repository / "const.yaml"
    own = "self.context = context"
    assert own in model.read_text()
    model.write_text(model.read_text().replace(own, f"{own}; self.seed = context.get_trial_seed()"))
    config.write_text(
        "name: x\nentrypoint: model_def:Trial\nhyperparameters: {global_batch_size: 8}\n"
        "searcher: {name: single, metric: error, max_length: {epochs: 3}}\n"
    )
    command = ["migrate", str(model), "--to", "lightning", "--write", "--force"]
    assert main([*command, "--config", str(config)]) == 0
    text = (repository / "const.lightning.yaml").read_text()
    assert (
        "\n# a cluster drew an experiment_seed, which const.yaml has not: 0 in its place\n" in text
    )
    given = yaml.safe_load(text)
    assert given["model"]["experiment_seed"] == 0
    assert "seed_everything" not in given


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.py", "--to", "lightning"], "nowhere.py: there is no such path"),
        (["{}", "--to", "context", "--verify"], "--verify compares with a LightningModule"),
        (["{}", "--to", "lightning", "--verify", "--hparams", "["], "--hparams"),
        (["{}", "--to", "lightning", "--config", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_wrong_command_lines(repository, capsys, arguments, message):
    given = [text.format(repository) for text in arguments]
    assert main(["migrate", *given]) == 2
    assert message in capsys.readouterr().err


def test_without_the_extra(repository, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "libcst", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["migrate", str(repository), "--to", "lightning"]) == 2
    assert how_to_install("migrate") in capsys.readouterr().err


def test_what_changes_with_a_file_that_is_named_is_said(repository, capsys):
    made = "def made(rows):\n    return DataLoader(rows)\n"
    (repository / "layers.py").write_text(f"from determined.pytorch import DataLoader\n{made}")
    model = repository / "model_def.py"
    model.write_text(f"import layers\n{trial()}")
    assert main(["migrate", str(model), "--to", "lightning"]) == 0
    errors = capsys.readouterr().err.splitlines()
    assert errors[0] == f"{repository / 'layers.py'}: changed, too: it belongs with model_def.py"
    assert errors[1].startswith("2 of 2 files would change")


def test_what_is_imported_by_a_folder_and_not_named_is_left(repository, capsys):
    folder = repository / "one"
    folder.mkdir()
    (repository / "layers.py").write_text("from determined.pytorch import DataLoader\n")
    (folder / "model_def.py").write_text(f"from layers import DataLoader\n{trial()}")
    assert main(["migrate", str(folder), "--to", "lightning"]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert errors[0] == (
        f"{repository / 'layers.py'}: not read: model_def.py imports it, and it uses Determined; "
        "name it, or the folder"
    )
    assert "left to you: 0 MIGRATE comments, 1 files, 0 notebooks" in errors[1]


def test_the_last_line_says_what_was_not_verified(repository, capsys):
    assert main(["migrate", str(repository), "--to", "lightning"]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == (
        "not verified; this trains before and after, and compares: "
        f"det-compat migrate {repository} --to lightning --verify"
    )
    assert main(["migrate", str(repository), "--to", "det_compat"]) == 0
    assert "not verified" not in capsys.readouterr().err


@pytest.mark.skipif(
    sys.platform != "linux" or os.cpu_count() == 1, reason="/proc says when processes have begun"
)
def test_ctrl_c_ends_all_processes_with_one_line(tmp_path):
    for index in range(40):
        folder = tmp_path / str(index)
        folder.mkdir()
        (folder / f"trial{index}.py").write_text(trial() + "x = 1\n" * 300)
    command = [sys.executable, "-m", "det_compat", "migrate", "--to", "lightning", str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, start_new_session=True) as started:
        children = Path(f"/proc/{started.pid}/task/{started.pid}/children")
        while started.poll() is None and not children.read_text():
            time.sleep(0.05)
        # What Python calls around a fork swallows the exception that a signal is.
        time.sleep(0.5)
        os.killpg(started.pid, signal.SIGINT)
        out, error = started.communicate(timeout=60)
    assert (out, error.decode(), started.returncode) == (b"", "det-compat: interrupted\n", 130)


@pytest.mark.parametrize("package", [None, "lightning"])
def test_requirements_that_name_determined_are_spoken_of(repository, package, capsys):
    inner = repository / "trials"
    inner.mkdir()
    (repository / "model_def.py").rename(inner / "model_def.py")
    (repository / "requirements.txt").write_text("numpy\ndetermined==0.19.0\n")
    (inner / "requirements-dev.txt").write_text("# determined\ndetermined-x==1\nnot/determined\n")
    (inner / "requirements.txt").write_text(
        "pytorch-lightning==1.2.3\nlightning>=1.9\nlightning<3\n"
    )
    (inner / "pyproject.toml").write_text('dependencies = ["determined[all]>=0.2"]\n')
    (repository.parent / "requirements.txt").write_text("determined\n")
    more = ["--lightning", package] if package else []
    assert main(["migrate", "--to", "lightning", *more, str(repository)]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "the modules need" in line]
    need = f"the modules need {package or 'pytorch-lightning'} and no determined"
    newer = need.replace(" and no determined", ">=2, and this asks for an older one")
    assert said == [
        f"{inner / 'pyproject.toml'}:1: {need}",
        f"{inner / 'requirements.txt'}:1: {newer}",
        f"{repository / 'requirements.txt'}:2: {need}",
    ]


def test_configs_that_cannot_be_read_are_spoken_of(repository, capsys):
    """Nothing is taken from them, and Determined refused them, too, or read something else."""
    start = (
        "entrypoint: model_def:Trial\nsearcher: {name: single, max_length: {epochs: 1}, metric: "
    )
    for name, end in {"good": "loss}", "off": "n}", "tab": "loss}\n\tseed: 1"}.items():
        (repository / f"{name}.yaml").write_text(f"{start}{end}\n")
    (repository / "docs.yaml").write_text("about: a searcher\n  of: n\n")
    assert main(["migrate", "--to", "lightning", str(repository)]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "from this config" in line]
    assert [line.partition(" ")[0] for line in said] == [
        f"{repository / 'off.yaml'}:2:59:",
        f"{repository / 'tab.yaml'}:3:1:",
    ]
    assert said[0].endswith("found false, expected text: nothing is taken from this config")
