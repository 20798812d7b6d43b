from __future__ import annotations

import libcst as cst
import pytest

from det_compat.migrate.tree.transformers import with_more


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f()", "f(c=1)"),
        ("f(a)", "f(a, c=1)"),
        ("f(a, b,)", "f(a, b, c=1,)"),
        ("f(\n    a, b\n)", "f(\n    a, b, c=1\n)"),
        ("f(\n    a,\n)", "f(\n    a,\n    c=1,\n)"),
        ("f(\n    a,\n    b,\n)", "f(\n    a,\n    b,\n    c=1,\n)"),
        ("f(\n    a,\n    b\n)", "f(\n    a,\n    b,\n    c=1\n)"),
        ("f(a,\n  b)", "f(a,\n  b,\n  c=1)"),
        ("f(\n    a,  # first\n    b,\n)", "f(\n    a,  # first\n    b,\n    c=1,\n)"),
        ("f(a,  # first\n  b)", "f(a,  # first\n  b, c=1)"),
        ("f(*a, **b)", "f(*a, **b, c=1)"),
    ],
)
def test_more_arguments_stand_as_the_others_do(before, after):
    call = cst.parse_expression(before)
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    arg = cst.Arg(cst.Integer("1"), keyword=cst.Name("c"), equal=equal)
    assert isinstance(call, cst.Call)
    assert cst.Module([]).code_for_node(with_more(call, [arg])) == after
