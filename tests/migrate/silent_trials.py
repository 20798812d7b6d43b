"""Trials that used to be wrong in silence once they were migrated; the test reads this as text."""

import numpy as np
import torch
from determined.pytorch import (
    DataLoader,
    LRScheduler,
    MetricReducer,
    PyTorchCallback,
    PyTorchTrial,
)
from torchmetrics import MeanMetric


def rows(n=16):
    g = torch.Generator().manual_seed(1)
    return [(torch.randn(3, generator=g), torch.tensor(i % 2)) for i in range(n)]


class PerClass(MetricReducer):
    def __init__(self):
        self.reset()

    def reset(self):
        self.counts = torch.zeros(2)

    def update(self, y):
        self.counts += torch.bincount(y, minlength=2)

    def per_slot_reduce(self):
        return self.counts

    def cross_slot_reduce(self, per_slot_metrics):
        counts = torch.stack(list(per_slot_metrics)).sum(0)
        return {"counts": counts, "first": counts[0]}


class Frag:
    def __init__(self, hps):
        self.hps = hps

    def net(self):
        return torch.nn.Linear(3, self.hps["classes"])


class Net(torch.nn.Module):
    def __init__(self, **kw):
        super().__init__()
        self.kw = kw
        self.l = torch.nn.Linear(3, 2)

    def forward(self, x):
        return self.l(x)


class One(Frag, PyTorchTrial):
    """Mixin, order of loaders, state in validation, plateau."""

    def __init__(self, context):
        super().__init__(context.get_hparams())
        self.context = context
        self.model = context.wrap_model(self.net())
        self.opt = context.wrap_optimizer(
            torch.optim.SGD(self.model.parameters(), lr=context.get_hparam("lr"))
        )
        self.sch = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.ReduceLROnPlateau(self.opt, patience=0),
            LRScheduler.StepMode.MANUAL_STEP,
        )
        if context.get_hparams().get("per_class", True):
            self.per_class = context.wrap_reducer(PerClass())
        self.best = 1e9

    def build_training_data_loader(self):
        self.data = rows()
        return DataLoader(self.data, batch_size=self.context.get_per_slot_batch_size())

    def build_validation_data_loader(self):
        return DataLoader(self.data[:8], batch_size=4)

    def train_batch(self, batch, epoch_idx, batch_idx):
        x, y = batch
        loss = torch.nn.functional.cross_entropy(self.model(x), y)
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
        return {"loss": loss, "lr": [g["lr"] for g in self.opt.param_groups]}

    def evaluate_batch(self, batch):
        x, y = batch
        loss = torch.nn.functional.cross_entropy(self.model(x), y)
        self.best = min(self.best, float(loss))
        self.sch.step(loss)
        self.per_class.update(y)
        metrics = {"val": loss, "best": self.best}
        metrics["vector"] = [1.0, 2.0]
        return metrics


class Patience(PyTorchCallback):
    def __init__(self, trial):
        self.trial = trial
        self.seen = 0

    def on_validation_end(self, metrics):
        self.seen += 1
        self.trial.setup(self.seen)


class Two(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.hparams = context.get_hparams()
        self.model = context.wrap_model(Net(**self.hparams))
        hp = context.get_hparams()
        self.opt = context.wrap_optimizer(torch.optim.Adam(self.model.parameters(), lr=hp["lr"]))
        self.dropped = 0

    def setup(self, n):
        self.dropped = n
        for g in self.opt.param_groups:
            g["lr"] = self.hparams["lr"] / (1 + n)

    def build_callbacks(self):
        return {"p": Patience(self)}

    def build_training_data_loader(self):
        return DataLoader(rows(), batch_size=self.context.get_per_slot_batch_size())

    def build_validation_data_loader(self):
        return DataLoader(rows(8), batch_size=4)

    def train_batch(self, batch, epoch_idx, batch_idx):
        x, y = batch
        loss = torch.nn.functional.cross_entropy(self.model(x), y)
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
        return {"loss": loss}

    def evaluate_full_dataset(self, data_loader):
        losses = []
        for x, y in data_loader:
            losses.append(torch.nn.functional.cross_entropy(self.model(x), y))
        return {
            "val": torch.stack(losses).mean(),
            "losses": torch.stack(losses),
            "dropped": self.dropped,
        }


class Splits:
    """Makes the rows of validations where it makes those of training."""

    def training(self):
        rest, self.rest = rows(24)[:16], rows(24)[16:]
        return rest


class Stale:
    def __init__(self):
        self.calls = 0

    def __call__(self, loss):
        self.calls += 1


class Plateau(PyTorchCallback):
    def __init__(self, trial):
        self.trial = trial
        self.rates = []

    def on_validation_end(self, metrics):
        self.rates.append(float(metrics["loss"]))
        for group in self.trial.opts["a"].param_groups:
            group["lr"] = 0.1 * self.rates[-1]


def hits(out, y):
    found = []
    for k in (1, 2):
        found.append((out.topk(k, 1)[1] == y[:, None]).any(1).float().mean())
    return found


def scheduled(context, opt):
    return context.wrap_lr_scheduler(
        torch.optim.lr_scheduler.StepLR(opt, 2), LRScheduler.StepMode.STEP_EVERY_BATCH
    )


class Three(PyTorchTrial):
    """State elsewhere, models by name, what functions wrap, a callback's metrics."""

    def __init__(self, context):
        self.context = context
        self.splits, self.stale = Splits(), Stale()
        self.plateau = Plateau(self)
        self.nets, self.opts = {}, {}
        for name in ("a", "b"):
            self.nets[name] = context.wrap_model(torch.nn.Linear(3, 2))
            self.opts[name] = context.wrap_optimizer(
                torch.optim.SGD(self.nets[name].parameters(), lr=0.1)
            )
        self.scheduler = scheduled(context, self.opts["b"])
        try:
            self.scale = context.get_hparam("scale")
        except ValueError:
            self.scale = 1.0

    def build_callbacks(self):
        return {"plateau": self.plateau}

    def build_training_data_loader(self):
        batch_size = self.context.get_per_slot_batch_size()
        return DataLoader(self.splits.training(), batch_size=batch_size)

    def build_validation_data_loader(self):
        return DataLoader(self.splits.rest, batch_size=4)

    def train_batch(self, batch, epoch_idx, batch_idx):
        x, y = batch
        for name, net in self.nets.items():
            loss = torch.nn.functional.cross_entropy(net(x), y) * self.scale
            self.context.backward(loss / (1 + self.stale.calls))
            self.context.step_optimizer(self.opts[name])
        return {"loss": loss.detach().cpu().numpy(), "hits": hits(net(x), y)}

    def evaluate_batch(self, batch):
        x, y = batch
        out = self.nets["a"](x)
        loss = torch.nn.functional.cross_entropy(out, y)
        self.stale(loss)
        return {"loss": loss, "hits": hits(out, y), "best": out.max(1).values}


class Decay(PyTorchCallback):
    def __init__(self, trial):
        self.trial = trial
        self.log = []

    def on_training_epoch_end(self, epoch_idx):
        self.log.append(epoch_idx)
        with torch.no_grad():
            self.trial.model.weight.mul_(0.5)

    def on_validation_start(self):
        self.trial.mean.reset()

    def on_validation_end(self, metrics):
        metrics["mean"] = self.trial.mean.compute().item()


class Four(PyTorchTrial):
    """State on the device, a model that is not wrapped, a scaler that is None, renamed lists."""

    def __init__(self, context):
        PyTorchTrial.__init__(self, context)
        self.context = context
        self.modules = [context.wrap_model(torch.nn.Linear(3, 2))]
        self.model = self.modules[0]
        self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))
        use_amp = torch.cuda.is_available()
        self.scaler = context.wrap_scaler(torch.cuda.amp.GradScaler()) if use_amp else None
        self.norm = torch.nn.BatchNorm1d(3)
        self.noise = torch.randn(4, 3).to(context.device)
        self.center = torch.zeros(2, device=context.device)
        self.teacher = torch.nn.Linear(3, 2).to(self.context.device)
        self.mean = MeanMetric().to(context.device)
        self.biggest = context.wrap_reducer(np.max, name="biggest", for_training=False)

    def build_callbacks(self):
        return {"decay": Decay(self)}

    def build_training_data_loader(self):
        return DataLoader(rows(), batch_size=4)

    def build_validation_data_loader(self):
        return DataLoader(rows()[:8], batch_size=4)

    def train_batch(self, batch, epoch_idx, batch_idx):
        x, y = batch
        out = self.model(self.norm(x) + self.noise) - self.center
        self.center.mul_(0.9).add_(out.detach().mean(0))
        loss = torch.nn.functional.cross_entropy(out, y) + (out - self.teacher(x)).pow(2).mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.opt, scaler=self.scaler)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        x, y = batch
        loss = torch.nn.functional.cross_entropy(self.model(self.norm(x)), y)
        self.mean.update(loss)
        self.biggest.update(loss.item())
        return {"val": loss}


class Five(PyTorchTrial):
    """Steps of several batches, which do not divide an epoch, with every kind of scheduler."""

    def __init__(self, context):
        self.context = context
        self.model = context.wrap_model(torch.nn.Linear(3, 2))
        self.opt = context.wrap_optimizer(torch.optim.Adam(self.model.parameters(), lr=0.1))
        decay = torch.optim.lr_scheduler.ExponentialLR
        self.a = context.wrap_lr_scheduler(
            decay(self.opt, 0.9), step_mode=LRScheduler.StepMode.STEP_EVERY_BATCH
        )
        self.b = context.wrap_lr_scheduler(
            decay(self.opt, 0.8), LRScheduler.StepMode.STEP_EVERY_BATCH, frequency=2
        )
        self.c = context.wrap_lr_scheduler(
            decay(self.opt, 0.7), LRScheduler.StepMode.STEP_EVERY_EPOCH
        )
        self.d = context.wrap_lr_scheduler(
            decay(self.opt, 0.6), LRScheduler.StepMode.STEP_EVERY_OPTIMIZER_STEP, frequency=3
        )

    def build_training_data_loader(self):
        return DataLoader(rows(), batch_size=self.context.get_per_slot_batch_size())

    def build_validation_data_loader(self):
        return DataLoader(rows(8), batch_size=4)

    def train_batch(self, batch, epoch_idx, batch_idx):
        x, y = batch
        loss = torch.nn.functional.cross_entropy(self.model(x), y)
        self.context.backward(loss)
        self.context.step_optimizer(
            self.opt, clip_grads=lambda params: torch.nn.utils.clip_grad_norm_(params, 0.1)
        )
        return {"loss": loss}

    def evaluate_batch(self, batch):
        x, y = batch
        return {"val": torch.nn.functional.cross_entropy(self.model(x), y)}
