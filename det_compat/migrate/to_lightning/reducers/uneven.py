"""Validations of which one device may have more batches than another, shared out by their loader.

Lightning averages metrics over devices with a count of batches that is a whole number on each. By
as many for each batch as there are devices, their mean stays one.
"""

import re
from collections.abc import Iterable, Mapping

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.trial_attributes import reachable

_LOADERS = ("build_validation_data_loader", "val_dataloader")
#: What gives each device its share, and no batch twice.
_SHARING = re.compile(
    r"\bDistributed(Batch)?Sampler\(|\bnum_replicas\b|::\s*[\w.]*\b(\w*size|get_size\(\))"
)
_CALLED = re.compile(r"([^\W\d]\w*)\(")
_SAID, _MORE = "whatever its size", "whatever its size and its device"


def with_uneven_batches(
    node: cst.ClassDef, family: Iterable[str], texts: Mapping[str, str]
) -> cst.ClassDef:
    """A module whose validations count each batch alike, also where devices have not as many.

    Args:
        node: the class.
        family: the names of the classes of which its validations may have their loader.
        texts: the classes and functions of all files, as they were.
    """
    validates = "validation_step" in syntax.methods(node)
    if not validates or not any(_SHARING.search(_loading(name, texts)) for name in family):
        return node
    own = syntax.self_name(syntax.methods(node)["validation_step"])

    def counted(arg: cst.Arg) -> cst.Arg:
        is_batch = arg.keyword is not None and arg.keyword.value == "batch_size"
        is_one = is_batch and syntax.code(arg.value) == "1"
        value = syntax.expression(f"{own}.trainer.world_size")
        return arg.with_changes(value=value) if is_one else arg

    step = syntax.methods(node)["validation_step"]
    made = syntax.each(step, cst.Arg, counted).visit(_Said())
    return syntax.with_node(node, step, ensure_type(made, cst.FunctionDef))


class _Said(cst.CSTTransformer):
    def leave_Comment(self, original: cst.Comment, updated: cst.Comment) -> cst.Comment:
        return updated.with_changes(value=updated.value.replace(_SAID, _MORE))


def _loading(name: str, texts: Mapping[str, str]) -> str:
    """All that makes the loader of the validations of a class."""
    tree = syntax.looked_at(texts.get(name, ""))
    own = {
        n: m for node in syntax.find(tree, cst.ClassDef) for n, m in syntax.methods(node).items()
    }
    codes = [syntax.code(own[each]) for each in reachable(own, *_LOADERS)]
    known = {name}
    for code in codes:
        called = {*_CALLED.findall(code)} & texts.keys() - known
        known |= called
        codes += [texts[each] for each in sorted(called)]
    return "\n".join(codes)
