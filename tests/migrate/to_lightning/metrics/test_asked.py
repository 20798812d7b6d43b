from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial

WATCH = """\
from determined.pytorch import PyTorchCallback

class Watch(PyTorchCallback):
    def on_validation_end(self, metrics):
        {0}


"""
FOUND = (
    'return {"error": self.model(batch).sum()}',
    "found = {'error': 1.0}\n        return found",
)
UNKNOWN = ('return {"loss": loss}', "return scores(loss)")
REDUCED = (
    "\n    def build_training",
    '\n        self.r = context.wrap_reducer(max, name="most", for_validation=False)\n\n'
    "    def build_training",
)
MARK = "MIGRATE: the metrics of training are among these now"


def hook(tmp_path, line: str, *changes: tuple[str, str]) -> str:
    return method(rewritten(tmp_path, WATCH.format(line) + trial(*changes)), "on_validation_end")


@pytest.mark.parametrize(
    ("changes", "others"), [((FOUND,), '["loss"]'), ((FOUND, REDUCED), '["loss", "most"]')]
)
def test_who_goes_through_metrics_gets_none_of_training(changes, others, tmp_path):
    made = hook(tmp_path, "self.most = max(metrics.values())", *changes)
    assert f"metrics = {{n: v for n, v in metrics.items() if n not in {others}}}\n" in made


@pytest.mark.parametrize(
    "lines",
    [
        'return {"loss": loss, "rows": self.model(batch).mean(1)}',
        "m = {'loss': loss}\n        m['rows'] = batch[0].tolist()\n        return m",
    ],
)
def test_metrics_of_training_with_an_index_are_none_of_validation(lines, tmp_path):
    changes = (FOUND, REDUCED, ('return {"loss": loss}', lines))
    made = hook(tmp_path, "self.most = max(metrics.values())", *changes)
    assert 'if n not in ["loss", "most", "rows"]' in made
    assert 'n.rpartition("_")[0] not in ["rows"]' in made


@pytest.mark.parametrize(
    ("line", "is_marked"),
    [
        ("self.most = max(metrics.values())", True),
        ("print(metrics)", False),
        ("self.best = metrics[self.name]", False),
        ("self.best = metrics.get(self.name, 0)", False),
    ],
)
def test_where_they_are_not_known_it_is_marked(line, is_marked, tmp_path):
    source = WATCH.format(line) + trial(UNKNOWN)
    assert (MARK in rewritten(tmp_path, source)) == is_marked
