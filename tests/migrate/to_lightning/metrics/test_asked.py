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
    '\n        self.r = context.wrap_reducer(max, name="most")\n\n    def build_training',
)
TRAINED = (REDUCED[0], REDUCED[1].replace('"most"', '"most", for_validation=False'))
MARK = "MIGRATE: the metrics of training are among these now"


def hook(tmp_path, line: str, *changes: tuple[str, str]) -> str:
    return method(rewritten(tmp_path, WATCH.format(line) + trial(*changes)), "on_validation_end")


@pytest.mark.parametrize("more", [(), (TRAINED,)])
def test_who_goes_through_metrics_gets_none_of_training(more, tmp_path):
    made = hook(tmp_path, "self.most = max(metrics.values())", FOUND, *more)
    assert 'metrics[name] for name in ["error"] if name in metrics}\n' in made


def test_reducers_have_names_that_only_a_run_tells(tmp_path):
    made = hook(tmp_path, "self.most = max(metrics.values())", FOUND, REDUCED)
    assert 'metrics = {n: v for n, v in metrics.items() if n not in ["loss"]}\n' in made


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("print(max(metrics))", 'metrics = {name: metrics[name] for name in ["error"] if name in'),
        ("print(metrics[self.name])", ""),
        ("print('{error:.2f}'.format(**metrics))", ""),
    ],
)
def test_names_that_stay_are_told_at_most_to_leave_others_out(line, made, tmp_path):
    text = hook(tmp_path, line)
    assert "logged" not in text
    assert made in text
    assert made or text.count("metrics = ") == 1


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
    assert 'if n not in ["loss", "rows"]' in made
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


@pytest.mark.parametrize(
    ("line", "is_marked"),
    [("self.most = metrics[self.name]", False), ("self.n = len(metrics)", True)],
)
def test_renamed_metrics_are_there_where_others_are_not_known(line, is_marked, tmp_path):
    found = (FOUND[0], "m = scores(batch)\n        m['loss'] = 1.0\n        return m")
    text = rewritten(tmp_path, WATCH.format(line) + trial(found))
    made = method(text, "on_validation_end")
    assert 'logged = {"loss": "val_loss"}\n' in made
    assert "**metrics," in made and "{name: metrics[new] for name, new in logged.items()" in made
    assert (MARK in text) is is_marked
