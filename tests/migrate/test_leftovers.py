from __future__ import annotations

from det_compat.migrate.marks import count
from tests.migrate.rewriting import rewritten, trial


def test_what_is_not_known_stays_below_a_comment(tmp_path):
    change = ('return {"error"', 'x = self.context.get_trial_seed()\n        return {"error"')
    made = rewritten(tmp_path, trial(change))
    assert (
        "        # MIGRATE: the context's get_trial_seed has no counterpart; see MIGRATION.md#"
        in made
    )
    assert "        x = self.context.get_trial_seed()\n" in made
    assert count(made) == 1


def test_its_import_stays(tmp_path):
    change = ('return {"error"', 'data_length(batch)\n        return {"error"')
    made = rewritten(tmp_path, "from determined.pytorch import data_length\n" + trial(change))
    assert "from determined.pytorch import data_length\n" in made
    assert "PyTorchTrial" not in made


def test_a_second_run_changes_nothing(tmp_path):
    change = ('return {"error"', 'x = self.context.get_trial_seed()\n        return {"error"')
    first = rewritten(tmp_path, trial(change))
    assert rewritten(tmp_path, first) == first
    whole = rewritten(tmp_path, trial())
    assert rewritten(tmp_path, whole) == whole
