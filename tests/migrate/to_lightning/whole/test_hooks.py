from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from det_compat.cli import main
from tests.migrate.rewriting import TRIAL, method, rewritten
from tests.preloaded import executable

HEADER = """\
import collections

import numpy as np
import torch
from determined.pytorch import (
    DataLoader,
    LRScheduler,
    PyTorchCallback,
    PyTorchTrial,
    PyTorchTrialContext,
)
from tqdm import tqdm


class Meter:
    def __init__(self):
        self.sum, self.n = 0.0, 0

    def update(self, value, n):
        self.sum += value * n
        self.n += n


"""
ONE = '    def evaluate_batch(self, batch):\n        return {"error": self.model(batch).sum()}\n'
SUMS = """\
    def evaluate_full_dataset(self, data_loader):
        total, n = 0.0, 0
        with torch.no_grad():
            for batch in data_loader:
                batch = self.context.to_device(batch)
                total += self.model(batch).sum().item()
                n += len(batch)
        return {"error": total / n}
"""


def made(folder: Path, evaluation: str = SUMS, *changes: tuple[str, str], more: str = "") -> str:
    text = HEADER + TRIAL.replace(ONE, evaluation) + more
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return rewritten(folder, text)


def test_what_is_before_the_loop_in_it_and_behind_it(tmp_path):
    module = made(tmp_path)
    assert method(module, "on_validation_epoch_start") == (
        "def on_validation_epoch_start(self):\n    self.total, self.n = 0.0, 0"
    )
    assert method(module, "validation_step") == (
        "def validation_step(self, batch, batch_idx):\n"
        "    self.total += self.model(batch).sum().item()\n"
        "    self.n += len(batch)"
    )
    assert method(module, "on_validation_epoch_end") == (
        "def on_validation_epoch_end(self):\n"
        "    # on several devices, the mean of what each finds in its share of the data\n"
        '    self.log("error", self.total / self.n, sync_dist=True)'
    )
    assert "return DataLoader([], batch_size=4)\n" in method(module, "val_dataloader") + "\n"


def test_a_batch_that_the_loop_takes_apart_and_counts(tmp_path):
    evaluation = '''\
    @torch.no_grad()
    def evaluate_full_dataset(self, data_loader: DataLoader) -> dict:
        """Evaluate.

        Args:
            data_loader: the loader.
        """
        model = self.model
        losses = []
        for i, (x, y) in enumerate(tqdm(data_loader, total=len(data_loader))):
            if i == 3:
                continue
            # the loss
            loss = torch.nn.functional.mse_loss(model(x), y)
            losses.append(loss)
        losses = torch.stack(losses)
        return {"error": losses.mean(), "last": loss, "sum": losses.sum() / len(data_loader)}
'''
    module = made(tmp_path, evaluation)
    assert method(module, "on_validation_epoch_start") == (
        "def on_validation_epoch_start(self) -> None:\n    self.losses = []"
    )
    assert method(module, "validation_step") == (
        "def validation_step(self, batch, batch_idx: int) -> None:\n"
        '    """Evaluate."""\n'
        "    model = self.model\n"
        "    x, y = batch\n"
        "    if batch_idx == 3:\n"
        "        return\n"
        "    # the loss\n"
        "    self.loss = torch.nn.functional.mse_loss(model(x), y)\n"
        "    self.losses.append(self.loss)"
    )
    count = "self.trainer.num_val_batches[0]"
    assert method(module, "on_validation_epoch_end") == (
        "def on_validation_epoch_end(self) -> None:\n"
        "    losses = torch.stack(self.losses)\n"
        "    # on several devices, the mean of what each finds in its share of the data\n"
        "    self.log_dict(\n"
        "        {\n"
        '            "error": losses.mean(),\n'
        '            "last": self.loss,\n'
        f'            "sum": losses.sum() / {count},\n'
        "        },\n"
        "        sync_dist=True,\n"
        "    )"
    )
    assert "tqdm" not in module


def test_attributes_that_others_have(tmp_path):
    change = ('        return {"loss": loss}', '        self.n = 1\n        return {"loss": loss}')
    module = made(tmp_path, SUMS, change, more="\n\ndef asks(module):\n    return module.total\n")
    assert "self.val_total, self.val_n = 0.0, 0" in module
    assert "self.val_total / self.val_n" in module


def test_a_second_run_changes_nothing(tmp_path):
    first = made(tmp_path)
    assert rewritten(tmp_path, first) == first


LOOP = "            for batch in data_loader:\n"
MOVE = "                batch = self.context.to_device(batch)\n"
SUM = "                total += self.model(batch).sum().item()\n"
NO_GRAD = "        with torch.no_grad():\n"
START = "        total, n = 0.0, 0\n"
END = '        return {"error": total / n}\n'


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ("batch = batch.cuda()\nprint(batch)", "print(batch)"),
        ("x, y = batch\nx, y = x.cuda(), y.cuda()\nprint(x, y)", "x, y = batch\nprint(x, y)"),
        ("print(batch[0]['x'].to('cuda'))", "print(batch[0]['x'])"),
        ("print(batch[0].cuda(), self.rows.cuda())", "print(batch[0], self.rows.to(self.device))"),
        # Lightning looks at no attributes, and keeps the type.
        ("print(batch.x.cuda())", "print(batch.x.to(self.device))"),
        ("print(batch.to('cuda', torch.half))", "print(batch.to('cuda', torch.half))"),
        ("batch = other()\nprint(batch.cuda())", "batch = other()\nprint(batch.to(self.device))"),
        ("# Move this to the GPU.\nprint(batch[0].cuda())", "print(batch[0])"),
        ("# Needed below.\nprint(batch[0].cuda())", "# Needed below.\nprint(batch[0])"),
        (
            "# Move it to the GPU.\nprint(rows.cuda())",
            "# Move it to the GPU.\nprint(rows.to(self.device))",
        ),
    ],
)
@pytest.mark.parametrize("is_plain", [True, False])
def test_what_lightning_has_moved_is_not_put_on_the_gpu_again(lines, left, is_plain, tmp_path):
    """A validation needed a GPU, whatever the Trainer was told."""
    new = "".join(f"                {line}\n" for line in lines.split("\n"))
    own = "\n\nclass Batch:\n    def cuda(self):\n        return self\n"
    module = made(tmp_path, SUMS, (MOVE, new), more="" if is_plain else own)
    wanted = left if is_plain else lines
    assert textwrap.indent(wanted, "    ") in method(module, "validation_step")
    assert ("cuda" in module) is ("cuda" in wanted or not is_plain)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            [(LOOP, f"{LOOP}                if n > 8:\n                    break\n")], id="break"
        ),
        pytest.param(
            [(LOOP, f"{LOOP}                if n > 8:\n                    return {{}}\n")],
            id="return in it",
        ),
        pytest.param(
            [(START, f"{START}        if self.skip:\n            return {{}}\n")],
            id="return before it",
        ),
        pytest.param(
            [(NO_GRAD, "        with torch.autocast('cpu'):\n")], id="another block around it"
        ),
        pytest.param([(NO_GRAD, "        if self.model is not None:\n")], id="a branch around it"),
        pytest.param(
            [(END, f"        for batch in data_loader:\n            n += 0\n{END}")], id="two loops"
        ),
        pytest.param([(LOOP, "            for batch in list(data_loader):\n")], id="another order"),
        pytest.param(
            [(LOOP, LOOP.replace("data_loader", "enumerate(data_loader, 1)"))], id="from 1"
        ),
        pytest.param([("total / n", "total / data_loader.batch_size")], id="more of the loader"),
        pytest.param([("total / n", "total / len(batch)")], id="the last batch"),
        pytest.param(
            [(LOOP, "            for n, batch in enumerate(data_loader):\n")], id="the last number"
        ),
        pytest.param(
            [(MOVE, ""), (SUM, "                total += np.sum(batch)\n")], id="needs the CPU"
        ),
        pytest.param(
            [(MOVE, ""), (SUM, "                total += float(batch.numpy().sum())\n")],
            id="needs the CPU, too",
        ),
        pytest.param([(START, f"{START}        total = self.model[0]\n")], id="may be a module"),
        pytest.param(
            [(SUM, f"{SUM}                best = self.model\n"), ("total / n", "best(total) / n")],
            id="may be a module, too",
        ),
        pytest.param(
            [(START, f"{START}        torch.manual_seed(0)\n")], id="random numbers before it"
        ),
        pytest.param(
            [
                ("DataLoader([], batch_size=4)", "DataLoader(self.rows, batch_size=4)"),
                (START, f"{START}        self.rows.begin()\n"),
            ],
            id="data that change before it",
        ),
        pytest.param(
            [
                (
                    "DataLoader([], batch_size=4)",
                    "DataLoader([], batch_size=4, sampler=self.order())",
                )
            ],
            id="a sampler that hears of epochs",
        ),
        pytest.param([("DataLoader([], batch_size=4)", "[1, 2]")], id="no loader"),
        pytest.param(
            [
                (
                    "class Trial",
                    "class Early(PyTorchCallback):\n    def on_validation_end(self, metrics):\n"
                    '        metrics["early"] = 1\n\n\nclass Trial',
                )
            ],
            id="a callback that logs first",
        ),
        pytest.param([(START, f"{START}        state = locals()\n")], id="looks at its variables"),
        pytest.param(
            [(SUM, f"{SUM}                pairs = [total for total in batch]\n")],
            id="a variable of the same name",
        ),
    ],
)
def test_whatever_else_stays_one_step(tmp_path, changes):
    module = made(tmp_path, SUMS, *changes)
    assert "batch_size=None" in method(module, "val_dataloader")
    assert "def validation_step(self, data_loader, batch_idx)" in module
    assert "on_validation_epoch_start" not in module


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            [("total / n", "scored([total], answers=self.answers) / n")], id="answers to all data"
        ),
        pytest.param(
            [(END, f"        if total > n:\n            return {{}}\n{END}")],
            id="data decide what is logged",
        ),
        pytest.param(
            [
                (
                    END,
                    "        found = {'error': total / n}\n"
                    "        if found['error'] < self.best['error']:\n"
                    "            self.best = found\n        return self.best\n",
                )
            ],
            id="the best so far, of each device",
        ),
        pytest.param(
            [
                (
                    END,
                    "        found = {'error': total / n}\n        if total > n:\n"
                    "            found['more'] = 1\n        return found\n",
                )
            ],
            id="data decide on a name",
        ),
        pytest.param(
            [
                (START, f"{START}        seen = {{}}\n"),
                (SUM, f"{SUM}                seen[float(total)] = n\n"),
                (END, "        return {str(key): value for key, value in seen.items()}\n"),
            ],
            id="data decide which metrics there are",
        ),
        pytest.param(
            [
                (
                    END,
                    "        rows = self.rows.kinds\n"
                    '        return {"error": np.array([total])[rows == 1].sum() / n}\n',
                )
            ],
            id="told apart by all data",
        ),
    ],
)
def test_each_device_goes_through_all_of_the_data(tmp_path, changes):
    module = made(tmp_path, SUMS, *changes)
    assert method(module, "val_dataloader") == (
        "def val_dataloader(self):\n"
        "    dataset = []\n"
        "    # each device goes through all of the data: Lightning leaves this sampler as it is\n"
        "    sampler = torch.utils.data.DistributedSampler(\n"
        "        dataset, num_replicas=1, rank=0, shuffle=False\n"
        "    )\n"
        "    return DataLoader(dataset, batch_size=4, sampler=sampler)"
    )
    assert "def on_validation_epoch_end(self)" in module
    assert "on several devices" not in module and "MIGRATE" not in module


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("DataLoader([], batch_size=4)", "DataLoader([], batch_size=4, shuffle=True)"),
        ("DataLoader([], batch_size=4)", "DataLoader([], 4, True)"),
        ("DataLoader([], batch_size=4)", "DataLoader([], **self.options)"),
        ("DataLoader([], batch_size=4)", "torch.utils.data.DataLoader([], batch_size=4)"),
    ],
)
def test_where_they_cannot_it_stays_one_step(tmp_path, old, new):
    change = ("total / n", "scored([total], answers=self.answers) / n")
    module = made(tmp_path, SUMS, (old, new), change)
    assert "batch_size=None" in method(module, "val_dataloader")


def test_hyperparameters_may_decide_what_is_logged(tmp_path):
    lines = """\
        found = {"error": total / n}
        if math.isnan(total):
            total = 0.0
        if self.more:
            found["more"] = total / n
        return found
"""
    assert "on_validation_epoch_end" in made(tmp_path, SUMS, (END, lines))


def test_a_trial_with_an_heir_stays_as_it_is(tmp_path):
    heir = "\n\nclass Heir(Trial):\n    x = 1\n"
    assert "batch_size=None)" in made(tmp_path, more=heir)


CONFIG = """\
entrypoint: model_def:Trial
searcher: {name: single, metric: error, max_length: {batches: 12}}
hyperparameters: {global_batch_size: 4}
"""
TRAINED = """\
class Trial(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        layers = [torch.nn.Linear(3, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1)]
        self.model = context.wrap_model(torch.nn.Sequential(*layers))
        self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))

    def rows(self, n):
        g = torch.Generator().manual_seed(1)
        return [(torch.randn(3, generator=g), torch.randn(1, generator=g)) for i in range(n)]

    def build_training_data_loader(self):
        size = self.context.get_per_slot_batch_size()
        return DataLoader(self.rows(16), batch_size=size, shuffle=True)

    def build_validation_data_loader(self):
        return DataLoader(self.rows(10), batch_size=4, shuffle=True)

    def train_batch(self, batch, epoch_idx, batch_idx):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.model(x), y)
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
        return {"loss": loss}

"""
EVALUATIONS = {
    "sums": """\
    def evaluate_full_dataset(self, data_loader):
        meter = Meter()
        last = None
        for i, (x, y) in enumerate(tqdm(data_loader)):
            loss = torch.nn.functional.mse_loss(self.model(x), y).item()
            if last is not None and i > 1:
                meter.update(last - loss, len(x))
            last = loss
        return {"error": meter.sum / max(meter.n, 1), "last": loss}
""",
    "numbers": """\
    def evaluate_full_dataset(self, data_loader):
        total = 0.0
        for i, (x, y) in enumerate(data_loader):
            total += torch.nn.functional.mse_loss(self.model(x), y).item()
        return {
            "error": total / (i + 1),
            "of: rows": total / len(data_loader.dataset),
        }
""",
    "best": """\
    best = {"error": 1000.0}

    def evaluate_full_dataset(self, data_loader):
        total = 0.0
        for i, (x, y) in enumerate(iter(data_loader), 0):
            total += torch.nn.functional.mse_loss(self.model(x), y).item() * (i + 1)
        found = {"error": total}
        if found["error"] < self.best["error"]:
            self.best = found
        return self.best
""",
    "branches": """\
    kind = "scored"

    def evaluate_full_dataset(self, data_loader):
        # one of three
        if self.kind == "none":
            return {"error": 0.0 * self.first(data_loader)}
        elif self.kind in ("scored", "rated"):
            return self.scored(data_loader, self.model)
        total = 0.0
        for x, y in data_loader:
            total += (self.model(x) - y).sum().item()
        return {"error": total / 7}

    def first(self, loader):
        last = 0.0
        for x, y in loader:
            last = (self.model(x) - y).mean().item()
        return last

    def scored(self, loader, net, scale=2.0):
        found, total = [], 0.0
        with torch.no_grad():
            for batch in loader:
                x, y = self.context.to_device(batch)
                found.append(scale * (net(x) - y).abs().cpu().numpy())
                total += 1
        results = {"error": float(np.concatenate(found).mean()), "n": total}
        return results
""",
    "arrays": """\
    def evaluate_full_dataset(self, data_loader):
        total = 0.0
        for batch in data_loader:
            batch = self.context.to_device(batch)
            x, y = batch
            total += torch.nn.functional.mse_loss(self.model(x), y).item()
        return {"error": total / len(data_loader)}
""",
    "lists": """\
    def evaluate_full_dataset(self, data_loader):
        self.model.eval()
        outputs, seen = [], collections.defaultdict(int)
        with torch.no_grad():
            for batch in data_loader:
                x, y = self.context.to_device(batch)
                if len(x) < 4:
                    seen["short"] += 1
                    continue
                outputs.append((self.model(x) - y).cpu().numpy())
                seen["all"] += 1
            outputs = np.concatenate(outputs)
        error = float((outputs**2).mean())
        share = seen["short"] / seen["all"]
        return {"error": error, "first": outputs[0, 0], "share": share}
""",
    "carried": """\
    def evaluate_full_dataset(self, data_loader):
        state, steps = torch.zeros(1), 0
        for x, y in data_loader:
            x = self.context.to_device(x)
            previous = state
            with torch.no_grad():
                state = 0.5 * previous + self.model(x).mean()
            steps += 1
        if steps:
            state = state / 2
        return {"error": state, "previous": previous}
""",
}


#: Where devices go through all of the data, and where a collate_fn makes arrays.
ORDERED = TRAINED.replace(
    "self.rows(10), batch_size=4, shuffle=True", "self.rows(10), batch_size=4"
)
COLLATED = "batch_size=4, shuffle=True, collate_fn=stacked)"
ARRAYS = (
    "def stacked(rows):\n"
    "    return tuple(np.stack([row[at].numpy() for row in rows]) for at in range(2))\n\n\n"
    + TRAINED.replace("batch_size=4, shuffle=True)", COLLATED)
)
TRAINS = {"best": ORDERED, "branches": ORDERED, "arrays": ARRAYS}


@pytest.mark.parametrize("name", EVALUATIONS)
def test_it_trains_and_validates_as_before(tmp_path, capsys, monkeypatch, name):
    monkeypatch.setattr(sys, "executable", executable())
    path = tmp_path / "model_def.py"
    path.write_text(HEADER + TRAINS.get(name, TRAINED) + EVALUATIONS[name])
    (tmp_path / "const.yaml").write_text(CONFIG)
    command = ["migrate", str(tmp_path), "--to", "lightning", "--write", "--force"]
    assert main([*command, "--verify", "--batches", "12"]) == 0
    printed = capsys.readouterr().out
    assert "verified: 12 batches, every tensor bit for bit" in printed
    assert "def on_validation_epoch_end(self)" in path.read_text()
