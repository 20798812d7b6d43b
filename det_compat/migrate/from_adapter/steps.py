"""What the adapter did with the steps of a module, as methods of one."""

from collections.abc import Collection

import libcst as cst

from det_compat.migrate.from_adapter.modules import (
    OF_OPTIMIZER,
    OPTIMIZER,
    Module,
    is_dict,
    is_number,
    logged,
    metrics_of,
)
from det_compat.migrate.shapes.known import Shapes
from det_compat.migrate.to_lightning.metrics.logged import EACH_BATCH
from det_compat.migrate.to_lightning.metrics.numbers import numbers_definition, numbers_of
from det_compat.migrate.to_lightning.metrics.unknown import are_unknown
from det_compat.migrate.to_lightning.plan import UNUSED
from det_compat.migrate.tree import marks, syntax
from det_compat.migrate.tree.transformers import CannotRewriteError
from det_compat.migrate.tree.trial_attributes import changes_data

_NO_SANITY_CHECK = """\
def on_fit_start(self):
    # training begins without a validation
    self.trainer.num_sanity_val_steps = 0
"""
_EPOCH_START = """\
def on_train_epoch_start(self):
    # it may change what batches are made from, and the first was there before
    pass

def on_train_batch_start(self, batch, batch_idx):
    if batch_idx == 0:
        super().on_train_epoch_start()
"""
_TRAINING_MODE = """\
def on_train_start(self):
    # all parts are trained, also those that were made in evaluation mode
    self.train()
"""
_STEP = """\
def {name}(self, batch, batch_idx):
    {result} = super().{name}(batch, batch_idx)
    {log}
    return {result}
"""
_EVERY_OPTIMIZER = """\
def training_step(self, batch, batch_idx):
    for {index}, optimizer in enumerate(self.optimizers()):
        self.toggle_optimizer(optimizer)
        {first}
        self.manual_backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        self.untoggle_optimizer(optimizer)
        {log}
"""


def hooks(module: Module, *, are_modes_open: bool) -> list[cst.BaseStatement]:
    """The methods that a module needs beside its own, in the order in which they stand.

    ``are_modes_open`` says that parts of it may be made in evaluation mode, in which Determined
    did not leave them.
    """
    training, validation = module.own["training_step"], module.own["validation_step"]
    made: list[cst.BaseStatement] = []
    taken = logged(training)
    if OF_OPTIMIZER not in module.own:
        made.append(_logging(module, training, ()))
        taken |= metrics_of(training, module.own)
    made.append(_logging(module, validation, taken))
    if are_modes_open:
        made.append(syntax.method(_TRAINING_MODE))
    start = module.own.get("on_train_epoch_start")
    if start is not None and changes_data(start):
        made += map(syntax.method, _EPOCH_START.split("\n\n"))
    return [*made, syntax.method(_NO_SANITY_CHECK)]


def _logging(module: Module, step: cst.FunctionDef, taken: Collection[str]) -> cst.FunctionDef:
    """The step, which logs what it returns; a validation's metric of a ``taken`` name has another.

    Raises:
        CannotRewriteError: it is not known what it returns.
    """
    name = step.name.value
    is_validation = name == "validation_step"
    options = EACH_BATCH if is_validation else ""
    shapes = Shapes(module.own)
    if is_dict(step):
        odd = {*shapes.odd_kinds(step), *({"unknown"} if are_unknown(step, shapes) else ())}
        keys = metrics_of(step, module.own)
        same = sorted(keys & {*taken}) if is_validation else []
        if is_validation and "" in keys:
            raise CannotRewriteError(f"{module.name} returns metrics whose names are not known")
        listed = (f'"{"val_" if k in same else ""}{k}": metrics["{k}"]' for k in sorted(keys))
        metrics = f"{{{', '.join(listed)}}}" if same else "metrics"
        if len(keys) == 1 and not odd and "" not in keys:
            (only,) = keys
            new = f"val_{only}" if same else only
            log = f'self.log("{new}", metrics["{only}"]{options})'
        else:
            found = numbers_of(metrics, "mean" if is_validation else "", odd)
            log = f"self.log_dict({found}{options})"
        return syntax.method(_STEP.format(name=name, result="metrics", log=log))
    if not is_number(step, module.own):
        raise CannotRewriteError(f"it is not known what {name} of {module.name} returns")
    new = "val_loss" if "loss" in taken else "loss"
    log = f'self.log("{new}", loss{options})'
    return syntax.method(_STEP.format(name=name, result="loss", log=log))


def with_definitions(tree: cst.Module, used: Collection[str]) -> cst.Module:
    """The file with the functions that the steps use."""
    return syntax.with_definition(tree, numbers_definition(tree)) if "numbers_of" in used else tree


def with_own_hparams(node: cst.ClassDef) -> cst.ClassDef:
    """The class of a module that keeps its arguments, whatever those of a subclass are.

    LightningCLI takes what the subclass is given for the arguments of every ``__init__``.

    Raises:
        CannotRewriteError: it is not known which it keeps.
    """
    own = syntax.methods(node)
    calls = [c for c in syntax.find(node, cst.Call) if syntax.code(c.func) == _SAVING]
    if not calls:
        return node
    lines = syntax.body_of(own["__init__"]) if "__init__" in own else ()
    at = next((i for i, line in enumerate(lines) if syntax.lone_call(line) is calls[0]), None)
    names = _saved(own["__init__"].params, calls[0]) if at is not None else None
    if at is None or names is None or len(calls) != 1:
        raise CannotRewriteError(f"it is not known which arguments {node.name.value} keeps")
    listed = ", ".join(name if name.startswith("**") else f'"{name}": {name}' for name in names)
    made = syntax.statement(f"{_SAVING}({{{listed}}})")
    line = lines[at].with_changes(body=[syntax.simple(made)])
    line = marks.above(line, [cst.EmptyLine(comment=cst.Comment(_BY_NAME))])
    init = syntax.with_body(own["__init__"], [*lines[:at], line, *lines[at + 1 :]])
    body = [init if each is own["__init__"] else each for each in syntax.body_of(node)]
    return syntax.with_body(node, body)


_SAVING = "self.save_hyperparameters"
_BY_NAME = "# LightningCLI would save the arguments of a subclass under these names"


def _saved(params: cst.Parameters, call: cst.Call) -> list[str] | None:
    """What ``save_hyperparameters`` is to keep; None if that is not known."""
    names = [param.name.value for param in (*params.params[1:], *params.kwonly_params)]
    rest = params.star_kwarg
    if not call.args:
        return [*names, *([f"**{rest.name.value}"] if rest is not None else [])]
    given = [
        str(arg.value.evaluated_value)
        for arg in call.args
        if arg.keyword is None and isinstance(arg.value, cst.SimpleString)
    ]
    return given if len(given) == len(call.args) and {*given} <= {*names} else None


def with_every_optimizer(node: cst.ClassDef) -> cst.ClassDef:
    """The class of a module with a training_step that is called once, and steps all optimizers.

    Raises:
        CannotRewriteError: it is not known what its training_step returns.
    """
    own = syntax.methods(node)
    step, module_init = own["training_step"], own.get("__init__")
    if OF_OPTIMIZER in own or module_init is None:
        raise CannotRewriteError(f"{node.name.value} has {OF_OPTIMIZER}, or no __init__")
    called = f"self.{OF_OPTIMIZER}(batch, batch_idx, {OPTIMIZER})"
    if is_dict(step) and metrics_of(step, own) == {"loss"}:
        called = f'{called}["loss"]'
    elif not is_number(step, own):
        raise CannotRewriteError(
            f"training_step of {node.name.value} returns other metrics than the loss"
        )
    text = _EVERY_OPTIMIZER.format(
        index=OPTIMIZER,
        first=f"loss = {called}",
        log=f'self.log(f"opt{{{OPTIMIZER}}}_loss", loss)',
    )
    lines: list[cst.BaseStatement] = []
    for line in syntax.body_of(node):
        if line is module_init:
            lines.append(_without_automatic(module_init))
        elif line is step:
            whole = syntax.method(text).with_changes(leading_lines=step.leading_lines)
            below = [cst.EmptyLine(indent=False)]
            lines += [whole, step.with_changes(name=cst.Name(OF_OPTIMIZER), leading_lines=below)]
        else:
            lines.append(line)
    return syntax.with_body(node, lines)


#: Of each optimizer's loss, the parameters of the others have no gradients.
_SEVERAL = f"""\
# several devices need pl.Trainer(strategy="{UNUSED}")
# max_steps counts the steps of each optimizer
"""


def _without_automatic(init: cst.FunctionDef) -> cst.FunctionDef:
    """The ``__init__`` that leaves backward passes and steps to the training_step."""
    body = [*syntax.body_of(init)]
    calls = [syntax.lone_call(line) for line in body]
    funcs = ["" if call is None else syntax.code(call.func) for call in calls]
    at = next((i for i, f in enumerate(funcs) if f.startswith("super(")), None)
    if at is None:
        raise CannotRewriteError("the __init__ of its LightningModule does not call super()")
    manual = syntax.statement(f"{_SEVERAL}self.automatic_optimization = False\n")
    return syntax.with_body(init, [*body[: at + 1], manual, *body[at + 1 :]])
