"""Callbacks that ask for training metrics, which Determined told them once a period."""

import libcst as cst

from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.facts import CALLBACK

#: The methods of a callback that ``TrainingReport`` calls, with what it calls them.
CALLS = {
    "on_training_workload_end": "avg_metrics, batch_metrics",
    "on_train_step_end": (
        "trainer.current_epoch + 1, {'avg_metrics': avg_metrics, 'batch_metrics': batch_metrics}"
    ).replace("'", '"'),
}
_CLASS = '''\
class TrainingReport(pl.Callback):
    """Calls {0}() with an epoch's training metrics, before its validation."""

    training_names = None
    batch_metrics = None

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        metrics = trainer.callback_metrics
        if self.training_names is None:
            # nothing has been validated yet
            self.training_names = [*metrics]
        if batch_idx == 0 or self.batch_metrics is None:
            # a run that resumes in the middle of an epoch has no first batch
            self.batch_metrics = []
        self.batch_metrics.append({{name: float(metrics[name]) for name in self.training_names}})
        if trainer.is_last_batch or trainer.should_stop:
            batch_metrics = self.batch_metrics
            avg_metrics = {{
                name: sum(metrics[name] for metrics in batch_metrics) / len(batch_metrics)
                for name in batch_metrics[0]
            }}
            {1}
'''


def report_training(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Derive the callbacks that ask for training metrics from a class that tells them.

    Determined told them those of a period; Lightning's are those of each epoch.
    """
    classes = {node.name.value: node for node in syntax.find(tree, cst.ClassDef)}
    asking = {name for name in file.callbacks if name in classes and asked_hook(classes[name])}
    if not asking:
        return tree
    firsts = {name for name in asking if not _inherited(classes[name], classes, asking)}
    hooks = sorted({hook for name in asking if (hook := asked_hook(classes[name]))})

    def derived(node: cst.ClassDef) -> cst.ClassDef:
        if node.name.value not in firsts:
            return node
        report = cst.Name("TrainingReport")
        paths = [file.symbols.path(base.value) for base in node.bases]
        if CALLBACK in paths:
            return node.with_deep_changes(node.bases[paths.index(CALLBACK)], value=report)
        return node.with_changes(bases=[cst.Arg(report), *node.bases])

    tree = syntax.each(tree, cst.ClassDef, derived)
    file.imports.new.add("import pytorch_lightning as pl")
    calls = "\n            ".join(f"self.{hook}({CALLS[hook]})" for hook in hooks)
    made = _CLASS.format("() or ".join(hooks), calls)
    return syntax.with_definition(tree, made, kinds=(cst.ClassDef,))


def asked_hook(node: cst.ClassDef) -> str:
    """The hook of a callback that asks for training metrics; ``""`` if it has none."""
    return next((name for name in CALLS if name in syntax.methods(node)), "")


def _inherited(node: cst.ClassDef, classes: dict[str, cst.ClassDef], asking: set[str]) -> bool:
    """Whether a base of the file asks already."""
    bases = {syntax.code(base.value) for base in node.bases}
    known = (classes[name] for name in bases & classes.keys())
    return bool(bases & asking) or any(_inherited(base, classes, asking) for base in known)
