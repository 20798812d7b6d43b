from __future__ import annotations

import libcst as cst
import pytest

from det_compat.migrate.tree.marks import without_old_code, without_platform


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# from determined.pytorch import DataLoader\n# Mine.\nx = 1\n", "# Mine.\nx = 1\n"),
        (
            "x = 1\n\n# self.opt = self.context.wrap_optimizer(\n#     SGD(\n#         lr=1,\n"
            "#     )\n# )\n\ny = 1\n",
            "x = 1\n\ny = 1\n",
        ),
        ("#if self.context.get_hparam('a'):\n#    x = 1\n# Mine.\nx = 2\n", "# Mine.\nx = 2\n"),
        ("def f():\n    x = 1\n    # self.context.backward(loss)\n", "def f():\n    x = 1\n"),
        ("# Wrap it using self.context.wrap_model().\nx = 1\n", "x = 1\n"),
        (
            "# It loads.\n# It returns a determined.pytorch.Dataset.\nx = 1\n",
            "# It loads.\nx = 1\n",
        ),
        (
            "x = 1\n\n### Load a checkpoint\n# from determined.experimental import client\n"
            "# client.login()\n"
            "# model = client.get_model(name)\n# net = model.load()\n\ny = 1\n",
            "x = 1\n\ny = 1\n",
        ),
        (
            "# It loads.\n# from determined.experimental import client\n# client.login(me)\n"
            "# x = me.load()\nx = 1\n",
            "# It loads.\n# x = me.load()\nx = 1\n",
        ),
        # Code that is not Determined's, prose of several lines, and marks stay.
        ("# self.opt = SGD(self.context)\nx = 1\n", None),
        ("# Why self.context.wrap_model() is called\n# here, and only here.\nx = 1\n", None),
        ("# wrap optimizer\nx = 1\n", "x = 1\n"),
        ("# Do determined wrapping\n# determined wraps the models\nx = 1\n", None),
        ("# wrap angles\nx = 1\n", None),
        ("# determined wrapping of model and optimizer\nx = 1\n", "x = 1\n"),
        ("# MIGRATE: determined.pytorch.X has no counterpart; see A.md\nx = 1\n", None),
        ("# a = f(\n#     self.context.device\nx = 1\n", None),
    ],
)
def test_old_code_in_comments_goes(before, after):
    assert without_old_code(cst.parse_module(before)).code == (after or before)


@pytest.mark.parametrize(
    ("comment", "is_left"),
    [
        ("# Determined averages these.", False),
        (
            "# Determined averages these,\n    # batch by batch. Determined's slots do so, too.",
            False,
        ),
        ("# Determined averages these. Each counts.", True),
        ("# Determined by the number of classes", True),
        ("# TODO: Determined averages these", True),
    ],
)
def test_a_class_without_comments_on_the_platform(comment, is_left):
    node = cst.parse_module(f"class A:\n    {comment}\n    x = 1\n").body[0]
    assert isinstance(node, cst.ClassDef)
    code = cst.Module([without_platform(node)]).code
    assert code == f"class A:\n{f'    {comment}{chr(10)}' if is_left else ''}    x = 1\n"


def test_who_has_given_something_is_not_said_any_more():
    said = "# Put them on a device.\n    # It is the device specified by Determined."
    node = cst.parse_module(f"class A:\n    {said}\n    x = 1\n").body[0]
    assert isinstance(node, cst.ClassDef)
    left = cst.Module([without_platform(node)]).code
    assert left == f"class A:\n    {said.replace(' specified by Determined', '')}\n    x = 1\n"
