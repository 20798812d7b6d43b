"""A script with ``pytorch.Trainer`` on two machines, of which one is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from det_compat.core import CheckpointStore
from tests.machines import Machine, launched
from tests.preloaded import executable
from tests.torchrun import free_port

SCRIPT = """
import os, signal, sys
import torch
from determined import pytorch


class Trial(pytorch.PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.model = context.wrap_model(torch.nn.Linear(2, 1))
        self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))

    def train_batch(self, batch, epoch_idx, batch_idx):
        if batch_idx == 5 and self.context.distributed.rank == LOST:
            HOW
        loss = self.model(batch).sum()
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"error": self.model(batch).sum()}

    def build_training_data_loader(self):
        return pytorch.DataLoader(torch.ones(64, 2), batch_size=2)

    def build_validation_data_loader(self):
        return pytorch.DataLoader(torch.ones(4, 2), batch_size=2)


with pytorch.init(enable_tensorboard_logging=False) as context:
    try:
        pytorch.Trainer(Trial(context), context).fit(
            max_length=pytorch.Batch(10), checkpoint_period=pytorch.Batch(2)
        )
    except ValueError as error:
        print("goes on after", error)
"""


CONFIG = """
name: lines
entrypoint: python3 -m determined.launch.torch_distributed python3 train.py
hyperparameters: {}
searcher: {name: single, metric: error, max_length: {batches: 10}}
max_restarts: 0
checkpoint_storage: {type: shared_fs, host_path: STORAGE, save_trial_latest: 9}
"""


def ends(
    tmp_path: Path, how: str, lost: int = 1, words: Sequence[str] = ("run", "train.py")
) -> list[tuple[int, str]]:
    """The status of the task on each machine, and what it said."""
    job = {
        "SLURM_JOB_ID": str(free_port()),  # The port of the processes is made of it.
        "SLURM_JOB_NAME": "job.sh",
        "SLURM_JOB_NODELIST": "127.0.0.1,127.0.0.2",
        "SLURM_NNODES": "2",
        "SLURM_NTASKS": "2",
        "SLURM_NTASKS_PER_NODE": "1",
        "SLURM_LOCALID": "0",
    }
    tasks = []
    for rank in range(2):
        folder = tmp_path / str(rank)
        folder.mkdir()
        script = SCRIPT.replace("HOW", how).replace("LOST", str(lost))
        (folder / "train.py").write_text(script)
        own = {**job, "SLURM_PROCID": str(rank), "SLURM_NODEID": str(rank)}
        (folder / "const.yaml").write_text(CONFIG.replace("STORAGE", str(tmp_path / "storage")))
        own["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
        tasks.append(Machine(folder, [executable(), "-m", "det_compat", *words], own))
    return [(task.wait(), task.said()) for task in tasks]


@pytest.mark.parametrize("lost", [0, 1])
def test_the_task_that_is_left_says_who_is_gone_and_how_to_go_on(tmp_path: Path, lost: int) -> None:
    found = ends(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)", lost)
    status, said = found[1 - lost]
    assert status == 1, said
    assert f"det-compat: rank {lost}, on " in said
    assert "starting the script again, with fit(latest_checkpoint=" in said
    assert "Traceback" not in said


def test_a_script_that_catches_the_error_goes_on(tmp_path: Path) -> None:
    for status, said in ends(
        tmp_path, "pass\n        if batch_idx == 5:\n            raise ValueError('it')"
    ):
        assert status == 0, said
        assert "goes on after it" in said


TELLS = """
import json, pathlib
import determined as det
info = det.get_cluster_info()
seen = info.trial.trial_seed, len(info.container_addrs), info.container_rank, info.latest_checkpoint
with pathlib.Path("seen.txt").open("a") as file:
    print(json.dumps(seen), file=file)
"""


def test_a_config_whose_entrypoint_is_a_script_goes_on_after_the_loss_of_a_process(
    tmp_path: Path,
) -> None:
    dies = "\n            ".join(
        ["if info.latest_checkpoint is None:", "    os.kill(os.getpid(), signal.SIGKILL)"]
    )
    script = TELLS + SCRIPT.replace("HOW", dies).replace("LOST", "1")
    script = script.replace("Batch(2)", "Batch(2), latest_checkpoint=info.latest_checkpoint")
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        (folder / "train.py").write_text(script)
        (folder / "const.yaml").write_text(CONFIG.replace("STORAGE", str(tmp_path / "storage")))
    fit = "-m", "det_compat", "fit", "const.yaml"
    machines = launched(folders, executable(), *fit, restarts=1)
    statuses = [machine.wait() for machine in machines]
    assert statuses == [0, 0], "\n".join(machine.said() for machine in machines)
    # Rank 0 may be on either.
    seen = [[*map(json.loads, (it / "seen.txt").read_text().splitlines())] for it in folders]
    seen.sort(key=lambda lines: lines[0][2])
    (first, again), (second, second_again) = seen
    assert first[1:] == [2, 0, None] and second == [first[0], 2, 1, None]
    store = CheckpointStore(tmp_path / "storage")
    steps = {checkpoint.uuid: checkpoint.steps_completed for checkpoint in store.list()}
    assert again[:3] == first[:3] and second_again == [*second[:3], again[3]]
    assert steps[again[3]] == 4 and max(steps.values()) == 10


def test_slurm_ends_it_to_go_on_later(tmp_path: Path) -> None:
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\necho $1 >> {tmp_path}/asked\n")
    (tmp_path / "scontrol").chmod(0o755)
    signals = "os.kill(os.getpid(), signal.SIGUSR1), os.kill(os.getppid(), signal.SIGUSR1)"
    slow = "\n            import time; time.sleep(1)"
    found = ends(tmp_path, signals + slow, 0, ("fit", "const.yaml", "--run_dir", "r"))
    assert [status for status, _ in found] == [143, 143], found
    assert "is in the queue again" in found[0][1]
    assert (tmp_path / "asked").read_text() == "requeue\n"
    [latest] = [CheckpointStore(tmp_path / "storage").latest()]
    assert latest is not None and 6 <= latest.steps_completed < 10
