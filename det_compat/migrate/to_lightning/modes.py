"""Training and evaluation mode of models.

Determined put the models that it had wrapped into training mode whenever training began or went
on. Lightning leaves them in the mode in which they are, so that a model which was in evaluation
mode when it was handed over would be trained in it.
"""

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.class_facts import WrappedModel
from det_compat.migrate.to_lightning.moving.surely import surely
from det_compat.migrate.to_lightning.plan import LightningFile, TrialPlan
from det_compat.migrate.to_lightning.unwrapped import called
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import (
    VALIDATING,
    is_there,
    reachable,
    values_set,
)

#: The hooks that are made: for a start, or a checkpoint that is gone on with, and for each epoch.
START, TRAINING_HOOK = "on_train_start", "on_train_epoch_start"
#: These return models in evaluation mode.
_EVALUATING = ("from_pretrained", "load_from_checkpoint")
#: Code without any of these makes no model that is not all in training mode.
_OF_MODES = re.compile(
    rb"\.eval\(\)|def train\(|\.train\(False|from_pretrained|load_from_checkpoint"
)


def makes_evaluating(files: Iterable[tuple[bytes, cst.CSTNode]]) -> bool:
    """Whether code makes models that are in evaluation mode, or are not all in the one set.

    Args:
        files: the text and the tree of each.
    """
    trees = [tree for text, tree in files if _OF_MODES.search(text)]
    return any(
        any(called(call) in _EVALUATING for call in syntax.find(tree, cst.Call))
        or any(map(_has_mode_of_its_own, syntax.find(tree, cst.ClassDef)))
        or any(map(_returns_evaluating, syntax.find(tree, cst.FunctionDef)))
        for tree in trees
    )


#: What these libraries make is in training mode, but for what they load by from_pretrained.
_TRAINING = words(
    """
    torch torchvision torchaudio torchtext transformers timm monai segmentation_models_pytorch
    torchmetrics determined pedl det_compat
    """
)
#: What these give has been made, and put into some mode, by somebody else.
_LOADED = re.compile(r"torch\.(hub\.load|jit\.load|load|package|export)\b")


def makes_unknown(node: cst.ClassDef, symbols: Symbols, around: Elsewhere) -> bool:
    """Whether a trial wraps what code makes that nobody has seen, in whichever mode."""
    lines = [pair for n in syntax.find(node, cst.Assign) for pair in syntax.pairs(n)]
    for wrap in symbols.calls(node, "wrap_model"):
        given = syntax.argument(wrap, 0, "model")
        if given is None:
            continue
        made = [value for to, value in lines if syntax.code(to) == syntax.code(given)]
        for call in (c for value in made or [given] for c in syntax.find(value, cst.Call)):
            root, _, rest = syntax.code(call.func).partition(".")
            if (rest or root).rpartition(".")[2] in around.texts:
                continue
            paths = around.imported.get(root, ())
            if any(_LOADED.match(f"{path}.{rest}") for path in paths):
                return True
            roots = {path.partition(".")[0] for path in paths}
            if roots - _TRAINING - sys.stdlib_module_names:
                return True
    return False


def _has_mode_of_its_own(node: cst.ClassDef) -> bool:
    """Whether a class of models says what training mode is, or begins in another."""
    own = syntax.methods(node)
    if "train" in own and _mentions_super(own["train"]):
        return True
    methods = (
        own.values() if "forward" in own else [own[name] for name in own if name == "__init__"]
    )
    return any(map(_evaluating, methods)) and _mentions_super(node)


def _mentions_super(node: cst.CSTNode) -> bool:
    return "super" in syntax.names_in(node)


def _returns_evaluating(function: cst.FunctionDef) -> bool:
    """Whether a function returns something that it has put into evaluation mode."""
    returned = [*map(syntax.code, syntax.returns(function))]
    texts = [text for text in returned if text.endswith(".eval()")]
    owners = {f"return {owner}" for owner in _evaluating(function)}
    return bool(texts) or not owners.isdisjoint(returned)


def evaluators(files: Iterable[tuple[bytes, cst.CSTNode]]) -> frozenset[str]:
    """The functions, and methods, that put what they have into evaluation mode, and not back.

    Args:
        files: the text and the tree of each.
    """
    trees = [tree for text, tree in files if _OF_MODES.search(text)]
    functions = (each for tree in trees for each in syntax.find(tree, cst.FunctionDef))
    found = {each.name.value for each in functions if _evaluating(each)}
    return frozenset(found.difference(VALIDATING, ("__init__", "forward", "eval", "train")))


def _evaluating(node: cst.CSTNode, evaluators: frozenset[str] = frozenset()) -> list[str]:
    """What some code puts into evaluation mode, and not back before it goes on.

    It may do so by functions of the project, which are called, or given to ``apply()``.
    """
    calls = [*syntax.find(node, cst.Call)]
    back = {*map(id, _put_back(node))}
    set_here = [call for call in calls if _sets_mode(call, "False") and id(call) not in back]
    handed = [call for call in calls if evaluators and not evaluators.isdisjoint(_run_by(call))]
    return [*map(_owner, set_here), *(_owner(c) or "".join(map(_text, c.args[:1])) for c in handed)]


def _run_by(call: cst.Call) -> list[str]:
    """The function that is called, and those that ``apply()`` calls."""
    given = map(_text, call.args) if called(call) == "apply" else ()
    return [each.rpartition(".")[2] for each in (syntax.code(call.func), *given)]


def _sets_mode(call: cst.Call | None, mode: str) -> bool:
    """Whether a call puts a model into training mode, or out of it."""
    if call is None or not isinstance(call.func, cst.Attribute):
        return False
    if called(call) == "train":
        return mode in (map(_text, call.args) if call.args else ("True",))
    return called(call) == "eval" and not call.args and mode == "False"


def _owner(call: cst.Call) -> str:
    return syntax.code(call.func).rpartition(".")[0]


def _put_back(node: cst.CSTNode) -> Iterator[cst.Call]:
    """The calls that put a model into evaluation mode for the statements up to another one."""
    for block in syntax.find(node, cst.IndentedBlock):
        for index, line in enumerate(block.body):
            call = syntax.lone_call(line)
            if call is None or not _sets_mode(call, "False"):
                continue
            if not _owner(call).replace(".", "").isidentifier():
                # Another call or index may give another model.
                continue
            for later in block.body[index + 1 :]:
                other = syntax.lone_call(later)
                if other and _sets_mode(other, "True") and _owner(other) == _owner(call):
                    yield call
                if _may_end(later) or _sets(later, _owner(call)):
                    break


def _may_end(line: cst.CSTNode) -> bool:
    """Whether a statement may be the last one of its block that runs."""
    ends = (cst.Return, cst.Raise, cst.Break, cst.Continue, cst.Yield)
    return any(any(syntax.find(line, kind)) for kind in ends)


def _sets(line: cst.CSTNode, owner: str) -> bool:
    """Whether a statement makes ``owner``, or what has it, another object."""
    targets = [syntax.code(found.target) for found in syntax.find(line, cst.AssignTarget)]
    return any(f"{owner}.".startswith(f"{target}.") for target in targets)


def leaves_evaluating(
    node: cst.ClassDef, own: Mapping[str, cst.FunctionDef], evaluators: frozenset[str]
) -> bool:
    """Whether a trial class puts a model into evaluation mode, but for a validation."""
    validating = {id(own[name]) for name in reachable(own, *VALIDATING)}
    lines = (line for line in syntax.body_of(node) if id(line) not in validating)
    return any(_evaluating(line, evaluators) for line in lines)


def callbacks_evaluate(callbacks: Iterable[cst.ClassDef], evaluators: frozenset[str]) -> bool:
    """Whether callbacks put models into evaluation mode, but for a validation."""
    return any(
        _evaluating(method, evaluators)
        for node in callbacks
        for name, method in syntax.methods(node).items()
        if not name.startswith("on_validation_")
    )


def runs_models(method: cst.FunctionDef, node: cst.ClassDef, file: LightningFile) -> bool:
    """Whether a method of a callback runs models of a trial, or hands them on."""
    own = {**syntax.methods(node), method.name.value: method}
    models = {m.attribute for plan in file.trials.values() for m in plan.all_models}
    names = "|".join(re.escape(name.removeprefix("*")) for name in models)
    if not names:
        return False
    model, run = re.compile(rf"\.({names})$"), re.compile(rf"\.({names})(\.({_RUNNING}))?$")
    methods = [own[name] for name in reachable(own, method.name.value)]
    calls = [call for each in methods for call in syntax.find(each, cst.Call)]
    funcs = [(syntax.code(call.func), call) for call in calls]
    return any(
        func.endswith(".evaluate_batch")
        or run.search(func)
        or (not _LOOKING.search(func) and any(model.search(text) for text in map(_text, call.args)))
        for func, call in funcs
    )


#: The methods of a model that run it, and what is given one and does not.
_RUNNING = r"forward|predict\w*|generate\w*|encode\w*|decode\w*|sample\w*|infer\w*"
_LOOKING = re.compile(
    r"\b(print|len|id|type|isinstance|\w+attr|(deep)?copy|unwrap\w*|info|save\w*)$"
)


def leaves_for_long(own: Mapping[str, cst.FunctionDef], file: LightningFile) -> bool:
    """Whether training leaves models in evaluation mode that not each batch puts there anew.

    Args:
        own: the methods of a trial.
        file: that it is in.
    """
    # What its own methods do is seen in these.
    others = file.evaluators - own.keys()
    every = _of_each_batch(own, others)
    rarely = (own[name] for name in reachable(own, "train_batch") if name not in every)
    left = {owner for method in rarely for owner in _evaluating(method, others)}
    calls = [*map(syntax.lone_call, syntax.body_of(own["train_batch"]))] if left else []
    back = {_owner(call) for call in calls if call is not None and _sets_mode(call, "True")}
    return file.callbacks_evaluate or not left <= back


def _of_each_batch(own: Mapping[str, cst.FunctionDef], evaluators: frozenset[str]) -> list[str]:
    """The methods that each batch calls, and that do the same whenever they are called."""
    methods = [method for name, method in own.items() if name != "__init__"]
    changed = {syntax.code(target) for method in methods for target, _ in values_set(method)}
    found = [name for name in ("train_batch",) if name in own]
    kept: list[str] = []
    for name in found:
        targets = [loop.target for loop in syntax.find(own[name], cst.For)]
        targets += [loop.target for loop in syntax.find(own[name], cst.CompFor)]
        parts = {each for target in targets for each in syntax.names_in(target)}
        rare = [
            node
            for node in syntax.find(own[name], cst.If)
            if parts.isdisjoint(syntax.names_in(node.test)) and not _is_setting(node.test, changed)
        ]
        ends = any(_may_end(node) for node in rare)
        if not ends and not any(_evaluating(node, evaluators) for node in rare):
            kept.append(name)
        apart = {id(call) for node in rare for call in syntax.find(node, cst.Call)}
        calls = [call for call in syntax.find(own[name], cst.Call) if id(call) not in apart]
        if not ends:
            found += [each for call in calls if (each := called(call)) in own and each not in found]
    return kept


def _is_setting(test: cst.BaseExpression, changed: Collection[str]) -> bool:
    """Whether a condition is an attribute that is the same all the time."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return _is_setting(test.expression, changed)
    return isinstance(test, cst.Attribute) and syntax.code(test) not in changed


def with_modes(
    models: Iterable[WrappedModel], own: Mapping[str, cst.FunctionDef], around: Elsewhere
) -> list[WrappedModel]:
    """The models whose attributes are no objects of plain classes in the end.

    As where an average of weights is kept in the place of the copy of a model that was wrapped.

    Args:
        models: those that a trial wraps.
        own: its methods.
        around: the code beside it.
    """
    plain = {name for name, text in around.texts.items() if _PLAIN_CLASS.match(text)}
    pairs = [pair for method in own.values() for pair in values_set(method)]
    replaced = {
        syntax.code(to).partition(".")[2]
        for to, value in pairs
        if isinstance(value, cst.Call) and syntax.code(value.func) in plain
    }
    return [model for model in models if model.attribute not in replaced]


_PLAIN_CLASS = re.compile(r"(?:@.*\n)*class \w+(?:\((?:object)?\))?:")


def validation_hooks(models: Iterable[WrappedModel]) -> tuple[cst.FunctionDef, cst.FunctionDef]:
    """The hooks that put the models that were wrapped into evaluation mode and back.

    No others: what a validation has done to the mode of one that was not, was there in training.
    """
    lines = "".join(map(_line, models))
    comment = "    # the other modules keep their mode\n"
    evaluating = lines.replace(".train()", ".eval()")
    evaluating = f"def on_validation_model_eval(self):\n{comment}{evaluating}"
    return syntax.method(evaluating), syntax.method(
        f"def on_validation_model_train(self):\n{lines}"
    )


def _text(arg: cst.Arg) -> str:
    return syntax.code(arg.value)


def training_mode(
    node: cst.ClassDef, own: Mapping[str, cst.FunctionDef], plan: TrialPlan, file: LightningFile
) -> list[cst.BaseStatement]:
    """The hooks that put the models of a trial into training mode, if they may be in another.

    Lightning calls the hook of an epoch's start for no epoch that a checkpoint goes on with, so
    models that may come in evaluation mode need that of the whole start. Each epoch needs it where
    batches leave a mode behind, or a model of the project has its own.
    """
    come_evaluating = file.makes_evaluating and bool(plan.own.models or plan.own.optimizers)
    come_evaluating = come_evaluating or makes_unknown(node, file.symbols, file.elsewhere)
    may_be = come_evaluating or leaves_evaluating(node, own, file.evaluators)
    may_be |= file.callbacks_evaluate and bool(plan.own.models)
    if plan.is_mixin or TRAINING_HOOK in own or not may_be:
        return []
    train = own.get("train_batch")
    models = with_modes(plan.all_models, own, file.elsewhere)
    models = [m for m in models if not begins_training(train, m.attribute)]
    models = surely(models, plan, own, "__init__")
    lines = "".join(map(_line, (each for each in models if not _is_loss(each, own))))
    if not lines:
        return []
    has_own = any(map(_OWN_MODE.search, file.elsewhere.texts.values()))
    making = {*reachable(own, "__init__")} - {*reachable(own, *own.keys() - {"__init__"})}
    kept = [line for line in syntax.body_of(node) if line not in {own[name] for name in making}]
    leaves = leaves_evaluating(syntax.with_body(node, kept), own, file.evaluators)
    is_again = has_own or leaves or file.callbacks_evaluate
    comes = come_evaluating or has_own or any(_evaluating(own[name]) for name in making)
    names = [START] * (comes or not is_again) + [TRAINING_HOOK] * is_again
    comment = "    # models that come in evaluation mode would be trained in it\n"
    if leaves_for_long(own, file):
        comment += "    # there is no scheduling_unit any more, after which this was done, too\n"
    return [syntax.method(f"def {name}(self):\n{comment}{lines}") for name in names]


def _is_loss(model: WrappedModel, own: Mapping[str, cst.FunctionDef]) -> bool:
    """Whether a model is a loss of torch's, which is the same in any mode."""
    made = [
        value
        for method in own.values()
        for target, value in values_set(method)
        if syntax.code(target) == f"{syntax.self_name(method)}.{model.attribute}"
    ]
    calls = ([syntax.code(call.func) for call in syntax.find(v, cst.Call)] for v in made)
    return bool(made) and all(names and _LOSS.fullmatch(names[-1]) for names in calls)


_LOSS = re.compile(r"(torch\.)?nn\.\w+Loss")
#: A model that does more than torch's when its mode is set.
_OWN_MODE = re.compile(r"def train\(\s*self\s*,\s*(?:\*|\w+\s*(?::[^=,)]*)?=\s*True|mode\b)")


def begins_training(method: cst.FunctionDef | None, attribute: str) -> bool:
    """Whether a batch method puts a model into training mode before it does anything with it."""
    own = "self" if method is None else syntax.self_name(method)
    for line in () if method is None else syntax.body_of(method):
        call = syntax.lone_call(line)
        is_mode = _sets_mode(call, "True")
        if call is not None and is_mode and _owner(call) == f"{own}.{attribute}":
            return True
        # Anything else that it has may use the model.
        if not is_mode and syntax.mentions(line, own):
            return False
    return False


def with_one_start(body: list[cst.BaseStatement], *, is_heir: bool) -> list[cst.BaseStatement]:
    """The statements of a class, with one hook of a start of what several have in it.

    That of an heir calls that of its base, unless it asks for optimizers of its own.
    """
    found = [n for n in body if isinstance(n, cst.FunctionDef) and n.name.value == START]
    if not found:
        return body
    asks = any(syntax.has_attribute(each, "optimizers") for each in found)
    above = syntax.statements(f"super().{START}()\n") if is_heir and not asks else []
    lines = [line for each in found for line in syntax.body_of(each)]
    whole = syntax.with_body(found[0], [*above, *lines])
    return [whole if line is found[0] else line for line in body if line not in found[1:]]


def _line(model: WrappedModel) -> str:
    name = model.attribute.removeprefix("*")
    if name != model.attribute:
        return f"    for model in self.{name}:\n        model.train()\n"
    if model.may_lack:
        return f"    if {is_there(name)}:\n        self.{name}.train()\n"
    return f"    self.{name}.train()\n"
