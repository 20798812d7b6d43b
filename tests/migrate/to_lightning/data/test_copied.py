from __future__ import annotations

import pytest

from tests.migrate.rewriting import rewritten, trial

SAID = "# its workers start anew in each epoch now, and see this from the next one on\n"
DATA = """

class Pairs:
    def reorder(self):
        random.shuffle(self.places)

    def look(self):
        return len(self.places)
"""
LOADER = "return DataLoader([], batch_size=self.context"
STEP = "        loss = self.model(batch).sum()\n        self.context"


@pytest.mark.parametrize(
    ("made", "given", "step", "is_said"),
    [
        ("self.pairs = Pairs()", "self.pairs, num_workers=2", "self.pairs.reorder()", True),
        (
            "pairs = Pairs()\n        self.pairs = pairs",
            "pairs, num_workers=2",
            "self.pairs.reorder()",
            True,
        ),
        ("self.pairs = Pairs()", "self.pairs, num_workers=2", "self.pairs.look()", False),
        ("self.pairs = Pairs()", "self.pairs, num_workers=2", "self.others.reorder()", False),
        ("self.pairs = Pairs()", "self.pairs, num_workers=0", "self.pairs.reorder()", False),
        ("self.pairs = Pairs()", "self.pairs", "self.pairs.reorder()", False),
        (
            "self.pairs = Pairs()",
            "self.pairs, num_workers=2, persistent_workers=True",
            "self.pairs.reorder()",
            False,
        ),
    ],
)
def test_what_changes_data_that_workers_have_copied(made, given, step, is_said, tmp_path):
    loader = f"{made}\n        {LOADER.replace('[]', given)}"
    source = trial((LOADER, loader), (STEP, f"        {step}\n{STEP}"))
    assert (f"        {SAID}        {step}\n" in rewritten(tmp_path, source + DATA)) is is_said
