from __future__ import annotations

import pytest

from det_compat.migrate.effects.follow import changed_by_reading, followed, function_of
from det_compat.migrate.tree.elsewhere import elsewhere

AROUND = b"""\
import contextlib, functools, heapq, torch, torchmetrics, numpy as np
from torch import nn
import pathlib
from foreign import Board

SEEN, COUNTS = [], {}

def record(items, value):
    items.append(value)

def deep(value, items):
    return record(items=items, value=value)

def accuracy(out, y):
    hits = [(out == y).sum()]
    hits.append(out)
    hits[0] += 1
    return hits

def memo(x, seen=[]):
    seen.append(x)

def tally():
    tally.n += 1

def bare(function):
    return lambda *given: SEEN.append(given) or function(*given)

@bare
def noted(x): return x

@contextlib.contextmanager
def counting(stats):
    stats["n"] = 1
    yield

class Meter:
    def __init__(self): self.total = 0
    def update(self, v): self._add(v)
    def _add(self, v): self.total += v
    def mean(self): return self.total
    def __enter__(self): self.total += 1
    def __exit__(self, *error): ...

class Heir(Meter): ...

class Net(nn.Module):
    def forward(self, x):
        self.last = x
        return self.l(x).relu_()

class Ema(nn.Module):
    def forward(self, x):
        self.mean = 0.9 * self.mean + x

class Rows:
    def __init__(self): self.draws, self.x = np.random.RandomState(0), []
    def __getitem__(self, i): return self.x[i] + self.draws.rand()

class Fixed(Rows):
    def __getitem__(self, i): return self.x[i]

class Sink:
    def __init__(self, given): self.rows, self.given, self.net = Rows(), given, nn.ReLU()
    def __call__(self, x): return self.given(x)
"""
INIT = """\
def __init__(self, context, given):
    self.n, self.seen, self.stats = 0, [], {}
    self.push = self.seen.append
    self.bump = lambda: self.seen.append(1)
    self.rec = functools.partial(record, self.seen)
    self.sinks = {"a": self.push, "b": print}
    self.meter, self.heir, self.sink = Meter(), Heir(), Sink(given)
    self.acc = torchmetrics.Accuracy()
    self.board = Board()
    self.given = given
    self.it = iter(range(9))
    self.net = __det_1__.wrap_model(Net())
    self.ema = Ema()
    self.other = __det_1__.wrap_model(given)
    self.loss = nn.MSELoss() if given else torch.nn.functional.mse_loss
    self.score = accuracy
    self.weights = torch.ones(2)
"""
OWN = {
    "__init__": INIT,
    "key": "def key(self, v):\n    self.n += 1\n    return v\n",
    "scaled": "def scaled(self, v):\n    return v * self.weights\n",
    "count": "@property\ndef count(self):\n    self.n += 1\n",
}


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("vars(self).update(n=1)", None),
        ("self.__dict__['n'] = 1", None),
        ("object.__setattr__(self, 'n', 1)", None),
        ("setattr(self, 'n', 1)", "n"),
        ("getattr(self, batch)()", None),
        ("with batch as self.n: pass", "n"),
        ("[self.n, _] = [1, 2]", "n"),
        ("for self.n, _ in batch: pass", "n"),
        ("self.push(1)", None),
        ("push = self.push; push(1)", None),
        ("list(map(self.push, batch))", None),
        ("push = self.seen.append; push(1)", "seen"),
        ("list(map(self.seen.append, batch))", "seen"),
        ("list.append(self.seen, 1)", None),
        ("self.sinks['a'](1)", None),
        ("self.bump()", None),
        ("self.rec(1)", None),
        ("record(self.seen, 1)", "seen"),
        ("deep(1, self.seen)", "seen"),
        ("record(*[self.seen], 1)", "seen"),
        ("record([], 1)", ""),
        ("record(SEEN, 1)", "global SEEN"),
        ("memo(1)", "global memo"),
        ("tally()", "global tally"),
        ("noted(1)", None),
        ("with counting(self.stats): pass", "stats"),
        ("with Meter(): pass", ""),
        ("with self.meter: pass", "meter"),
        ("self.meter.update(1)", "meter"),
        ("self.heir.update(1)", "heir"),
        ("self.meter.mean()", ""),
        ("m = Meter(); m.update(1)", ""),
        ("self.sink.rows[0]", "sink"),
        ("self.sink(batch)", None),
        ("self.sink.given(batch)", None),
        ("self.sink.net(batch)", ""),
        ("self.acc(batch)", None),
        ("self.board.show(batch)", None),
        ("self.given(batch)", None),
        ("self.other(batch).add_(1)", ""),
        ("self.net(batch)", ""),
        ("self.ema(batch)", "ema"),
        ("self.loss(self.net(batch), batch)", ""),
        ("a, b = self.score(batch, 1)", ""),
        ("for v in self.it: break", "it"),
        ("list(zip(batch, self.it))", "it"),
        ("sorted(batch, key=self.key)", "n"),
        ("self.count", "n"),
        ("self.scaled(batch)[0] = 1", ""),
        ("w = self.weights.view(-1); w[0] = 1", "weights"),
        ("w = self.weights; w += 1", "weights"),
        ("w = self.weights * 2; w += 1", ""),
        ("np.add.at(self.weights, [0], 1)", "weights"),
        ("heapq.heappush(self.seen, 1)", "seen"),
        ("out = {'n': self.n, 'seen': self.seen}; out['n'] = 1", ""),
        ("out = {'seen': self.seen}; out['seen'].append(1)", "seen"),
        ("print(f'{self.n}', [v for v in self.seen])", ""),
        ("torch.backends.flag = True", None),
        ("torch.save(batch, 'file')", None),
        ("open('file', 'a').write('')", None),
        ("open('file').read()", ""),
        ("pathlib.Path('file').write_text('')", None),
        ("unheard_of(self.seen)", None),
        ("def put(xs): xs.append(1)\n    put(self.seen)", "seen"),
    ],
)
def test_what_a_method_changes_and_what_may(line: str, changed: str | None) -> None:
    own = {**OWN, "judge": f"def judge(self, batch):\n    {line}\n"}
    methods = {name: function_of(text) for name, text in own.items()}
    found = followed(methods, ["judge"], elsewhere([AROUND], ()), frozenset())
    if changed is None:
        # Nobody can say what it changes, so it counts as a change.
        assert found.unproven
    else:
        assert (found.changed, found.unproven) == ({changed} - {""}, set())


def test_hooks_of_models_may_change_anything() -> None:
    around = elsewhere([AROUND, b"def watch(net): net.register_forward_hook(print)\n"], ())
    own = {**OWN, "judge": "def judge(self, batch):\n    self.other(batch)\n"}
    methods = {name: function_of(text) for name, text in own.items()}
    assert followed(methods, ["judge"], around, frozenset()).unproven


@pytest.mark.parametrize(
    ("name", "changed"),
    [("Rows", {"draws"}), ("Fixed", set()), ("tally", {"global tally"}), ("Far", set())],
)
def test_what_reading_data_changes(name: str, changed: set[str]) -> None:
    assert changed_by_reading(name, elsewhere([AROUND], ())) == changed
