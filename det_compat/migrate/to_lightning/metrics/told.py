"""Callbacks that ask for training metrics, which Determined told them once a period."""

import re

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
_HEADER = re.compile(r"(?m)^ *class \w+\(([^:]*)\)\s*:")
_BATCH_END = "on_train_batch_end"
_GIVEN = ("trainer", "pl_module", "outputs", "batch", "batch_idx")
#: What each of them takes, with its object.
_TAKES = 3
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


#: How many records the batches had, which such a callback may ask for.
_COUNT = "num_inputs"
_COUNTING = (
    ("    batch_metrics = None\n", "    batch_metrics = None\n    num_inputs = 0\n"),
    (
        "            self.batch_metrics = []\n",
        "            self.batch_metrics, self.num_inputs = [], 0\n"
        "        self.num_inputs += extract_batch_size(batch)\n",
    ),
    ('{"avg_metrics"', '{"num_inputs": self.num_inputs, "avg_metrics"'),
)


def report_training(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Derive the callbacks that ask for training metrics from a class that tells them.

    Determined told them those of a period; Lightning's are those of each epoch.
    """
    tree = syntax.each(tree, cst.ClassDef, lambda node: _without_metrics(node, tree, file))
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
    texts = [*file.elsewhere.texts.values(), tree.code]
    if "on_train_step_end" in hooks and any(_COUNT in text for text in texts):
        file.imports.new.add("from pytorch_lightning.utilities.data import extract_batch_size")
        for old, new in _COUNTING:
            made = made.replace(old, new)
    return syntax.with_definition(tree, made, kinds=(cst.ClassDef,))


def _without_metrics(node: cst.ClassDef, tree: cst.Module, file: LightningFile) -> cst.ClassDef:
    """A callback whose hook is not told what it does not use: it is one of Lightning's then."""
    name, own = node.name.value, syntax.methods(node)
    hook = asked_hook(node) if name in file.callbacks else ""
    bases = [file.symbols.path(base.value) for base in node.bases]
    if not hook or _BATCH_END in own or bases != [CALLBACK] or _is_used(name, hook, tree, file):
        return node
    method = own[hook]
    params = [param.name.value for param in method.params.params]
    used = syntax.names_in(method.body)
    step = params[1:2] if hook == "on_train_step_end" else []
    is_told = used & {*_GIVEN, "super", *params[len(step) + 1 :]}
    if is_told or len(params) != _TAKES or not _is_plain(method):
        return node
    lines = [*syntax.body_of(method)]
    at = int(syntax.has_docstring(lines))
    if used & {*step}:
        lines.insert(at, syntax.statement(f"{step[0]} = trainer.current_epoch + 1\n"))
    last = syntax.statement("if trainer.is_last_batch or trainer.should_stop:\n    pass\n")
    made = syntax.with_body(method, [*lines[:at], syntax.with_body(last, lines[at:])])
    given = syntax.method(f"def {_BATCH_END}({params[0]}, {', '.join(_GIVEN)}):\n    pass\n")
    made = made.with_changes(name=given.name, params=given.params)
    body = [made if line is method else line for line in syntax.body_of(node)]
    return syntax.with_body(node, body)


def _is_plain(method: cst.FunctionDef) -> bool:
    params = method.params
    extra = params.star_kwarg or isinstance(params.star_arg, cst.Param) or params.kwonly_params
    return not (extra or method.decorators or method.asynchronous)


def _is_used(name: str, hook: str, tree: cst.Module, file: LightningFile) -> bool:
    """Whether another class derives from a callback, or something calls its hook by itself."""
    texts = [*file.elsewhere.texts.values(), tree.code]
    headers = (line for text in texts for line in _HEADER.findall(text))
    is_base = any(name in re.findall(r"\w+", bases) for bases in headers)
    return is_base or any(f".{hook}(" in text for text in texts)


def asked_hook(node: cst.ClassDef) -> str:
    """The hook of a callback that asks for training metrics; ``""`` if it has none."""
    return next((name for name in CALLS if name in syntax.methods(node)), "")


def _inherited(node: cst.ClassDef, classes: dict[str, cst.ClassDef], asking: set[str]) -> bool:
    """Whether a base of the file asks already."""
    bases = {syntax.code(base.value) for base in node.bases}
    known = (classes[name] for name in bases & classes.keys())
    return bool(bases & asking) or any(_inherited(base, classes, asking) for base in known)
