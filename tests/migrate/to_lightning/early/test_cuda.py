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
