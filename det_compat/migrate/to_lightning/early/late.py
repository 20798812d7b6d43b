"""What ``__init__`` keeps that depends on the device, or on how many processes there are."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.class_facts import SIZES
from det_compat.migrate.to_lightning.early.telling import RANKS, apart, told_later
from det_compat.migrate.to_lightning.plan import TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import attributes_changed, reachable

#: What a context is asked for that is not known, or another one, before there is a Trainer.
LATE = SIZES | {"device", "get_tensorboard_writer"}


_SIZE_CHECK = """\
    # __init__ has divided batches among so many processes
    if stage == "fit" and self.trainer.world_size != {0}:
        raise ValueError(f"train it with world_size={{self.trainer.world_size}}")
"""


def setup_hook(
    plan: TrialPlan, told: Sequence[cst.BaseStatement], *, checks: bool
) -> cst.FunctionDef:
    """The hook that tells what ``__init__`` did, and ``checks`` how many processes that was told.

    Lightning calls it before it trains, validates, tests or predicts.
    """
    base = "" if plan.is_root else "    super().setup(stage)\n"
    size = "self.hparams.world_size" if plan.is_whole else 'self.hparams.get("world_size", 1)'
    lines = base + (_SIZE_CHECK.format(size) if checks else "")
    hook = syntax.method(f"def setup(self, stage):\n{lines or '    pass'}\n")
    return syntax.with_body(hook, [*(syntax.body_of(hook) if lines else []), *told])


def late_values(
    init: cst.FunctionDef,
    own: dict[str, cst.FunctionDef],
    early: Sequence[cst.FunctionDef],
    stored: Collection[str],
    symbols: Symbols,
) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement], list[cst.BaseStatement]]:
    """The statements of ``__init__`` to leave out, the properties in their place, and the others.

    What only tells how many processes there are is told later, as it stands.

    An attribute becomes a property if nothing else sets it, as other classes do those which are
    ``stored``, nothing that runs before there is a Trainer reads it, its value needs nothing but
    the trial, and it may as well be made whenever it is asked for.
    """
    me, body = syntax.self_name(init), syntax.body_of(init)
    local = syntax.local_names(init) - {me}
    gone: list[cst.BaseStatement] = []
    made: list[cst.BaseStatement] = []
    for line in body:
        value, target = getattr(syntax.simple(line), "value", None), syntax.target_of(line) or ""
        attribute = target.removeprefix(f"{me}.")
        if value is None or target == attribute or not attribute.isidentifier():
            continue
        value = _asking(value, init, symbols)
        # Where processes are forked, the rank is that of the first one here, too.
        late = LATE if any(syntax.find(value, cst.Lambda)) else LATE | RANKS
        is_known = not is_late(value, symbols, late)
        if is_known or syntax.names_in(value) & local:
            continue
        member = symbols.member(value)
        is_getter = member is not None and member[1].rpartition(".")[2].startswith("get_")
        if is_getter or (attribute == "device" and _is_device(value, symbols)):
            # Where a getter is called is told from its name, and a module has its device.
            continue
        if not _may_be_repeated(value, symbols, own) or _is_changed(attribute, own):
            continue
        others = [*early, *(other for other in body if other is not line)]
        is_set = attribute in stored or _sets(own, init, attribute)
        if is_set or any(syntax.has_attribute(node, attribute) for node in others):
            continue
        gone.append(line)
        made.append(_property(attribute, value, me))
    left = syntax.with_body(init, [line for line in body if line not in gone])
    read = [name.value for name in syntax.find(left, cst.Name)]
    was = {name for line in gone for name in syntax.names_in(line)}
    # A variable that only these used is of no use now.
    answers = [line for line in body if _is_answer(line, symbols)]
    idle = [n for n in answers if (name := syntax.target_of(n)) in was and read.count(name) == 1]
    out, told = ([], []) if "setup" in own else told_later(init, symbols)
    return [*gone, *idle, *out], made, told


def _asking(
    value: cst.BaseExpression, init: cst.FunctionDef, symbols: Symbols
) -> cst.BaseExpression:
    """A value that asks the context itself, where it used a variable that had an answer of it."""
    targets = [syntax.code(target) for target in _targets(init)]
    for line in syntax.body_of(init):
        name, call = syntax.target_of(line) or "", syntax.call_of(line)
        is_same = targets.count(name) == 1 and not any(t.startswith(f"{name}[") for t in targets)
        is_same = is_same and not _is_changed_as(name, init)
        if call is not None and is_same and _is_answer(line, symbols):
            value = syntax.replaced(value, name, syntax.code(call))
    return value


def _is_answer(line: cst.BaseStatement, symbols: Symbols) -> bool:
    """Whether a statement gives a name to what a context says the same of whenever it is asked."""
    call = syntax.call_of(line)
    is_named = (syntax.target_of(line) or "").isidentifier()
    return is_named and call is not None and symbols.method(call) in _ANSWERS


_ANSWERS = words("get_hparam get_hparams get_global_batch_size")


def _is_changed_as(name: str, method: cst.FunctionDef) -> bool:
    """Whether a method calls to change the list or dict that a variable of it is."""
    changing = {f"{name}.{mutator}" for mutator in _MUTATORS}
    return any(syntax.code(call.func) in changing for call in syntax.find(method, cst.Call))


#: What may be called again: it draws no random number, and what it returns has no state.
_REPEATED = words(
    """
    int float bool str len min max abs round sum range list tuple dict set sorted partial device
    ceil floor log sqrt prod join format get replace split lower upper type TorchWriter
    """
)
#: What makes a tensor of its arguments, or fills one.
_FILLING = words("tensor as_tensor full arange linspace eye zeros ones empty from_numpy")
_DRAWING = words("rand randn randint randperm normal")
_MUTATORS = words("append extend insert update pop popleft add remove clear setdefault sort")


def _may_be_repeated(
    value: cst.BaseExpression, symbols: Symbols, own: Mapping[str, cst.FunctionDef]
) -> bool:
    """Whether a value may be made each time that it is asked for.

    A model, a metric or what is drawn may not: each time it would be another.
    """
    known = {*_REPEATED}
    if isinstance(value, cst.Call) and syntax.code(value.func).endswith("Loss"):
        # Nobody changes the weights of a loss.
        known |= {*_FILLING, "to", syntax.code(value.func).rpartition(".")[2]}
    for call in syntax.find(value, cst.Call):
        name = syntax.code(call.func).rpartition(".")[2]
        is_asked = symbols.called(call) is not None or symbols.path(call.func) is not None
        is_own = name in own and "." in syntax.code(call.func)
        if is_own and not is_asked and any(map(_differs, (own[n] for n in reachable(own, name)))):
            return False
        if not (is_asked or is_own or name in known):
            return False
    return True


def _differs(method: cst.FunctionDef) -> bool:
    """Whether a method may give something else each time: it counts, draws or makes weights."""
    draws = re.compile(r"(?i)\bnn\.|(rand|seed|shuffle|normal|permut|sample)\w*\(")
    return bool(draws.search(syntax.code(method))) or any(attributes_changed(method))


def _is_changed(attribute: str, own: Mapping[str, cst.FunctionDef]) -> bool:
    """Whether a method changes the list or dict that an attribute is."""
    functions = (call.func for method in own.values() for call in syntax.find(method, cst.Call))
    return any(
        isinstance(function, cst.Attribute)
        and function.attr.value in _MUTATORS
        and syntax.has_attribute(function.value, attribute)
        for function in functions
    )


def never_later(node: cst.ClassDef, plan: TrialPlan, asked: Collection[str]) -> set[str]:
    """The methods that nothing calls once there is a Trainer: ``__init__``, and what it calls.

    What is ``asked`` of the trial elsewhere may be called later.
    """
    own = syntax.methods(node)
    later = {*asked, *reachable(own, *(own.keys() - {*plan.early}))}
    names = {"__init__", *({*plan.early} - later if plan.is_whole else ())}
    return {*own} & names if not plan.is_mixin else set()


def left_to_lightning(node: cst.ClassDef, early: Collection[str], symbols: Symbols) -> cst.ClassDef:
    """A trial that leaves it to Lightning to move what it keeps in methods that are ``early``."""
    own = syntax.methods(node)
    made = {name: without_devices(own[name], symbols) for name in early}
    lines = (made.get(getattr(getattr(n, "name", 0), "value", ""), n) for n in syntax.body_of(node))
    return syntax.with_body(node, [*lines]) if made else node


def without_devices(init: cst.FunctionDef, symbols: Symbols) -> cst.FunctionDef:
    """An ``__init__`` that leaves it to Lightning to move what it keeps to the device.

    Models are moved since they are attributes, and tensors if they are buffers.
    """
    init = _asking_in_place(apart(init, symbols), symbols)
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
    sets = [syntax.code(target) for target in _targets(init)]

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
        if is_model or attribute == target:
            is_plain = is_model or target in kept
            return line.with_deep_changes(small, value=plain) if is_plain else line
        if is_tensor(maker):
            if "requires_grad" in syntax.code(plain) or sets.count(target) > 1:
                return line
            text = f'{me}.register_buffer("{attribute}", {syntax.code(plain)}, persistent=False)'
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
        if is_named and value is not None and _is_device(value, symbols):
            left = [each for each in syntax.body_of(init) if each is not line]
            init = syntax.replaced(syntax.with_body(init, left), name, syntax.code(value))
            return _asking_in_place(init, symbols)
    return init


def makers_in(init: cst.FunctionDef, symbols: Symbols) -> dict[str, str]:
    """What is called first to make each variable and attribute that is set once."""
    found: dict[str, str] = {}
    for line in syntax.find(init, cst.Assign):
        for target, value in syntax.pairs(line):
            name = syntax.code(target)
            found[name] = "" if name in found else anywhere(value, symbols, found)[1]
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
    is_known = name in {*_FILLING, *_DRAWING, "stack", "cat"} or name.endswith("Tensor")
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
        args = [arg for arg in value.args if not _is_device(arg.value, symbols)]
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
        return syntax.each(value, cst.Call, lambda call: _to_be_moved(call, symbols)), maker
    args = [arg for arg in value.args if not (arg.keyword and _is_device(arg.value, symbols))]
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


def _is_device(node: cst.BaseExpression, symbols: Symbols) -> bool:
    member = symbols.member(node)
    return member is not None and member[1] == "device"


def is_late(value: cst.BaseExpression, symbols: Symbols, late: Collection[str] = LATE) -> bool:
    """Whether a value is not known, or another one, before there is a Trainer."""
    nodes = [*syntax.find(value, cst.Attribute)]
    found = (symbols.member(node) for node in nodes)
    is_late = any(member is not None and member[1] in late for member in found)
    of_writers = (node for node in nodes if node.attr.value == "writer")
    is_kept = any(symbols.is_writer(node.value) for node in of_writers)
    return is_late or is_kept or any(map(symbols.is_new_writer, nodes))


def _sets(own: dict[str, cst.FunctionDef], init: cst.FunctionDef, attribute: str) -> bool:
    return any(
        syntax.has_attribute(target, attribute)
        for method in own.values()
        if method.name.value != init.name.value
        for target in _targets(method)
    )


def _targets(method: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
    yield from (found.target for found in syntax.find(method, cst.AssignTarget))
    yield from (found.target for found in syntax.find(method, cst.AugAssign))
    yield from (found.target for found in syntax.find(method, cst.AnnAssign))


def _property(attribute: str, value: cst.BaseExpression, me: str) -> cst.BaseStatement:
    text = syntax.whole(syntax.code(value))
    return syntax.method(f"@property\ndef {attribute}({me}):\n    return {text}\n")
