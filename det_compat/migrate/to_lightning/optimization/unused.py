"""Parameters of a module through which no backward pass of a batch goes.

Determined shared out the gradients of the models that it had wrapped. Lightning does so for
whatever is a module and an attribute of one, and several devices wait for gradients of all of it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import libcst as cst

from det_compat.migrate.shapes.values import assigned
from det_compat.migrate.to_lightning.class_facts import WrappedModel
from det_compat.migrate.to_lightning.unwrapped import Makers
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
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
_FROZEN = r"\b{}\.(requires_grad_\(False\)|parameters\(\):\n\s*\w+\.requires_grad\b)"


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
    aliases = {syntax.code(to) for to, value in pairs if syntax.names_in(value) & wrapped}
    for name, value, is_whole in attributes_set(method):
        to = f"{syntax.self_name(method)}.{name}"
        is_wrapped = any(re.search(rf"\b{re.escape(to)}\b", text) for text in texts)
        if is_whole and not is_wrapped and to not in aliases and "wrap_model" not in value:
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
