from __future__ import annotations

import pytest

from det_compat.migrate.migration import migrate
from tests.migrate.to_context.test_trial_class import OLD

WATCH = """\
from determined.pytorch import PyTorchCallback


class Watch(PyTorchCallback):
    def {0}:
        print({1})
"""


def _watch(folder, hook: str, used: str = "1", to: str = "context", trial: str = OLD) -> str:
    (folder / "model_def.py").write_text(trial)
    (folder / "watch.py").write_text(WATCH.format(hook, used))
    files = {file.path.name: file.after.decode() for file in migrate([str(folder)], to).files}
    return files["watch.py"].partition("Callback):\n")[2]


@pytest.mark.parametrize(
    ("hook", "used", "after"),
    [
        ("on_validation_step_start(self)", "1", "def on_validation_start(self):\n"),
        ("on_validation_step_end(self, metrics)", "1", "def on_validation_end(self, metrics):\n"),
        (
            "on_train_step_end(self, step_id, metrics)",
            'metrics["avg_metrics"]',
            "def on_training_workload_end(self, avg_metrics, batch_metrics):\n"
            '        metrics = {"avg_metrics": avg_metrics, "batch_metrics": batch_metrics}\n',
        ),
        ("on_train_step_end(self, step_id, metrics)", "step_id", "# MIGRATE: Determined calls on_"),
        ("on_train_step_start(self, step_id)", "1", "# MIGRATE: Determined calls no hook"),
        ("on_before_optimizer_step(self, parameters)", "1", "# MIGRATE: Determined has not called"),
    ],
)
def test_hooks_get_the_names_that_the_context_api_calls(hook, used, after, tmp_path):
    made = _watch(tmp_path, hook, used)
    assert made.startswith(f"    {after}")
    assert ("MIGRATE" in made) == ("MIGRATE" in after)


def test_a_hook_that_both_names_are_taken_for_is_marked(tmp_path):
    both = "on_validation_end(self, m):\n        pass\n\n    def on_validation_step_end(self, m)"
    assert "# MIGRATE: Determined calls on_validation_end instead" in _watch(tmp_path, both)


def test_callbacks_of_trials_of_today_stay(tmp_path):
    today = OLD.replace("def build_model", "def make_model").replace("batch, model", "batch")
    hook = "on_validation_step_end(self, metrics)"
    assert f"def {hook}" in _watch(tmp_path, hook, trial=today)


@pytest.mark.parametrize(
    ("used_by", "after"),
    [
        ("Old", "def on_validation_start(self):"),
        ("Today", "def on_validation_step_start(self):"),
        ("Old, Today", "# MIGRATE: Determined calls on_validation_start instead"),
        ("", "# MIGRATE: Determined calls on_validation_start instead"),
    ],
)
def test_a_callback_that_a_trial_of_today_has_gets_no_hook_of_it(used_by, after, tmp_path):
    builds = "\n    def build_callbacks(self):\n        return {'w': Watch()}\n"
    today = OLD.replace("def build_model", "def make_model").replace("batch, model", "batch")
    trials = {
        name: text.replace("class ", f"class {name}", 1) + (builds if name in used_by else "")
        for name, text in (("Today", today), ("Old", OLD))
    }
    (tmp_path / "today.py").write_text(trials["Today"])
    made = _watch(tmp_path, "on_validation_step_start(self)", trial=trials["Old"])
    assert made.startswith(f"    {after}")


def test_lightning_knows_the_old_names(tmp_path):
    made = _watch(tmp_path, "on_train_step_start(self, step_id)", to="lightning")
    assert "# MIGRATE: Lightning has no steps of 100 batches" in made
