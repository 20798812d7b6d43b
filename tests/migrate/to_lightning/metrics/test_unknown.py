from __future__ import annotations

import sys

import pytest
import torch

from tests.migrate.rewriting import HEADER, method, rewritten, trial

STEP = """\
        loss = self.model(batch).sum()
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
        return {"loss": loss}
"""


@pytest.mark.parametrize(
    ("line", "is_known"),
    [
        ("loss = sum(each for each in losses.values())", True),
        ("loss = sum(losses.values())", True),
        ("loss = losses['loss']", False),
        ("loss, most = losses['loss'], sum(losses.values())", False),
    ],
)
@pytest.mark.parametrize("between", ["", "        print(loss)\n"])
def test_what_is_added_up_to_a_loss_is_numbers(line, is_known, between, tmp_path):
    """Of which a backward pass is, is one number, and so is all that it is the sum of."""
    step = f"""\
        losses = self.model(batch)
        {line}
        self.context.backward(loss)
{between}        self.context.step_optimizer(self.opt)
        losses["rate"] = 0.1
        return losses
"""
    made = rewritten(tmp_path, trial((STEP, step)))
    known = "    self.log_dict(losses)" if is_known else "    self.log_dict(numbers_of(losses))"
    assert known in method(made, "training_step")


@pytest.mark.parametrize(
    ("line", "is_known"),
    [
        ("from transformers import glue_compute_metrics as scored", True),
        ("from transformers.data.metrics.squad_metrics import squad_evaluate as scored", True),
        ("from own import scored", False),
        ("from transformers import scored", False),
    ],
)
def test_what_functions_of_libraries_return_is_known(line, is_known, tmp_path):
    helper = """\
    def scores(self, batch):
        found = scored("task", batch)
        found["error"] = self.model(batch).sum()
        return found

    def evaluate_batch(self, batch):
        found = self.scores(batch)
        return found
"""
    old = trial().partition("    def evaluate_batch")[2]
    source = trial((f"    def evaluate_batch{old}", helper), header=f"{line}\n{HEADER}")
    made = rewritten(tmp_path, source)
    assert ("numbers_of" in made) is not is_known


@pytest.mark.parametrize(
    ("line", "is_known"),
    [
        ("total = sum(losses.values())\n        print(total.item())", True),
        ("total = sum(losses.values())\n        print(total)", False),
    ],
)
def test_what_is_added_up_to_one_number_is_numbers_in_validations(line, is_known, tmp_path):
    old = '        return {"error": self.model(batch).sum()}\n'
    new = f"        losses, found = self.model(batch)\n        {line}\n        return losses\n"
    made = rewritten(tmp_path, trial((old, new)))
    assert ("numbers_of" in made) is not is_known


SUMMARY = """\
import numpy as np
import torch

def per_class(pred, n):
    out = np.full(n, np.nan)
    out[0] = float(pred.mean())
    return out

def summary(pred):
    recall = per_class(pred, 3)
    counts = torch.bincount(pred.flatten().long())
    return {"recall": recall, "best": np.nanmax(recall), "counts": counts}

def nested(pred):
    return {"phase": None, "by": {"who": "me"}, "mean": pred.mean()}

def named(pred):
    return {"mean": pred.mean(), "phase": "warm" if len(pred) else None}

def filled(pred):
    found = {}
    for name, value in summary(pred).items():
        found[name] = value
    return found

def plain(pred, n):
    best = pred.max().item() if n else float("nan")
    right = (pred > 0).float().sum().item()
    mean = np.mean(pred.numpy())
    return {"best": best, "mean": mean, "rate": right / len(pred), "n": pred.shape[0]}

def lost(pred, y, criterion):
    loss = criterion(pred, y)
    return dict(loss=loss, half=0.5 * loss.detach())

def listed(pred):
    found = pred
    for each in range(3):
        found = found + each
    return found

def pair(pred):
    return pred.mean(), per_class(pred, 3)
"""
EVALUATION = '        return {"error": self.model(batch).sum()}\n'


def validated(folder, lines, is_near):
    """The migrated file, and what it logs of one batch."""
    if is_near:
        header = SUMMARY.partition("\n\n")[2]
        source = trial(
            (EVALUATION, lines.replace("s.", "")),
            header=f"import numpy as np\n{HEADER}{header}\n\n",
        )
    else:
        (folder / "scores_of_it.py").write_text(SUMMARY)
        source = trial(
            (EVALUATION, lines), header=f"import numpy as np\nimport scores_of_it as s\n{HEADER}"
        )
    made, logged = rewritten(folder, source), {}
    space = {"__name__": "model_def"}
    sys.path.insert(0, str(folder))
    try:
        exec(made, space)
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("scores_of_it", None)
    module = space["Trial"](global_batch_size=4)
    module.log_dict = lambda found, **options: logged.update(found)
    module.log = lambda name, found, **options: logged.update({name: found})
    with torch.no_grad():
        module.validation_step(torch.ones(3, 2), 0)
    return made, logged


@pytest.mark.parametrize("is_near", [True, False])
@pytest.mark.parametrize("call", ["summary", "nested", "filled"])
@pytest.mark.parametrize(
    "lines",
    [
        'return {{"error": batch.sum(), **{0}(batch)}}',
        'out = {{"error": batch.sum()}}\nout.update({0}(batch))\nreturn out',
        'out = {{"error": batch.sum()}}\nout |= {0}(batch)\nreturn out',
        "return {0}(batch)",
    ],
)
def test_what_functions_of_the_project_return_is_sorted_out(lines, call, is_near, tmp_path):
    lines = "".join(f"        {line}\n" for line in lines.format(f"s.{call}").split("\n"))
    made, logged = validated(tmp_path, lines, is_near)
    assert "numbers_of(" in method(made, "validation_step")
    assert logged
    assert all(isinstance(value, (float, int)) or value.numel() == 1 for value in logged.values())


@pytest.mark.parametrize("is_near", [True, False])
@pytest.mark.parametrize(
    "line",
    [
        'return {"error": batch.sum(), **s.plain(batch, 3)}',
        "return s.plain(batch, 3)",
        "return s.lost(batch, batch, torch.nn.functional.mse_loss)",
        'mean, recall = s.pair(batch)\n        return {"mean": mean, "error": batch.sum()}',
        'found = s.plain(batch, 3)\n        return {"best": found["best"], "n": found["n"] + 1}',
        'found = self.model(batch)\n        return {"a": found[0], "b": found.mean().cpu()}',
    ],
)
def test_what_functions_of_the_project_show_to_be_numbers_is_logged_as_it_is(
    line, is_near, tmp_path
):
    made, logged = validated(tmp_path, f"        {line}\n", is_near)
    assert "numbers_of" not in made
    assert logged


@pytest.mark.parametrize(
    "line",
    [
        'mean, recall = s.pair(batch)\n        return {"recall": recall, "error": batch.sum()}',
        'return {"recall": s.summary(batch)["recall"], "error": batch.sum()}',
        'found = s.summary(batch)\n        return {"recall": found["recall"], "error": 1}',
        'found = s.summary(batch)["recall"]\n        return {"recall": found.round(2), "error": 1}',
        'return {"recall": s.listed(batch).detach().cpu(), "error": 1.0}',
        'return {"recall": np.round(s.listed(batch).numpy(), 2), "error": 1.0}',
        'f = s.listed(batch)\n        f = s.listed(f)\n        return {"recall": f}',
        "out = {}\n        for name, value in s.summary(batch).items():\n"
        "            out[name] = value\n        return out",
        'out = {"error": batch.sum()}\n        out["all"] = s.filled(batch)\n        return out',
    ],
)
def test_a_metric_that_a_function_of_the_project_makes(line, tmp_path):
    made, logged = validated(tmp_path, f"        {line}\n", False)
    assert "numbers_of(" in method(made, "validation_step")
    assert all(isinstance(value, (float, int)) or value.numel() == 1 for value in logged.values())
    names = {"error", "recall", "best", "counts"}
    assert {*logged} - names <= {"all/recall", "all/best", "all/counts"}


@pytest.mark.parametrize(
    ("line", "is_marked"),
    [
        ('return {"error": batch.sum(), **s.named(batch)}', True),
        ("return s.named(batch)", True),
        ("found = s.named(batch)\n        return found", True),
        ("found = {}\n        found.update(s.named(batch))\n        return found", True),
        ("return s.summary(batch)", False),
    ],
)
def test_texts_of_functions_of_the_project_are_left_out_with_a_mark(line, is_marked, tmp_path):
    made, logged = validated(tmp_path, f"        {line}\n", False)
    assert ("MIGRATE: Lightning logs numbers, and a text" in made) is is_marked
    assert "phase" not in logged


BOTH = """\
    def both(self, batch):
        out = self.model(batch)
        return torch.nn.functional.mse_loss(out, batch), {0}

    def train_batch("""


@pytest.mark.parametrize(
    ("metrics", "is_known"),
    [
        ('{"positive": (out > 0).float().mean(), "rows": len(batch)}', True),
        ('{"means": out.mean(0)}', False),
        ('{"name": "x"}', False),
        ('{**self.other(out), "rows": len(batch)}', False),
        ("self.other(out)", False),
    ],
)
@pytest.mark.parametrize("made", ["dict(metrics, loss=loss)", '{"loss": loss, **metrics}'])
def test_numbers_in_a_dict_that_a_helper_returns_beside_the_loss(tmp_path, metrics, is_known, made):
    changes = [
        ("    def train_batch(", BOTH.replace("{0}", metrics)),
        ("loss = self.model(batch).sum()", "loss, metrics = self.both(batch)"),
        ('return {"loss": loss}', f"return {made}"),
    ]
    assert ("numbers_of" not in rewritten(tmp_path, trial(*changes))) is is_known
