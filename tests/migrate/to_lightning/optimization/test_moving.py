from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial

OPT = "self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))"
RATE = OPT.replace("0.1", "self.rate")
ASKING = OPT.replace("self.model.parameters()", "[p for p in self.all() if p.requires_grad]")


@pytest.mark.parametrize(
    ("lines", "moves"),
    [
        ([OPT, "self.rate = 1"], True),
        (["self.rate = 1", RATE], True),
        (["self.rate = 1", RATE, "self.rate = 2"], False),
        (["self.rate = 1", RATE, "self.rate *= 2"], False),
        (["self.rate = 1", RATE, "self.slower()"], False),
        ([OPT, "self.model.head = torch.nn.Linear(1, 1)"], False),
        ([OPT, "self.model = context.wrap_model(self.model)"], True),
        ([ASKING, "self.rate = 1"], True),
        ([ASKING, "self.model.bias.requires_grad = False"], False),
    ],
)
def test_an_optimizer_stays_before_what_changes_what_it_is_made_of(lines, moves, tmp_path):
    slower = "    def slower(self):\n        self.rate = 0.01\n\n    def evaluate_batch"
    changes = [(OPT, "\n        ".join(lines)), ("    def evaluate_batch", slower)]
    made = rewritten(tmp_path, trial(*changes))
    assert ("SGD" in method(made, "configure_optimizers")) is moves
    assert ("SGD" in method(made, "__init__")) is not moves
