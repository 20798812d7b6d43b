from __future__ import annotations

import ast
import textwrap

import pytest

from det_compat.migrate.to_lightning.whole.flow import flow, is_plain, set_otherwise


def body(text: str) -> list[ast.stmt]:
    return ast.parse(textwrap.dedent(text)).body


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("x = y", "y"),
        ("x = 1\nz = x", ""),
        ("x += 1", "x"),
        ("if c:\n    x = 1\nelse:\n    x = 2\nx", "c"),
        ("if c:\n    x = 1\nx", "c x"),
        ("if c:\n    return\nelse:\n    x = 1\nx", "c"),
        ("for x in y:\n    z = x\nz", "y z"),
        ("for x in y:\n    pass\nx", "x y"),
        ("while c:\n    c = x", "c x"),
        ("with y as x:\n    z = x\nz", "y"),
        ("try:\n    x = 1\nexcept E:\n    x = 2\nx", "E"),
        ("try:\n    x = 1\nexcept E:\n    pass\nx", "E x"),
        ("try:\n    x = 1\nfinally:\n    z = 1\nx, z", ""),
        ("[x for x in y if z]", "y z"),
        ("[x for x in x]", "x"),
        ("lambda x: x + y", "y"),
        ("def f(x):\n    z = y\n    return x + z", "y"),
        ("import x.y\nx", ""),
        ("del x", "x"),
        ("x[0] = 1", "x"),
        ("x: int\nx", "x"),
        ("x: int = 1\nx", "int"),
    ],
)
def test_what_is_read_before_it_is_set(text, read):
    assert flow(body(text)).read - {"int"} == {*read.split()} - {"int"}


def test_what_is_set():
    text = "a = 1\nb, *c = x\nfor d in y:\n    e: int = 1\nwith z as f:\n    (g := 1)\nimport h.i\n"
    assert flow(body(text)).bound == {*"abcdefgh"}


def test_what_is_set_by_more_than_assignments():
    text = "a = 1\nfor b in [c for c in x]:\n    pass\ndef d(e):\n    f = 1\n"
    assert set_otherwise(body(text)) == {*"bcdef"}


@pytest.mark.parametrize(
    "text", ["locals()", "global x", "await x", "yield x", "match x:\n    case _: 1"]
)
def test_code_whose_variables_are_not_to_be_told(text):
    assert not is_plain(body(text))
    assert is_plain(body("x = y.eval()"))
