"""Training and evaluation mode of models.

Determined put the models that it had wrapped into training mode whenever training began or went
on. Lightning leaves them in the mode in which they are, so that a model which was in evaluation
mode when it was handed over would be trained in it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import libcst as cst

from det_compat.migrate.to_lightning.class_facts import WrappedModel
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.validation_state import VALIDATING, attributes_read, reachable

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


_MODAL = re.compile(
    r"BatchNorm|InstanceNorm|Dropout|\bmodels\.|create_model|hub\.load|deepcopy|AveragedModel|EMA|Ema"
    r"|\bself\.training\b"
)
#: How many definitions there may be from the one that makes a model to the one with its layers.
_DEPTH = 4


def keeps_modes(
    family: Sequence[Mapping[str, cst.FunctionDef]],
    wrapped: Iterable[WrappedModel],
    around: Elsewhere,
) -> bool:
    """Whether validations use a model that Determined left in training mode, being not wrapped.

    Lightning puts all of a module into evaluation mode.

    Args:
        family: the methods of a trial class and of its bases, nearest last.
        wrapped: the models that are.
        around: the code of which others may be.
    """
    every = {name: method for own in family for name, method in own.items()}
    known = {model.attribute.removeprefix("*") for model in wrapped}
    validating = [own[name] for own in (*family, every) for name in reachable(own, *VALIDATING)]
    used = {name for method in validating for name in attributes_read(method)} - known
    # Code that was given the trial may have set them.
    given = [around.given[name] for name in sorted(used - every.keys()) if name in around.given]
    if any(".eval()" not in text and _MODAL.search(_with_defined(text, around)) for text in given):
        return True
    making = [own[name] for own in (*family, every) for name in reachable(own, "__init__")]
    for line in (line for method in making for line in syntax.find(method, cst.Assign)):
        for target, value in syntax.pairs(line):
            name = target.attr.value if isinstance(target, cst.Attribute) else ""
            if name not in used or not isinstance(value, cst.Call):
                continue
            made = syntax.code(value)
            is_put = any(f".{name}.eval()" in syntax.code(method) for method in every.values())
            # What is in evaluation mode wherever it was made, stays as it is.
            if ".eval()" not in made and not is_put and _MODAL.search(_with_defined(made, around)):
                return True
    return False


_CALLED = re.compile(r"\b(\w+)\(")
_BASES = re.compile(r"\bclass \w+\(([^)]*)\)")


def _with_defined(text: str, around: Elsewhere) -> str:
    """Some code, with the classes and functions that it calls, and those that these call."""
    known: set[str] = set()
    for _ in range(_DEPTH):
        bases = " ".join(_BASES.findall(text))
        made_by = [*re.findall(r"\w+", bases), *_CALLED.findall(text)]
        new = {each for each in made_by if each in around.texts} - known
        known |= new
        text = "\n".join([text, *(around.texts[name] for name in sorted(new))])
    return text


def evaluation_mode(models: Iterable[WrappedModel]) -> cst.FunctionDef:
    """The hook that puts the models that were wrapped into evaluation mode, and no others."""
    lines = "".join(map(_line, models)).replace(".train()", ".eval()")
    return syntax.method(f"def on_validation_model_eval(self):\n{lines}")


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
