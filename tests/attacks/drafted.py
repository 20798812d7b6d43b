"""Whole trials of random drafts."""

from __future__ import annotations

import textwrap
from random import Random
from typing import Any

from tests.attacks.drafts import EVALUATED, HEADER, METRICS, REDUCERS, Draft

HPARAMS = {"global_batch_size": 3, "lr": 0.1, "every": 3, "clip": 0.2}
CONFIG: dict[str, Any] = {
    "hyperparameters": HPARAMS,
    "entrypoint": "model_def:Composed",
    "searcher": {"name": "single", "metric": "val", "max_length": {"batches": 14}},
}


def drafted(draw: Random) -> tuple[str, dict[str, Any]]:
    """The source of a trial with the context API, and its config."""
    draft = Draft(draw)
    draft.init.append("self.context = context\nself.scale, self.validations = 1.0, 0\n")
    draft.init.append("self.seen = []\n")
    nets = draw.choice((1, 1, 1, 2, 3))
    draft.wrap_models(nets)
    draft.wrap_optimizers(nets if draft.chance(0.6) else 1)
    draft.train.append("x, y = batch\n")
    draft.train += [draft.step(index) for index in range(len(draft.opts))]
    draft.wrap_schedulers()
    for _ in range(draw.choice((0, 0, 1, 1, 2))):
        draft.random_callback()
    _reducers(draft)
    _evaluation(draft)
    _loaders(draft)
    if draft.callbacks:
        made = ", ".join(f'"c{i}": {name}(self)' for i, name in enumerate(draft.callbacks))
        draft.method("build_callbacks(self)", f"return {{{made}}}\n")
    returns_early = len(draft.opts) == 1 and draft.chance(0.1)
    for name, value in draw.sample(METRICS, 0 if returns_early else draw.choice((0, 1, 2))):
        draft.metrics[name] = value.format(opt=draft.opts[0])
    if returns_early:
        draft.train.insert(1, 'if batch_idx % 3 == 1:\n    return {"loss0": x.mean()}\n')
    _returned(draft)
    if draft.chance(0.15) and "auto_zero" not in "".join((*draft.methods, *draft.train)):
        draft.config["optimizations"] = {
            "aggregation_frequency": 2,
            **({"average_aggregated_gradients": False} if draft.chance(0.4) else {}),
        }
    return _source(draft), {**CONFIG, **draft.config}


def _source(draft: Draft) -> str:
    first = ["def __init__(self, context):\n" + textwrap.indent("".join(draft.init), " " * 4)]
    train = textwrap.indent("".join(draft.train), " " * 4)
    first.append(f"def train_batch(self, batch, epoch_idx, batch_idx):\n{train}")
    methods = "\n".join(textwrap.indent(each, " " * 4) for each in (*first, *draft.methods))
    above = "".join(draft.above)
    return f"{HEADER}{above}\n\nclass Composed(PyTorchTrial):\n{methods}"


def _returned(draft: Draft) -> None:
    items = ", ".join(f'"{name}": {value}' for name, value in draft.metrics.items())
    lines = f"return {{{items}}}\n"
    if draft.chance(0.2):
        lines = "metrics = {}\n"
        lines += "".join(f'metrics["{n}"] = {v}\n' for n, v in draft.metrics.items())
        lines += "return metrics\n"
    elif (
        draft.chance(0.1)
        and "return {" not in draft.train[1]
        and "loss0" not in "".join(draft.above)
    ):
        lines = "return loss0\n"
    draft.train.append(lines)


def _reducers(draft: Draft) -> None:
    """Reducers that are wrapped, of training, validations or both."""
    if not draft.chance(0.25):
        return
    made, value = draft.pick((("Mean()", "x.mean()"), ("spread", "float(x.mean())")))
    phases = draft.pick(("", ", for_training=False", ", for_validation=False"))
    draft.init.append(f'self.reducer = context.wrap_reducer({made}, name="reduced"{phases})\n')
    if "for_training" not in phases and draft.chance(0.7):
        draft.train.append(f"self.reducer.update({value})\n")
    if "for_validation" not in phases:
        draft.metrics["_update"] = f"self.reducer.update({value})\n"


def _evaluation(draft: Draft) -> None:
    """evaluate_batch with reducers by name, or evaluate_full_dataset."""
    update = draft.metrics.pop("_update", "")
    output = f"output = self.{draft.nets[-1]}(x)\n"
    if draft.chance(0.2) and not any("outputs)" in each for each in draft.above):
        _evaluate_whole(draft, update + output)
        return
    metrics = {"val": "nn.functional.mse_loss(output, y)"}
    metrics.update(draft.draw.sample(EVALUATED, draft.pick((0, 1, 2, 3))))
    body = f"x, y = batch\n{update}{output}"
    if draft.chance(0.1):
        body += "self.validations += 1\n"
    if draft.chance(0.15):
        draft.init.append("self.average = torchmetrics.MeanMetric()\n")
        body += "self.average.update(output.mean())\n"
        metrics["average"] = draft.pick(("self.average.compute()", "self.average(x.mean())"))
    index = ""
    if draft.chance(0.2):
        index, metrics["index"] = ", batch_idx", "batch_idx"
    items = ", ".join(f'"{name}": {value}' for name, value in metrics.items())
    body += draft.pick((f"return {{{items}}}\n", f"found = {{{items}}}\nreturn found\n"))
    draft.method(f"evaluate_batch(self, batch{index})", body)
    if draft.chance(0.3) and "per_row" not in metrics:
        one = draft.pick(REDUCERS)
        if draft.chance(0.6):
            one = ", ".join(f'"{name}": {draft.pick(REDUCERS)}' for name in metrics)
            one = f"{{{one}}}"
        draft.method("evaluation_reducer(self)", f"return {one}\n")


def _evaluate_whole(draft: Draft, output: str) -> None:
    """evaluate_full_dataset, which may be one of several validations."""
    body = _whole(draft, output)
    kind = draft.pick(("", "", "a", "b"))
    if kind:
        draft.init.append(f'self.kind = "{kind}"\n')
        above, called = draft.pick(CHOICES)
        body = above.replace("NET", f"self.{draft.nets[-1]}") + body
        if called:
            draft.method(f"{called}(self, data_loader)", _whole(draft, output))
    draft.method("evaluate_full_dataset(self, data_loader)", body)


#: What tells one of several validations, and the method that it calls.
CHOICES = (
    ('if self.kind == "a":\n    return self.other(data_loader)\n', "other"),
    ('if not self.kind == "b":\n    return {**self.other(data_loader)}\n', "other"),
    ('if self.kind in ("a", "c"):\n    return {"val": 1.0}\n', ""),
    (
        'NET.eval()\nkind = self.kind\nif kind == "a":\n    return self.other(data_loader)\n'
        'elif kind != "b":\n    raise ValueError(kind)\n',
        "other",
    ),
    (
        'if self.kind == "a":\n    found = self.other(data_loader)\n    return found\n'
        'elif self.kind == "c":\n    return {"val": 2.0}\n',
        "other",
    ),
)


def _whole(draft: Draft, output: str) -> str:
    """The body of evaluate_full_dataset: sums or lists, and what the last batch has left."""
    batch, *loop = draft.pick(
        (
            ("batch", "for batch in data_loader:\n"),
            ("batch", "for i, batch in enumerate(data_loader):\n", "if i == 1:\n    continue\n"),
            ("x, y", "for i, (x, y) in enumerate(data_loader):\n"),
        )
    )
    above, inner, below = draft.pick(
        (
            ("total = 0.0\n", "total += (output - y).abs().sum().item()\n", "total / count"),
            (
                "errors, last = [], None\n",
                "errors.append((output - y).abs().cpu())\nlast = errors[-1].mean()\n",
                "torch.cat(errors).mean() + last",
            ),
            (
                "worst = float('-inf')\n",
                "error = (output - y).abs()\nworst = max(worst, error.max().item())\n",
                "worst + error.sum()",
            ),
        )
    )
    moved = f"x, y = {draft.pick(MOVED)}\n" if batch == "batch" else ""
    lines = f"{''.join(loop[1:])}{moved}{output}{inner}count += len(x)\n"
    looped = loop[0] + textwrap.indent(lines, " " * 4)
    if draft.chance(0.5):
        looped = "with torch.no_grad():\n" + textwrap.indent(looped, " " * 4)
    result = f'{{"val": {below}, "count": count, "batches": len(data_loader)}}'
    return f"{above}count = 0\n{looped}return {result}\n"


MOVED = ("batch", "self.context.to_device(batch)")


def _loaders(draft: Draft) -> None:
    """Loaders of any sizes; one may need what the other has set."""
    options = draft.pick(("", ", shuffle=True", ", shuffle=True, drop_last=True"))
    size = "self.context.get_per_slot_batch_size()"
    data, lines, more = f"rows({draft.pick((8, 9, 12, 14))})", "", ""
    if draft.chance(0.15):
        lines = f"self.training = {data}\n"
        data, more = "self.training", draft.pick(("", "held = self.training[0]\n"))
        if draft.chance(0.4):
            draft.train.insert(1, "x = x + self.training[0][0]\n")
    if draft.chance(0.2):
        lines += f"size = {size}\n"
        size = "size"
    made = f"return DataLoader({data}, batch_size={size}{options})\n"
    draft.method("build_training_data_loader(self)", lines + made)
    validation = draft.pick(((6, 3), (6, 2), (4, 2), (5, 3), (7, 4)))
    if "mean(1)" in "".join(draft.methods):
        validation = (6, 3)
    made = "return DataLoader(rows({}), batch_size={})\n".format(*validation)
    draft.method("build_validation_data_loader(self)", more + made)
