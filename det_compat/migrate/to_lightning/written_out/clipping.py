"""Callbacks of Determined 0.12 that clip gradients."""

import libcst as cst

from det_compat.migrate.to_context.optimization import NOT_CALLED
from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.to_lightning.written_out.definitions import (
    Definition,
    renamed,
    with_definitions,
)
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import comment, marked

#: A trial that was without effect in such a hook would now be trained to other weights.
CALLED = "Lightning calls this, and Determined has not since 0.12.13"
_CLASS = """\
class {name}(pl.Callback):
    \"""Clips gradients before each step of an optimizer.\"""

    def __init__(self, clip_value):
        self.clip_value = clip_value

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        torch.nn.utils.{function}(parameters, self.clip_value)
"""
_FUNCTIONS = {"ClipGradsL2Norm": "clip_grad_norm_", "ClipGradsL2Value": "clip_grad_value_"}
_KNOWN = {
    name: Definition(
        _CLASS.format(name=name, function=function),
        ("import pytorch_lightning as pl", "import torch"),
    )
    for name, function in _FUNCTIONS.items()
}


def write_out_clipping(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Define the callbacks that clip in a file that makes some.

    Those of older trials are gone by now, as their steps clip, but for those that a run may make or
    not: Lightning calls them, as Determined did then.
    """
    tree, used = renamed(tree, file, {f"det_compat.pytorch.{name}": name for name in _FUNCTIONS})
    tree = with_definitions(tree, file, sorted(used), _KNOWN)
    said = {comment(*NOT_CALLED)}
    calls = [call for call in syntax.find(tree, cst.Call) if syntax.code(call.func) in used]
    older = [each for each in syntax.find(tree, cst.FunctionDef) if said & {*_comments(each)}]
    if older and {*calls} <= {call for each in older for call in syntax.find(each, cst.Call)}:
        return syntax.each(tree, cst.FunctionDef, lambda node: _without(node, said))
    return syntax.each(
        tree, cst.ClassDef, lambda node: marked(node, CALLED) if node.name.value in used else node
    )


def _comments(node: cst.FunctionDef) -> list[str]:
    return [line.comment.value if line.comment else "" for line in node.leading_lines]


def _without(node: cst.FunctionDef, said: set[str]) -> cst.FunctionDef:
    lines = zip(node.leading_lines, _comments(node), strict=True)
    return node.with_changes(leading_lines=[line for line, text in lines if text not in said])
