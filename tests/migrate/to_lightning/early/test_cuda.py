from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial

SAID = "# on the first GPU in each process: Lightning sets that of the process after __init__\n"
DEVICE = 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        ("self.w = torch.ones(3).cuda()", "torch.ones(3)"),
        (
            'self.w = torch.ones(3, device="cuda", dtype=torch.int)',
            "torch.ones(3, dtype=torch.int)",
        ),
        ('self.w = torch.ones(3).to(torch.device("cuda")).float()', "torch.ones(3).float()"),
        (f"device = {DEVICE}\n        self.w = torch.ones(3).to(device)", "torch.ones(3)"),
        ("self.w = [torch.ones(3).cuda()]", None),
        ("self.w = torch.cuda.FloatTensor(3)", None),
        ("self.w = torch.ones(3).cuda()\n        print(self.w)", None),
        ("self.w = torch.ones(3)\n        self.w = self.w.cuda()", None),
        # Lightning moves models, and what has a number is meant.
        ("self.w = torch.nn.BCELoss().cuda()", ""),
        ("self.w = torch.nn.BCELoss()\n        self.w = self.w.cuda()", ""),
        ('self.w = torch.ones(3).to("cuda:1")', ""),
    ],
)
def test_tensors_on_the_gpu_of_the_process(lines, after, tmp_path):
    source = trial(
        ("lr=0.1))\n", f"lr=0.1))\n        {lines}\n"),
        ("self.model(batch).sum()\n", "self.model(batch).sum() * self.w\n"),
    )
    init = method(rewritten(tmp_path, source), "__init__")
    assert (SAID in init) is (after is None)
    buffer = f'    self.register_buffer("w", {after}, persistent=False)'
    assert (buffer in init) is bool(after)
    assert after or lines.splitlines()[-1].strip() in init


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("batch.cuda()", "batch.to(self.device)"),
        ("batch.cuda(non_blocking=True)", "batch.to(self.device, non_blocking=True)"),
        ('batch.to("cuda")', "batch.to(self.device)"),
        ("batch.cuda(1)", "batch.cuda(1)"),
        ('batch.to("cuda:1")', 'batch.to("cuda:1")'),
        ("batch[0].cuda()[0]", "batch[0].to(self.device)[0]"),
    ],
)
@pytest.mark.parametrize(
    ("called", "is_moved"),
    [("train_batch", True), ("evaluate_batch", True), ("__init__", False), ("static", False)],
)
def test_steps_move_to_the_device_of_the_module(before, after, called, is_moved, tmp_path):
    """A Trainer may be told another device than the GPU that ``cuda()`` takes."""
    known = "self, batch"
    helper = f"    def helper(self, batch):\n        return {before}\n\n    def evaluate_batch("
    starts = {
        "train_batch": ("self.model(batch)", "self.model(self.helper(batch))"),
        "evaluate_batch": ('"error": self.model(batch)', '"error": self.model(self.helper(batch))'),
        "__init__": ("lr=0.1))\n", "lr=0.1))\n        self.rows = self.helper(torch.ones(2))\n"),
    }
    starts["static"] = starts["train_batch"]
    if called == "static":
        helper = helper.replace("    def helper(self, ", "    @staticmethod\n    def helper(")
        known = "batch"
    made = rewritten(tmp_path, trial(("    def evaluate_batch(", helper), starts[called]))
    assert f"def helper({known}):\n        return {after if is_moved else before}\n" in made


def test_a_validation_that_is_no_loop_of_the_step_does_so_too(tmp_path):
    whole = """\
    def evaluate_full_dataset(self, data_loader):
        return self.whole(data_loader, self.model)

    def whole(self, data_loader, model):
        total = 0
        while total < 3:
            for x, y in data_loader:
                x, y = x.cuda(), y.cuda()
                total += (model(x) - y).abs().sum()
        return {"error": total}
"""
    start = "    def evaluate_batch(self, batch):\n"
    made = rewritten(
        tmp_path, trial((start + '        return {"error": self.model(batch).sum()}\n', whole))
    )
    assert "                x, y = x.to(self.device), y.to(self.device)\n" in made


def test_what_a_method_makes_on_the_gpu_before_training_is_spoken_of(tmp_path):
    method_ = """\
    def means(self, values):
        mean = torch.tensor(values).cuda()
        count = len(values)
        return mean / count

    def evaluate_batch(self, batch):
"""
    kept = "lr=0.1))\n        self.mean = self.means([1.0, 2.0])\n"
    changes = (("    def evaluate_batch(self, batch):\n", method_), ("lr=0.1))\n", kept))
    made = rewritten(tmp_path, trial(*changes))
    said = "        # on the first GPU in each process: Lightning sets that of the process after"
    assert f"{said} __init__\n        mean = torch.tensor(values).cuda()\n        count" in made
    assert made.count(said) == 1
