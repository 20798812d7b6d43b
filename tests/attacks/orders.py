"""What the trials of ``ordered`` are put together of."""

HEADER = """\
import copy
import functools
import itertools
import operator
import random

import torch
from determined.pytorch import DataLoader, LRScheduler, PyTorchCallback, PyTorchTrial
from torch import nn
from torch.optim import SGD

RATES = [0.02, 0.04]
SETTINGS = {"lr": 0.06}
REGISTRY = {}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


class Cfg:
    def __init__(self, lr):
        self.lr = lr

    def halve(self):
        self.lr /= 2


"""
_FUNCTIONS = """\
def freeze(model):
    for p in model.body.parameters():
        p.requires_grad = False


def replace_head(model):
    model.head = nn.Linear(4, 1)
    return model


def init_weights(model):
    for p in model.parameters():
        nn.init.constant_(p, 0.3)


def filled(part):
    if isinstance(part, nn.Linear):
        nn.init.normal_(part.weight)


def groups(model, rate):
    some, rest = [], []
    for p in model.parameters():
        (some if p.ndim > 1 else rest).append(p)
    return [{"params": some, "lr": rate}, {"params": rest}]


def groups_of(model):
    made = []
    for p in model.parameters():
        if p.requires_grad:
            made.append({"params": [p]})
    return made


def rate_now():
    return RATES[0]


def counted_rate():
    RATES[0] += 0.01
    return RATES[0]


def bump():
    RATES[0] *= 2


def reset():
    global RATES
    RATES = [0.5, 0.6]


def settle(settings):
    settings["lr"] = 0.8
    return settings


def register(model):
    REGISTRY['model'] = model


def poke():
    REGISTRY['model'].head = nn.Linear(4, 1)


def make_optimizer(trial):
    return SGD(trial.model.parameters(), lr=trial.lr)


def make_sgd(model, lr):
    return SGD(model.parameters(), lr=lr)


def tuned(trial):
    trial.lr = 0.33
    return 1


def looked(model):
    return sum(p.numel() for p in model.parameters())


def every(items, change):
    for item in items:
        change(item)


def noisy(rate):
    return rate * random.random()


def first(some):
    return some[0]


def raised(some):
    some[0] = 0.77
    return some


def by_default(lr, found=[0.1]):
    found.append(lr)
    return found[0] / len(found)


def passed(model):
    return model


def cached(function):
    seen = []

    @functools.wraps(function)
    def inner(*given):
        seen.append(1)
        return function(*given) / len(seen)

    return inner


@cached
def lessened(rate):
    return rate


def steps():
    while True:
        RATES.append(1)
        yield 0.1 / len(RATES)"""
FUNCTIONS = tuple(f"{each}\n\n\n" for each in _FUNCTIONS.split("\n\n\n"))
_CLASSES = """\
class Holder:
    def __init__(self, held):
        self.held = held

    def poke(self):
        self.held.head = nn.Linear(4, 1)

    def lower(self):
        self.held.lr = 0.011


class Changing:
    def __init__(self, model):
        model.head = nn.Linear(4, 1)


class Counting:
    n = 0

    @property
    def rate(self):
        self.n += 1
        return 0.1 / self.n

    def ask(self):
        self.n += 1
        return self.n


class Tuning:
    def __init__(self, trial):
        self.trial = trial

    @property
    def rate(self):
        self.trial.lr = 0.44
        return 1


class Anchored(SGD):
    def __init__(self, params, lr):
        super().__init__(params, lr=lr)
        self.first = [p.detach().clone() for g in self.param_groups for p in g['params']]

    def step(self, closure=None):
        super().step(closure)
        parts = [p for g in self.param_groups for p in g['params']]
        for p, old in zip(parts, self.first):
            p.data.lerp_(old, 0.1)


class Wobbling(SGD):
    def __init__(self, params, lr):
        super().__init__(params, lr=lr * torch.rand(1).item())


class Plain(SGD):
    def __init__(self, params, lr=0.1):
        super().__init__(params, lr=lr)


class Loss(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return self.scale * x.mean()


class Entering:
    def __init__(self, trial):
        self.trial = trial

    def __enter__(self):
        self.trial.lr = 0.55
        return self

    def __exit__(self, *error):
        pass


class Items(dict):
    def __getitem__(self, name):
        self.n = getattr(self, 'n', 0) + 1
        return super().__getitem__(name) / self.n


class Slower(PyTorchCallback):
    def __init__(self, trial):
        trial.lr = 0.66


class Quiet(PyTorchCallback):
    def __init__(self, scale):
        self.scale = scale"""
CLASSES = tuple(f"{each}\n\n\n" for each in _CLASSES.split("\n\n\n"))
FIRST = """\
self.context = context
hparams = context.get_hparams()
self.hp = hparams
self.n = 0
self.lr = 0.07
self.factor = 0.5
self.rates = [0.01, 0.02]
self.cfg = Cfg(0.09)
self.stream = iter([0.01, 0.02, 0.03, 0.04, 0.05, 0.06])
net = Net()
self.model = context.wrap_model(net)
lr = 0.08"""
OPTIMIZERS = (
    *["self.opt = context.wrap_optimizer(torch.optim.SGD(PARAMS, lr=RATE))"] * 4,
    "self.opt = context.wrap_optimizer(SGD(PARAMS, lr=RATE, momentum=0.5))",
    "opt = torch.optim.SGD(PARAMS, lr=RATE)\nself.opt = context.wrap_optimizer(opt)",
    "params = PARAMS\nself.opt = context.wrap_optimizer(torch.optim.Adam(params, lr=RATE))",
    "rate = RATE\nself.opt = context.wrap_optimizer(torch.optim.Adam(PARAMS, lr=rate))",
    "self.rate_kept = RATE\nself.opt = context.wrap_optimizer(SGD(PARAMS, lr=self.rate_kept))",
    "self.opt = context.wrap_optimizer(torch.optim.Adagrad(PARAMS, lr=RATE, "
    "initial_accumulator_value=0.1))",
    "self.opt = context.wrap_optimizer(Anchored(PARAMS, lr=RATE))",
    "self.opt = context.wrap_optimizer(Wobbling(PARAMS, lr=RATE))",
    "self.opt = context.wrap_optimizer(Plain(PARAMS, lr=RATE))",
    "self.opt = context.wrap_optimizer(make_optimizer(self))",
    "self.opt = context.wrap_optimizer(make_sgd(self.model, RATE))",
    'self.opt = context.wrap_optimizer(getattr(torch.optim, "SGD")(PARAMS, lr=RATE))',
    "opt = torch.optim.SGD(PARAMS, lr=RATE)\nopt.param_groups[0]['lr'] *= 2\n"
    "self.opt = context.wrap_optimizer(opt)",
    "if context.get_hparam('flag'):\n    opt = SGD(PARAMS, lr=RATE)\n"
    "else:\n    opt = SGD(PARAMS, lr=0.2)\n"
    "self.opt = context.wrap_optimizer(opt)",
    "made = [{'params': self.model.head.parameters()}]\n"
    "made.append({'params': self.model.body.parameters(), 'lr': RATE})\n"
    "self.opt = context.wrap_optimizer(SGD(made, lr=0.1))",
    "self.made = [{'params': [*self.model.parameters()]}]\n"
    "self.opt = context.wrap_optimizer(SGD(self.made, lr=RATE))",
)
PARAMS = (
    *["self.model.parameters()"] * 4,
    "net.parameters()",
    "[p for p in self.model.parameters() if p.requires_grad]",
    "filter(lambda p: p.requires_grad, self.model.parameters())",
    "groups(self.model, 0.15)",
    "groups_of(self.model)",
    "self.groups()",
    "itertools.chain(self.model.body.parameters(), self.model.head.parameters())",
    "[{'params': net.body.parameters()}, {'params': net.head.parameters(), 'lr': self.lr}]",
    "passed(net).parameters()",
    "self.current.parameters()",
    "[*self.model.parameters()]",
)
RATES = (
    "0.1",
    "0.1",
    "self.lr",
    "self.lr",
    "lr",
    "self.rates[0]",
    "max(self.rates)",
    "hparams['lr']",
    "self.hp['lr']",
    "context.get_hparam('lr')",
    "context.get_hparam('opt')['lr']",
    "hparams['opt']['lr']",
    "self.cfg.lr",
    "self.rate()",
    "self.lowest()",
    "self.asked",
    "self.counted",
    "RATES[0]",
    "SETTINGS['lr']",
    "rate_now()",
    "counted_rate()",
    "next(self.stream)",
    "[*self.stream][0]",
    "torch.rand(1).item()",
    "random.random()",
    "noisy(0.1)",
    "getattr(self, 'lr')",
    "type(self).RATE",
    "self.RATE",
    "Trial.RATE",
    "self.SHARED[0]",
    "Counting().rate",
    "first(self.rates)",
    "raised([0.1])[0]",
    "by_default(0.1)",
    "lessened(0.2)",
    "(self.lr if context.get_hparam('flag') else 0.1)",
    "min(r for r in self.rates)",
    "vars(self)['lr']",
    "copy.copy(self.cfg).lr",
    "(lambda: self.lr)()",
    "functools.reduce(min, self.rates)",
)
SCHEDULERS = tuple(
    f"self.schedule = context.wrap_lr_scheduler({made}, LRScheduler.StepMode.STEP_EVERY_EPOCH)"
    for made in (
        "torch.optim.lr_scheduler.StepLR(self.opt, 1, gamma=self.factor)",
        "torch.optim.lr_scheduler.LambdaLR(self.opt, lambda step: self.factor**step)",
        "torch.optim.lr_scheduler.LambdaLR(self.opt, self.decay)",
        "torch.optim.lr_scheduler.LambdaLR(self.opt, lambda step: lr)",
        "torch.optim.lr_scheduler.LambdaLR(self.opt, lambda step: next(self.stream))",
        "torch.optim.lr_scheduler.LambdaLR(self.opt, lambda step: self.rates[0])",
        "torch.optim.lr_scheduler.ExponentialLR(self.opt, 0.9)",
    )
)
LINES = (
    # Nothing that an optimizer needs.
    "self.loss = nn.MSELoss()",
    "self.own_loss = Loss(2.0)",
    "self.own_loss = Loss(context.get_hparam('lr'))",
    "print(self.model)",
    "print('rate', self.lr)",
    "self.size = looked(self.model)",
    "self.parts = [n for n, _ in self.model.named_parameters()]",
    "self.flag = context.get_hparam('flag')",
    "self.steps = 0",
    "self.steps = self.n + 1",
    "self.model.to('cpu')",
    "self.model.train()",
    "self.twin = copy.deepcopy(self.model)",
    "self.other = nn.Linear(2, 2)",
    # What they may need, or what changes it.
    "self.lr = 0.3",
    "self.lr *= 2",
    "self.lr: float = 0.8",
    "self.lr, self.x = 0.2, 1",
    "[self.lr, *self.x] = [0.2, 1, 2]",
    "lr = 0.7",
    "if (lr := 0.9):\n    pass",
    "if context.get_hparam('flag'):\n    self.lr = 0.12",
    "self.rates[0] = 0.5",
    "self.rates.insert(0, 0.5)",
    "self.rates = [0.7]",
    "self.rates += [0.001]",
    "self.rates[:] = [0.21]",
    "del self.rates[0]",
    "some = self.rates\nsome[0] = 0.13",
    "raised(self.rates)",
    "every([0.4], self.rates.append)",
    "every([0.001], lambda rate: self.rates.insert(0, rate))",
    "list.insert(self.rates, 0, 0.001)",
    "operator.setitem(self.rates, 0, 0.001)",
    "self.rates.__setitem__(0, 0.001)",
    "random.shuffle(self.rates)",
    "[self.rates.insert(0, x) for x in (0.3, 0.2)]",
    "any(self.rates.insert(0, x) for x in (0.3, 0.2))",
    "self.cfg.lr /= 2",
    "self.cfg.halve()",
    "self.cfg = Cfg(0.5)",
    "cfg = self.cfg\ncfg.lr = 0.19",
    "self.all = [self.cfg]\nself.all[0].lr = 0.19",
    "hparams['lr'] = 0.9",
    "hparams['opt']['lr'] = 0.9",
    "self.hp['lr'] = 0.9",
    "self.hp.update(lr=0.9)",
    "context.get_hparams()['lr'] = 0.9",
    "settle(hparams)",
    "settle(SETTINGS)",
    "SETTINGS['lr'] = 0.5",
    "SETTINGS.update(lr=0.4)",
    "freeze(self.model)",
    "freeze(net)",
    "self.model.body.requires_grad_(False)",
    "for p in self.model.body.parameters():\n    p.requires_grad = False",
    "self.freeze()",
    "replace_head(self.model)",
    "self.model = replace_head(self.model)",
    "m = self.model\nm.head = nn.Linear(4, 1)",
    "self.model.head = nn.Linear(4, 1)",
    "net.head = nn.Linear(4, 1)",
    "net.head.weight = nn.Parameter(torch.zeros(1, 4))",
    "del net.head.bias\nnet.head.bias = None",
    "setattr(net, 'head', nn.Linear(4, 1))",
    "net.add_module('head', nn.Linear(4, 1))",
    "net._modules['head'] = nn.Linear(4, 1)",
    "nn.utils.parametrizations.weight_norm(self.model.body)",
    "self.model.load_state_dict({k: v * 2 for k, v in self.model.state_dict().items()})",
    "init_weights(self.model)",
    "self.model.apply(filled)",
    "with torch.no_grad():\n    for p in self.model.parameters():\n        p.mul_(2)",
    "self.model = context.wrap_model(nn.Sequential(self.model, nn.Linear(1, 1)))",
    "self.model = context.wrap_model(self.model)",
    "self.model = self.model.to('cpu')",
    "self.model.double()",
    "net = Net()",
    "holder = Holder(self.model)\nholder.poke()",
    "self.holder = Holder(self.model)",
    "self.holder = Holder(self)\nself.holder.lower()",
    "self.holder = Holder(self)",
    "Changing(self.model)",
    "nets = {'a': self.model}\nnets['a'].head = nn.Linear(4, 1)",
    "register(self.model)",
    "register(self.model)\npoke()",
    "setattr(self, 'lr', 0.4)",
    "self.__dict__.update(lr=0.2)",
    "vars(self)['lr'] = 0.2",
    "for name, value in [('lr', 0.6), ('n', 2)]:\n    setattr(self, name, value)",
    "object.__setattr__(self, 'lr', 0.3)",
    "functools.partial(setattr, self, 'lr')(0.3)",
    "tuned(self)",
    "print(f'{self.tune()}')",
    "assert self.tune() is None",
    "self.tune()",
    "self.tune_all(self.rates)",
    "change = self.tune\nchange()",
    "every([1], lambda n: self.tune())",
    "def inner():\n    nonlocal lr\n    lr = 0.6\n\ninner()",
    "def inner():\n    self.lr = 0.6\n\ninner()",
    "try:\n    self.lr = 1 / 0\nexcept ZeroDivisionError:\n    self.lr = 0.15",
    "while self.n < 3:\n    self.n += 1\n    self.lr /= 2",
    "match self.n:\n    case 0:\n        self.lr = 0.17\n    case _:\n        pass",
    "with Entering(self):\n    pass",
    "for self.lr in (0.1, 0.23):\n    pass",
    "self.drawn = torch.rand(1).item()",
    "self.drawn = random.random()",
    "torch.manual_seed(3)",
    "random.seed(3)",
    "torch.set_default_dtype(torch.float64)",
    "torch.set_grad_enabled(False)",
    "self.first = next(self.stream)",
    "self.first = [*self.stream][0]",
    "for self.first in self.stream:\n    break",
    "self.first = self.rate()",
    "self.first = self.counted",
    "self.first = counted_rate()",
    "self.first = by_default(0.3)",
    "self.first = lessened(0.3)",
    "bump()",
    "reset()",
    "RATES[0] = 0.3",
    "RATES.insert(0, 0.3)",
    "type(self).RATE = 0.3",
    "self.__class__.RATE = 0.3",
    "Trial.RATE = 0.3",
    "self.RATE = 0.3",
    "self.SHARED[0] = 0.31",
    "Trial.SHARED[0] = 0.31",
    "self.asked = 0.41",
    "self.names = 'opt' in vars(self)",
    "self.names = 'opt' in self.__dict__",
    "self.has = hasattr(self, 'opt')",
    "self.found = getattr(self, 'opt', None) is not None",
    "self.tuning = Tuning(self)\nself.x = self.tuning.rate",
    "self.items = Items(lr=0.1)\nself.x = self.items['lr']",
    "self.seen = copy.copy(self).lr",
    "me = self\nme.lr = 0.29",
    "self.count = len([p for p in self.model.parameters() if p.requires_grad])",
    "self.made = None",
    "self.factor = 0.25",
    "exec('self.lr = 0.61')",
    "SGD.__init__.__defaults__",
    "self.gen = steps()\nself.first = next(self.gen)",
    "self.rate_kept = 0.37",
    "globals()['RATES'] = [0.9]",
)
ATTRIBUTES = """\
    RATE = 0.045
    SHARED = [0.055]

"""
METHODS = (
    """\
    def rate(self):
        self.n += 1
        return 0.1 / self.n

""",
    """\
    def lowest(self):
        return min(self.rates) * self.cfg.lr

""",
    """\
    def decay(self, step):
        return self.factor**step

""",
    """\
    def groups(self):
        return [{"params": [p for p in self.model.parameters() if p.requires_grad]}]

""",
    """\
    def tune(self):
        self.lr = 0.25
        self.factor = 0.75

""",
    """\
    def tune_all(self, some):
        some[0] = 0.35

""",
    """\
    def freeze(self):
        for p in self.current.body.parameters():
            p.requires_grad = False

""",
    """\
    @property
    def current(self):
        return self.model

""",
    """\
    @property
    def asked(self):
        return self.lr * 2

""",
    """\
    @asked.setter
    def asked(self, value):
        self.lr = value

""",
    """\
    @property
    def counted(self):
        self.n += 1
        return 0.2 / self.n

""",
)
CALLBACKS = (
    "    def build_callbacks(self):\n        self.lr = 0.99\n        return {}\n\n",
    '    def build_callbacks(self):\n        return {"slower": Slower(self)}\n\n',
    '    def build_callbacks(self):\n        return {"quiet": Quiet(self.factor)}\n\n',
    "    def build_callbacks(self):\n        self.rates[0] = 0.98\n        return {}\n\n",
)
TRIAL = """\
class Trial(PyTorchTrial):
    def __init__(self, context):
{init}
{methods}\
    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = (self.model(batch) ** 2).mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
        return {{"loss": loss}}

    def evaluate_batch(self, batch):
        return {{"error": (self.model(batch) ** 2).mean()}}

    def build_training_data_loader(self):
        return DataLoader(list(torch.ones(8, 3)), batch_size=2)

    def build_validation_data_loader(self):
        return DataLoader(list(torch.ones(4, 3)), batch_size=2)
"""
