"""Samplers of Determined's that torch has none for: a file that needs one gets it."""

import libcst as cst

from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.tree import syntax

_SAMPLERS = "det_compat.pytorch.samplers."
#: The parameter of each sampler that shuffles, and what it gives.
_SHUFFLING = {
    "ReproducibleShuffleSampler": ("sampler", "samples"),
    "ReproducibleShuffleBatchSampler": ("batch_sampler", "batches"),
}
_CLASS = """\
class {name}(torch.utils.data.Sampler):
    \"""The {items} of another sampler, shuffled: a seed tells how, each epoch in another way.\"""

    def __init__(self, {given}, seed):
        self.{given} = {given}
        self.random = np.random.RandomState(seed)

    def __iter__(self):
        {items} = list(self.{given})
        self.random.shuffle({items})
        return iter({items})

    def __len__(self):
        return len(self.{given})
"""
_IMPORTS = ("import numpy as np", "import torch")


def write_out_samplers(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Define the samplers that shuffle in the file that uses them."""
    if not file.symbols.has(*(f"{_SAMPLERS}{name}" for name in _SHUFFLING)):
        return tree
    used: set[str] = set()

    def renamed(node: cst.Name) -> cst.BaseExpression:
        name = (file.symbols.path(node) or "").removeprefix(_SAMPLERS)
        if name not in _SHUFFLING:
            return node
        used.add(name)
        return cst.Name(name)

    tree = syntax.each(tree, cst.Name, renamed)
    there = {node.name.value for node in syntax.find(tree, cst.ClassDef)}
    for name in sorted(used - there):
        file.imports.new.update(_IMPORTS)
        given, items = _SHUFFLING[name]
        tree = syntax.with_definition(tree, _CLASS.format(name=name, given=given, items=items))
    return tree
