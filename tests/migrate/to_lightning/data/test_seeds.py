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
