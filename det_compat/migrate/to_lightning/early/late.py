"""What ``__init__`` keeps that depends on the device, or on how many processes there are."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.class_facts import SIZES
from det_compat.migrate.to_lightning.early.telling import RANKS, told_later
from det_compat.migrate.to_lightning.plan import TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import (
    attributes_changed,
    attributes_read,
    reachable,
)

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
    size = "self.hparams.world_size" if plan.is_single else 'self.hparams.get("world_size", 1)'
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
    body = syntax.body_of(init)
    gone: list[cst.BaseStatement] = []
    made: list[cst.BaseStatement] = []
    for line in body:
        found = late_value(line, init, own, symbols)
        if found is None:
            continue
        attribute, value = found
        others = [*early, *(other for other in body if other is not line)]
        asked = read_by(value, syntax.self_name(init), own)
        is_set = attribute in stored or _sets(own, init, attribute)
        is_set |= not are_settled(asked, own) or not asked.isdisjoint(stored)
        later = syntax.with_body(init, body[body.index(line) + 1 :])
        is_set |= not asked.isdisjoint(attributes_changed(later))
        if is_set or any(syntax.has_attribute(node, attribute) for node in others):
            continue
        gone.append(line)
        made.append(late_property(attribute, value, init))
    left = syntax.with_body(init, [line for line in body if line not in gone])
    read = [name.value for name in syntax.find(left, cst.Name)]
    was = {name for line in gone for name in syntax.names_in(line)}
    # A variable that only these used is of no use now.
    answers = [line for line in body if _is_answer(line, symbols)]
    idle = [n for n in answers if (name := syntax.target_of(n)) in was and read.count(name) == 1]
    out, told = ([], []) if "setup" in own else told_later(init, symbols)
    return [*gone, *idle, *out], made, told


def late_value(
    line: cst.BaseStatement,
    method: cst.FunctionDef,
    own: Mapping[str, cst.FunctionDef],
    symbols: Symbols,
) -> tuple[str, cst.BaseExpression] | None:
    """The attribute that a statement sets to what is not known yet, and may be made whenever."""
    me = syntax.self_name(method)
    value, target = getattr(syntax.simple(line), "value", None), syntax.target_of(line) or ""
    attribute = target.removeprefix(f"{me}.")
    if value is None or target == attribute or not attribute.isidentifier():
        return None
    value = _asking(value, method, symbols)
    # Where processes are forked, the rank is that of the first one here, too.
    late = LATE if any(syntax.find(value, cst.Lambda)) else LATE | RANKS
    is_known = not is_late(value, symbols, late)
    if is_known or syntax.names_in(value) & (syntax.local_names(method) - {me}):
        return None
    member = symbols.member(value)
    is_getter = member is not None and member[1].rpartition(".")[2].startswith("get_")
    if is_getter or (attribute == "device" and is_device(value, symbols)):
        # Where a getter is called is told from its name, and a module has its device.
        return None
    if not _may_be_repeated(value, symbols, own) or _is_changed(attribute, own):
        return None
    return attribute, value


def read_by(value: cst.BaseExpression, me: str, own: Mapping[str, cst.FunctionDef]) -> set[str]:
    """The attributes of a trial that a value, and the methods that it calls, read."""
    asked = {n.attr.value for n in syntax.find(value, cst.Attribute) if syntax.code(n.value) == me}
    called = reachable(own, *asked)
    return {*asked, *(name for each in called for name in attributes_read(own[each]))} - own.keys()


def are_settled(names: Collection[str], own: Mapping[str, cst.FunctionDef]) -> bool:
    """Whether attributes are what ``__init__`` has made them once, and nothing makes others."""
    early = {*reachable(own, "__init__")}
    changed = [(each, name) for name, method in own.items() for each in attributes_changed(method)]
    counts = Counter(each for each, _ in changed)
    return all(counts[each] < 2 and name in early for each, name in changed if each in names)


def _asking(
    value: cst.BaseExpression, init: cst.FunctionDef, symbols: Symbols
) -> cst.BaseExpression:
    """A value that asks the context itself, where it used a variable that had an answer of it."""
    every = [syntax.code(target) for target in targets(init)]
    for line in syntax.body_of(init):
        name, call = syntax.target_of(line) or "", syntax.call_of(line)
        is_same = every.count(name) == 1 and not any(t.startswith(f"{name}[") for t in every)
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
FILLING = words("tensor as_tensor full arange linspace eye zeros ones empty from_numpy")
DRAWING = words("rand randn randint randperm normal")
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
        known |= {*FILLING, "to", syntax.code(value.func).rpartition(".")[2]}
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
        for target in targets(method)
    )


def targets(method: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
    """What a method sets."""
    yield from (found.target for found in syntax.find(method, cst.AssignTarget))
    yield from (found.target for found in syntax.find(method, cst.AugAssign))
    yield from (found.target for found in syntax.find(method, cst.AnnAssign))


def late_property(
    attribute: str, value: cst.BaseExpression, method: cst.FunctionDef
) -> cst.BaseStatement:
    """The property in place of an attribute that a method sets."""
    me = syntax.self_name(method)
    text = syntax.whole(syntax.code(value))
    return syntax.method(f"@property\ndef {attribute}({me}):\n    return {text}\n")


def is_device(node: cst.BaseExpression, symbols: Symbols) -> bool:
    """Whether an expression asks the context for the device."""
    member = symbols.member(node)
    return member is not None and member[1] == "device"
