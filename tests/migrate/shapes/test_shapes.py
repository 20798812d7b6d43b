from __future__ import annotations

import libcst as cst
import pytest
import torch

from det_compat.migrate.shapes.returned import all_scalar, odd_kinds
from det_compat.migrate.shapes.texts import is_no_number
from det_compat.migrate.shapes.values import is_many, is_odd, is_scalar
from tests.migrate.rewriting import HEADER, method, rewritten, trial


@pytest.mark.parametrize(
    "text",
    ["1", "x.mean()", "float(x)", "F.cross_entropy(a, b)", "x.mean() / len(y)", "-x.sum().item()"],
)
def test_numbers(text):
    assert is_scalar(cst.parse_expression(text), {})


@pytest.mark.parametrize(
    "text", ["x", "x != y", "x.mean(0)", "F.cross_entropy(a, b, reduction='none')", "[1]"]
)
def test_what_may_be_several(text):
    assert not is_scalar(cst.parse_expression(text), {})


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2]",
        "torch.stack(xs)",
        "torch.tensor([1])",
        "F.mse_loss(a, b, reduction='none')",
        "sorted(set(y.tolist()))",
        "range(3)",
        "{1, 2}",
        "[1] if x else 0",
        "[0] * n",
        "(logits.argmax(-1) == y).float()",
        "((model(x) > 0) == (y > 0.5)).float()",
        "torch.argmax(x, dim=1)",
        "x.eq(y).cpu()",
        "torch.stack(xs).nan_to_num(0).clamp(min=0)",
        "np.round(np.concatenate(xs), 3)",
        "F.relu(torch.cat(xs)).reshape(-1)",
        "abs(torch.stack(xs))",
        "round(np.array([1, x]), 2)",
        "F.softmax(x, dim=1).square()",
        "1 - x.cumsum(0)",
        "torch.zeros(3).mul(2)",
    ],
)
def test_several(text):
    assert is_many(cst.parse_expression(text), {})


@pytest.mark.parametrize(
    "text",
    [
        "x.argmax()",
        "torch.argmax(x)",
        "n == 1",
        "x.eq(y).sum().item()",
        "torch.stack(xs).mean().clamp(min=0)",
        "abs(x.mean())",
        "round(float(x), 3)",
    ],
)
def test_what_may_be_one(text):
    assert not is_many(cst.parse_expression(text), {})


@pytest.mark.parametrize(
    ("text", "row", "is_one"),
    [
        ("coco.stats[0]", None, True),
        ("stats[1]", "evaluator.coco_eval['bbox'].stats.tolist()", True),
        ("stats[i]", "evaluator.coco_eval['bbox'].stats", False),
        ("stats[:2]", "coco.stats", False),
        ("stats[0]", "meter.stats", False),
    ],
)
def test_numbers_of_pycocotools(text, row, is_one):
    known = {} if row is None else {"stats": cst.parse_expression(row)}
    node = cst.parse_expression(text)
    assert is_scalar(node, known) is is_one
    assert not (is_one and is_odd(node, known))


@pytest.mark.parametrize(
    "text", ["None", "'text'", "f'{x}'", "'a' if x else None", "str(x)", "','.join(x)"]
)
def test_no_numbers(text):
    assert is_no_number(cst.parse_expression(text))


def test_variables_that_are_set_once(tmp_path):
    function = "def f(x):\n    a = x.mean()\n    b = a\n    b += 1\n    return {{'a': {0}}}\n"
    for name, expected in (("a", True), ("b", False)):
        node = cst.parse_statement(function.format(name))
        assert isinstance(node, cst.FunctionDef)
        assert all_scalar(node) is expected


def test_metrics_of_batches_are_reduced(tmp_path):
    change = ("self.model(batch).sum()}", "[1.0, 2.0], 'm': batch.mean(0), 's': 'text'}")
    made = method(rewritten(tmp_path, trial(change)), "validation_step")
    assert '"error": float(torch.as_tensor([1.0, 2.0]).float().mean())' in made
    assert "'m': torch.as_tensor(batch.mean(0)).float().mean()" in made
    assert "# MIGRATE: Lightning logs numbers, and 's' is none" in made
    assert "text" not in made


def test_metrics_of_the_whole_are_not(tmp_path):
    changes = (
        ("def evaluate_batch(self, batch)", "def evaluate_full_dataset(self, data_loader)"),
        ("self.model(batch).sum()}", "1.0, 'all': [1.0, 2.0]}"),
    )
    made = method(rewritten(tmp_path, trial(*changes)), "validation_step")
    assert 'self.log_dict({"error": 1.0, ' in made
    assert '"all_0": 1.0, "all_1": 2.0' in made


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"lr": [1.0, 2.0]', '"lr_0": 1.0, "lr_1": 2.0'),
        (
            '"lr": self.scheduler.get_last_lr()',
            '**{f"lr_{i}": value for i, value in enumerate(self.scheduler.get_last_lr())}',
        ),
    ],
)
def test_each_number_of_a_training_metric_has_a_name(before, after, tmp_path):
    made = rewritten(tmp_path, trial(('{"loss": loss}', f'{{"loss": loss, {before}}}')))
    assert f"{after}}}" in made or f"{after},\n" in made
    assert "MIGRATE" not in made


def test_the_function_reduces_only_where_it_is_asked_to(tmp_path):
    lines = 'metrics = {"loss": loss}\n        metrics["all"] = [1.0]\n        return metrics'
    made = rewritten(tmp_path, trial(('return {"loss": loss}', lines)))
    assert "def numbers_of(metrics):\n" in made
    assert "reduction" not in made


def test_metrics_of_a_variable_are_sorted_out_where_they_are_known_to_be_odd(tmp_path):
    before = "metrics = {'error': 1.0}\n        metrics['all'] = [1.0]\n        return metrics"
    after = 'self.log_dict(numbers_of(metrics, "mean"), batch_size=1, sync_dist=True)'
    made = rewritten(tmp_path, trial(('return {"error": self.model(batch).sum()}', before)))
    assert method(made, "validation_step").endswith(after)
    assert made.count("def numbers_of(") == 1
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("return {'a': x}", set()),
        ("return {'a': x.mean(0)}", {"many"}),
        ("return {'a': None, 'b': [x]}", {"many", "none"}),
        ("return {**m, 'a': 'text'} if x else m", {"none"}),
        ("m = {'a': x}; n = {'b': 'text'}; return m", set()),
        ("m = {}; m['a'] = f'{x}'; return m", {"none"}),
        ("return x.tolist()", {"many"}),
        ("return {'a': x if m else None}", {"many"}),
        ("y = None; return {'a': y}", {"many"}),
        ("y = 'b' if x else None\n    return {'a': y}", {"many", "none"}),
        ("return {'a': {'b': x}}", {"many"}),
        ("y = None\n    y = x + m\n    return {'a': y}", set()),
        ("y = None\n    y = y if m else x\n    return {'a': y}", {"many"}),
        ("y = None\n    if m:\n        y = x\n    return {'a': y}", {"many"}),
        ("y = None\n    if m:\n        return {'a': y}\n    y = x\n    return {'a': y}", {"many"}),
    ],
)
def test_odd_kinds(text, kinds):
    node = cst.parse_statement(f"def f(x, m):\n    {text}\n")
    assert isinstance(node, cst.FunctionDef)
    assert odd_kinds(node) == kinds


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'return {"loss": loss, "aux": loss if batch_idx else None}',
            "loss if self.global_step else None",
        ),
        ('aux = None\n        return {"loss": loss, "aux": aux}', "aux"),
    ],
)
def test_a_metric_that_is_none_at_times_is_logged_at_others(before, after, tmp_path):
    made = rewritten(tmp_path, trial(('return {"loss": loss}', before)))
    assert f'self.log_dict(numbers_of({{"loss": loss, "aux": {after}}}))' in made
    assert "MIGRATE" not in made


@pytest.mark.parametrize("is_near", [True, False])
def test_a_dict_of_metrics_among_others(is_near, tmp_path):
    nested = '{"first": loss, "last": {"w": self.model.weight.norm(), "b": self.model.bias}}'
    lines = f'return {{"loss": loss, "norms": {nested}}}'
    if not is_near:
        lines = f'found = {{"loss": loss}}\n        found["norms"] = {nested}\n        return found'
    made = rewritten(tmp_path, trial(('return {"loss": loss}', lines)))
    assert "MIGRATE" not in made
    assert ('"norms/last/w": self.model.weight.norm(),' in made) is is_near
    space = {"torch": torch}
    exec(made[made.index("def numbers_of") : made.index("class Trial")], space)
    numbers = {"norms": {"first": 1.0, "last": {"b": torch.ones(2), "w": None}}}
    found = space["numbers_of"](numbers)
    assert found == {"norms/first": 1.0, "norms/last/b_0": 1.0, "norms/last/b_1": 1.0}


@pytest.mark.parametrize("line", ["import metrics", "from tools import score as metrics"])
def test_the_function_hides_no_module_of_the_file(line, tmp_path):
    made = rewritten(
        tmp_path,
        trial(('{"loss": loss}', '{"loss": loss, **other(batch)}'), header=f"{line}\n{HEADER}"),
    )
    assert "def numbers_of(logged):\n" in made
    assert "metrics = " not in made


HELPERS = """
def hits(out):
    found = []
    for each in out:
        found.append(each.mean())
    return found


def share(out):
    return out.mean()


"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("batch.mean().cpu().numpy()", '"m": float(batch.mean().cpu())}'),
        ("share(batch)", '"m": share(batch)}'),
        ("hits(batch)", '"m": torch.as_tensor(hits(batch)).float().mean()}'),
        ("batch.max(1).values", 'numbers_of({"error": 1.0, "m": batch.max(1).values}, "mean")'),
        ("self.rate(batch)[0]", '"m": self.rate(batch)[0]}, "mean")'),
        ("self.rates.get_last_lr()[0]", '"m": self.rates.get_last_lr()[0]}, batch_size=1'),
        ("self.rates.get_last_lr()[:1]", '"m": self.rates.get_last_lr()[:1]}, "mean")'),
        # A table may have texts.
        ("names[int(batch.max())]", '"m": names[int(batch.max())]}, "mean")'),
        ("NAMES[batch]", '"m": NAMES[batch]}, "mean")'),
        ("found[0]", '"m": found[0]}, batch_size=1, sync_dist=True)'),
    ],
)
def test_metrics_are_followed_to_where_they_are_made(before, after, tmp_path):
    header = HEADER + HELPERS
    change = (
        'return {"error": self.model(batch).sum()}',
        f'return {{"error": 1.0, "m": {before}}}',
    )
    made = method(rewritten(tmp_path, trial(change, header=header)), "validation_step")
    assert after in made


def test_functions_of_other_files_are_followed(tmp_path):
    (tmp_path / "helpers.py").write_text(HELPERS)
    header = f"from helpers import hits\n{HEADER}"
    change = ('{"loss": loss}', '{"loss": loss, "hits": hits(batch)}')
    made = method(rewritten(tmp_path, trial(change, header=header)), "training_step")
    assert 'numbers_of({"loss": loss, "hits": hits(batch)})' in made


@pytest.mark.parametrize(
    "value",
    [
        "batch.mean(0)",
        "batch.mean(0).detach()",
        "batch.std(dim=1).cpu()",
        "torch.sum(batch, 1)",
        "torch.sqrt(batch.var(0))",
    ],
)
def test_what_is_reduced_over_one_dimension_may_be_a_row(value, tmp_path):
    returned = f'{{"loss": loss, "row": {value}}}'
    made = rewritten(tmp_path, trial(('{"loss": loss}', returned)))
    assert f"self.log_dict(numbers_of({returned}))" in made
    row = ('{"error": self.model(batch).sum()}', f'{{"error": {value}}}')
    made = rewritten(tmp_path, trial(row))
    mean = f"torch.as_tensor({value}).float().mean()"
    assert mean in method(made, "validation_step")


@pytest.mark.parametrize("value", ["batch.mean().detach()", "torch.sum(batch)", "np.std(batch)"])
def test_what_is_reduced_over_all_is_one_number(value, tmp_path):
    made = rewritten(tmp_path, trial(('"loss": loss', f'"loss": loss, "one": {value}')))
    assert f'self.log_dict({{"loss": loss, "one": {value}}})' in made


def test_a_loss_that_a_method_returns_is_logged(tmp_path):
    step = """\
    def step(self, batch):
        loss = self.model(batch).sum()
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
        return loss

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.step(batch)
        return loss
"""
    source = trial()
    start, end = source.index("    def train_batch"), source.index("    def evaluate_batch")
    made = rewritten(tmp_path, f"{source[:start]}{step}\n{source[end:]}")
    assert '        self.log("loss", loss)\n' in made
    # Of another one, a run tells whether it is a dict.
    helper = source[:start] + step.replace("        return loss\n\n", "        return f(loss)\n\n")
    made = rewritten(tmp_path, f"{helper}\n{source[end:]}")
    assert "self.log_dict(numbers_of(loss))" in made
    assert 'metrics if isinstance(metrics, dict) else {"loss": metrics}' in made


def test_a_loss_that_becomes_a_dict_is_logged_as_one(tmp_path):
    lines = """\
losses = self.model(batch).mean()
        losses = losses if isinstance(losses, dict) else {"loss": losses}
        loss = losses["loss"]"""
    changes = (
        ("loss = self.model(batch).sum()", lines),
        ('return {"loss": loss}', "return losses"),
    )
    assert "self.log_dict(numbers_of(losses))" in rewritten(tmp_path, trial(*changes))


def test_what_is_set_within_an_expression_is_sorted_out_at_run_time(tmp_path):
    returned = 'return {"error": self.model(batch).sum()}'
    within = 'found = (made := {"error": self.model(batch).sum().numpy()})\n        return found'
    assert "MIGRATE" not in rewritten(tmp_path, trial((returned, within)))
    step = method(rewritten(tmp_path, trial((returned, within))), "validation_step")
    assert 'numbers_of(found, "mean")' in step


@pytest.mark.parametrize(
    "lines",
    [
        ["found = {'a': batch.mean().numpy()}", "made = found", "return made"],
        ["found = {}", "found['a'] = batch.mean().numpy()", "made = found", "return made"],
        ["a = batch.mean().numpy()", "b = a", "return {'a': b}"],
    ],
)
def test_metrics_under_another_name_are_what_they_were(tmp_path, lines):
    old = '        return {"error": self.model(batch).sum()}\n'
    made = rewritten(tmp_path, trial((old, "".join(f"        {line}\n" for line in lines))))
    assert "self.log_dict(numbers_of(" in method(made, "validation_step")


def test_what_is_a_dict_for_sure_is_not_asked_whether_it_is_one(tmp_path):
    script = "\n\nprint(Trial(None).train_batch([], 0, 0))\n"
    assert "        self.log_dict(metrics)\n" in rewritten(tmp_path, trial() + script)
    unsure = trial(('{"loss": loss}', "loss")) + script
    assert "self.log_dict(metrics)" not in rewritten(tmp_path, unsure)


_ERRORS = """\
    def err(self, batch):
        x, y = self.context.to_device(batch)
        return self.model(x).squeeze(-1) - y

    def evaluate_batch(self, batch):
        e = self.err(batch)
        x, y = batch
        size = (1,)
"""


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        ("torch.quantile(e, torch.tensor([0.1, 0.9]))", False),
        ("torch.quantile(e, size)", False),
        ("e.quantile(torch.tensor([0.5]))", False),
        ("np.percentile(e.numpy(), [5, 95])", False),
        ("torch.quantile(e, 0.9)", True),
        ("e.quantile(0.5)", True),
        ("e", False),
        ("e ** 2", False),
        ("1 - y", False),
        ("batch[1]", False),
        ("y[0]", False),
        ("torch.sqrt(e)", False),
        ("torch.where(e > 0, e, 0)", False),
        ("F.cosine_similarity(x, x)", False),
        ("torch.cdist(x, x)", False),
        ("torch.linalg.svdvals(x)", False),
        ("x.norm(dim=1)", False),
        ("torch.einsum('ij->i', x)", False),
        ("x.matmul(x.T)", False),
        ("x.norm(2, 1)", False),
        ("x.norm(2)", True),
        ("torch.norm(x, 2)", True),
        ("np.divide(2, len(y))", True),
        ("e.mean()", True),
        ("torch.mean(e ** 2)", True),
        ("torch.linalg.norm(e)", True),
        ("torch.dot(e, e)", True),
        ("torch.any(e > 0)", True),
        ("torch.randint(9, (1,))", True),
        ("F.triplet_margin_loss(x, x, x)", True),
        ("len(y)", True),
        ("y.size(0)", True),
        ("x.shape[0]", True),
        ("self.criterion(x, y)", True),
    ],
)
def test_what_is_made_of_a_batch_is_one_number_where_it_is_reduced(value, is_one, tmp_path):
    old = 'return {"error": self.model(batch).sum()}'
    source = trial(
        (old, f'return {{"error": {value}}}'),
        ("    def evaluate_batch(self, batch):\n", _ERRORS),
    )
    step = method(rewritten(tmp_path, source), "validation_step")
    is_reduced = ".float().mean()" in step or "numbers_of(" in step
    assert is_reduced is not is_one
