"""PyTorchCallbacks become Lightning's, hook by hook."""

import ast
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.to_lightning.hook_order import is_seen_before, left_of_order
from det_compat.migrate.to_lightning.metrics.added import with_logging_hook
from det_compat.migrate.to_lightning.metrics.asked import are_only_numbers, with_logged_names
from det_compat.migrate.to_lightning.metrics.told import asked_hook
from det_compat.migrate.to_lightning.modes import runs_models
from det_compat.migrate.to_lightning.optimization.gradients import with_gradients
from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.to_lightning.resumed import with_word_of_state
from det_compat.migrate.to_lightning.taken.reserved import HOOKS
from det_compat.migrate.to_lightning.written_out import beside_checkpoints
from det_compat.migrate.to_lightning.written_out.clipping import CALLED, is_older, without_word
from det_compat.migrate.to_lightning.written_out.outputs import collecting, using
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.docstrings import with_first
from det_compat.migrate.tree.marks import above, marked
from det_compat.migrate.tree.symbols import own_name
from det_compat.migrate.tree.trial_attributes import changes_data


@dataclass(frozen=True)
class _Hook:
    """A hook of Lightning's: its parameters after trainer and module, and what the old ones are."""

    name: str
    more: tuple[str, ...] = ()
    old: dict[str, str] = field(default_factory=dict)


_EPOCH = {"epoch_idx": "trainer.current_epoch"}
#: Determined gave NumPy's numbers, which other code may write down or keep, or call methods of.
_VALUES = "name: np.float64(value.item())"
#: Those of them that plain numbers have not, and plain numbers.
_OF_NUMPY = re.compile(
    r"(?<!\bnp)(?<!\bnumpy)(?<!\btorch)\.(item|tolist|astype|round|dtype|mean|sum|max|min|squeeze"
    r"|flatten|ravel|reshape|transpose|ndim|shape|size|any|all|clip|std|var|prod|argmax|argmin"
    r"|nonzero|cumsum|tobytes)\b"
)
_PLAIN = {"metrics": "{name: value.item() for name, value in trainer.callback_metrics.items()}"}
#: What makes more of NumPy's.
_NUMPY = re.compile(r"\b(np|numpy)\.(?!is|random\.seed)\w+\(")
#: What is said where they have to be NumPy's, and a checkpoint may get some.
_KEPT = "# Lightning loads no numbers of NumPy from a checkpoint: return plain ones"
_METRICS = {"metrics": f"{{{_VALUES} for name, value in trainer.callback_metrics.items()}}"}
#: The hook of a start that asks where it is: Lightning knows when it has restored a checkpoint.
_STARTING = "on_trial_startup"
_STARTUP = f"{_STARTING}, asking"
#: The hook of an end that changes what the validation sees which Lightning runs before its own.
_CHANGING = "on_training_epoch_end, changing"
#: That of a start which changes what the batches see: Determined had the first of them by then.
_CHANGING_FIRST = "on_training_epoch_start, changing"
_HOOKS = {
    _CHANGING: _Hook("on_train_batch_end", ("outputs", "batch", "batch_idx"), _EPOCH),
    _CHANGING_FIRST: _Hook("on_train_batch_start", ("batch", "batch_idx"), _EPOCH),
    _STARTING: _Hook("on_fit_start"),
    _STARTUP: _Hook(
        "on_train_start",
        old={
            "first_batch_idx": "trainer.fit_loop.total_batch_idx + 1",
            "checkpoint_uuid": "trainer.ckpt_path",
        },
    ),
    "on_trial_shutdown": _Hook("on_fit_end"),
    "on_training_start": _Hook("on_train_start"),
    "on_training_epoch_start": _Hook("on_train_epoch_start", old=_EPOCH),
    "on_training_epoch_end": _Hook("on_train_epoch_end", old=_EPOCH),
    "on_validation_start": _Hook("on_validation_start"),
    "on_validation_epoch_start": _Hook("on_validation_epoch_start"),
    "on_validation_epoch_end": _Hook("on_validation_epoch_end"),
    "on_validation_end": _Hook("on_validation_end", old=_METRICS),
    "on_validation_step_start": _Hook("on_validation_start"),
    "on_validation_step_end": _Hook("on_validation_end", old=_METRICS),
    "on_checkpoint_save_start": _Hook("on_save_checkpoint", ("checkpoint",)),
    "on_checkpoint_load_start": _Hook("on_load_checkpoint", ("checkpoint",)),
    "on_before_optimizer_step": _Hook(
        "on_before_optimizer_step",
        ("optimizer",),
        {"parameters": '[p for group in optimizer.param_groups for p in group["params"]]'},
    ),
}
_NOT_THERE = {
    **dict.fromkeys(
        (*beside_checkpoints.NAMES, "on_checkpoint_upload_end"),
        "Lightning has no hook after a checkpoint is written",
    ),
    "on_train_step_start": "Lightning has no steps of 100 batches",
}


def rename_hooks(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Rewrite the hooks of the file's callbacks."""

    callbacks = [n for n in syntax.find(tree, cst.ClassDef) if n.name.value in file.callbacks]
    is_told = any(map(asked_hook, callbacks))

    def renamed(node: cst.ClassDef) -> cst.ClassDef:
        if node.name.value not in file.callbacks:
            return node
        for name in file.taken:
            node = _with_new_name(node, name)
        node, needs_os = beside_checkpoints.merged(node)
        file.imports.new.update({"import os"} if needs_os else ())
        node, logging = with_logging_hook(node)
        asking = using(node, [n for n in callbacks if n is not node], file)
        node = node if asking is None else syntax.with_node(node, *asking)
        names = _new_names(node)
        starts_up = _is_called_at_start(node, names)
        kept = {logging, _STARTING} if starts_up else {logging}
        body = [
            _method(line, node, names, file, is_told=is_told)
            if isinstance(line, cst.FunctionDef) and line.name.value not in kept
            else line
            for line in syntax.body_of(node)
        ]
        made = syntax.with_body(node, _starting_up(body) if starts_up else body)
        if asking is not None:
            file.imports.new.add("import torch")
            made = collecting(made)
        return marked(made, _IS_MODULE) if node.name.value in file.plans else made

    return syntax.each(tree, cst.ClassDef, renamed)


_IS_MODULE = "a module cannot be a callback, whose hooks have its names and other arguments"


def _new_names(node: cst.ClassDef) -> set[str]:
    """The old hooks that can have their new names: no two get the same, and nobody calls them."""
    called = {syntax.code(call.func) for call in syntax.find(node, cst.Call)}
    names: dict[str, str] = {}
    # What has a name of its own to start by leaves it to another.
    for name, found in sorted(syntax.methods(node).items(), key=lambda each: each[0] == _STARTING):
        hook = _hook_of(found, node)
        is_called = any(text.endswith(f".{name}") for text in called)
        if hook and not is_called and hook.name not in names and _args_known(found, hook):
            names[hook.name] = name
    return {*names.values()}


def _is_called_at_start(node: cst.ClassDef, names: Collection[str]) -> bool:
    """Whether a hook of a start that Lightning's hooks cannot be is called by one of these."""
    own = syntax.methods(node)
    hook = own.get(_STARTING)
    called = (syntax.code(call.func) for call in syntax.find(node, cst.Call))
    if hook is None or _STARTING in names or any(name.endswith(_STARTING) for name in called):
        return False
    takes = len(hook.params.params) == 3 or isinstance(hook.params.star_arg, cst.Param)
    return takes and ("on_training_start" not in own or "on_training_start" in names)


_START = """\
def on_train_start(self, trainer, pl_module):
    self.on_trial_startup(trainer.fit_loop.total_batch_idx + 1, trainer.ckpt_path)
"""


def _starting_up(body: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
    """The methods of a callback, of which the one that Lightning calls at the start calls this."""
    made = syntax.method(_START)
    for index, line in enumerate(body):
        if isinstance(line, cst.FunctionDef) and line.name.value == made.name.value:
            own = syntax.replaced(made, "self", syntax.self_name(line))
            changed = syntax.with_body(line, [*syntax.body_of(own), *syntax.body_of(line)])
            return [*body[:index], changed, *body[index + 1 :]]
    return [*body, made]


#: What Lightning sets on every callback, calls, or has as a property without a setter. Of its hooks
#: those are among them which Determined did not call.
_TAKEN = {"log", "log_dict", "setup", "teardown", "state_key", "on_exception"} | (
    HOOKS - _HOOKS.keys()
)


def taken_in_callbacks(nodes: Iterable[ast.ClassDef]) -> frozenset[str]:
    """The methods and attributes of callbacks that Lightning's have for something else."""
    found = (each for node in nodes for each in ast.walk(node))
    named = (
        each.name if isinstance(each, ast.FunctionDef) else getattr(each, "attr", "")
        for each in found
        if isinstance(each, ast.FunctionDef) or isinstance(getattr(each, "ctx", None), ast.Store)
    )
    return frozenset(_TAKEN.intersection(named))


def _with_new_name(node: cst.ClassDef, name: str) -> cst.ClassDef:
    """A callback with another name for what means something else to Lightning."""
    body = []
    for line in syntax.body_of(node):
        if isinstance(line, cst.FunctionDef):
            own = syntax.self_name(line)
            for owner in (own, "super()"):
                line = syntax.replaced(line, f"{owner}.{name}", f"{owner}.{own_name(name)}")
            if line.name.value == name:
                line = line.with_changes(name=cst.Name(own_name(name)))
        body.append(line)
    return syntax.with_body(node, body)


def _hook_of(method: cst.FunctionDef, node: cst.ClassDef) -> _Hook | None:
    name = method.name.value
    changing = f"{name}, changing"
    is_seen = changing == _CHANGING and is_seen_before(node, name)
    if changing in _HOOKS and (is_seen or changes_data(method)):
        return _HOOKS[changing]
    asks = syntax.names_in(method.body) & {*_HOOKS[_STARTUP].old}
    return _HOOKS.get(_STARTUP if name == _STARTING and asks else name)


def _arguments(method: cst.FunctionDef, hook: _Hook) -> tuple[dict[str, str], list[str]]:
    """What the old parameters are now, and the new ones; a single one may have any name."""
    given = [p.name.value for p in method.params.params[1:]]
    old, more = hook.old, [*hook.more]
    if len(given) == len(old) == 1:
        old = dict(zip(given, old.values(), strict=True))
    elif len(given) == len(more) == 1:
        more = given
    return old, more


def _args_known(method: cst.FunctionDef, hook: _Hook) -> bool:
    old, more = _arguments(method, hook)
    unknown = {p.name.value for p in method.params.params[1:]} - {*old, *more}
    extra = method.params.star_kwarg or isinstance(method.params.star_arg, cst.Param)
    return not (unknown & syntax.names_in(method.body)) and not extra


def _method(
    method: cst.FunctionDef,
    node: cst.ClassDef,
    names: set[str],
    file: LightningFile,
    *,
    is_told: bool,
) -> cst.BaseStatement:
    name = method.name.value
    makes_numpys = bool(_NUMPY.search(syntax.code(node))) or not _may_be_plain(node)
    if name == "state_dict" and makes_numpys and "float(" not in syntax.code(method):
        return above(method, [cst.EmptyLine(comment=cst.Comment(_KEPT))])
    if name == "load_state_dict":
        return with_word_of_state(method, node)
    if name.startswith("on_validation"):
        method = with_gradients(method)
    if name in _NOT_THERE:
        return marked(method, f"{_NOT_THERE[name]}, and does not call this")
    if said := left_of_order(method, node, file):
        method = marked(method, said)
    hook = _hook_of(method, node)
    if hook is None:
        return method
    if name == "on_before_optimizer_step":
        method = without_word(method) if is_older(method) else marked(method, CALLED)
    if hook.old is _METRICS and _changes(method):
        method = marked(method, "what is put into the metrics here is not logged")
    if name not in names:
        return marked(method, f"Lightning calls {hook.name} instead, with other arguments")
    if hook.old is _METRICS:
        # Lightning does not load NumPy's numbers from a checkpoint.
        is_saved = "state_dict" in syntax.methods(node)
        is_plain = _may_be_plain(node) if is_saved else are_only_numbers(_without_items(method))
        method = _without_items(method) if is_plain else method
        method = with_logged_names(method, [*file.trials.values()])
        hook = replace(hook, old=_PLAIN) if is_plain else hook
    made = _renamed(method, hook)
    if hook.name in ("on_fit_end", "on_save_checkpoint") and runs_models(method, node, file):
        made = _as_validated(made, hook.name)
    if any("np.float64" in syntax.code(line) for line in syntax.body_of(made)):
        file.imports.new.add("import numpy as np")
    if hook is _HOOKS[_CHANGING_FIRST]:
        return with_first(made, "if batch_idx > 0:\n    return\n")
    if hook is not _HOOKS[_CHANGING]:
        return made
    if not is_told:
        return with_first(made, "if not trainer.is_last_batch:\n    return\n")
    return _before_report(made, f"super().{hook.name}(trainer, pl_module, {', '.join(hook.more)})")


def _as_validated(method: cst.FunctionDef, hook: str) -> cst.FunctionDef:
    """A hook that runs models, which Determined's validations left in evaluation mode.

    Lightning puts them back at once. Whether checkpoints follow a validation is known in a run.
    """
    if hook == "on_save_checkpoint":
        return marked(method, _MODE_OF_CHECKPOINTS)
    lines, back = [*syntax.body_of(method)], syntax.statements("pl_module.train()\n")
    if syntax.returns(method):
        # Another fit would train in evaluation mode.
        whole = ensure_type(syntax.statement("try:\n    pass\nfinally:\n    pass\n"), cst.Try)
        at = int(syntax.has_docstring(lines))
        last = cst.Finally(cst.IndentedBlock(back))
        whole = whole.with_changes(body=cst.IndentedBlock(lines[at:]), finalbody=last)
        lines, back = [*lines[:at], whole], []
    method = syntax.with_body(method, [*lines, *back])
    return with_first(method, "# as the last validation left it\npl_module.eval()\n")


_MODE_OF_CHECKPOINTS = (
    "models are in training mode here, and were in evaluation mode where a validation came before: "
    "put what is run here into the mode that it needs, and back"
)


def _may_be_plain(node: cst.ClassDef) -> bool:
    """Whether a callback does with metrics, if it gets any, what it can with plain numbers."""
    is_told = any(
        getattr(_HOOKS.get(name), "old", 0) is _METRICS
        and {param.name.value for param in method.params.params[1:]} & syntax.names_in(method.body)
        for name, method in syntax.methods(node).items()
    )
    lines = (_without_items(n) if isinstance(n, cst.FunctionDef) else n for n in node.body.body)
    return not (is_told and any(_OF_NUMPY.search(syntax.code(line)) for line in lines))


def _without_items(method: cst.FunctionDef) -> cst.FunctionDef:
    """A hook that takes the metrics that it is given for plain numbers."""
    given = {param.name.value for param in method.params.params[1:]}
    is_given = _HOOKS.get(method.name.value, _Hook("")).old is _METRICS

    def plain(call: cst.Call) -> syntax.Expression:
        func = call.func
        if not (isinstance(func, cst.Attribute) and func.attr.value == "item" and is_given):
            return call
        found = func.value
        is_asked = isinstance(found, cst.Call) and syntax.code(found.func).endswith(".get")
        owner = found.func if isinstance(found, cst.Call) and is_asked else found
        is_metric = is_asked or isinstance(owner, cst.Subscript)
        return found if is_metric and syntax.code(getattr(owner, "value", owner)) in given else call

    return syntax.each(method, cst.Call, plain)


def _before_report(method: cst.FunctionDef, told: str) -> cst.FunctionDef:
    """A hook of a last batch, and behind it what tells training metrics, which came after it."""
    inner = ensure_type(syntax.statement("if trainer.is_last_batch:\n    pass\n"), cst.If)
    if syntax.returns(method):
        method = marked(method, "this comes after the training metrics are told, and came before")
        return with_first(method, f"{told}\nif not trainer.is_last_batch:\n    return\n")
    first, *lines = syntax.below_docstring(syntax.body_of(method), [inner])
    kept = [first] if first is not inner else []
    inner = inner.with_changes(body=cst.IndentedBlock(lines))
    return syntax.with_body(method, [*kept, inner, syntax.statement(told)])


def _changes(method: cst.FunctionDef) -> bool:
    """Whether a hook changes the metrics that it is given, which Determined reported afterwards."""
    given = [param.name.value for param in method.params.params[1:2]]
    targets = [t.target for t in syntax.find(method.body, cst.AssignTarget)]
    owners = [syntax.code(t.value) for t in targets if isinstance(t, cst.Subscript)]
    for call in syntax.find(method.body, cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("update", "pop"):
            owners.append(syntax.code(call.func.value))
    return any(name in owners for name in given)


def _renamed(method: cst.FunctionDef, hook: _Hook) -> cst.FunctionDef:
    old, more = _arguments(method, hook)
    used = syntax.names_in(method.body)
    lines = "".join(f"{name} = {value}\n" for name, value in old.items() if name in used)
    if lines:
        method = with_first(method, lines)
    names = [syntax.self_name(method), "trainer", "pl_module", *more]
    params = cst.Parameters([cst.Param(cst.Name(name)) for name in names])
    return method.with_changes(
        name=cst.Name(hook.name),
        params=params,
        whitespace_before_params=cst.SimpleWhitespace(""),
    )
