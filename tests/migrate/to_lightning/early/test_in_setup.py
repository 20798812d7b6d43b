from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial

MOVING = "self.kept = self.kept.to(self.trainer.strategy.root_device)"
HELPER = """\
    def make(self):
        {}

    def train_batch("""


def made_of(tmp_path, lines, helper="pass", *changes):
    body = "".join(f"        {line}\n" for line in ["self.context = context", *lines])
    return rewritten(
        tmp_path,
        trial(
            ("        self.context = context\n", body),
            ("    def train_batch(", HELPER.format(helper)),
            *changes,
        ),
    )


@pytest.mark.parametrize(
    ("line", "helper", "after"),
    [
        pytest.param(
            "self.kept = anchors().to(context.device)",
            "pass",
            "self.kept = anchors()\n",
            id="of a function",
        ),
        pytest.param(
            "self.kept = self.make()",
            "return torch.ones(2).to(self.context.device)",
            "        return torch.ones(2)\n",
            id="what a method returns",
        ),
        pytest.param(
            "self.kept, self.n = self.make()",
            "device = self.context.device\n        rows = anchors()\n        n = len(rows)\n"
            "        rows = rows.to(device)\n        return rows, n",
            "        n = len(rows)\n        return rows, n\n",
            id="a variable that a method returns",
        ),
    ],
)
def test_what_is_moved_later(line, helper, after, tmp_path):
    made = made_of(tmp_path, [line, "print(self.kept.shape)"], helper)
    assert "MIGRATE" not in made
    assert after in made
    assert method(made, "setup").endswith(MOVING)


def test_what_only_looks_is_followed(tmp_path):
    lines = ["self.kept = anchors().to(context.device)", "self.rows = self.make(self.kept)"]
    look = "print(kept)\n        return torch.utils.data.TensorDataset(kept)"
    takes = ("def make(self)", "def make(self, kept)")
    made = made_of(tmp_path, lines, look, takes)
    assert "MIGRATE" not in made and MOVING in made
    computed = made_of(tmp_path, lines, "return kept * 2", takes)
    assert "# MIGRATE: device is that of one device" in computed and MOVING not in computed


@pytest.mark.parametrize(
    ("lines", "helper"),
    [
        (["self.kept = self.make()", "self.twice = self.kept * 2"], "return x().to({})"),
        (["self.kept = self.make()", "self.make()"], "return x().to({})"),
        (["self.kept = self.make()", "self.kept = None"], "return x().to({})"),
        (["self.kept = self.make()"], "y = x().to({})\n        z = y + 1\n        return y, z"),
        (["self.kept = self.make()"], "return x(requires_grad=True).to({})"),
        (["self.kept = self.make()"], "if x():\n            return y.to({})\n        return 1"),
        (["self.kept = self.make()"], "return self.context.to_device(x())"),
    ],
)
def test_what_is_needed_there_is_left(lines, helper, tmp_path):
    made = made_of(tmp_path, lines, helper.format("self.context.device"))
    assert "is that of one device here, before there is a Trainer" in made
    assert "root_device" not in made


def test_a_size_that_was_told_is_checked_first(tmp_path):
    lines = ["self.n = context.distributed.get_size()", "self.kept = x(self.n).to(context.device)"]
    made = made_of(tmp_path, lines)
    setup = method(made, "setup")
    assert setup.index("self.hparams.world_size") < setup.index(MOVING)
    assert made.count("def setup(") == 1


def test_an_heir_goes_on_to_do_what_its_base_does(tmp_path):
    heir = """

class Heir(Trial):
    def __init__(self, context):
        super().__init__(context)
        self.kept = x().to(context.device)
"""
    source = trial(
        (
            "self.context = context\n",
            "self.context = context\n        self.own = x().to(context.device)\n",
        )
    )
    made = rewritten(tmp_path, source + heir)
    assert "MIGRATE" not in made
    last = made[made.index("class Heir") :]
    assert "    def setup(self, stage):\n        super().setup(stage)\n" in last
    assert MOVING in last
