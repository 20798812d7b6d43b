"""Checkpoints that have what the validation of the same batch has changed, as Determined's had.

Determined validated before it saved; Lightning's ModelCheckpoint saves every so many batches before
the loop validates, and again behind each validation if it is told no number of batches.
"""

import re
from collections.abc import Iterable

import libcst as cst

from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.to_lightning.written_out.definitions import Definition, with_definitions
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.trial_attributes import attributes_changed

BEHIND = "CheckpointsBehindValidations"
# It does not ask for "fit": what hooks wait for is told by that, and has to hold below fit(), too.
_TEXT = f'''\
class {BEHIND}(ModelCheckpoint):
    """Saves again behind a validation of the same batch, which may change what is saved."""

    saved_step = None

    def on_train_batch_end(self, trainer, *args):
        path = self.best_model_path
        super().on_train_batch_end(trainer, *args)
        if self.best_model_path != path:
            self.saved_step = trainer.global_step

    def on_validation_end(self, trainer, pl_module):
        super().on_validation_end(trainer, pl_module)
        if trainer.state.fn != "validate" and self.saved_step == trainer.global_step:
            trainer.save_checkpoint(self.best_model_path)
'''
_IMPORT = "from pytorch_lightning.callbacks import ModelCheckpoint"
_KNOWN = {BEHIND: Definition(_TEXT, (_IMPORT,))}
_LEARNS = re.compile(r"def on_validation_\w+\(|\bReduceLROnPlateau\b|\bEarlyStopping\b")
_EVALUATES = ("evaluate_batch", "evaluate_full_dataset")


def validations_change(texts: Iterable[str]) -> bool:
    """Whether a validation may change what is in a checkpoint, as some code says."""
    return any(_LEARNS.search(text) or _changes(text) for text in texts)


def _changes(text: str) -> bool:
    node = syntax.statement(text) if any(f"def {name}(" in text for name in _EVALUATES) else None
    own = syntax.methods(node) if isinstance(node, cst.ClassDef) else {}
    return any(any(attributes_changed(own[name])) for name in _EVALUATES if name in own)


def write_out_checkpoints(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Define the callback that saves behind validations in a file that uses it."""
    is_used = any(name.value == BEHIND for name in syntax.find(tree, cst.Name))
    return with_definitions(tree, file, [BEHIND], _KNOWN) if is_used else tree
