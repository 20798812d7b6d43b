"""``det-compat fit`` on two machines, each with a folder and a home of its own."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from det_compat.adapters.experiment.machines import brought
from det_compat.checkpoint import read_checkpoint
from det_compat.core import CheckpointStore
from tests.clusters import can_hide
from tests.core.threads import on_ranks
from tests.experiment.projects import project
from tests.machines import Machine, launched
from tests.markdown import blocks, read
from tests.preloaded import executable
from tests.resume.compare import _differ
from tests.torchrun import free_port

FIT = ("-m", "det_compat", "fit", "const.yaml")
SEES = """
        import determined as det
        ranks, info = context.distributed, det.get_cluster_info()
        agents = ranks.get_num_agents(), ranks.cross_rank, ranks.allgather_local(ranks.rank)
        told = info.container_rank, info.container_addrs, info.slot_ids
        pathlib.Path(f"sees{ranks.rank}").write_text(json.dumps([*agents, *told]))
"""

#: Runs det-compat where the folder that ``HIDDEN`` names is empty, as on a disk of another machine.
ON_A_DISK_OF_ITS_OWN = """
import ctypes, os, sys
from det_compat.cli import main
if hidden := os.environ.get("HIDDEN", "").encode():
    libc = ctypes.CDLL(None, use_errno=True)
    own_mounts, private = 0x20000, (1 << 14) | (1 << 18)
    assert libc.unshare(own_mounts) == 0
    assert libc.mount(b"none", b"/", None, private, None) == 0
    assert libc.mount(b"tmpfs", hidden, b"tmpfs", 0, None) == 0
sys.exit(main(sys.argv[1:]))
"""

#: Starts tasks as SLURM does, with its variables, on this machine.
SRUN = """#!/bin/sh
# Only that of SLURM has tasks that outlive another one to wait for.
if [ "$1" = --wait=60 ]; then shift; fi
for task in $(seq 0 $((SLURM_NTASKS - 1))); do
    SLURM_PROCID=$task SLURM_LOCALID=$((task % SLURM_NTASKS_PER_NODE)) SLURM_STEP_ID=0 \\
        SLURM_NODEID=$((task / SLURM_NTASKS_PER_NODE)) "$@" &
    tasks="$tasks $!"
done
for task in $tasks; do
    wait "$task" || exit 1
done
"""


def machines(tmp_path: Path, *names: str) -> list[Path]:
    found = []
    for name in names:
        (tmp_path / name).mkdir()
        code = project(
            tmp_path / name,
            reproducibility={"experiment_seed": 5},
            searcher={"name": "single", "metric": "validation_loss", "max_length": {"batches": 6}},
            min_checkpoint_period={"batches": 2},
        ).with_name("model_def.py")
        text = code.read_text().replace("self.batches = 0\n", f"self.batches = 0{SEES}")
        code.write_text(text.replace("torch.ones(8, 2), batch_size=4", "torch.ones(8, 2), 2"))
        found.append(code.parent)
    return found


def train(folders: list[Path], *words: str, **how: Any) -> tuple[Path, str]:
    """The folder of rank 0, and what all have said."""
    started = launched(folders, executable(), *FIT, *words, **how)
    statuses = [machine.wait() for machine in started]
    said = "\n".join(machine.said() for machine in started)
    assert set(statuses) == {0}, said[-6000:]
    return next(folder for folder in folders if (folder / "sees0").exists()), said


def end_of(run: Path) -> Any:
    store = CheckpointStore(run / "checkpoints")
    latest = store.latest()
    assert latest is not None and latest.steps_completed == 6
    state = read_checkpoint(store.find(latest.uuid)).state
    lines = [*map(json.loads, (run / "metrics.jsonl").read_text().splitlines())]
    reports = [{**line, "time": None} for line in lines]
    return state["models_state_dict"], state["optimizers_state_dict"], reports


def test_two_machines_train_to_the_bits_of_one(tmp_path: Path) -> None:
    alone, _ = train(machines(tmp_path, "alone"), "--run_dir", "r", processes=4)
    folders = machines(tmp_path, "one", "two")
    first, said = train(folders, "--run_dir", "r", processes=2)
    [second] = set(folders) - {first}
    assert list(_differ(end_of(alone / "r"), end_of(first / "r"), "end")) == []
    assert "4 cpu on 2 nodes" in said and not (second / "r").exists()
    sees = [json.loads((second / f"sees{rank}").read_text()) for rank in (2, 3)]
    assert sees == [[2, 1, [2, 3], 1, sees[0][4], [0, 1]]] * 2
    assert len(sees[0][4]) == 2 and all(sees[0][4])


@pytest.mark.thorough
def test_a_failure_starts_all_again_which_go_on(tmp_path: Path) -> None:
    folders = machines(tmp_path, "one", "two")
    first, said = train(folders, restarts=1, variables={"CRASH_AT": "5"})
    assert "the trial's own error" in said and "after batch 4, from checkpoint" in said
    [run] = (first / "runs" / "tiny").iterdir()
    assert end_of(run)


@pytest.mark.skipif(not can_hide(), reason="no folder can be hidden here")
@pytest.mark.thorough
def test_an_error_on_a_machine_that_does_not_see_the_folder_of_the_run(tmp_path: Path) -> None:
    folders = machines(tmp_path, "one", "two")
    fit = "-c", ON_A_DISK_OF_ITS_OWN, *FIT[2:], "--run_dir", "r"
    variables = [{}, {"HIDDEN": str(folders[0]), "CRASH_AT": "3"}]
    one, two = launched(folders, executable(), *fit, variables=variables)
    assert 0 not in (one.wait(), two.wait())
    assert "the trial's own error" in two.said(), two.said()
    assert "was deleted or moved" not in one.said() + two.said()


def test_the_script_for_slurm_as_the_page_has_it(tmp_path: Path) -> None:
    [code] = [b.code for b in blocks(read("docs/several-machines.md")) if "#SBATCH" in b.code]
    [folder] = machines(tmp_path, "job")
    (folder / "job.sh").write_text(code)
    (tmp_path / "srun").write_text(SRUN)
    (tmp_path / "det-compat").write_text(f'#!/bin/sh\nexec {executable()} -m det_compat "$@"\n')
    for name in ("srun", "det-compat"):
        (tmp_path / name).chmod(0o755)
    wanted = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)$", code, re.MULTILINE))
    nodes, tasks = int(wanted["nodes"]), int(wanted["ntasks-per-node"])
    job = {
        "SLURM_JOB_ID": str(free_port()),  # The port of the processes is made of it.
        "SLURM_JOB_NAME": "job.sh",
        "SLURM_JOB_NODELIST": "127.0.0.1,127.0.0.2",
        "SLURM_NNODES": str(nodes),
        "SLURM_NTASKS": str(nodes * tasks),
        "SLURM_NTASKS_PER_NODE": str(tasks),
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }
    machine = Machine(folder, ["bash", "job.sh"], job)
    status, said = machine.wait(), machine.said()
    assert status == 0, said[-6000:]
    assert "4 cpu on 2 nodes" in said
    assert end_of(folder / "runs" / "tiny" / "001")
    seen = [json.loads((folder / f"sees{rank}").read_text())[:2] for rank in range(4)]
    assert seen == [[2, 0], [2, 0], [2, 1], [2, 1]]


def test_a_checkpoint_goes_to_machines_that_do_not_see_it(tmp_path: Path) -> None:
    there = tmp_path / "checkpoint"
    (there / "code").mkdir(parents=True)
    (there / "code" / "model_def.py").write_text("pass")
    (there / "state_dict.pth").write_bytes(b"x" * (1 << 24) + b"y")
    (there / "metadata.json").write_text("{}")

    def bring(ranks: Any) -> tuple[Path, list[str], bytes]:
        is_blind = ranks.cross_rank == 1
        found = brought(ranks, None if is_blind else there, is_blind=is_blind)
        names = sorted(path.name for path in found.iterdir())
        return found, names, (found / "state_dict.pth").read_bytes()[-2:]

    first, beside, second, third = on_ranks(bring, size=4, machines=2)
    assert first[0] == beside[0] == there
    assert second[0] == third[0] != there
    assert second[1:] == third[1:] == (["metadata.json", "state_dict.pth"], b"xy")
