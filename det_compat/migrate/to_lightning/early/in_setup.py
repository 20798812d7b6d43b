"""What ``__init__`` moves to the device, of which only the running code knows what it is."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.early.late import anywhere, is_late
from det_compat.migrate.to_lightning.plan import TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols

#: What is the same on every device, or changes none.
_LOOKS = words("shape size dtype ndim dim numel eval train")
#: What only looks at what it is given, or whose batches and buffers Lightning moves.
_LOOKING = ("len", "print", "type", "Dataset", "Loss")


_SIZE_CHECK = """\
    # __init__ has divided batches among so many processes
    if self.trainer.world_size != {0}:
        raise ValueError(f"train it with world_size={{self.trainer.world_size}}")
"""
_MOVE = "    self.{0} = self.{0}.to(self.trainer.strategy.root_device)\n"


def setup_hook(
    plan: TrialPlan, moved: Sequence[str], *, asks_size: bool
) -> Iterator[cst.FunctionDef]:
    """The hook that Lightning calls before it trains, validates, tests or predicts, if need be.

    It moves what ``__init__`` has not ``moved`` itself, and, if that asks for the number of
    processes, checks what it was told.
    """
    if not asks_size and not moved:
        return
    base = "" if plan.is_root else "    super().setup(stage)\n"
    size = "self.hparams.world_size" if plan.is_whole else 'self.hparams.get("world_size", 1)'
    check = _SIZE_CHECK.format(size) if asks_size else ""
    moves = "".join(map(_MOVE.format, moved))
    yield syntax.method(f"def setup(self, stage):\n{base}{check}{moves}")


def moved_in_setup(
    node: cst.ClassDef, names: Collection[str], symbols: Symbols
) -> tuple[cst.ClassDef, list[str]]:
    """A trial that leaves it to ``setup`` to move some attributes, and these.

    ``__init__`` sets them once, to what it moves itself or what a method moves that it calls, and
    nothing does more than look at them before there is a Trainer.

    Args:
        node: the class.
        names: its methods that nothing calls once there is a Trainer.
        symbols: what placeholders stand for.
    """
    own = syntax.methods(node)
    early = {name: own[name] for name in own if name in names}
    if "__init__" not in early or "setup" in own:
        return node, []
    looking = _Looking(early)
    moved: list[str] = []
    plain: dict[cst.BaseExpression, cst.BaseExpression] = {}
    for attribute, old, new in _moves(node, early, symbols):
        if looking.is_left_alone(attribute):
            plain[old] = new
            moved.append(attribute)

    def without_idle(line: cst.SimpleStatementLine) -> cst.BaseStatement | cst.RemovalSentinel:
        return cst.RemoveFromParent() if syntax.is_idle(line) else line

    node = syntax.each(node, cst.Call, lambda call: plain.get(call, call))
    return syntax.each(node, cst.SimpleStatementLine, without_idle) if moved else node, moved


def _moves(
    node: cst.ClassDef, early: Mapping[str, cst.FunctionDef], symbols: Symbols
) -> Iterator[tuple[str, cst.BaseExpression, cst.BaseExpression]]:
    """The attributes that ``__init__`` moves, with the moved value and the one without a device."""
    init = early["__init__"]
    me = syntax.self_name(init)
    for line in syntax.body_of(init):
        small = syntax.simple(line)
        if not isinstance(small, cst.Assign) or len(small.targets) > 1:
            continue
        call = small.value
        called = syntax.code(call.func).removeprefix(f"{me}.") if isinstance(call, cst.Call) else ""
        if called in early and is_late(call, symbols):
            # It becomes a property, for the size of its batches, say.
            continue
        for target, value in _values(small, called, early, node):
            attribute = syntax.code(target).removeprefix(f"{me}.")
            plain, _ = anywhere(value, symbols, {})
            if plain is value or symbols.calls(value, "to_device") or is_late(plain, symbols):
                continue
            is_kept = attribute.isidentifier() and attribute != syntax.code(target)
            if is_kept and "requires_grad" not in syntax.code(plain):
                yield attribute, value, plain


def _values(
    small: cst.Assign, called: str, early: Mapping[str, cst.FunctionDef], node: cst.ClassDef
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """The targets of an assignment, and where their values are made: here, or in what it calls."""
    maker = early.get(called)
    if maker is None:
        yield from syntax.pairs(small)
        return
    *body, last = syntax.body_of(maker)
    end = syntax.simple(last)
    uses = sum(found.attr.value == called for found in syntax.find(node, cst.Attribute))
    returns = sum(1 for _ in syntax.find(maker, cst.Return))
    if not isinstance(end, cst.Return) or end.value is None or returns > 1 or uses > 1:
        return
    targets, results = syntax.parts(small.targets[0].target), syntax.parts(end.value)
    if len(targets) == 1:
        results = [end.value]
    for target, result in zip(targets, results, strict=False):
        yield target, _made(result, body) if isinstance(result, cst.Name) else result


def _made(name: cst.Name, body: Sequence[cst.BaseStatement]) -> cst.BaseExpression:
    """What a method sets a variable to in the end, if nothing needs it but its caller."""
    for line in reversed(body):
        small = syntax.simple(line)
        if isinstance(small, cst.Assign) and syntax.target_of(line) == name.value:
            return small.value
        if name.value in syntax.names_in(line):
            break
    return name


@dataclass
class _Looking:
    """What runs before there is a Trainer, and whether it only looks at things."""

    own: Mapping[str, cst.FunctionDef]
    _asked: set[tuple[str, str]] = field(default_factory=set)

    def is_left_alone(self, attribute: str) -> bool:
        """Whether one of the methods sets an attribute, and none does more than look at it."""
        target = f"{syntax.self_name(self.own['__init__'])}.{attribute}"
        targets = (
            part
            for method in self.own.values()
            for found in syntax.find(method, cst.AssignTarget)
            for part in syntax.parts(found.target)
        )
        sets = sum(syntax.code(part) == target for part in targets)
        uses = sum(
            self._others(method, lambda node: syntax.code(node) == target, cst.Attribute)
            for method in self.own.values()
        )
        return sets == uses == 1

    def _others(
        self,
        node: cst.CSTNode,
        is_it: Callable[[cst.CSTNode], bool],
        kind: type[cst.Name] | type[cst.Attribute],
    ) -> int:
        """How often something is used other than to look at it."""
        uses = sum(map(is_it, syntax.find(node, kind)))
        for found in syntax.find(node, cst.Attribute):
            uses -= found.attr.value in _LOOKS and is_it(found.value)
        for call in syntax.find(node, cst.Call):
            for at, arg in enumerate(call.args):
                uses -= is_it(arg.value) and not arg.star and self._only_looks(call, at)
        return uses

    def _only_looks(self, call: cst.Call, at: int) -> bool:
        """Whether a call does no more with an argument than look at it."""
        _, _, name = syntax.code(call.func).rpartition(".")
        if name not in self.own:
            return name.endswith(_LOOKING)
        params = [param.name.value for param in self.own[name].params.params][1:]
        keyword = call.args[at].keyword
        given = keyword.value if keyword is not None else params[at] if at < len(params) else ""
        if not given or (name, given) in self._asked:
            return False
        self._asked.add((name, given))

        def is_it(node: cst.CSTNode) -> bool:
            return isinstance(node, cst.Name) and node.value == given

        only = self._others(self.own[name].body, is_it, cst.Name) == 0
        self._asked.discard((name, given))
        return only
