from __future__ import annotations

import libcst as cst
import pytest
from libcst.helpers import ensure_type

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import elsewhere
from det_compat.migrate.tree.validation_state import (
    data_changes,
    keeps_state,
    outlives_reset,
)

TRIAL = """\
class Trial:
    def __init__(self, context):
        self.model, self.best, self.reducer = torch.nn.Linear(2, 1), 0, Reducer()
        self.split, self.kept = None, {{}}
        self.meter = lib.Mean()

    def build_training_data_loader(self):
        {train_loader}

    def build_validation_data_loader(self):
        {val_loader}

    def train_batch(self, batch):
        {train}

    def evaluate_batch(self, batch):
        {evaluate}
        return self.judge(batch)

    def judge(self, batch):
        {judge}
"""


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ({}, False),
        ({"evaluate": "loss = self.model(batch)"}, False),
        ({"evaluate": "self.reducer.update(batch)"}, False),
        ({"evaluate": "self.best = max(self.best, batch)"}, True),
        ({"judge": "self.best += 1"}, True),
        ({"judge": "self.hist[0].add_(batch)"}, True),
        ({"judge": "self.model(batch).relu_()"}, False),
        ({"judge": "torch.add(self.hist, batch, out=self.hist)"}, True),
        ({"judge": "torch.randn(2, generator=self.draws)"}, True),
        ({"judge": "n = next(self.numbers)"}, True),
        ({"judge": "heapq.heappush(self.top, batch)"}, True),
        ({"judge": "del self.seen[batch]"}, True),
        ({"judge": "for self.last in batch: pass"}, True),
        ({"judge": "setattr(self, 'last', batch)"}, True),
        ({"judge": "type(self).rounds = 1"}, True),
        ({"judge": "Trial.rounds += 1"}, True),
        ({"judge": "self.split.update(batch)"}, True),
        ({"judge": "self.meter.update(batch)"}, True),
        ({"judge": "self.meter.update(batch)", "train": "self.meter.reset()"}, True),
        ({"judge": "self.meter.update(batch)", "evaluate": "self.meter.reset()"}, False),
        ({"judge": "self.split.sort()"}, True),
        ({"judge": "self.kept.sort()"}, True),
        ({"judge": "np.sort(batch, out=batch)"}, False),
        ({"judge": "self.seen[batch] = 1"}, True),
        ({"judge": "self.schedulers[0].step(batch)"}, True),
        ({"train_loader": "self.files = list()"}, False),
        ({"train_loader": "self.files = list()", "val_loader": "return self.files"}, True),
        ({"train_loader": "self.split = cut()", "val_loader": "return self.split"}, True),
        ({"train_loader": "self.best = 1", "val_loader": "return self.best"}, True),
        ({"train_loader": "self.best = 1", "judge": "return self.best"}, False),
        ({"train_loader": "self.kept[0] = 1", "judge": "return self.kept"}, True),
        ({"train_loader": "self.names = cut()", "judge": "return self.names"}, True),
        ({"train": "self.names = cut()", "judge": "return self.names"}, True),
        ({"train": "self.split = cut()", "judge": "return self.split"}, True),
        ({"train": "self.best = 1", "judge": "return self.best"}, False),
        (
            {"train": "self.best = 1", "val_loader": "return Loader(collate_fn=self.train_batch)"},
            True,
        ),
        ({"train": "self.best = 1", "val_loader": "return lambda x: self.train_batch(x)"}, True),
        ({"train": "self.best = 1", "val_loader": "return self.train_batch(0)"}, False),
    ],
)
def test_what_a_validation_leaves_behind_or_needs(lines: dict[str, str], found: bool) -> None:
    parts = dict.fromkeys(("train_loader", "val_loader", "train", "evaluate", "judge"), "pass")
    node = ensure_type(syntax.statement(TRIAL.format(**{**parts, **lines})), cst.ClassDef)
    around = elsewhere([b"import heapq, lib, torch, numpy as np\n"], ())
    assert keeps_state(syntax.methods(node), {"reducer"}, around) is found


STATS = b"""
MEAN, kept = None, {}

class Scaler:
    @classmethod
    def fit(cls, data): cls.mean = data.mean()

scaler = Scaler()

def fit(data): note(data)

def note(data): kept["mean"] = data.mean()

def fill(data): kept.update(mean=data)

def scaled(data): return data - kept["mean"]
"""
USER = b"import torch\nimport stats\nfrom stats import Scaler, fit, scaled, scaler\n"


@pytest.mark.parametrize(
    ("before", "needed", "found"),
    [
        ("stats.fit(1)", "stats.scaled(2)", True),
        ("fit(1)", "scaled(2)", True),
        ("fit(1)", "stats.kept", True),
        ("stats.MEAN = 1", "stats.MEAN", True),
        ("stats.MEAN = 1", "stats.scaled(2)", False),
        ("scaler.fit(1)", "lambda: scaler", True),
        ("Scaler.fit(1)", "Scaler.mean", True),
        ("stats.Scaler.fit(1)", "stats.Scaler.mean", True),
        ("fill(1)", "stats.kept", True),
        ("Scaler.mean = 1", "Scaler.mean", True),
        ("torch.manual_seed(1)", "torch.randn(1)", False),
        ("self.fit(1)", "stats.kept", False),
        ("scaler = 1; scaler.fit(1)", "lambda: scaler", False),
    ],
)
def test_what_the_training_loader_leaves_in_other_files(
    before: str, needed: str, found: bool
) -> None:
    lines = {"train_loader": before, "val_loader": f"return {needed}"}
    parts = dict.fromkeys(("train_loader", "val_loader", "train", "evaluate", "judge"), "pass")
    node = ensure_type(syntax.statement(TRIAL.format(**{**parts, **lines})), cst.ClassDef)
    assert keeps_state(syntax.methods(node), (), elsewhere([STATS, USER], ())) is found


WORDS = b"""
seen = []

class Words:
    def __call__(self, text): self.known += 1

class Data:
    def __getitem__(self, index): return index

def collate(items): seen.append(items)
"""


@pytest.mark.parametrize(
    ("made", "changes"), [("Words.load(1)", True), ("Data()", False), ("lib.load(1)", True)]
)
def test_what_a_validation_calls_may_change_itself(made: str, changes: bool) -> None:
    text = f"""\
class Trial:
    def __init__(self):
        self.words = {made}
    def evaluate_batch(self, batch): return self.words(batch)
"""
    node = ensure_type(syntax.statement(text), cst.ClassDef)
    assert keeps_state(syntax.methods(node), (), elsewhere([WORDS], ())) is changes


@pytest.mark.parametrize(
    ("name", "changes"), [("Words", True), ("Data", False), ("collate", True), ("seen", False)]
)
def test_data_that_change_as_they_are_read(name: str, changes: bool) -> None:
    assert data_changes([name], elsewhere([WORDS], ())) is changes


REDUCERS = {
    "Sum": """\
class Sum(MetricReducer):
    def __init__(self): self.best = 0
    def reset(self): self.clear()
    def clear(self): self.total = 0
    def update(self, value): self.total += value
""",
    "Best": "class Best(Sum):\n    def cross_slot_reduce(self, sums): self.best = max(sums)\n",
    "Far": "class Far(lib.Far): ...",
    "Own": "class Own(Sum):\n    def reset(self): self.total = self.best = 0\n",
}


@pytest.mark.parametrize(
    ("reducer", "outlives"), [("Sum", False), ("own.Best", True), ("Own", False), ("Far", False)]
)
def test_what_a_reducer_keeps_when_it_is_reset(reducer: str, outlives: bool) -> None:
    assert outlives_reset(reducer, REDUCERS) is outlives
