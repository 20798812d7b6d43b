from __future__ import annotations

import pytest

from det_compat.migrate.line_length import apply

LONG = "a" * 50


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"f({LONG}, {LONG})", f"f(\n    {LONG},\n    {LONG},\n)"),
        (f"x = f({LONG}, {LONG[:40]})", f"x = f(\n    {LONG}, {LONG[:40]}\n)"),
        (
            f"f(g({LONG}, {LONG}), 1)",
            f"f(\n    g(\n        {LONG},\n        {LONG},\n    ),\n    1,\n)",
        ),
        (
            f"f({{x: {LONG} for x, y in {LONG}}})",
            f"f(\n    {{\n        x: {LONG}\n        for x, y in {LONG}\n    }},\n)",
        ),
        (f"x = [{LONG}, {LONG}]", f"x = [\n    {LONG},\n    {LONG},\n]"),
        (f'x = {{"a": {LONG}, "b": {LONG}}}', f'x = {{\n    "a": {LONG},\n    "b": {LONG},\n}}'),
        (f"x = {LONG}, {LONG}", f"x = (\n    {LONG},\n    {LONG},\n)"),
        ("f(1)", "f(1)"),
        ("f(\n            1,\n        )", "f(\n    1,\n)"),
        ("x = [f(\n        1,\n    )]", "x = [f(\n    1,\n)]"),
    ],
)
def test_long_lines(line, expected):
    made = apply(f"if x:\n    {line}\n".encode(), b"").decode()
    assert made == "if x:\n    " + expected.replace("\n", "\n    ") + "\n"


@pytest.mark.parametrize(
    ("before", "is_spread"), [("x" * 89, False), ("x" * 88, True), ("x\n#" + "#" * 88, True)]
)
def test_lines_are_as_long_as_those_of_the_file(before, is_spread):
    made = apply(f"f({LONG}, {LONG[:38]})\n".encode(), before.encode()).decode()
    assert made.startswith("f(\n") is is_spread


@pytest.mark.parametrize("source", [f"f({LONG}, {LONG})\n", "f(\n        1\n    )\n"])
def test_lines_that_were_there_stay(source):
    assert apply(source.encode(), source.encode()).decode() == source
