"""What whoever goes on from a checkpoint has to be told: of objects in it, and of its callbacks."""

import re
from collections.abc import Mapping

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.trial_attributes import reachable, values_set

#: The comment where such a scheduler is made: Lightning reads checkpoints by torch's safe loader.
SAID = (
    "# checkpoints have an object of the hyperparameters, which this keeps: a run that goes on",
    "# needs trainer.fit(..., ckpt_path=..., weights_only=False)",
)
_SCHEDULER = re.compile(r"class \w+\([^)]*LRScheduler\b")
_HPARAMS = re.compile(r"self\.\w*(?:hparams|hyperparameters)$")


def with_word_of_schedulers(node: cst.ClassDef, texts: Mapping[str, str]) -> cst.ClassDef:
    """A module with a comment where it hands its hyperparameters to a scheduler that keeps them.

    Args:
        node: the module.
        texts: each class of the project, by name.
    """
    # What is a plain dict can be read, and the module's own is a class of Lightning's.
    made = {"self.hparams"}
    for line in syntax.find(node, cst.Assign):
        value = line.value
        if isinstance(value, cst.Call) and syntax.code(value.func) != "dict":
            made.update(syntax.code(each.target) for each in line.targets)

    def said(line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
        for call in syntax.find(line, cst.Call):
            text = texts.get(syntax.code(call.func), "")
            if not _SCHEDULER.match(text):
                continue
            given = [syntax.code(arg.value) for arg in call.args]
            if any(_HPARAMS.match(each) and each in made for each in given) and _keeps(text):
                return above(line, [cst.EmptyLine(comment=cst.Comment(each)) for each in SAID])
        return line

    if not any(map(_SCHEDULER.match, texts.values())):
        return node
    return syntax.each(node, cst.SimpleStatementLine, said)


def with_word_of_state(method: cst.FunctionDef, node: cst.ClassDef) -> cst.FunctionDef:
    """The ``load_state_dict`` of a callback, with a comment if its validations need what it loads.

    As those that put an average in the place of the weights do, which ``load_from_checkpoint`` does
    not give them.
    """
    own = syntax.methods(node)
    owners = [target for target, _ in values_set(method)]
    owners += [
        call.func.value
        for call in syntax.find(method, cst.Call)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _LOADING
    ]
    loaded: set[str] = set()
    for owner in owners:
        first, *names = syntax.code(owner).partition("[")[0].split(".")
        # Of ``self.trial.ema.shadow``, the trial is what anything may ask for.
        loaded.update(names[len(names) > 1 :] if first == syntax.self_name(method) else [])
    hooks = [own[name] for name in reachable(own, *_BEFORE)]
    if not any(n.attr.value in loaded for each in hooks for n in syntax.find(each, cst.Attribute)):
        return method
    return above(method, [cst.EmptyLine(comment=cst.Comment(each)) for each in _LOADED])


#: What loads something into what it is called on, and the hooks before a validation.
_LOADING = {"load_state_dict", "update", "copy_"}
_BEFORE = ("on_validation_start", "on_validation_epoch_start")
_LOADED = (
    "# validations need this, and load_from_checkpoint() does not come here: give",
    "# trainer.validate() the file as ckpt_path=",
)


def _keeps(text: str) -> bool:
    """Whether a class keeps something that it is made with as it is."""
    node = syntax.statement(text)
    init = syntax.methods(node).get("__init__") if isinstance(node, cst.ClassDef) else None
    if init is None:
        return False
    params = {each.name.value for each in syntax.find(init.params, cst.Param)}
    pairs = (pair for line in syntax.find(init, cst.Assign) for pair in syntax.pairs(line))
    return any(
        isinstance(to, cst.Attribute) and re.search("hp|param|conf|args|cfg", syntax.code(value))
        for to, value in pairs
        if syntax.code(value) in params
    )
