"""What ``__init__`` puts on a device, which Lightning moves by itself."""

from collections.abc import Collection, Mapping

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.data.drawn import draws, with_buffers
from det_compat.migrate.to_lightning.early.late import DRAWING, FILLING, is_device, is_late, targets
from det_compat.migrate.to_lightning.early.telling import apart
from det_compat.migrate.to_lightning.plan import LightningFile, TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import reachable
from det_compat.migrate.tree.walking import below


def never_later(node: cst.ClassDef, plan: TrialPlan, asked: Collection[str]) -> set[str]:
    """The methods that nothing calls once there is a Trainer: ``__init__``, and what it calls.

    What is ``asked`` of the trial elsewhere may be called later.
    """
    own = syntax.methods(node)
    later = {*asked, *reachable(own, *(own.keys() - {*plan.early}))}
    names = {"__init__", *({*plan.early} - later if plan.is_whole else ())}
    return {*own} & names if not plan.is_mixin else set()


def left_to_lightning(
    node: cst.ClassDef, early: Collection[str], plan: TrialPlan, file: LightningFile
) -> cst.ClassDef:
    """A trial that leaves it to Lightning to move what it keeps in methods that are ``early``."""
    symbols = file.symbols
    if plan.is_whole:
        node = with_buffers(node, symbols, file.elsewhere.asked)
    own = syntax.methods(node)
    # A property and its setter have one name.
    made = {own[name]: without_devices(own[name], symbols) for name in early}
    lines = (made.get(n, n) if isinstance(n, cst.FunctionDef) else n for n in syntax.body_of(node))
    return syntax.with_body(node, [*lines]) if made else node


def without_devices(init: cst.FunctionDef, symbols: Symbols) -> cst.FunctionDef:
    """An ``__init__`` that leaves it to Lightning to move what it keeps to the device.

    Models are moved since they are attributes, and tensors if they are buffers.
    """
    init = _asking_in_place(apart(init, symbols), symbols)
    init = _loading_to_cpu(_one_by_one(init, symbols), symbols)
    me = syntax.self_name(init)
    wraps = symbols.calls(init, "wrap_model")
    models = [model for call in wraps if (model := syntax.argument(call, 0, "model"))]
    # What is wrapped is a model for sure, whoever makes it.
    names = {syntax.code(model) for model in models}
    makers, asked = makers_in(init, symbols), _asked_as_models(init)
    for model in models:
        init = syntax.with_node(init, model, anywhere(model, symbols, makers)[0])
    kept = {name for name, maker in makers.items() if is_tensor(maker) and _is_kept(name, init)}
    # A buffer cannot take the place of an attribute that is there.
    sets = [syntax.code(target) for target in targets(init)]

    def moved(line: cst.SimpleStatementLine) -> cst.BaseStatement | cst.RemovalSentinel:
        small, target = syntax.simple(line), syntax.target_of(line) or ""
        if isinstance(small, cst.Expr):
            model = syntax.code(anywhere(small.value, symbols, makers)[0])
            is_model = model in names or is_class(makers.get(model, ""))
            return cst.RemoveFromParent() if is_model else line
        attribute = target.removeprefix(f"{me}.")
        if not isinstance(small, cst.Assign | cst.AnnAssign) or not attribute.isidentifier():
            return line
        plain, maker = anywhere(small.value or cst.Name("None"), symbols, makers)
        is_model = target in names
        if plain is small.value or is_late(plain, symbols):
            return line
        if syntax.code(plain) == target:
            is_model |= is_class(makers.get(target, "")) or target in asked
            return cst.RemoveFromParent() if is_model else line
        if is_model or attribute == target:
            is_plain = is_model or target in kept
            return line.with_deep_changes(small, value=plain) if is_plain else line
        if is_tensor(maker):
            if "requires_grad" in syntax.code(plain) or sets.count(target) > 1:
                return line
            # What is drawn again would be something else.
            kind = "" if draws(plain) else ", persistent=False"
            text = f'{me}.register_buffer("{attribute}", {syntax.code(plain)}{kind})'
            return line.with_changes(body=[cst.Expr(syntax.expression(text))])
        is_asked = not asked.isdisjoint((target, syntax.code(plain)))
        is_model = is_class(maker) or is_asked
        return line.with_deep_changes(small, value=plain) if is_model else line

    return syntax.each(init, cst.SimpleStatementLine, moved)


def _asking_in_place(init: cst.FunctionDef, symbols: Symbols) -> cst.FunctionDef:
    """An ``__init__`` that asks for the device where it needs it, and has no name for it."""
    sets = [syntax.code(found.target) for found in syntax.find(init, cst.AssignTarget)]
    given = {param.name.value for param in syntax.find(init, cst.Param)}
    for line in syntax.body_of(init):
        value, name = getattr(syntax.simple(line), "value", None), syntax.target_of(line) or ""
        is_named = name.isidentifier() and name not in given and sets.count(name) == 1
        if is_named and value is not None and is_device(value, symbols):
            left = [each for each in syntax.body_of(init) if each is not line]
            init = syntax.replaced(syntax.with_body(init, left), name, syntax.code(value))
            return _asking_in_place(init, symbols)
    return init


def _one_by_one(init: cst.FunctionDef, symbols: Symbols) -> cst.FunctionDef:
    """An ``__init__`` that moves one thing a statement, each of which Lightning may move."""
    body: list[cst.BaseStatement] = []
    for line in syntax.body_of(init):
        small = syntax.simple(line)
        is_several = isinstance(small, cst.Assign) and isinstance(small.value, cst.Tuple)
        pairs = [*syntax.pairs(small)] if isinstance(small, cst.Assign) and is_several else []
        names = {syntax.code(target) for target, _ in pairs}
        is_moving = any(is_late(value, symbols, ("device",)) for _, value in pairs)
        is_apart = not any(syntax.mentions(value, name) for _, value in pairs for name in names)
        if len(pairs) < 2 or not (is_moving and is_apart):
            body.append(line)
            continue
        made = [cst.SimpleStatementLine([syntax.assignment(*pair)]) for pair in pairs]
        body += [line.with_changes(body=made[0].body), *made[1:]]
    return syntax.with_body(init, body)


def _loading_to_cpu(init: cst.FunctionDef, symbols: Symbols) -> cst.FunctionDef:
    """An ``__init__`` that loads to the CPU what ``load_state_dict`` copies to where a model is."""
    copying = (n for n in syntax.find(init, cst.Call) if _is_called(n, "load_state_dict"))
    given = [arg for call in copying for arg in call.args[:1]]
    copied = {id(each) for arg in given for each in below(arg)}
    names = {syntax.target_of(line) for line in syntax.find(init, cst.SimpleStatementLine)}
    for name in names & {name for arg in given for name in syntax.names_in(arg)}:
        uses = [n for n in syntax.find(init, cst.Name) if n.value == name]
        lines = [
            line
            for line in syntax.find(init, cst.SimpleStatementLine)
            if syntax.target_of(line) == name
        ]
        # One use is where it is set.
        if len(lines) == 1 and sum(id(use) not in copied for use in uses) == 1:
            copied |= {id(each) for each in below(lines[0])}

    def loaded(call: cst.Call) -> cst.Call:
        args = [
            arg.with_changes(value=cst.SimpleString('"cpu"'))
            if is_device(arg.value, symbols)
            else arg
            for arg in call.args
        ]
        return call.with_changes(args=args)

    for call in [n for n in syntax.find(init, cst.Call) if id(n) in copied]:
        if syntax.code(call.func) == "torch.load" and (new := loaded(call)) is not call:
            init = syntax.with_node(init, call, new)
    return init


def _is_called(call: cst.Call, method: str) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == method


def makers_in(init: cst.FunctionDef, symbols: Symbols) -> dict[str, str]:
    """What is called first to make each variable and attribute that is set once."""
    found: dict[str, str] = {}
    for line in syntax.find(init, cst.Assign):
        for target, value in syntax.pairs(line):
            name = syntax.code(target)
            plain, maker = anywhere(value, symbols, found)
            if name not in found or syntax.code(plain) != name:
                found[name] = "" if name in found else maker
    return found


def _is_kept(name: str, init: cst.FunctionDef) -> bool:
    """Whether a variable of ``__init__`` is handed to losses alone, which keep it as a buffer."""
    calls = (call for call in syntax.find(init, cst.Call) if _is_loss(syntax.code(call.func)))
    handed = sum(syntax.code(arg.value) == name for call in calls for arg in call.args)
    uses = (node for node in syntax.find(init, cst.Name) if node.value == name)
    # One use is where it is set.
    return sum(1 for _ in uses) == handed + 1


def _asked_as_models(init: cst.FunctionDef) -> set[str]:
    """What is asked for what models have alone, and what ``eval()`` of one returns."""
    found = set[str]()
    for call in syntax.find(init, cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _OF_MODELS:
            found.add(syntax.code(call.func.value))
            found |= {syntax.code(call)} if call.func.attr.value == "eval" else set()
    return found


_OF_MODELS = ("eval", "parameters", "named_parameters")


def is_tensor(maker: str) -> bool:
    """Whether a function makes a tensor."""
    name = maker.rpartition(".")[2]
    is_known = name in {*FILLING, *DRAWING, "stack", "cat"} or name.endswith("Tensor")
    return maker.startswith("torch.") and is_known


def is_class(maker: str) -> bool:
    """Whether a function is a class, as models and losses have."""
    return maker.rpartition(".")[2][:1].isupper()


def _is_loss(maker: str) -> bool:
    return maker.startswith(("nn.", "torch.nn.")) and maker.endswith("Loss")


def anywhere(
    value: cst.BaseExpression, symbols: Symbols, makers: Mapping[str, str]
) -> tuple[cst.BaseExpression, str]:
    """A value without the device that it is put on, and what is called first to make it.

    ``makers`` are the functions that have made what variables hold.
    """
    if isinstance(value, cst.Name):
        return value, makers.get(value.value, "")
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, _EXACT):
        (left, one), (right, other) = (
            anywhere(side, symbols, makers) for side in (value.left, value.right)
        )
        is_same = left is value.left and right is value.right
        made = value if is_same else value.with_changes(left=left, right=right)
        return made, one if is_tensor(one) else other
    if not isinstance(value, cst.Call):
        return value, ""
    func = value.func
    owner = func.value if isinstance(func, cst.Attribute) else None
    is_moved = isinstance(func, cst.Attribute) and func.attr.value == "to"
    is_made = isinstance(owner, cst.Call | cst.BinaryOperation)
    is_made |= isinstance(owner, cst.Name) and is_tensor(makers.get(owner.value, ""))
    if isinstance(func, cst.Attribute) and owner is not None and (is_made or is_moved):
        plain, maker = anywhere(owner, symbols, makers)
        if func.attr.value in _NO_TENSOR:
            return value, ""
        args = [arg for arg in value.args if not is_device(arg.value, symbols)]
        if is_moved and len(args) < len(value.args):
            args = [a for a in args if a.keyword is None or a.keyword.value != "non_blocking"]
            if not args:
                return plain, maker
            value = value.with_changes(args=syntax.without_commas(args))
        if plain is owner:
            return value, maker
        return value.with_changes(func=func.with_changes(value=plain)), maker
    if (given := _to_be_moved(value, symbols)) is not value:
        return anywhere(given, symbols, makers)
    maker = syntax.code(value.func)
    if _is_loss(maker):
        # It keeps tensors as buffers.
        def given_plain(call: cst.Call) -> cst.BaseExpression:
            plain, made_by = anywhere(call, symbols, makers)
            return plain if is_tensor(made_by) else _to_be_moved(call, symbols)

        args = [syntax.each(arg, cst.Call, given_plain) for arg in value.args]
        is_same = all(new is old for new, old in zip(args, value.args, strict=True))
        return value if is_same else value.with_changes(args=args), maker
    args = [arg for arg in value.args if not (arg.keyword and is_device(arg.value, symbols))]
    if len(args) < len(value.args) and is_tensor(maker):
        return value.with_changes(args=syntax.without_commas(args)), maker
    return value, maker


#: What rounds the same on every device.
_EXACT = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
#: What makes something else of a tensor.
_NO_TENSOR = words("item tolist numpy")


def _to_be_moved(call: cst.Call, symbols: Symbols) -> cst.BaseExpression:
    """What ``context.to_device`` is given; any other call itself."""
    is_moved = symbols.method(call) == "to_device" and len(call.args) == 1
    return call.args[0].value if is_moved else call
