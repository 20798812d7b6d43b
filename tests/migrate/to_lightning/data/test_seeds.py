from __future__ import annotations

import pytest

from tests.migrate.rewriting import rewritten, trial

SAID = "# pl.seed_everything() first makes this the same in each process, and when a run goes on\n"


@pytest.mark.parametrize(
    ("line", "is_said"),
    [
        ("self.a, self.b = torch.utils.data.random_split(range(9), [6, 3])", True),
        ("self.a, self.b = random_split(range(9), [6, 3], generator=g)", False),
        ("self.a, self.b = train_test_split(x, y)", True),
        ("self.a, self.b = train_test_split(x, random_state=1)", False),
        ("order = np.random.permutation(9)", True),
        ("torch.manual_seed(1)\n        order = np.random.permutation(9)", False),
        ("self.folds = KFold(3)", False),
        ("self.folds = KFold(3, shuffle=True)", True),
        ("self.split()", True),
    ],
)
def test_what_is_drawn_for_data_is_said(line, is_said, tmp_path):
    begin = "        self.context = context\n"
    helper = "    def split(self):\n        random.shuffle(self.rows)\n\n    def evaluate_batch"
    known = [("    def evaluate_batch", helper)] if line == "self.split()" else []
    made = rewritten(tmp_path, trial((begin, f"{begin}        {line}\n"), *known))
    assert (SAID in made) is is_said
    assert "MIGRATE" not in made
    assert rewritten(tmp_path, made) == made


def test_what_a_step_draws_is_its_own(tmp_path):
    drawing = "        order = torch.randperm(9)\n        loss ="
    assert SAID not in rewritten(tmp_path, trial(("        loss =", drawing)))


ORDER = "# Lightning shuffles this in several processes\n"


@pytest.mark.parametrize(
    ("given", "is_said"),
    [
        ("", True),
        (", shuffle=False", True),
        (", shuffle=True", False),
        (", sampler=order", False),
        (", batch_sampler=order", False),
        (", **self.options", False),
    ],
)
def test_an_order_that_several_devices_do_not_keep_is_spoken_of(given, is_said, tmp_path):
    loader = "batch_size=self.context.get_per_slot_batch_size()"
    made = rewritten(tmp_path, trial((loader, f"{loader}{given}")))
    assert made.count(ORDER) == is_said


def test_a_loader_without_batches_goes_through_what_has_an_order_of_its_own(tmp_path):
    loader = "batch_size=self.context.get_per_slot_batch_size()"
    assert ORDER not in rewritten(tmp_path, trial((loader, "batch_size=None")))


@pytest.mark.parametrize(
    ("given", "is_said"),
    [
        ("Grouped(rows, 4)", True),
        ("groups.Grouped(rows, 4)", True),
        ("torch.utils.data.BatchSampler(rows, 4, False)", False),
        ("None", False),
    ],
)
def test_batches_that_lightning_cannot_share_out_are_spoken_of(given, is_said, tmp_path):
    old = "DataLoader([], batch_size=self.context.get_per_slot_batch_size())"
    for new in (f"DataLoader([], batch_sampler={given})", "DataLoader([], batch_sampler=made)"):
        lines = f"made = {given}\n        return {new}" if "made" in new else f"return {new}"
        made = rewritten(tmp_path, trial((f"return {old}", lines)))
        assert ("# several processes need a batch sampler" in made) == is_said
