"""``det-compat runs`` lists what ``det-compat run`` has run without a config."""

from __future__ import annotations

import subprocess
from pathlib import Path

from det_compat.runs.finding import find_runs
from det_compat.runs.summary import Summary
from tests.fresh_python import environment
from tests.preloaded import executable

SCRIPT = """
import os, signal
import torch
from determined import core, pytorch


class Trial(pytorch.PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.model = context.wrap_model(torch.nn.Linear(1, 1))
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), 0.1))

    def build_training_data_loader(self):
        return pytorch.DataLoader(torch.utils.data.TensorDataset(torch.ones(4, 1)), batch_size=2)

    build_validation_data_loader = build_training_data_loader

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.model(batch[0]).square().mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"val": self.model(batch[0]).square().mean()}


with core.init() as context:
    context.train.report_validation_metrics(3, {"loss": 0.5})
    with context.checkpoint.store_path({"steps_completed": 3}) as (path, uuid):
        (path / "state").write_text("3")
    os.kill(os.getpid(), signal.SIGTERM)
    assert context.preempt.should_preempt()
with pytorch.init(hparams={"lr": 0.1}, exp_conf={"searcher": {"metric": "val"}}) as context:
    pytorch.Trainer(Trial(context), context).fit(max_length=pytorch.Batch(2))
with core.init() as context:
    context.train.report_training_metrics(1, {"loss": 0.5})
    raise ValueError("no more")
"""


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    (folder / "mine.py").write_text(script)
    return subprocess.run(
        [executable(), "-m", "det_compat", "run", "mine.py"],
        cwd=folder,
        env={**environment(), "XDG_DATA_HOME": str(folder / "data")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_script_ends_for_want_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    script = SCRIPT.partition("with core.init()")[0] + (
        "with pytorch.init(hparams={}, enable_tensorboard_logging=False) as context:\n"
        "    pytorch.Trainer(Trial(context), context).fit(max_length=pytorch.Batch(2))\n"
        'with core.init() as context, context.checkpoint.store_path({"steps_completed": 1}):\n'
        '    print("trained")\n'
    )
    ended = run(tmp_path, script)
    assert (ended.returncode, ended.stdout) == (0, "trained\n"), ended.stderr
    assert ended.stderr.count("det-compat runs will not list this run") == 2


def test_runs_of_a_script_are_listed(tmp_path: Path) -> None:
    ended = run(tmp_path, SCRIPT)
    assert ended.returncode == 1, ended.stderr
    found: list[Summary] = sorted(find_runs(tmp_path), key=lambda run: run.path.name)
    assert [(run.state.state.value, run.name, run.batches) for run in found] == [
        *[("stopped", "mine", 3), ("done", "mine", 2), ("failed", "mine", 1)],
    ]
    stopped, trained, failed = found
    assert failed.state.reason == "ValueError: no more"
    assert trained.hparams == {"lr": 0.1} and trained.metric == "val" and trained.best is not None
    assert [one.batches for one in (*stopped.checkpoints, *trained.checkpoints)] == [3, 2]
    assert not any(run.state.resume for run in found)
