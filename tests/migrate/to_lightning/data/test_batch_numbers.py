from __future__ import annotations

import libcst as cst
import pytest
from libcst.helpers import ensure_type

from det_compat.migrate.to_lightning.data.batch_numbers import with_batch_number
from det_compat.migrate.tree import syntax


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "if i == 0:\n        start()",
            "if me.current_epoch == 0 and batch_idx == 0:\n        start()",
        ),
        (
            "if not i or new:\n        pass",
            "if (me.current_epoch == 0 and batch_idx == 0) or new:\n        pass",
        ),
        ("return (i > 0) is later", "return (me.current_epoch > 0 or batch_idx > 0) is later"),
        (
            "return f(i != 0, i == 1)",
            "i = me.trainer.fit_loop.total_batch_idx\n    return f(i != 0, i == 1)",
        ),
        ("return batch", "return batch"),
    ],
)
def test_the_number_of_a_batch(before: str, after: str) -> None:
    head = "def train_batch(me, batch, epoch, i):\n    "
    method = ensure_type(syntax.statement(f"{head}{before}\n"), cst.FunctionDef)
    made = with_batch_number(method, "i", is_counted=False)
    assert syntax.code(made) == f"{head}{after}\n"
    # Where Lightning makes one step with each batch, it counts these.
    made = with_batch_number(method, "i", is_counted=True)
    total = "trainer.fit_loop.total_batch_idx"
    assert syntax.code(made) == f"{head}{after.replace(total, 'global_step')}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "return f(i=i, x=self.i, y=[i])",
            "return f(i=me.global_step, x=self.i, y=[me.global_step])",
        ),
        ("return i > 0", "return (me.current_epoch > 0 or batch_idx > 0)"),
        ("return i, i, i", "i = me.global_step\n    return i, i, i"),
        ("i += 1\n    return i", "i = me.global_step\n    i += 1\n    return i"),
        ("return [i for i in batch]", "i = me.global_step\n    return [i for i in batch]"),
        ("return lambda i: i", "i = me.global_step\n    return lambda i: i"),
    ],
)
def test_a_number_that_stays_is_asked_for_where_it_is_read(before: str, after: str) -> None:
    head = "def train_batch(me, batch, epoch, i):\n    "
    method = ensure_type(syntax.statement(f"{head}{before}\n"), cst.FunctionDef)
    made = with_batch_number(method, "i", is_counted=True, is_automatic=True)
    assert syntax.code(made) == f"{head}{after}\n"
