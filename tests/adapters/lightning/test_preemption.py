from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from det_compat import core
from det_compat.adapters.lightning import preemption
from det_compat.checkpoint.reader import read_checkpoint
from tests.preloaded import executable
from tests.torchrun import free_port

ROOT = Path(__file__).parents[3]

TRIAL = textwrap.dedent(
    """
    import os, sys, time, signal
    import pytorch_lightning as pl
    from det_compat import pytorch, to_lightning
    from tests.adapters.trials import Linear, Recorder

    class Shutdown(pytorch.PyTorchCallback):
        def on_trial_shutdown(self):
            print("shut down", flush=True)

    class Slow(Linear):
        def train_batch(self, batch, epoch_idx, batch_idx):
            if batch_idx == 3:
                os.write(1, b"training %d\\n" % os.getpid())  # whole, also beside another rank
            time.sleep(0.02)
            return super().train_batch(batch, epoch_idx, batch_idx)

        def build_callbacks(self):
            return {"shutdown": Shutdown()}
    """
)
DETERMINED = """
with pytorch.init(hparams={}, enable_tensorboard_logging=False) as context:
    pytorch.Trainer(Slow(context), context).fit(max_length=pytorch.Batch(3_000))
"""
LIGHTNING = """
ranks = int(os.environ.get("WORLD_SIZE", 1))
pl.Trainer(
    max_epochs=500, accelerator="cpu", devices=ranks, limit_val_batches=0, logger=False,
    strategy="ddp" if ranks > 1 else "auto", enable_progress_bar=False,
    enable_model_summary=False, enable_checkpointing=False,
    default_root_dir=os.getcwd(),
).fit(to_lightning(Slow)(hparams={}))
"""


def environment(home: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "XDG_DATA_HOME": str(home),
        "OMP_NUM_THREADS": "1",
    }


@contextlib.contextmanager
def started(folder: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    with (folder / "stderr.txt").open("w") as stderr:
        process = subprocess.Popen(
            [executable(), *command],
            cwd=folder,
            env=environment(folder / "share"),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()  # torchrun hands it on to the ranks, which are in sessions of their own
    with contextlib.suppress(subprocess.TimeoutExpired, ValueError):
        process.communicate(timeout=60)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("training"), line
    return line


def complete_checkpoints(folder: Path) -> list[Path]:
    directories = [path.parent for path in folder.glob("share/determined/*/metadata.json")]
    return [*directories, *folder.rglob("*.ckpt")]


def batches_in(checkpoint: Path) -> int:
    if checkpoint.is_dir():
        state: Any = read_checkpoint(checkpoint).counters
    else:
        state = torch.load(checkpoint, weights_only=True)["determined"]["trial_state"]
    batches: int = state["batches_trained"]
    return batches


@pytest.mark.parametrize("script", [DETERMINED, LIGHTNING], ids=["determined", "lightning"])
def test_the_batch_is_finished_and_a_checkpoint_written(script: str, tmp_path: Path) -> None:
    with started(tmp_path, "-c", TRIAL + script) as process:
        said(process)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 143, (tmp_path / "stderr.txt").read_text()
        assert out == "shut down\n"
        [checkpoint] = complete_checkpoints(tmp_path)
        assert batches_in(checkpoint) >= 4
        assert str(checkpoint.name) in (tmp_path / "stderr.txt").read_text()


@pytest.mark.parametrize("script", [DETERMINED, LIGHTNING], ids=["determined", "lightning"])
def test_a_signal_to_one_rank_ends_both_after_the_same_batch(script: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(TRIAL + script)
    torchrun = ["-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={free_port()}"]
    with started(tmp_path, *torchrun, "script.py") as process:
        lines = [said(process), said(process)]
        pids = [int(line.split()[1]) for line in lines]
        for _ in range(2):  # torchrun sends on what all processes have had.
            os.kill(max(pids), signal.SIGTERM)
            time.sleep(0.1)
        out, _ = process.communicate(timeout=100)
        assert out.count("shut down") == 2, (tmp_path / "stderr.txt").read_text()
        [checkpoint] = complete_checkpoints(tmp_path)
        assert batches_in(checkpoint) >= 4


HANDLER = """
signal.signal(signal.SIGTERM, lambda *_: (print("mine", flush=True), os._exit(7)))
"""


@pytest.mark.parametrize("script", [DETERMINED, LIGHTNING], ids=["determined", "lightning"])
def test_a_handler_of_the_script_is_left_alone(script: str, tmp_path: Path) -> None:
    with started(tmp_path, "-c", TRIAL + HANDLER + script) as process:
        said(process)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, out) == (7, "mine\n")


def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    script = TRIAL.replace("time.sleep(0.02)", "time.sleep(0.02 if batch_idx < 3 else 60)")
    with started(tmp_path, "-c", script + DETERMINED) as process:
        said(process)
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=2)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGTERM


class Messages:
    """Stands for the gloo group of two ranks, the other of which has no wish."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent = 0
        self.seconds = 0.0
        monkeypatch.setattr(preemption.dist, "all_reduce", self._all_reduce)
        monkeypatch.setattr(preemption.time, "monotonic", lambda: self.seconds)

    def _all_reduce(self, *_: Any, **__: Any) -> Any:
        self.sent += 1
        return SimpleNamespace(wait=lambda: None)

    def agreement(self) -> preemption._Agreement:
        return preemption._Agreement(
            cast("core.DistributedContext", SimpleNamespace(cpu_group=list))
        )

    def train(self, agreement: Any, batches: int, seconds: float) -> int:
        """Messages in that many batches."""
        before = self.sent
        for _ in range(batches):
            self.seconds += seconds
            assert not agreement.reached(preemption.Reason.NONE)
        return self.sent - before


def test_ranks_exchange_a_message_every_half_second_not_every_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    messages = Messages(monkeypatch)
    agreement = messages.agreement()
    assert 18 <= messages.train(agreement, batches=1000, seconds=0.01) <= 30
    messages.train(agreement, batches=50, seconds=0.6)
    assert messages.train(agreement, batches=100, seconds=0.6) == 100


def test_fast_batches_that_become_slow_delay_the_next_message_by_50_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    messages = Messages(monkeypatch)
    agreement = messages.agreement()
    messages.train(agreement, batches=10_000, seconds=0.0001)
    assert messages.train(agreement, batches=50, seconds=10) >= 1


def test_a_wish_to_stop_is_sent_with_the_next_message(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = Messages(monkeypatch)
    agreement = messages.agreement()
    messages.train(agreement, batches=1000, seconds=0.01)
    answers = []
    while not any(answers):
        messages.seconds += 0.01
        answers.append(agreement.reached(preemption.Reason.TERMINATION))
    assert len(answers) <= 51


def test_a_signal_before_the_handler_is_ours_is_not_lost() -> None:
    """Lightning's handler, which is there first, would end the run with status 0."""
    one = core.DummyDistributedContext()
    before = signal.getsignal(signal.SIGTERM)
    try:
        early = preemption.TerminationSignal(
            one, signal.SIG_DFL, has_come=preemption.Reason.TERMINATION
        )
        assert early.may_have_come and early.noticed()
        # The script's own handler has had it.
        assert not preemption.TerminationSignal(
            one, print, has_come=preemption.Reason.TERMINATION
        ).noticed()
        assert not preemption.TerminationSignal(one, signal.SIG_DFL).noticed()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_job_of_slurm_goes_into_the_queue_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    one = core.DummyDistributedContext()
    try:
        noted = preemption.TerminationSignal(one, signal.SIG_DFL, requeue=signal.SIGUSR1)
        assert not noted.may_have_come
        os.kill(os.getpid(), signal.SIGUSR1)
        reason = noted.noticed()
        assert noted.may_have_come and reason is preemption.Reason.REQUEUE
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\n')
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "12")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    preemption.Preempted(0, 5, "remedy", reason)
    assert (tmp_path / "asked").read_text() == "requeue 12_3\n"
    scontrol.write_text("#!/bin/sh\necho Invalid job id >&2; exit 1\n")
    preemption.Preempted(0, 5, "remedy", reason)
    assert "cannot put the job into the queue again" in caplog.text
    assert "Invalid job id" in caplog.text
