"""Models that ``__init__`` does something with whose result is on their device.

Determined had moved them there when they were wrapped, and Lightning does so when training begins.
"""

import re
import textwrap
from collections.abc import Collection, Iterator, Mapping

import libcst as cst

from det_compat.migrate.to_lightning.written_out.early_device import OF_PROCESS
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import reachable

#: What makes tensors where others are.
_COPIES = re.compile(r"\.(clone|detach)\(|_like\(|\bdeepcopy\(|\.state_dict\(")
_ON_DEVICE = re.compile(r"\bdevice\b|\bis_cuda\b|_like\(|\.new_\w+\(")
_WEIGHTS = re.compile(r"(\.(parameters|named_parameters|state_dict)\(\))?")


def moved_early(node: cst.ClassDef, symbols: Symbols, texts: Mapping[str, str]) -> cst.ClassDef:
    """A trial that moves models to the device where it wraps them, if that is needed.

    Args:
        node: the class.
        symbols: what placeholders stand for.
        texts: the functions and classes of the project.
    """
    own = syntax.methods(node)
    methods = [own[name] for name in reachable(own, "__init__")]
    moved: dict[cst.BaseExpression, cst.BaseExpression] = {}
    for line in (line for method in methods for line in syntax.find(method, cst.Assign)):
        call = line.value
        if not isinstance(call, cst.Call) or symbols.method(call) != "wrap_model":
            continue
        model, name = syntax.argument(call, 0, "model"), syntax.code(line.targets[0].target)
        # What a variable was called before is the same model.
        names = {name, syntax.code(model)} if isinstance(model, cst.Name) else {name}
        if model is not None and any(_computes(_behind(m, line), names, texts) for m in methods):
            moved[model] = syntax.expression(f"{syntax.code(model)}.to({OF_PROCESS})")
    return syntax.each(node, cst.Arg, lambda arg: _with_value(arg, moved)) if moved else node


def _behind(method: cst.FunctionDef, line: cst.Assign) -> cst.FunctionDef:
    """A method without what it does before it comes to a statement, if that is in it."""
    body = [*syntax.body_of(method)]
    found = (at for at, each in enumerate(body) if line in syntax.find(each, cst.Assign))
    return syntax.with_body(method, body[next(found, 0) :])


def _with_value(arg: cst.Arg, new: Mapping[cst.BaseExpression, cst.BaseExpression]) -> cst.Arg:
    return arg.with_changes(value=new[arg.value]) if arg.value in new else arg


def _computes(method: cst.FunctionDef, names: Collection[str], texts: Mapping[str, str]) -> bool:
    """Whether a method makes something of one of these models that is where the model is."""
    for call in syntax.find(method.body, cst.Call):
        if syntax.code(call.func) in names or _is_fused(call):
            return True
        if isinstance(call.func, cst.Attribute) and syntax.code(call.func.value) in names:
            start = re.compile(rf"\bdef {call.func.attr.value}\(")
            if any(start.search(text) and _ON_DEVICE.search(text) for text in texts.values()):
                return True
    return any(_keeps_copies(line.value, names, texts) for line in _kept(method))


def _is_fused(call: cst.Call) -> bool:
    """Whether a call makes an optimizer that may need its parameters on a GPU."""
    given = {arg.keyword.value: syntax.code(arg.value) for arg in call.args if arg.keyword}
    is_named = syntax.code(call.func).rpartition(".")[2].startswith("Fused")
    return is_named or given.get("fused", "None") not in ("False", "None")


def _kept(method: cst.FunctionDef) -> Iterator[cst.Assign]:
    """The assignments to attributes of a method's object."""
    own = f"{syntax.self_name(method)}."
    for line in syntax.find(method.body, cst.Assign):
        if all(syntax.code(target.target).startswith(own) for target in line.targets):
            yield line


def _keeps_copies(
    value: cst.BaseExpression, names: Collection[str], texts: Mapping[str, str]
) -> bool:
    """Whether a value has copies of the weights of models in it that Lightning does not find."""
    text = syntax.code(value)
    is_asked = any(re.search(rf"{re.escape(name)}(?!\w)", text) for name in names)
    if is_asked and not isinstance(value, cst.Call):
        return bool(_COPIES.search(text))
    for call in syntax.find(value, cst.Call):
        maker = texts.get(syntax.code(call.func).rpartition(".")[2], "")
        # What a module has, Lightning moves.
        is_plain = "Module" not in maker.partition(":")[0]
        is_given = is_plain and any(_is_given(a, names) for a in call.args)
        if is_given and _COPIES.search(_run_to_make(maker)):
            return True
    return False


def _run_to_make(maker: str) -> str:
    """What of the text of a class runs when an object is made; all of it, if that is not seen."""
    tree = cst.parse_module(textwrap.dedent(maker))
    first = tree.body[0] if len(tree.body) == 1 else None
    own = syntax.methods(first) if isinstance(first, cst.ClassDef) and not first.bases else {}
    found = [own[name] for name in reachable(own, "__init__")]
    return (
        maker
        if not found or any(map(_hands_itself_on, found))
        else "".join(map(syntax.code, found))
    )


def _hands_itself_on(method: cst.FunctionDef) -> bool:
    """Whether a method uses its object as a whole."""
    me = syntax.self_name(method)
    named = sum(name.value == me for name in syntax.find(method.body, cst.Name))
    asked = (syntax.code(each.value) for each in syntax.find(method.body, cst.Attribute))
    return named > sum(text == me for text in asked)


def _is_given(arg: cst.Arg, names: Collection[str]) -> bool:
    text = syntax.code(arg.value)
    return any(
        text.startswith(name) and _WEIGHTS.fullmatch(text.removeprefix(name)) for name in names
    )
