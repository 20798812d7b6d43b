from __future__ import annotations

from pathlib import Path

import pytest

from tests.migrate.rewriting import method, rewritten, trial

CALLBACK = """\
class Counting(PyTorchCallback):
    def {}(self, metrics):
        self.count = 1


class Trial"""
BUILDS = (
    "    def build_training_data_loader",
    '    def build_callbacks(self):\n        return {"c": Counting()}\n\n'
    "    def build_training_data_loader",
)
NO_SANITY_CHECK = """\
def on_fit_start(self):
    # what a validation leaves behind must not be there when training begins
    self.trainer.num_sanity_val_steps = 0"""


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            [
                (
                    "def evaluate_batch(self, batch):",
                    "def evaluate_batch(self, batch):\n        self.n = 1",
                )
            ],
            id="a validation that sets an attribute",
        ),
        pytest.param(
            [("class Trial", CALLBACK.format("on_validation_end")), BUILDS],
            id="a callback that hears of validations",
        ),
    ],
)
def test_a_sanity_check_that_would_be_seen_is_left_out(
    changes: list[tuple[str, str]], tmp_path: Path
) -> None:
    made = rewritten(tmp_path, trial(*changes))
    assert method(made, "on_fit_start") == NO_SANITY_CHECK


def test_no_other_trial_says_anything_of_it(tmp_path: Path) -> None:
    changes = ("class Trial", CALLBACK.format("on_training_workload_end")), BUILDS
    assert "on_fit_start" not in rewritten(tmp_path, trial(*changes))
    assert "on_fit_start" not in rewritten(tmp_path, trial())


def test_a_callback_of_another_file_is_one(tmp_path: Path) -> None:
    head = "from determined.pytorch import PyTorchCallback\n\n\n"
    text = CALLBACK.format("on_validation_end").partition("\n\n\n")[0]
    (tmp_path / "callbacks.py").write_text(f"{head}{text}\n")
    made = rewritten(tmp_path, "from callbacks import Counting\n" + trial(BUILDS))
    assert method(made, "on_fit_start") == NO_SANITY_CHECK
