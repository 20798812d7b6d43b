from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial

OPTIMIZER = (
    "        self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))\n"
)
SCHEDULER = """\
        rates = torch.optim.lr_scheduler.StepLR(self.opt, 1)
        self.rates = context.wrap_lr_scheduler(rates, LRScheduler.StepMode.STEP_EVERY_EPOCH)
"""
RETURNED = 'return {"loss": loss}'


@pytest.mark.parametrize(
    ("given", "is_one"),
    [
        ("self.model.parameters()", True),
        ("list(self.model.parameters())", True),
        ("filter(lambda p: p.requires_grad, self.model.parameters())", True),
        ("[p for p in self.model.parameters() if p.requires_grad]", True),
        ("[{'params': p} for p in self.model.parameters()]", False),
        ("[{'params': self.model.parameters()}, {'params': []}]", False),
        ("groups(self.model.parameters())", False),
    ],
)
def test_the_rate_of_one_group_keeps_its_name(tmp_path, given, is_one):
    optimizer = OPTIMIZER.replace("self.model.parameters()", given) + SCHEDULER
    returned = RETURNED.replace("}", ', "lr": self.rates.get_last_lr()}')
    text = trial((OPTIMIZER, optimizer), (RETURNED, returned))
    made = method(rewritten(tmp_path, text), "training_step")
    assert ('"lr": self.rates.get_last_lr()[0]' in made) is is_one
    assert ('f"lr_{i}"' in made) is not is_one
