from __future__ import annotations

from tests.migrate.rewriting import TRIAL, method, rewritten, trial

TRAIN = TRIAL[TRIAL.index("    def train_batch") : TRIAL.index("    def evaluate_batch")]


def test_of_a_method_that_is_defined_twice_the_last_counts(tmp_path):
    earlier = TRAIN.replace(".sum()", ".mean()")
    made = rewritten(tmp_path, trial((TRAIN, f"{earlier}{TRAIN}")))
    assert "automatic_optimization" not in made
    assert ".mean()" not in made
    assert "self.model(batch).sum()" in method(made, "training_step")


def test_a_method_that_something_names_stays(tmp_path):
    accessors = (
        "    @property\n    def size(self):\n        return 1\n\n"
        "    @size.setter\n    def size(self, value):\n        pass\n\n"
        "    def first(self):\n        return 1\n\n    other = first\n\n"
        "    def first(self):\n        return 2\n\n"
    )
    made = rewritten(tmp_path, trial((TRAIN, accessors + TRAIN)))
    assert accessors.strip() in made
