from __future__ import annotations

from tests.migrate.rewriting import HEADER, method, rewritten, trial


def test_an_alias_beside_another_value(tmp_path):
    text = (
        "n, ranks = 3, self.context.distributed\n"
        "        return DataLoader([ranks.size], batch_size=n)"
    )
    change = ("return DataLoader([], batch_size=self.context.get_per_slot_batch_size())", text)
    made = method(rewritten(tmp_path, trial(change)), "train_dataloader")
    assert made == (
        "def train_dataloader(self):\n"
        "    n = 3\n"
        "    return DataLoader([self.trainer.world_size], batch_size=n)"
    )


def test_a_torch_module_with_the_context(tmp_path):
    loss = (
        "class Loss(torch.nn.Module):\n"
        "    def __init__(self, context: PyTorchTrialContext):\n"
        "        super().__init__()\n"
        "        self.context = context\n\n\n"
    )
    source = trial(
        ("lr=0.1))\n", "lr=0.1))\n        self.loss = Loss(context)\n"), header=HEADER + loss
    )
    made = rewritten(tmp_path, source)
    assert "        # no submodule, since it has this one in it\n" in made
    assert '        object.__setattr__(self, "context", context)\n' in made
    assert "self.loss = Loss(self)" in made
    assert "MIGRATE" not in made
