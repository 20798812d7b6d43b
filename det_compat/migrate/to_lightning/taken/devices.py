"""The device that a trial asks torch for, where a module has one of this name."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import libcst as cst

from det_compat.analysis.scopes import Object, Scope
from det_compat.migrate.target import Target
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.trial_attributes import reachable

_ASKING = re.compile(rb"\.device\s*=.*\bdevice\(")
#: The device of a machine that has one, or none, as everybody writes it.
_MACHINES = re.compile(
    r"""(torch\.)?device\(\s*(['"]cuda['"]|['"]cuda(:0)?['"]\s+if\s+torch\.cuda\.is_available\(\)"""
    r"""\s+else\s+['"]cpu['"])\s*\)"""
)


class OwnDevices(Target):
    """Lets trials that ask torch for their device have their context's.

    On one device it is the same; on several, and where Lightning is told to train on another, only
    this one is where the model is.
    """

    @classmethod
    def is_needed(cls, texts: Iterable[bytes]) -> bool:
        """Whether some file may ask for a device and keep it."""
        return any(map(_ASKING.search, texts))

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a file; None if no trial in it keeps such a device."""
        facts = self.analysis.facts(path)
        if facts is None or not _ASKING.search(self.sources[path]):
            return None

        trials = {each.name: each for each in facts.classes.values() if facts.is_trial(each)}

        def rewritten(node: cst.ClassDef) -> cst.ClassDef:
            scope = trials.get(node.name.value)
            context = next(_contexts(scope), "") if scope is not None else ""
            return _of_context(node, context) if context else node

        tree = cst.parse_module(self.sources[path])
        made = syntax.each(tree, cst.ClassDef, rewritten).bytes
        return None if made == self.sources[path] else made


def _contexts(scope: Scope) -> Iterator[str]:
    """The parameters of ``__init__`` that are contexts."""
    init = scope.functions.get("__init__")
    for name, values in init.variables.items() if init is not None else ():
        if name.isidentifier() and any(
            isinstance(value, Object) and value.owner.endswith("Context") for value in values
        ):
            yield name


def _of_context(node: cst.ClassDef, context: str) -> cst.ClassDef:
    own = syntax.methods(node)
    init = own.get("__init__")
    if init is None or context not in [param.name.value for param in init.params.params]:
        return node
    device = f"{syntax.self_name(init)}.device"
    targets = [each.target for each in syntax.find(node, cst.AssignTarget)]
    set_there = [line for line in syntax.body_of(init) if syntax.target_of(line) == device]
    if len(set_there) != 1 or sum(map(_is_device, targets)) != 1:
        return node
    value = getattr(syntax.simple(set_there[0]), "value", None)
    if value is None or not _MACHINES.fullmatch(syntax.code(value)):
        return node
    early = [own[name] for name in reachable(own, "__init__") if name != "__init__"]
    moved = [line for method in early for line in _moved(method)]
    moved_first = [*_moved(init)]
    # What else is made before there is a Trainer cannot know where it will be trained.
    uses = sum(_is_device(each) for m in early for each in syntax.find(m, cst.Attribute))
    if uses != len(moved) or not _only_moves(init, device):
        return node
    asked = syntax.expression(f"{context}.device")
    return syntax.transformed(node, _Changing({value: asked}, [*moved, *moved_first]))


class _Changing(cst.CSTTransformer):
    """Puts expressions in the place of others, and takes statements away."""

    def __init__(
        self,
        new: Mapping[cst.BaseExpression, cst.BaseExpression],
        gone: Collection[cst.SimpleStatementLine],
    ) -> None:
        super().__init__()
        self._new = new
        self._gone = gone

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        return self._new.get(original_node, updated_node)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        return cst.RemoveFromParent() if original_node in self._gone else updated_node


def _is_device(node: cst.BaseExpression) -> bool:
    return syntax.code(node) == "self.device"


def _moved(method: cst.FunctionDef) -> Iterator[cst.SimpleStatementLine]:
    """The statements of a method that move a model there, which it wraps or returns."""
    kept = {syntax.code(arg.value) for call in _wrapping(method) for arg in call.args[:1]}
    lines = syntax.find(method, cst.SimpleStatementLine)
    kept |= {syntax.target_of(line) or "" for line in lines if any(_wrapping(line))}
    returned = (each.value for each in syntax.returns(method))
    kept |= {syntax.code(value) for value in returned if value is not None}
    for line in syntax.find(method.body, cst.SimpleStatementLine):
        call = syntax.lone_call(line)
        if call is not None and _is_move(call) and isinstance(call.func, cst.Attribute):
            yield from [line] if syntax.code(call.func.value) in kept else []


def _wrapping(node: cst.CSTNode) -> Iterator[cst.Call]:
    for call in syntax.find(node, cst.Call):
        if syntax.code(call.func).endswith(".wrap_model"):
            yield call


def _is_move(call: cst.Call) -> bool:
    is_to = syntax.code(call.func).endswith(".to")
    return is_to and len(call.args) == 1 and _is_device(call.args[0].value)


def _only_moves(init: cst.FunctionDef, device: str) -> bool:
    """Whether ``__init__`` does nothing with its device but move things there."""
    every = sum(_is_device(each) for each in syntax.find(init.body, cst.Attribute))
    return every == 1 + sum(map(_is_move, syntax.find(init.body, cst.Call)))
