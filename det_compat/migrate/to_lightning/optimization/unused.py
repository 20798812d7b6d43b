"""Parameters of a module through which no backward pass of a batch goes.

Determined shared out the gradients of the models that it had wrapped. Lightning does so for
whatever is a module and an attribute of one, and several devices wait for gradients of all of it
that was not frozen when it did so: after ``setup()``, and before ``on_fit_start()``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import libcst as cst

from det_compat.migrate.shapes.values import assigned
from det_compat.migrate.to_lightning.class_facts import WrappedModel
from det_compat.migrate.to_lightning.plan import UNUSED, LightningFile
from det_compat.migrate.to_lightning.taken.reserved import HOOKS
from det_compat.migrate.to_lightning.unwrapped import Makers
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import attributes_set, reachable

_Methods = Mapping[str, cst.FunctionDef]
#: Code with one of these makes parameters.
_PARAMETERS = re.compile(
    r"\bnn\.(Linear|Bilinear|Conv|Embedding|LSTM|GRU|RNN|Parameter\(|Transformer|MultiheadAttention"
    r"|(Batch|Layer|Group)Norm)|\bmodels\.\w+\(|timm\.create_model\(|from_pretrained\(|hub\.load\("
)
_COPIES = re.compile(r"deepcopy\((?!.*state_dict)|\bAveragedModel\(")
#: What a model is asked for where no output of it is needed.
_UPDATES = re.compile(
    r"apply|eval|train|to|step|update(_parameters)?|(named_)?(parameters|buffers)|(load_)?state_dict"
    r"|requires_grad_"
)
#: So is only a model used, whoever made it.
_HAS_STATE = r"\b{}\.load_state_dict\(torch\.load\("
#: What is without gradients stays out of the exchange.
_FROZEN = (
    r"\b{}\.(requires_grad_\(False\)|parameters\(\):\n"
    r"\s*\w+\.(requires_grad\b|requires_grad_\(False\)|detach_\(\)))"
)


_FREEZES = re.compile(r"requires_grad|\.detach_\(")


def leaves_unused(
    family: Sequence[_Methods],
    wrapped: Iterable[WrappedModel],
    symbols: Symbols,
    around: Elsewhere,
) -> bool:
    """Whether a trial keeps parameters that get no gradients when a batch is trained.

    Args:
        family: the methods of the class and of its bases, nearest last.
        wrapped: the models that it has wrapped.
        symbols: what its methods name.
        around: the code that they call.
    """
    own = {name: method for methods in family for name, method in methods.items()}
    known = {model.attribute.removeprefix("*") for model in wrapped}
    training = [own[name] for name in reachable(own, "train_batch")]
    if any(_is_of_one_loss(method, known, symbols) for method in training):
        return True
    if not training or not known:
        return False
    makers, code = Makers(own, around), "\n".join(map(syntax.code, own.values()))
    trained = {name for method in training for name in _with_gradients(method)}
    texts = "\n".join(syntax.code(method.body) for method in training)
    idle = {name for name in known - trained if re.search(rf"\.{name}\(", texts)}
    for name, value, _ in (each for method in own.values() for each in attributes_set(method)):
        # A copy that is only asked without gradients, such as a target network.
        is_frozen = re.search(_FROZEN.format(name), code) or _FREEZES.search(
            "\n".join(makers.texts(value))
        )
        if name in idle and not is_frozen:
            return True
    for name, value in (each for method in own.values() for each in _kept(method, symbols)):
        if name in known | trained or value.startswith("self.") or "requires_grad" in value:
            continue
        if re.search(_FROZEN.format(name), code) or _is_part(name, makers, code):
            continue
        texts = "\n".join(makers.texts(value))
        makes = _PARAMETERS.search(texts) or (_COPIES.search(value) and "self." in value)
        makes = makes or re.search(_HAS_STATE.format(name), code)
        if makes and "requires_grad" not in texts and makers.may_be_module(value):
            return True
    return False


def _kept(method: cst.FunctionDef, symbols: Symbols) -> Iterator[tuple[str, str]]:
    """What a method keeps in which attribute, but for what it wraps under any name."""
    wraps = [call for call in syntax.find(method, cst.Call) if symbols.method(call) == "wrap_model"]
    wrapped = {name for call in wraps for arg in call.args for name in syntax.names_in(arg.value)}
    wrapped &= syntax.local_names(method) - {syntax.self_name(method)}
    pairs = [pair for line in syntax.find(method, cst.Assign) for pair in syntax.pairs(line)]
    texts = [*map(syntax.code, wraps)]
    aliases = {
        syntax.code(to)
        for to, value in pairs
        if syntax.names_in(value) & wrapped and not _COPIES.search(syntax.code(value))
    }
    for name, value, is_whole in attributes_set(method):
        to = f"{syntax.self_name(method)}.{name}"
        is_wrapped = any(re.search(rf"\b{re.escape(to)}\b", text) for text in texts)
        if is_whole and not is_wrapped and to not in aliases and "wrap_model" not in value:
            # What a variable is called by is kept by an attribute, too.
            for each in wrapped:
                value = re.sub(rf"(?<![\w.]){each}\b", f"self.{each}", value)
            yield name, value


def _is_part(name: str, makers: Makers, code: str) -> bool:
    """Whether something else has it in it, which need not be a copy."""
    uses = re.findall(rf"(?<![\w.])[\w.]+\([^()]*\bself\.{name}\b[^().]*\)", code)
    return any(not _COPIES.search("\n".join(makers.texts(use))) for use in uses)


def _with_gradients(method: cst.FunctionDef) -> set[str]:
    """The attributes that a method uses where there are gradients, and that may give an output."""
    own = syntax.self_name(method)
    if any("no_grad" in syntax.code(each.decorator) for each in method.decorators):
        return set()

    class Without(cst.CSTTransformer):
        def leave_With(
            self, original: cst.With, updated: cst.With
        ) -> cst.BaseStatement | cst.RemovalSentinel:
            texts = (syntax.code(item.item) for item in original.items)
            is_without = any("no_grad(" in t or "inference_mode(" in t for t in texts)
            return syntax.statement("pass") if is_without else updated

    rest = syntax.transformed(method, Without())
    nodes = [*syntax.find(rest.body, cst.Attribute)]
    asked: list[cst.CSTNode] = [node.value for node in nodes if _UPDATES.fullmatch(node.attr.value)]
    asked += [test.left for test in syntax.find(rest.body, cst.Comparison) if _is_none(test)]
    asked += [branch.test for branch in syntax.find(rest.body, cst.If)]
    asked += [choice.test for choice in syntax.find(rest.body, cst.IfExp)]
    return {
        node.attr.value
        for node in nodes
        if syntax.code(node.value) == own and not any(node is each for each in asked)
    }


def _is_none(test: cst.Comparison) -> bool:
    return any(syntax.code(target.comparator) == "None" for target in test.comparisons)


def _is_of_one_loss(method: cst.FunctionDef, models: set[str], symbols: Symbols) -> bool:
    """Whether a backward pass is of one of several losses that a model returns."""
    variables, own = assigned(method), syntax.self_name(method)
    for call in syntax.find(method, cst.Call):
        if symbols.method(call) != "backward" or not call.args:
            continue
        loss = call.args[0].value
        loss = variables.get(syntax.code(loss)) or loss
        if not isinstance(loss, cst.Subscript) or len(loss.slice) != 1:
            continue
        made = variables.get(syntax.code(loss.value)) or loss.value
        key = syntax.code(loss.slice[0]).strip("'\"")
        is_one = "loss" in key and key not in ("loss", "total_loss", "loss_total", "losses")
        if is_one and isinstance(made, cst.Call):
            owner, _, name = syntax.code(made.func).partition(".")
            if owner == own and name in models:
                return True
    return False


#: The comment on what gets gradients again.
THAWED = (
    "# several devices share no gradients of what is thawed here and was frozen",
    "# before training: freeze it in on_train_start(), and train with",
    f'# pl.Trainer(strategy="{UNUSED}")',
)
_STEPS = ("training_step", "validation_step")
_SWITCH = re.compile(r"\.requires_grad(?:\s*=(?!=)\s*([^\n]+)|_\(([^()]*)\))")
#: Whether something is frozen, and whether it is thawed.
_SWITCHED = {"True": (False, True), "False": (True, False), "": (False, True)}
_OF_TRAINER = re.compile(r"(?:pl_module|trainer\.(?:lightning_module|model))(?=\.|$)")


def with_word_of_thawing(tree: cst.Module, file: LightningFile) -> cst.Module:
    """A file with comments where modules and callbacks thaw what was frozen before training."""
    around = file.elsewhere
    # Callbacks of a file may be those of any trial.
    names = file.trials if file.callbacks else file.plans
    if not names or not any("requires_grad" in text for text in around.texts.values()):
        return tree
    trials = {name: _frozen_in(around.texts.get(name, ""), around) for name in names}
    frozen_by_trials = {path for found in trials.values() for path in found}

    def said(node: cst.ClassDef) -> cst.ClassDef:
        own, name = syntax.methods(node), node.name.value
        if name in file.callbacks:
            early = [own[each] for each in reachable(own, "__init__", "setup")]
            frozen = {*_frozen(early, around), *frozen_by_trials}
        elif name in file.plans:
            frozen = trials[name]
        else:
            return node
        for each in reachable(own, *sorted(own.keys() & {*HOOKS, *_STEPS})):
            for line, path, _, thaws in _switched(own[each], around):
                # What a callback is given may be any part of a trial.
                is_any = name in file.callbacks and path.startswith("self.") and frozen_by_trials
                if thaws and (is_any or any(_are_one(path, other) for other in frozen)):
                    comments = [cst.EmptyLine(comment=cst.Comment(text)) for text in THAWED]
                    node = syntax.with_node(node, line, above(line, comments))
                    break
        return node

    return syntax.each(tree, cst.ClassDef, said)


def _are_one(path: str, other: str) -> bool:
    """Whether one of two paths leads to the other."""
    pairs = zip(path.split("."), other.split("."), strict=False)
    return all(name == another for name, another in pairs)


def _frozen_in(text: str, around: Elsewhere) -> set[str]:
    """What a trial freezes before it trains."""
    own = _methods(text)
    return _frozen([own[name] for name in reachable(own, "__init__", "build_callbacks")], around)


def _frozen(methods: Iterable[cst.FunctionDef], around: Elsewhere) -> set[str]:
    switched = (each for method in methods for each in _switched(method, around))
    return {path for _, path, freezes, _ in switched if freezes}


def _switched(
    method: cst.FunctionDef, around: Elsewhere
) -> Iterator[tuple[cst.SimpleStatementLine, str, bool, bool]]:
    """The statements that freeze or thaw something, its path, and which of both they may do."""
    for line in syntax.find(method.body, cst.SimpleStatementLine):
        small = syntax.simple(line)
        found: list[tuple[cst.BaseExpression, str]] = []
        for target, value in syntax.pairs(small) if isinstance(small, cst.Assign) else ():
            if isinstance(target, cst.Attribute) and target.attr.value == "requires_grad":
                found.append((target.value, syntax.code(value)))
        for call in syntax.find(line, cst.Call):
            found += _switched_by(call, syntax.self_name(method), around)
        for owner, text in found:
            if path := _OF_TRAINER.sub("self", _path(owner, method)):
                yield (line, path, *_SWITCHED.get(text, (True, True)))


def _switched_by(
    call: cst.Call, own: str, around: Elsewhere
) -> Iterator[tuple[cst.BaseExpression, str]]:
    """What a call freezes or thaws, and the value that says which."""
    given = [syntax.code(arg.value) for arg in call.args]
    name = syntax.code(call.func).rpartition(".")[2]
    owner = call.func.value if isinstance(call.func, cst.Attribute) else None
    if name == "requires_grad_" and owner is not None:
        yield owner, ", ".join(given)
        return
    texts: list[str] = []
    if around.texts.get(name, "").startswith("def ") and call.args:
        owner, texts = call.args[0].value, [around.texts[name]]
    elif owner is not None and not syntax.is_name(owner, own):
        texts = [_method(each, name) for each in around.classes_with.get(name, ())]
    known = [each for each in given if each in ("True", "False")]
    for value, argument in (each for text in texts for each in _SWITCH.findall(text)):
        text = (value or argument).strip()
        for said in [text] if text in _SWITCHED or not known else known:
            assert owner is not None
            yield owner, said


def _method(text: str, name: str) -> str:
    found = _methods(text).get(name) if "requires_grad" in text else None
    return "" if found is None else syntax.code(found)


@lru_cache(maxsize=1 << 9)
def _methods(text: str) -> _Methods:
    """The methods of a class; the same ones are asked for in each file."""
    node = syntax.statement(text) if text else None
    return syntax.methods(node) if isinstance(node, cst.ClassDef) else {}


def _path(node: cst.CSTNode, method: cst.FunctionDef, asked: frozenset[str] = frozenset()) -> str:
    """Which attribute of what a method is given an expression is of, or is made of."""
    if isinstance(node, (cst.Subscript, cst.StarredElement)):
        return _path(node.value, method, asked)
    if isinstance(node, cst.List) and len(node.elements) == 1:
        return _path(node.elements[0], method, asked)
    if isinstance(node, cst.Call):
        if isinstance(node.func, cst.Attribute):
            return _path(node.func.value, method, asked)
        return next(filter(None, (_path(arg.value, method, asked) for arg in node.args)), "")
    if isinstance(node, cst.Attribute):
        owner = _path(node.value, method, asked)
        return f"{owner}.{node.attr.value}" if owner else ""
    if not isinstance(node, cst.Name) or node.value in asked:
        return ""
    name, own = node.value, syntax.self_name(method)
    if name == own:
        return "self"
    pairs = [pair for line in syntax.find(method, cst.Assign) for pair in syntax.pairs(line)]
    for target, value in pairs:
        is_kept = method.name.value == "__init__" and syntax.code(target).startswith(f"{own}.")
        if is_kept and name in syntax.names_in(value):
            return syntax.code(target).replace(f"{own}.", "self.", 1)
    if any(param.name.value == name for param in syntax.find(method.params, cst.Param)):
        return name
    pairs += [(loop.target, loop.iter) for loop in syntax.find(method, cst.For)]
    pairs += [(loop.target, loop.iter) for loop in syntax.find(method, cst.CompFor)]
    kinds = (cst.Name, cst.Tuple)
    values = [v for to, v in pairs if isinstance(to, kinds) and name in syntax.names_in(to)]
    return next(filter(None, (_path(each, method, asked | {name}) for each in values)), "")
