"""``det-compat fit`` and ``validate`` from the command line to the files that they leave."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonargparse import Namespace

from det_compat.adapters.experiment import cli
from det_compat.adapters.experiment.options import make_paths_absolute
from det_compat.cli import main
from det_compat.errors import InvalidExperimentException, InvalidLoaderError
from det_compat.experiment.request import USUAL
from det_compat.experiment.run_state import State
from det_compat.runs.summary import summary_of
from tests.experiment.projects import EPOCH, QUIET, project, recorded
from tests.fresh_python import environment
from tests.preloaded import executable, python

LONG = {"name": "single", "metric": "validation_loss", "max_length": {"epochs": 10**6}}


def _fit(*argv: object) -> int:
    return main(["fit", *map(str, argv), *QUIET])


def test_fit_says_what_it_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = {"resources": {"slots_per_trial": 0, "resource_pool": "gpus"}, "labels": ["a"]}
    assert _fit(project(tmp_path / "p", **keys)) == 0
    shown = capsys.readouterr()
    assert shown.err.count("ignored on this machine: resources.resource_pool") == 1
    for text in ("2 epochs, 20 batches", "1 cpu", "32-true", "best validation_loss", "--resume"):
        assert text in shown.out
    run = tmp_path / "runs/tiny/001"
    assert {path.name for path in run.iterdir()} >= {"config.yaml", "lightning.yaml", "tensorboard"}
    events = b"".join(file.read_bytes() for file in (run / "tensorboard").glob("*tfevents*"))
    # HParams compare runs by the searcher's metric.
    for text in (b"_hparams_/experiment", b"global_batch_size", b"validation_loss"):
        assert text in events
    assert "best validation_loss" in (run / "log.txt").read_text()
    about = summary_of(run)
    assert about is not None
    assert (about.state.state, about.batches, about.length) == (State.DONE, 20, "2 epochs")
    assert [one.batches for one in about.validations] == [20]
    assert about.best is not None
    assert about.checkpoints[0].value == about.best[0]
    assert about.state.resume.endswith(f"--run_dir {run} --resume {' '.join(QUIET)}")
    assert os.getcwd() == str(tmp_path)


def test_options_on_top(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = ("--trainer.max_epochs", 1, "--model.hparams.global_batch_size", 10)
    assert _fit(project(tmp_path / "p"), *options, "--run_dir", "r") == 0
    assert "did you mean" not in caplog.text
    assert recorded(tmp_path)["validation"] == [4]
    saved = yaml.safe_load((tmp_path / "r/lightning.yaml").read_text())
    assert saved["model"]["hparams"] == {"global_batch_size": 10, "lr": 0.1}
    assert _fit(tmp_path / "p/const.yaml", "--model.hparams.lrr", 1) == 0
    assert "no hyperparameter lrr, which is set; did you mean lr?" in caplog.text


def test_the_short_help_names_options_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["fit", "--help-all"])
    assert exited.value.code == 0
    shown = capsys.readouterr().out
    known = {option.partition(" ")[0].removesuffix(".NAME").removesuffix("+") for option in USUAL}
    # Python 3.13 shows what an option takes after the last of its names.
    named = {word.rstrip(",") for word in shown.split()}
    assert known - named == set()


def test_print_config_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["fit", str(project(tmp_path / "p")), "--trainer.devices", "3", "--print_config"])
    assert exited.value.code == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["model"]["hparams"] == {"global_batch_size": 4, "lr": 0.1}
    assert int(printed["trainer"]["devices"]) == 3
    assert not (tmp_path / "runs").exists()
    (tmp_path / "lightning.yaml").write_text("trainer: {max_epochs: 1}")
    assert _fit(tmp_path / "p/const.yaml", "--config", "lightning.yaml") == 0
    assert recorded(tmp_path)["validation"] == [EPOCH]


def test_resume_and_validate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = project(tmp_path / "p")
    assert _fit(file, "--trainer.max_steps", 7) == 0
    assert _fit(file, "--resume") == 0
    shown = capsys.readouterr().out
    assert "after batch 7, from checkpoint" in shown
    assert recorded(tmp_path)["validation"] == [7, 20]
    assert _fit(file, "--resume") == 0
    assert "after batch 20: " in capsys.readouterr().out
    assert main(["validate", str(file), "--resume", *QUIET]) == 0
    shown = capsys.readouterr().out
    assert "after batch 20" in shown and "validation_loss" in shown
    assert main(["validate", str(file), *QUIET]) == 0
    assert [path.name for path in (tmp_path / "runs/tiny").iterdir()] == ["001"]


def test_a_validated_checkpoint_has_its_progress(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = project(tmp_path / "p")
    code = file.with_name("model_def.py")
    asks = """
    def on_validation_end(self, metrics):
        context = self.trial.context
        print("at", context.current_train_batch(), context.current_train_epoch())

    def on_validation_start(self):"""
    code.write_text(code.read_text().replace("    def on_validation_start(self):", asks))
    assert _fit(file) == 0
    assert f"at {2 * EPOCH - 1} 1\n" in capsys.readouterr().out
    assert main(["validate", str(file), "--resume", *QUIET]) == 0
    assert f"at {2 * EPOCH - 1} 1\n" in capsys.readouterr().out


def test_a_folder_that_holds_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = project(tmp_path / "p")
    assert _fit(file, "--trainer.max_steps", 1, "--run_dir", "r") == 0
    assert _fit(file, "--run_dir", "r") == 2
    assert "go on with it by --resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--trainer.nothing", "1"], "nrecognized arguments"),
        (["--trainer.max_epocs", "1"], "did you mean --trainer.max_epochs?"),
        (["--resum"], "did you mean --resume?"),
        (["--trainer.max_epochs", "x"], "max_epochs"),
    ],
)
def test_options_that_lightning_does_not_have(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        _fit(project(tmp_path / "p"), *options)
    assert exited.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--trainer.devices", "two"], "the Trainer does not take its options"),
        (["--trainer.strategy", "fsdp"], "."),
    ],
)
def test_options_that_do_not_fit(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _fit(project(tmp_path / "p"), *options) == 2
    assert message in capsys.readouterr().err


def test_more_slots_than_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = project(tmp_path / "p", resources={"slots_per_trial": 4096})
    assert _fit(file) == 2
    assert "--no-python det-compat fit" in capsys.readouterr().err
    assert _fit(file, "--trainer.devices", 1, "--trainer.strategy", "auto") == 0


def test_without_a_config(tmp_path: Path) -> None:
    project(tmp_path)
    given = ("--model.trial_cls", "model_def:Trial", "--model.hparams.global_batch_size", 10)
    limits = ("--trainer.max_epochs", 1, "--trainer.logger", "false")
    quiet = ("--trainer.enable_checkpointing", "false", "--trainer.accelerator", "cpu")
    assert _fit(*given, *limits, *quiet, "--trainer.enable_model_summary", "false") == 0
    assert recorded(tmp_path)["validation"] == [4]


def test_profiling_and_logging(tmp_path: Path) -> None:
    file = project(tmp_path / "p", profiling={"enabled": True}, debug=False)
    assert _fit(file, "--run_dir", "r", "--trainer.max_steps", 2) == 0
    assert any(path.name.startswith("fit-profile") for path in (tmp_path / "r").iterdir())


def test_loggers_and_callbacks_of_lightning(tmp_path: Path) -> None:
    file = project(tmp_path / "p", searcher={**LONG, "max_length": {"epochs": 50}})
    logger = ("--trainer.logger", "CSVLogger", "--trainer.logger.save_dir", "csv")
    stopping = ("--trainer.callbacks+=EarlyStopping", "--trainer.callbacks.monitor=loss")
    patience = ("--trainer.callbacks.stopping_threshold=1e9",)
    assert _fit(file, *logger, *stopping, *patience, "--trainer.check_val_every_n_epoch", 1) == 0
    assert list((tmp_path / "csv").rglob("metrics.csv"))
    seen = recorded(tmp_path)
    assert len(seen["validation"]) < 50
    assert seen["checkpoint"][-1] == seen["validation"][-1]


SECRETS: dict[str, Any] = {
    "checkpoint_storage": {
        "type": "directory",
        "container_path": "STORAGE",
        "save_trial_best": 2,
    },
    "environment": {
        "registry_auth": {"username": "u", "password": "hush1"},
        "environment_variables": ["TOKEN=hush2"],
    },
    "data": {"token": "hush3", "url": "https://user:hush4@host/x"},
    "integrations": {"pachyderm": {"pachd": {"token": "hush5"}}},
}


def test_no_file_gets_a_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    storage = {**SECRETS["checkpoint_storage"], "container_path": str(tmp_path / "storage")}
    file = project(tmp_path / "p", **{**SECRETS, "checkpoint_storage": storage})
    assert _fit(file, "--trainer.max_steps", 3) == 0
    shown = capsys.readouterr()
    assert "hush" not in shown.out + shown.err
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path != file]
    assert any(path.name == "state_dict.pth" for path in written)
    assert any(path.name == "model_def.py" and "storage" in path.parts for path in written)
    assert not [path for path in written if b"hush" in path.read_bytes()]


def test_paths_are_those_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.ckpt").touch()
    logger = Namespace(init_args=Namespace(save_dir="csv", name="save_dir"))
    callbacks: list[Any] = [{"init_args": {"dirpath": "saved"}}, {"init_args": {"dirpath": None}}]
    options = Namespace(
        trainer=Namespace(logger=[logger], callbacks=callbacks, default_root_dir="s3://b/x"),
        ckpt_path="one.ckpt",
    )
    make_paths_absolute(options)
    assert logger.init_args.save_dir == str(tmp_path / "csv")
    assert logger.init_args.name == "save_dir"
    assert callbacks[0]["init_args"]["dirpath"] == str(tmp_path / "saved")
    assert options.trainer.default_root_dir == "s3://b/x"
    assert options.ckpt_path == str(tmp_path / "one.ckpt")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_run_directory_that_is_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = project(tmp_path / "p", min_validation_period={"batches": 1})
    code = file.with_name("model_def.py")
    deletes = "        if self.batches == 3:\n            __import__('shutil').rmtree(RUN)\n"
    step = "        self.batches += 1\n"
    text = code.read_text().replace(step, step + deletes)
    code.write_text(text.replace("RUN", repr(str(tmp_path / "r"))))
    assert _fit(file, "--run_dir", "r") == 2
    shown = capsys.readouterr().err
    assert shown.count("Traceback") == 0
    assert f"the run directory {tmp_path / 'r'} was deleted or moved" in shown


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk is full here")
@pytest.mark.parametrize("name", ["lightning.yaml", "checkpoints.txt"])
def test_a_full_disk(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "r"
    run.mkdir()
    (run / name).symlink_to("/dev/full")
    file = project(tmp_path / "p")
    assert _fit(file, "--run_dir", "r") == 2
    told = capsys.readouterr().err
    assert f"No space left on device: '{run / name}'" in told
    assert f"Resume the run by: det-compat fit {file} --run_dir {run} --resume" in told
    (run / name).unlink()
    assert _fit(file, "--run_dir", "r", "--resume") == 0
    assert recorded(tmp_path)["validation"][-1] == 20


def test_what_cannot_be_read_is_no_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(cli, "_run", run)
    with pytest.raises(OSError, match=r"^\[Errno 5\] Input/output error$"):
        _fit(project(tmp_path / "p"))


def test_code_below_site_packages_is_ones_own_where_the_config_is(tmp_path: Path) -> None:
    source = "def fail(error):\n    raise error\n"
    found: dict[str, Any] = {}
    exec(compile(source, tmp_path / "site-packages" / "mine" / "model_def.py", "exec"), found)
    for folder, kind in (("site-packages/mine", InvalidExperimentException), (".", cli.FitError)):
        with pytest.raises(kind, match="own"), cli.what_to_mend(tmp_path / folder):
            found["fail"](InvalidExperimentException("own"))


@pytest.mark.parametrize(
    ("rank", "kind", "said"), [("0", cli.FitError, "no batch"), ("1", SystemExit, "2")]
)
def test_what_all_ranks_find_is_said_by_the_first(
    rank: str,
    kind: type[BaseException],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RANK", rank)
    with pytest.raises(kind, match=f"^{said}$"), cli.what_to_mend(tmp_path):
        raise InvalidLoaderError("no batch", is_on_all_ranks=True)


@pytest.mark.parametrize("path", ["last", "/abs/one.ckpt", None])
def test_checkpoints_that_are_not_here(
    path: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = Namespace(ckpt_path=path)
    make_paths_absolute(options)
    assert options.ckpt_path == path


# In processes of their own


def _det_compat(*argv: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return python("-m", "det_compat", "fit", *map(str, argv), *QUIET, cwd=cwd)


def test_two_devices(tmp_path: Path) -> None:
    optimizations = {"gradient_compression": True}
    resources = {"slots_per_trial": 2}
    file = project(tmp_path / "p", optimizations=optimizations, resources=resources)
    done = _det_compat(file, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 cpu" in done.stdout
    assert done.stdout.count("run directory") == 2
    assert [path.name for path in (tmp_path / "runs/tiny").iterdir()] == ["001"]
    resumed = _det_compat(file, "--resume", "--trainer.max_epochs", 3, cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert "after batch 20, from checkpoint" in resumed.stdout


def test_a_failed_run_is_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRASH_AT", "13")
    file = project(tmp_path / "p", max_restarts=2, min_checkpoint_period={"batches": 4})
    done = _det_compat(file, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the trial's own error" in done.stderr and 'model_def.py", line' in done.stderr
    assert "restart 1 of 2 (max_restarts)" in done.stderr
    assert "after batch 12, from checkpoint" in done.stdout


def test_sigterm_ends_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    file = project(tmp_path / "p", searcher=LONG, max_restarts=3, scheduling_unit=1)
    command = [executable(), "-m", "det_compat", "fit", str(file), *QUIET]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "logs" in line:
            break
    while not (tmp_path / "record.txt").exists():
        pass
    process.send_signal(signal.SIGTERM)
    rest = process.stdout.read()
    assert process.wait(60) == 128 + signal.SIGTERM
    assert "resume it by: det-compat fit" in rest
    process.stdout.close()
    resumed = _det_compat(file, "--resume", "--trainer.max_epochs", 1, cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr


SWALLOWED = """
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as error:
            if {becomes_another}:
                raise ImportError("what was imported just then") from error
"""


@pytest.mark.parametrize("becomes_another", [False, True])
@pytest.mark.parametrize("at", ["build_training_data_loader(self):", "train_batch(self, batch"])
def test_ctrl_c_that_is_swallowed_ends_the_run(
    at: str, becomes_another: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = project(tmp_path / "p", searcher=LONG)
    code = file.with_name("model_def.py")
    before, found, after = code.read_text().partition(at)
    signature, end, body = after.partition(":\n") if found[-1] != ":" else ("", "\n", after[1:])
    swallowed = SWALLOWED.format(becomes_another=becomes_another)
    code.write_text(f"import signal\n{before}{found}{signature}{end}{swallowed}{body}")
    with pytest.raises(SystemExit) as ended:
        _fit(file)
    assert ended.value.code == 128 + signal.SIGINT
    assert "resume it by: det-compat fit" in capsys.readouterr().out


SCRIPT = """
import os, sys
import determined as det
from determined import pytorch
import model_def

info = det.get_cluster_info()
print("told", info.trial.hparams["lr"], info.trial.trial_seed, info.latest_checkpoint, sys.argv[1:])
with pytorch.init(hparams=info.trial.hparams) as context:
    trainer = pytorch.Trainer(model_def.Trial(context), context)
    print("ranks", context.distributed.size, context.get_experiment_config()["name"])
    trainer.fit(latest_checkpoint=info.latest_checkpoint, checkpoint_period=pytorch.Batch(4))
"""


def test_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRASH_AT", "13")
    command = "python3 train.py --x 1"
    file = project(tmp_path / "p", entrypoint=command, max_restarts=1, debug=True)
    (tmp_path / "p/train.py").write_text(SCRIPT)
    done = python("-m", "det_compat", "fit", str(file), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "told 0.1 7 None ['--x', '1']" in done.stdout
    assert done.stdout.count("told 0.1 7 ") == 2
    assert "ranks 1 tiny" in done.stdout
    seen = recorded(tmp_path)
    assert seen["checkpoint"] == [4, 8, 12, 16, 20]
    assert list((tmp_path / "runs/tiny/001/checkpoints").iterdir())


def test_a_script_under_the_launcher(tmp_path: Path) -> None:
    command = "python3 -m determined.launch.torch_distributed python3 train.py"
    resources = {"slots_per_trial": 2}
    file = project(tmp_path / "p", entrypoint=command, resources=resources)
    (tmp_path / "p/train.py").write_text(SCRIPT)
    done = python("-m", "det_compat", "fit", str(file), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ranks 2 tiny") == 2
