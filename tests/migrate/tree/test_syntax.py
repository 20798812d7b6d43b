from __future__ import annotations

import re

import libcst as cst
import pytest

from det_compat.migrate.tree import syntax

SOURCE = """\
@n1(n2=n3, *n4)
def n5(n6, /, n7: n8 = n9, *n10, n11=n12, **n13) -> n14:
    n15 = n16 if n17 else n18
    with n19(n20) as n21, n22:
        n23 += [n24 for n25 in n26 if n27]
    try:
        n28
    except n29 as n30:
        raise n31 from n32
    for n33 in n34: n35
    return {n36: n37[n38], **n39}, lambda n40: n41 < n42 and not n43

@n44
class n45(n46, n47=n48):
    n49: n50 = n51
"""


def test_what_is_found_is_in_the_order_of_the_text() -> None:
    found = [name.value for name in syntax.find(cst.parse_module(SOURCE), cst.Name)]
    assert found == re.findall(r"n\d+", SOURCE)


class Renaming(cst.CSTTransformer):
    """Numbers names in the order in which it leaves them, and takes lines away or doubles them."""

    def __init__(self) -> None:
        super().__init__()
        self.left: list[str] = []

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.Name:
        self.left.append(original.value)
        return updated.with_changes(value=f"x{len(self.left)}")

    def leave_AugAssign(
        self, original: cst.AugAssign, updated: cst.AugAssign
    ) -> cst.RemovalSentinel:
        return cst.RemoveFromParent()

    def leave_Return(
        self, original: cst.Return, updated: cst.Return
    ) -> cst.FlattenSentinel[cst.BaseSmallStatement]:
        return cst.FlattenSentinel([cst.Pass(), updated])

    def leave_Arg(self, original: cst.Arg, updated: cst.Arg) -> cst.Arg | cst.RemovalSentinel:
        return cst.RemoveFromParent() if original.star else updated


def test_a_tree_is_transformed_as_libcst_does() -> None:
    tree, ours, theirs = cst.parse_module(SOURCE), Renaming(), Renaming()
    assert syntax.transformed(tree, ours).code == tree.visit(theirs).code
    assert ours.left == theirs.left


def test_what_nothing_has_changed_stays_the_same_node() -> None:
    tree = cst.parse_module("a = b\nc = d  # why\n")
    made = syntax.each(tree, cst.Name, lambda n: cst.Name("e") if n.value == "d" else n)
    assert made.code == "a = b\nc = e  # why\n"
    assert made.body[0] is tree.body[0]
    assert syntax.each(tree, cst.Name, lambda n: n) is tree


def test_what_is_made_anew_of_the_same_parts_stays_the_same_node() -> None:
    class Making(cst.CSTTransformer):
        def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.Attribute:
            return updated.with_changes(attr=updated.attr, lpar=[*updated.lpar])

        def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.Name:
            return updated.with_changes(value=updated.value)

    tree = cst.parse_module("a.b = (c.d)\n")
    assert syntax.transformed(tree, Making()) is tree


@pytest.mark.parametrize("text", ["x", "x.y", "f(1)", "x[0]"])
def test_brackets_around_what_is_one_say_nothing(text: str) -> None:
    assert syntax.code(cst.parse_expression(f"(\n    {text}\n)")) == text


def test_what_is_only_looked_at_is_parsed_once() -> None:
    assert syntax.looked_at("x = 1\n") is syntax.looked_at("x = 1\n")


def test_code_of_several_lines_is_put_at_the_depth_of_its_line():
    """The code of an expression knows no depth, but texts in it keep their lines."""
    value = syntax.code(syntax.expression('f(\n    1,\n    """\n a\n""",\n)'))
    made = syntax.method(f"def go(self):\n    if self:\n        self.a = {value}\n    return 1\n")
    lines = ["self.a = f(", "            1,", '            """', " a", '""",', "        )"]
    assert "\n".join(lines) in syntax.code(made)
    plain = "def go(self):\n    return f(\n        1,\n    )\n"
    assert syntax.code(syntax.method(plain)).strip() == plain.strip()


@pytest.mark.parametrize(
    ("text", "alone"),
    [
        ("(a\n   if b\n   else c)", "a if b else c"),
        ("(torch\n  .optim\n  .SGD)", "torch.optim.SGD"),
        ("(f(a,\n  b)\n + g)", "f(a,\n  b) + g"),
        ("(a  # why\n + b)", "(a  # why\n + b)"),
        ('("""a\nb"""\n + c)', '"""a\nb""" + c'),
        ("(a +\n\n  b)", "a + b"),
    ],
)
def test_the_text_of_an_expression_can_stand_anywhere(text, alone):
    inner = cst.parse_expression(text).with_changes(lpar=[], rpar=[])
    assert syntax.code(inner) == alone
    is_primary = isinstance(inner, (cst.Attribute, cst.Call, cst.Subscript))
    assert syntax.code(cst.parse_expression(text)) == (alone if is_primary else text)
    compile(f"x = {alone}\n", "", "exec")
