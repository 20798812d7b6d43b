from __future__ import annotations

import pytest
import torch

from tests.migrate.rewriting import HEADER, method, rewritten, trial

OTHER = "def count(trial, batch):\n    return trial.get_batch_length(batch)\n"


def _run(text: str, batch: object) -> int:
    names: dict[str, object] = {}
    exec(f"{text}\nfound = length(batch)", {"batch": batch}, names)
    return int(str(names["found"]))


@pytest.mark.parametrize(
    "batch",
    [torch.zeros(3, 2), [torch.zeros(3), torch.zeros(1)], {"x": torch.zeros(3), "n": 1}],
    ids=["a tensor", "a list", "a dict"],
)
def test_what_counts_records_is_written_into_the_file(tmp_path, batch):
    counted = ("        loss = ", "        n = data_length(batch)\n        loss = ")
    header = HEADER.replace("DataLoader,", "DataLoader, data_length,")
    made = rewritten(tmp_path, trial(counted, header=header))
    assert "MIGRATE" not in made and "determined" not in made
    text = made[made.index("def data_length(") : made.index("class Trial")]
    assert _run(text.replace("def data_length", "def length"), batch) == 3


@pytest.mark.parametrize("where", ["model_def.py", "other.py"])
def test_a_trial_has_the_method_that_its_base_had(tmp_path, where):
    asks = "self.get_batch_length(batch)" if where == "model_def.py" else "0"
    if where == "other.py":
        (tmp_path / where).write_text(
            "import model_def\ndef count(trial, b):\n    return trial.get_batch_length(b)\n"
        )
    source = trial(("        loss = ", f"        n = {asks}\n        loss = "))
    made = method(rewritten(tmp_path, source), "get_batch_length")
    text = made.replace("def get_batch_length(self, batch)", "def length(batch)")
    assert _run(text, torch.zeros(3, 2)) == 3


@pytest.mark.parametrize("where", ["", "other.py"])
def test_a_method_that_only_another_file_calls_stays(tmp_path, where):
    if where:
        (tmp_path / where).write_text(
            "import model_def\ndef count(trial, b):\n    return trial.get_batch_length(b)\n"
        )
    own = "    def get_batch_length(self, batch):\n        return 7\n\n    def train_batch"
    made = rewritten(tmp_path, trial(("    def train_batch", own)))
    assert ("return 7" in made) == bool(where)
