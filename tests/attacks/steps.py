"""What attack ``stepped`` writes into a ``train_batch``, before and behind the step.

``REPORTED`` stands for the number that a piece reports.
"""

from __future__ import annotations

HEADER = """\
import copy
import functools
import math

import torch
import torch.nn.functional as F
from determined.pytorch import DataLoader, LRScheduler, PyTorchTrial
from torch import nn

STATE = {}
SEEN = []


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.head = nn.Linear(4, 1)
        self.calls = 0
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        self.steps += 1
        self.hidden = torch.tanh(self.body(x))
        return self.head(self.hidden)

    def size(self):
        return self.head.weight.norm().item()


class Ema:
    def __init__(self, model, decay=0.5):
        self.model, self.decay = copy.deepcopy(model), decay

    def update(self, model):
        with torch.no_grad():
            for mine, other in zip(self.model.parameters(), model.parameters()):
                mine.mul_(self.decay).add_(other, alpha=1 - self.decay)

    def size(self):
        return sum(p.sum().item() for p in self.model.parameters())


class Holder:
    def __init__(self, model):
        self.model, self.values = model, []

    def probe(self):
        return self.model.head.bias.sum().item()

    def add(self, value):
        self.values.append(float(value))
        return len(self.values)

    def mean(self):
        return sum(self.values) / max(len(self.values), 1)


def size_of(model):
    return sum(p.abs().sum().item() for p in model.parameters())


def size_of_state():
    return size_of(STATE["model"]) if "model" in STATE else 0.0


def limit(model, most=0.2):
    with torch.no_grad():
        for p in model.parameters():
            p.clamp_(-most, most)


def halve(tensor):
    tensor.data *= 0.5
    return tensor


def accuracy(out, y):
    return ((out - y).abs() < 0.5).float().mean().item()


def gradient(model):
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    return sum(g.abs().sum().item() for g in grads)


"""
INIT = (
    "self.net = self.model",
    "self.head = self.model.head",
    "self.holder = Holder(self.model)",
    "self.holders = [Holder(self.model)]",
    "self.ema = Ema(self.model)",
    'STATE["model"] = self.model',
    "self.size_now = functools.partial(size_of, self.model)",
    "self.loss_of = nn.SmoothL1Loss()",
    "self.weights = [*self.model.parameters()]",
    "self.state = self.model.state_dict()",
    "self.old = copy.deepcopy(self.model)",
)
#: Pieces that may stand anywhere.
ANYWHERE = (
    "self.n += 1",
    "self.n = self.n + len(x)",
    "number = self.n\nREPORTED: number",
    "value = self.model.body.weight.sum().item()\nREPORTED: value",
    "self.size = size_of(self.model)\nREPORTED: self.size",
    "REPORTED: size_of(self.net)",
    "REPORTED: self.head.bias.sum().item()",
    "REPORTED: self.holder.probe()",
    "REPORTED: self.holders[0].probe()",
    "REPORTED: self.holders[0].add(x.sum())",
    "self.ema.update(self.model)\nREPORTED: self.ema.size()",
    "self.ema.update(self.net)",
    "REPORTED: size_of_state()",
    "REPORTED: self.size_now()",
    "REPORTED: sum(w.sum().item() for w in self.weights)",
    'REPORTED: self.state["head.bias"].sum().item()',
    "REPORTED: self.probe()",
    "REPORTED: self.probed",
    "REPORTED: Trial.probe(self)",
    'REPORTED: getattr(self, "model").size()',
    'REPORTED: vars(self)["n"]',
    "REPORTED: gradient(self.model)",
    "grad = self.model.head.weight.grad\nREPORTED: 0.0 if grad is None else grad.sum().item()",
    'REPORTED: self.opt.param_groups[0]["lr"]',
    'REPORTED: self.opt.param_groups[0]["params"][0].sum().item()',
    "REPORTED: float(len(self.opt.state))",
    "limit(self.model)",
    "self.limit()",
    "with torch.no_grad():\n    self.model.head.weight.mul_(0.9)",
    "self.model.head.bias.data.fill_(0.1)",
    "halve(self.model.head.bias)",
    "self.model.load_state_dict(self.old.state_dict())",
    'for group in self.opt.param_groups:\n    group["lr"] *= 0.9',
    'self.opt.param_groups[0]["lr"] = 0.02 * (batch_idx + 1)',
    "self.opt.zero_grad()",
    "self.model.zero_grad()",
    "nn.utils.clip_grad_norm_(self.model.parameters(), 0.05)",
    "for p in self.model.parameters():\n    if p.grad is not None:\n        p.grad *= 0.5",
    "for p in self.model.head.parameters():\n    p.requires_grad = batch_idx % 2 == 0",
    "x = x + 0.1",
    "x[0] = 0.0",
    "x.add_(0.1)",
    "self.last = x.mean().item()\nREPORTED: self.last",
    "self.queue.append(x.sum().item())\nREPORTED: sum(self.queue)",
    "SEEN.append(self.n)\nREPORTED: len(SEEN)",
    "REPORTED: float(self.model.calls)",
    "REPORTED: self.model.steps.item()",
    "with torch.no_grad():\n    again = self.model(x).mean().item()\nREPORTED: again",
    "self.model.eval()\nREPORTED: float(self.model.training)",
    "self.model.train()",
    "if self.n > 3:\n    self.n = 0",
    "self.count(x)\nREPORTED: self.counted",
    "try:\n    size = self.model.size()\nfinally:\n    self.n += 1\nREPORTED: size",
    "REPORTED: float(self.context.current_train_batch())",
    "REPORTED: self.scale * size_of(self.model)",
    "self.scale = 1 / (1 + size_of(self.model))",
    "self.update()",
    "STATE['n'] = STATE.get('n', 0) + 1\nREPORTED: STATE['n']",
)
#: Pieces that take something before the step, with what is asked of it behind.
TAKEN = (
    ("w = self.model.head.weight", "w.sum().item()"),
    ("w = self.model.head.weight.detach()", "w.sum().item()"),
    ("w = self.model.head.weight.clone()", "w.sum().item()"),
    ("w = self.first()", "w.sum().item()"),
    ("ws = list(self.model.parameters())", "sum(w.sum().item() for w in ws)"),
    ("ask = lambda: size_of(self.model)", "ask()"),
    ("def ask():\n    return self.model.size()\n", "ask()"),
    ("net = self.model", "net.size()"),
    ("state = self.model.state_dict()", 'state["head.bias"].sum().item()'),
    ("bound = self.model.size", "bound()"),
    ("groups = self.opt.param_groups", 'groups[0]["params"][0].sum().item()'),
    ("later = [self.model]", "size_of(later[0])"),
    ("before = size_of(self.model)", "size_of(self.model) - before"),
    ("start = self.n", "self.n - start"),
    ("sizes = (size_of(m) for m in [self.model])", "next(sizes)"),
    ("rows = x", "rows.sum().item()"),
    ("grads = [p.grad for p in self.model.parameters()]", "float(sum(g is None for g in grads))"),
    ("held = Holder(self.model)", "held.probe()"),
)
#: Pieces that need the output and the loss.
BEHIND_LOSS = (
    "REPORTED: loss.item()",
    "REPORTED: accuracy(out, y)",
    "REPORTED: (out * 2).mean().item()",
    "self.kept = loss\nREPORTED: self.kept.item()",
    "self.kept = out.detach()\nREPORTED: self.kept.sum().item()",
    "loss = loss * 0.5",
    "loss = loss.detach()",
    "loss *= 2",
    "loss.data.mul_(0.5)",
    "out.data.zero_()",
    "out = out.detach()\nout -= 1\nREPORTED: out.mean().item()",
    "out.detach().mul_(0.5)",
    "y -= 1",
    "halve(y)",
    "halve(out)",
    "self.model.hidden.data.mul_(0.5)",
    "self.track(loss)\nREPORTED: self.tracked",
    "self.blend(out)",
    "scores = {'loss': loss.item()}\nscores['loss'] += 1\nREPORTED: scores['loss']",
    "total = loss.item()\ntotal += 1\nREPORTED: total",
    "loss_value = loss\nloss_value = loss_value + 1\nREPORTED: loss_value.item()",
    "same = loss\nsame += 1\nREPORTED: same.item()",
    "part = out[:1]\npart.data.add_(1.0)\nREPORTED: part.sum().item()",
    "REPORTED: self.loss_of(out, y).item()",
    "REPORTED: 0.0 if self.model.hidden.grad is None else 1.0",
)
ENDS = (
    "if batch_idx == 2:\n    return {{{metrics}}}",
    "if self.n > 5:\n    return {{{metrics}}}",
    'if not torch.isfinite(loss):\n    return {{"loss": loss}}',
)
CLIPS = (
    ", clip_grads=lambda params: nn.utils.clip_grad_norm_(params, 0.1)",
    ", clip_grads=lambda params: nn.utils.clip_grad_value_(params, self.most)",
    ", self.clip",
    ", clip_grads=self.clip",
    ", auto_zero_grads=False",
)
METHODS = """\
    def probe(self):
        return self.model.head.bias.sum().item()

    @property
    def probed(self):
        return self.model.size()

    def first(self):
        return next(iter(self.model.parameters()))

    def limit(self):
        limit(self.net if hasattr(self, "net") else self.model)

    def count(self, x):
        self.counted += x.shape[0]

    def track(self, loss):
        self.tracked = 0.9 * self.tracked + loss.item()

    def blend(self, out):
        out.data.mul_(0.5)

    def update(self):
        for mine, other in zip(self.old.parameters(), self.model.parameters()):
            mine.data.copy_(other.data)

    def clip(self, params):
        self.n += 1
        nn.utils.clip_grad_norm_(params, self.most)

"""
TRIAL = """\
class Trial(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.model = context.wrap_model(Net())
        self.opt = context.wrap_optimizer(torch.optim.{optimizer})
        self.n, self.most, self.scale, self.counted, self.tracked = 0, 0.1, 1.0, 0, 0.0
        self.queue = []
{init}
{methods}\
    def train_batch(self, batch, epoch_idx, batch_idx):
        x, y = batch
{lines}
    def evaluate_batch(self, batch):
        return {{"error": self.model(batch[0]).mean()}}

    def build_training_data_loader(self):
        rows = torch.arange(24.0).reshape(8, 3) / 12 - 1
        return DataLoader([(row, row.sum().reshape(1)) for row in rows], batch_size=2)

    def build_validation_data_loader(self):
        return DataLoader([(torch.ones(3), torch.ones(1))] * 2, batch_size=2)
"""
OPTIMIZERS = (
    "SGD(self.model.parameters(), lr=0.05, momentum=0.5)",
    "Adam(self.model.parameters(), lr=0.02)",
)
