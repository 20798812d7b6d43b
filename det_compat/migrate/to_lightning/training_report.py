"""Callbacks that were told the training metrics of a period: of each epoch, now."""

from __future__ import annotations

import libcst as cst

from det_compat.migrate.tree.file import File
from det_compat.migrate.tree.syntax import code, expression, find, methods, statement

CALLBACK = "det_compat.pytorch.PyTorchCallback"
#: The methods of a callback that ``TrainingReport`` calls, with what it calls them.
CALLS = {
    "on_training_workload_end": "avg_metrics, batch_metrics",
    "on_train_step_end": (
        "trainer.current_epoch + 1, {'avg_metrics': avg_metrics, 'batch_metrics': batch_metrics}"
    ).replace("'", '"'),
}
_NAME = "TrainingReport"
_CLASS = '''\
class TrainingReport(pl.Callback):
    """Calls {0}() with an epoch's training metrics, before its validation."""

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if batch_idx == 0:
            self.batch_metrics = []
        metrics = trainer.callback_metrics.items()
        self.batch_metrics.append({{name: float(value) for name, value in metrics}})
        if trainer.is_last_batch or trainer.should_stop:
            batch_metrics = self.batch_metrics
            avg_metrics = {{
                name: sum(metrics[name] for metrics in batch_metrics) / len(batch_metrics)
                for name in batch_metrics[0]
            }}
            {1}
'''


def apply(tree: cst.Module, file: File) -> cst.Module:
    """Derive the callbacks that ask for it from a class that tells them, written out."""
    classes = {node.name.value: node for node in find(tree, cst.ClassDef)}
    asking = {name for name in file.callbacks if name in classes and _hook(classes[name])}
    if not asking:
        return tree
    firsts = {name for name in asking if not _inherited(classes[name], classes, asking)}
    hooks = sorted({hook for name in asking if (hook := _hook(classes[name]))})
    tree = tree.visit(_Bases(file, firsts))
    file.imports.add("import pytorch_lightning as pl")
    body: list[cst.BaseStatement] = [*tree.body]
    at = next(i for i, line in enumerate(body) if isinstance(line, cst.ClassDef))
    calls = "\n            ".join(f"self.{hook}({CALLS[hook]})" for hook in hooks)
    made = statement(_CLASS.format("() or ".join(hooks), calls))
    body.insert(at, made.with_changes(leading_lines=[cst.EmptyLine(indent=False)] * 2))
    return tree.with_changes(body=body)


def _hook(node: cst.ClassDef) -> str:
    return next((name for name in CALLS if name in methods(node)), "")


def _inherited(node: cst.ClassDef, classes: dict[str, cst.ClassDef], asking: set[str]) -> bool:
    """Whether a base of the file asks already."""
    for base in node.bases:
        name = code(base.value)
        if name in asking or (name in classes and _inherited(classes[name], classes, asking)):
            return True
    return False


class _Bases(cst.CSTTransformer):
    def __init__(self, file: File, names: set[str]) -> None:
        self._file = file
        self._names = names

    def leave_ClassDef(
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.ClassDef:
        if updated_node.name.value not in self._names:
            return updated_node
        bases = [*updated_node.bases]
        for index, base in enumerate(bases):
            if self._file.symbols.path(base.value) == CALLBACK:
                bases[index] = base.with_changes(value=cst.Name(_NAME))
                return updated_node.with_changes(bases=bases)
        return updated_node.with_changes(bases=[cst.Arg(expression(_NAME)), *bases])
