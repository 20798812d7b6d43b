"""Training and evaluation mode of models.

Determined put the models that it had wrapped into training mode whenever training began or went
on. Lightning leaves them in the mode in which they are, so that a model which was in evaluation
mode when it was handed over would be trained in it.
"""

from collections.abc import Iterable, Mapping

import libcst as cst

from det_compat.migrate.to_lightning.class_facts import WrappedModel
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.validation_state import VALIDATING, reachable

#: The hook that is made.
TRAINING_HOOK = "on_train_epoch_start"
#: These return models in evaluation mode.
_EVALUATING = ("from_pretrained", "load_from_checkpoint")


def makes_evaluating(trees: Iterable[cst.CSTNode]) -> bool:
    """Whether code makes models that are in evaluation mode."""
    return any(
        _called(call) in _EVALUATING for tree in trees for call in syntax.find(tree, cst.Call)
    )


def leaves_evaluating(node: cst.ClassDef, own: Mapping[str, cst.FunctionDef]) -> bool:
    """Whether a trial class puts a model into evaluation mode, but for a validation."""
    validating = {id(own[name]) for name in reachable(own, *VALIDATING)}
    lines = [line for line in syntax.body_of(node) if id(line) not in validating]
    calls = (call for line in lines for call in syntax.find(line, cst.Call))
    return any(
        (_called(call) == "eval" and not call.args and "." in syntax.code(call.func))
        or (_called(call) == "train" and "False" in map(_text, call.args))
        for call in calls
    )


def _called(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def _text(arg: cst.Arg) -> str:
    return syntax.code(arg.value)


def training_mode(models: Iterable[WrappedModel]) -> list[cst.BaseStatement]:
    """The hook that puts models into training mode; none for none."""
    lines = "".join(map(_line, models))
    if not lines:
        return []
    comment = "    # Lightning trains them in the mode in which they are\n"
    return [syntax.method(f"def {TRAINING_HOOK}(self):\n{comment}{lines}")]


def _line(model: WrappedModel) -> str:
    name = model.attribute.removeprefix("*")
    if name != model.attribute:
        return f"    for model in self.{name}:\n        model.train()\n"
    if model.may_lack:
        return f"    if {syntax.is_there(name)}:\n        self.{name}.train()\n"
    return f"    self.{name}.train()\n"
