from __future__ import annotations

from tests.migrate.rewriting import method, rewritten, trial

REDUCER = """\
    def evaluation_reducer(self):
        return {0}

    def evaluate_batch"""


def test_every_batch_counts_the_same(tmp_path):
    assert method(rewritten(tmp_path, trial()), "validation_step") == (
        "def validation_step(self, batch, batch_idx):\n"
        '    self.log("error", self.model(batch).sum(), batch_size=1)'
    )


def test_names_of_training_metrics_are_told_apart(tmp_path):
    made = rewritten(tmp_path, trial(('"error":', '"loss":')))
    assert 'self.log("val_loss", ' in made


def test_the_batch_index(tmp_path):
    made = rewritten(tmp_path, trial(("(self, batch):", "(self, batch, batch_idx):")))
    assert "def validation_step(self, batch, batch_idx):" in made


def test_one_reduction(tmp_path):
    source = trial(("    def evaluate_batch", REDUCER.format("pytorch.Reducer.SUM")))
    made = rewritten(tmp_path, "from determined import pytorch\n" + source)
    assert 'reduce_fx="sum", batch_size=1)' in made
    assert "evaluation_reducer" not in made


def test_one_reduction_below_a_docstring(tmp_path):
    documented = '"""Sums."""\n        return pytorch.Reducer.SUM'
    text = REDUCER.format("0").replace("return 0", documented)
    made = rewritten(
        tmp_path, "from determined import pytorch\n" + trial(("    def evaluate_batch", text))
    )
    assert 'reduce_fx="sum", batch_size=1)' in made
    assert "evaluation_reducer" not in made


def test_the_same_reduction_for_each(tmp_path):
    reducers = '{"error": pytorch.Reducer.SUM, "loss": pytorch.Reducer.SUM}'
    source = trial(("    def evaluate_batch", REDUCER.format(reducers)))
    made = rewritten(tmp_path, "from determined import pytorch\n" + source)
    assert 'reduce_fx="sum", batch_size=1)' in made
    assert "evaluation_reducer" not in made


def test_a_reduction_for_each(tmp_path):
    reducers = '{"error": pytorch.Reducer.MAX, "loss": pytorch.Reducer.AVG}'
    source = trial(("    def evaluate_batch", REDUCER.format(reducers)))
    made = rewritten(tmp_path, "from determined import pytorch\n" + source)
    assert 'return {"error": "max", "loss": "mean"}' in made
    assert "self.log(name, value, reduce_fx=reduction, batch_size=1)" in made
    assert "determined" not in made


def test_the_whole_data_set_is_one_batch(tmp_path):
    made = rewritten(
        tmp_path, trial(("evaluate_batch(self, batch)", "evaluate_full_dataset(self, batch)"))
    )
    assert "def validation_step(self, batch, batch_idx):" in made
    wrapped = "torch.utils.data.DataLoader([DataLoader([], batch_size=4)], batch_size=None)"
    assert f"return {wrapped}" in method(made, "val_dataloader")
