"""Callbacks of Determined 0.12 that clip gradients."""

from typing import TypeVar

import libcst as cst

from det_compat.migrate.to_context.clipping import CALLBACKS, HOOK, NOT_CALLED
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
_Node = TypeVar("_Node", cst.FunctionDef, cst.ClassDef, cst.SimpleStatementLine)
_CLASS = """\
class {name}(pl.Callback):
    \"""Clips gradients before each step of an optimizer.\"""

    def __init__(self, clip_value):
        self.clip_value = clip_value

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        torch.nn.utils.{function}(parameters, self.clip_value)
"""
_NAMES = {path: path.rpartition(".")[2] for path in CALLBACKS}
_KNOWN = {
    name: Definition(
        _CLASS.format(name=name, function=CALLBACKS[path]),
        ("import pytorch_lightning as pl", "import torch"),
    )
    for path, name in _NAMES.items()
}


def write_out_clipping(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Define the callbacks that clip in a file that makes some.

    Those of older trials are gone by now, as their steps clip, but for those that a run may make or
    not: Lightning calls them, as Determined did then.
    """
    tree, used = renamed(tree, file, _NAMES)
    tree = with_definitions(tree, file, sorted(used), _KNOWN)
    older: list[cst.CSTNode] = [f for f in syntax.find(tree, cst.FunctionDef) if is_older(f)]
    older += [node for node in syntax.find(tree, cst.ClassDef) if is_older(node)]
    older += [line for line in syntax.find(tree, cst.SimpleStatementLine) if is_older(line)]
    known = {call for each in older for call in syntax.find(each, cst.Call)}
    calls = {call for call in syntax.find(tree, cst.Call) if syntax.code(call.func) in used}
    if older and calls <= known:
        tree = syntax.each(tree, cst.FunctionDef, _made_without_word)
        tree = syntax.each(tree, cst.ClassDef, without_word)
        return syntax.each(tree, cst.SimpleStatementLine, without_word)
    return syntax.each(
        tree, cst.ClassDef, lambda node: marked(node, CALLED) if node.name.value in used else node
    )


def is_older(node: _Node) -> bool:
    """Whether it was said of a statement that only an older trial was clipped by it."""
    return comment(*NOT_CALLED) in _comments(node)


def without_word(node: _Node) -> _Node:
    """The statement without that word, since Lightning calls what it is said of."""
    if not is_older(node):
        return node
    lines = zip(node.leading_lines, _comments(node), strict=True)
    said = comment(*NOT_CALLED)
    return node.with_changes(leading_lines=[line for line, text in lines if text != said])


def _made_without_word(node: cst.FunctionDef) -> cst.FunctionDef:
    """A function that makes what clips without the word; a hook is asked for it later."""
    return node if node.name.value == HOOK else without_word(node)


def _comments(node: _Node) -> list[str]:
    return [line.comment.value if line.comment else "" for line in node.leading_lines]
