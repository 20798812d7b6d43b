"""Models that ``__init__`` does something with whose result is on their device.

Determined had moved them there when they were wrapped, and Lightning does so when training begins.
"""

import re
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence

import libcst as cst

from det_compat.migrate.to_lightning.written_out.early_device import OF_PROCESS
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import reachable

#: What makes tensors where others are.
_COPIES = re.compile(r"\.(clone|detach)\(|_like\(|\b(deepcopy|AveragedModel)\(|\.state_dict\(")
_ON_DEVICE = re.compile(r"\bdevice\b|\bis_cuda\b|_like\(|\.new_\w+\(")
_WEIGHTS = re.compile(r"(\.(parameters|named_parameters|state_dict)\(\))?")


def moved_early(
    node: cst.ClassDef, symbols: Symbols, texts: Mapping[str, str], relatives: Collection[str] = ()
) -> cst.ClassDef:
    """A trial that moves models to the device where it wraps them, if that is needed.

    Args:
        node: the class.
        symbols: what placeholders stand for.
        texts: the functions and classes of the project.
        relatives: the classes among these that the trial derives from, and that derive from it.
    """
    own = syntax.methods(node)
    making = [own[name] for name in reachable(own, "__init__")]
    lines = [line for each in making for line in syntax.find(each, cst.SimpleStatementLine)]
    if not any(True for line in lines for _ in _wraps(line, symbols)):
        return node
    methods = [*_early([own, *_methods_of(relatives, texts)])]
    moved: dict[cst.BaseExpression, cst.BaseExpression] = {}
    for line, call in ((each, call) for each in lines for call in _wraps(each, symbols)):
        model = syntax.argument(call, 0, "model")
        names = {name for name in (_keeper(line), *_variables(model, line)) if name}
        if model is not None and any(_computes(_behind(m, line), names, texts) for m in methods):
            moved[model] = syntax.expression(f"{syntax.code(model)}.to({OF_PROCESS})")
    return syntax.each(node, cst.Arg, lambda arg: _with_value(arg, moved)) if moved else node


def _methods_of(
    names: Collection[str], texts: Mapping[str, str]
) -> Iterator[Mapping[str, cst.FunctionDef]]:
    for text in (texts[name] for name in names if name in texts):
        for node in syntax.find(syntax.looked_at(textwrap.dedent(text)), cst.ClassDef):
            yield syntax.methods(node)


def _early(family: Sequence[Mapping[str, cst.FunctionDef]]) -> Iterator[cst.FunctionDef]:
    """What runs of a family of classes before Lightning has moved a module to its device."""
    every = {name: method for own in reversed(family) for name, method in own.items()}
    found = {
        id(method): method
        for own in family
        for start in _STARTS
        if start in own
        for name in reachable({**every, start: own[start]}, start)
        for method in [own[start] if name == start else every[name]]
    }
    yield from found.values()


#: Lightning asks for callbacks, too, before it moves anything.
_STARTS = ("__init__", "build_callbacks")


def _wraps(line: cst.SimpleStatementLine, symbols: Symbols) -> Iterator[cst.Call]:
    is_kept = _keeper(line) is not None
    return (c for c in symbols.calls(line, "wrap_model") if is_kept)


def _keeper(line: cst.SimpleStatementLine) -> str | None:
    """What has a model that a statement wraps: a variable, an attribute, a list or a dict."""
    call = syntax.lone_call(line)
    if call is not None and syntax.code(call.func).endswith(".append"):
        return syntax.code(call.func).removesuffix(".append")
    target = syntax.target_of(line)
    return target and target.partition("[")[0]


def _variables(model: cst.BaseExpression | None, line: cst.SimpleStatementLine) -> Iterator[str]:
    """What a model is called before it is wrapped, or the list that it is in: it is the same."""
    if isinstance(model, cst.Name):
        loops = [
            syntax.code(each.iter)
            for each in syntax.find(line, cst.CompFor)
            if syntax.code(each.target) == model.value
        ]
        yield from loops or [model.value]


def _behind(method: cst.FunctionDef, line: cst.SimpleStatementLine) -> cst.FunctionDef:
    """A method without what it does before it comes to a statement, if that is in it."""
    body = [*syntax.body_of(method)]
    found = (
        at for at, each in enumerate(body) if line in syntax.find(each, cst.SimpleStatementLine)
    )
    return syntax.with_body(method, body[next(found, 0) :])


def _with_value(arg: cst.Arg, new: Mapping[cst.BaseExpression, cst.BaseExpression]) -> cst.Arg:
    return arg.with_changes(value=new[arg.value]) if arg.value in new else arg


def _computes(method: cst.FunctionDef, names: Collection[str], texts: Mapping[str, str]) -> bool:
    """Whether a method makes something of one of these models that is where the model is."""
    names = {*names, *_looped(method, names)}
    for call in syntax.find(method.body, cst.Call):
        if syntax.code(call.func) in names or _is_fused(call):
            return True
        if isinstance(call.func, cst.Attribute) and syntax.code(call.func.value) in names:
            start = f"def {call.func.attr.value}("
            if any(start in text and _ON_DEVICE.search(text) for text in texts.values()):
                return True
    return any(
        _keeps_copies(value, names, texts, is_found=is_found) for value, is_found in _kept(method)
    )


def _looped(method: cst.FunctionDef, names: Collection[str]) -> Iterator[str]:
    """The variables that loops over lists or dicts of these models have."""
    loops: list[cst.CompFor | cst.For] = [*syntax.find(method.body, cst.CompFor)]
    for loop in [*loops, *syntax.find(method.body, cst.For)]:
        if _is_asked(syntax.code(loop.iter), names):
            yield from map(syntax.code, syntax.parts(loop.target))


def _is_asked(text: str, names: Collection[str]) -> bool:
    return any(re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text) for name in names)


def _is_fused(call: cst.Call) -> bool:
    """Whether a call makes an optimizer that may need its parameters on a GPU."""
    given = {arg.keyword.value: syntax.code(arg.value) for arg in call.args if arg.keyword}
    is_named = syntax.code(call.func).rpartition(".")[2].startswith("Fused")
    return is_named or given.get("fused", "None") not in ("False", "None")


def _kept(method: cst.FunctionDef) -> Iterator[tuple[cst.BaseExpression, bool]]:
    """What a method keeps in attributes of its object, and whether Lightning finds a module there.

    It does so in an attribute, and not in a list or a dict.
    """
    own = f"{syntax.self_name(method)}."
    for line in syntax.find(method.body, cst.Assign):
        targets = [syntax.code(each.target) for each in line.targets]
        if all(target.startswith(own) for target in targets):
            yield line.value, not any("[" in target for target in targets)
    for call in syntax.find(method.body, cst.Call):
        func = syntax.code(call.func)
        if method.name.value == "build_callbacks":
            yield call, False
        if func.startswith(own) and func.endswith(".append"):
            yield from ((arg.value, False) for arg in call.args)


def _keeps_copies(
    value: cst.BaseExpression,
    names: Collection[str],
    texts: Mapping[str, str],
    *,
    is_found: bool,
) -> bool:
    """Whether a value has copies of the weights of models in it that Lightning does not find."""
    if isinstance(value, cst.IfExp):
        sides = (value.body, value.orelse)
        return any(_keeps_copies(side, names, texts, is_found=is_found) for side in sides)
    text = syntax.code(value)
    is_open = _is_asked(text, names) and not (is_found and isinstance(value, cst.Call))
    if is_open and _COPIES.search(text):
        return True
    for call in syntax.find(value, cst.Call):
        maker = texts.get(syntax.code(call.func).rpartition(".")[2], "")
        # What a module has, Lightning moves.
        is_plain = "Module" not in maker.partition(":")[0]
        is_given = is_plain and any(_is_given(a, names) for a in call.args)
        making = _run_to_make(maker)
        if is_given and _COPIES.search(making):
            return True
        if is_plain and _asks_trial(making, call, names) and _COPIES.search(making):
            return True
    return False


def _asks_trial(making: str, call: cst.Call, names: Collection[str]) -> bool:
    """Whether what is made of a trial itself asks it for one of these models."""
    is_given = any(syntax.code(arg.value) == "self" for arg in call.args)
    attributes = [re.escape(name.rpartition(".")[2]) for name in names if "." in name]
    return is_given and any(re.search(rf"\.{name}\b", making) for name in attributes)


def _run_to_make(maker: str) -> str:
    """What of the text of a class runs when an object is made; all of it, if that is not seen."""
    tree = syntax.looked_at(textwrap.dedent(maker))
    first = tree.body[0] if len(tree.body) == 1 else None
    bases = first.bases if isinstance(first, cst.ClassDef) else ()
    is_whole = all(syntax.code(base.value).endswith("Callback") for base in bases)
    own = syntax.methods(first) if isinstance(first, cst.ClassDef) and is_whole else {}
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
