from __future__ import annotations

import libcst as cst
import pytest

from det_compat.migrate.tree.metric_shapes import all_scalar, is_many, is_no_number, is_scalar
from tests.migrate.rewriting import method, rewritten, trial


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
    ["[1, 2]", "torch.stack(xs)", "torch.tensor([1])", "F.mse_loss(a, b, reduction='none')"],
)
def test_several(text):
    assert is_many(cst.parse_expression(text), {})


@pytest.mark.parametrize("text", ["None", "'text'", "f'{x}'", "{'a': 1}"])
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
    assert '"error": torch.as_tensor([1.0, 2.0]).float().mean()' in made
    assert "'m': torch.as_tensor(batch.mean(0)).float().mean()" in made
    assert "# MIGRATE: Lightning logs numbers, and 's' is none" in made
    assert "text" not in made


def test_metrics_of_the_whole_are_not(tmp_path):
    changes = (
        ("def evaluate_batch(self, batch)", "def evaluate_full_dataset(self, data_loader)"),
        ("self.model(batch).sum()}", "1.0, 'all': [1.0, 2.0]}"),
    )
    made = method(rewritten(tmp_path, trial(*changes)), "validation_step")
    assert '    self.log("error", 1.0, batch_size=1)' in made
    assert "# MIGRATE: Lightning logs numbers, and 'all' is none" in made
