from __future__ import annotations

import libcst as cst
import pytest

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.transformers import with_brackets, with_more


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


@pytest.mark.parametrize(
    ("inner", "made"),
    [
        ("a\n  if b\n  else c", "(\n        a\n        if b\n        else c\n    )"),
        ("f(a,\n  b)\n  .c()", "(\n        f(a,\n  b)\n        .c()\n    )"),
        ("a  # why\n  + b", "(\n        a  # why\n        + b\n    )"),
        ("f(\n  a,\n)", "f(\n  a,\n)"),
        ("lambda: a\n  or b", "(\n        lambda: a\n        or b\n    )"),
        ("(a\n  + b) * c", "(a\n  + b) * c"),
        ("x[\n  0]", "x[\n  0]"),
        ("not\\\n  a", "not\\\n  a"),
        ('"""a\nb"""', '"""a\nb"""'),
    ],
)
@pytest.mark.parametrize("statement", ["x = {}", "return {}", "x: int = {}", "x += {}", "{}"])
def test_what_was_in_the_brackets_of_a_call_gets_its_own(inner, made, statement):
    source = f"def go():\n    {statement.format(f'call({inner})')}\n"
    tree = syntax.each(
        cst.parse_module(source),
        cst.Call,
        lambda call: call.args[0].value if syntax.is_name(call.func, "call") else call,
    )
    bracketed = with_brackets(tree)
    assert bracketed.code == f"def go():\n    {statement.format(made)}\n"
    compile(bracketed.code, "", "exec")
    assert with_brackets(bracketed) is bracketed


@pytest.mark.parametrize(
    "statement", ["if {}:", "while {}:", "for x in {}:", "with {}:", "assert {}", "raise {}"]
)
def test_so_do_conditions(statement):
    body = " pass" if statement.endswith(":") else ""
    tree = cst.parse_module(f"{statement.format('(a' + chr(10) + '  or b)')}{body}\n")
    inner = next(syntax.find(tree, cst.BooleanOperation))
    made = with_brackets(syntax.with_node(tree, inner, inner.with_changes(lpar=[], rpar=[]))).code
    compile(made, "", "exec")
