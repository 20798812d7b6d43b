"""How many records a batch has."""

import libcst as cst

from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.to_lightning.written_out.definitions import (
    Definition,
    renamed,
    with_definitions,
)

_BODY = '''\
    """How many records a batch has: the length of the first part of it."""
    if isinstance(batch, dict):
        batch = next(iter(batch.values()))
    elif isinstance(batch, (list, tuple)):
        batch = batch[0]
    return len(batch)
'''
_NAME = "data_length"
_KNOWN = {_NAME: Definition(f"def {_NAME}(batch):\n{_BODY}", ())}
#: What Determined's class had, for trials that have none of their own.
METHOD = f"def get_batch_length(self, batch):\n{_BODY}"


def write_out_lengths(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Define the function that counts records in a file that calls Determined's."""
    tree, used = renamed(tree, file, {f"det_compat.pytorch.{_NAME}": _NAME})
    return with_definitions(tree, file, used, _KNOWN)
