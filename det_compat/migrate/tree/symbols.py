"""Stand-ins for what belongs to Determined, under whatever name it is in a file.

Transformations work on a tree in which each such expression is a single name: a stand-in. What
none of them has replaced becomes again in the end what it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from det_compat.analysis.scopes import Scope
from det_compat.analysis.values import Member, Name, Object, Values
from det_compat.catalog.members import TYPES
from det_compat.catalog.support import home
from det_compat.migrate.tree.facts import Facts, Span
from det_compat.migrate.tree.syntax import self_name

CONTEXT = "det_compat.pytorch.PyTorchTrialContext"
_PARTS = {owner: name for (base, name), owner in TYPES.items() if base == CONTEXT}
WRITER = "det_compat.tensorboard.metric_writers.pytorch.TorchWriter"


@dataclass(frozen=True)
class Symbol:
    """What a stand-in stands for.

    Attributes:
        path: the name in det_compat, or Determined's own of what is refused; CONTEXT of a context,
            WRITER of a TorchWriter.
        is_object: whether it is an object of that class.
        original: the expression in the file.
        module: for a context, the expression that is the LightningModule in its place.
    """

    path: str
    is_object: bool
    original: cst.BaseExpression
    module: cst.BaseExpression


@dataclass
class Symbols:
    """The stand-ins of a file."""

    _known: dict[str, Symbol] = field(default_factory=dict)

    def add(self, symbol: Symbol) -> cst.Name:
        """A new stand-in."""
        name = f"__det_{len(self._known)}__"
        self._known[name] = symbol
        return cst.Name(name)

    def get(self, node: cst.CSTNode | None) -> Symbol | None:
        """What ``node`` stands for, if it is a stand-in."""
        return self._known.get(node.value) if isinstance(node, cst.Name) else None

    def path(self, node: cst.CSTNode | None) -> str | None:
        """The name of Determined that ``node`` stands for, given in det_compat."""
        symbol = self.get(node)
        return None if symbol is None or symbol.is_object else symbol.path

    def is_context(self, node: cst.CSTNode | None) -> bool:
        """Whether ``node`` stands for a context."""
        symbol = self.get(node)
        return symbol is not None and symbol.is_object and symbol.path == CONTEXT

    def is_writer(self, node: cst.CSTNode | None) -> bool:
        """Whether ``node`` stands for a TorchWriter."""
        symbol = self.get(node)
        return symbol is not None and symbol.is_object and symbol.path == WRITER

    def member(self, node: cst.CSTNode | None) -> tuple[cst.Name, str] | None:
        """The context and the dotted rest of ``context.distributed.get_rank``, for example."""
        names: list[str] = []
        while isinstance(node, cst.Attribute):
            names.append(node.attr.value)
            node = node.value
        if names and isinstance(node, cst.Name) and self.is_context(node):
            return node, ".".join(reversed(names))
        return None

    def is_followed(self, node: cst.CSTNode | None, target: cst.CSTNode) -> bool:
        """Whether ``target``, set to ``node``, is a stand-in itself wherever it is used."""
        found = self.member(node)
        if found is None or "." in found[1]:
            return self.is_context(node)
        name = target.attr.value if isinstance(target, cst.Attribute) else ""
        return found[1] not in _DATA or found[1] == name

    def called(self, node: cst.CSTNode | None) -> tuple[cst.Name, str] | None:
        """As ``member``, for the call of one."""
        return self.member(node.func) if isinstance(node, cst.Call) else None


def resolve(source: bytes, facts: Facts) -> tuple[cst.Module, Symbols]:
    """The tree of a file, with stand-ins.

    Raises:
        cst.ParserSyntaxError: LibCST cannot parse the file.
    """
    wrapper = MetadataWrapper(cst.parse_module(source))
    symbols = Symbols()
    return wrapper.visit(_Resolver(facts, symbols)), symbols


class _Resolver(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, facts: Facts, symbols: Symbols) -> None:
        super().__init__()
        self._facts = facts
        self._symbols = symbols
        self._classes: list[Scope | None] = []
        self._selves: list[str | None] = []
        self._targets: set[cst.CSTNode] = set()

    def _span(self, node: cst.CSTNode) -> Span:
        found = self.get_metadata(PositionProvider, node)
        assert isinstance(found, CodeRange)
        return (found.start.line, found.start.column, found.end.line, found.end.column)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        line = self._span(node.name)[0]
        scope = self._facts.classes.get(line)
        is_trial = scope is not None and self._facts.is_trial(scope)
        self._classes.append(scope if is_trial else None)
        self._selves.append(None)

    def leave_ClassDef(
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.ClassDef:
        self._classes.pop()
        self._selves.pop()
        return updated_node

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        is_method = bool(self._classes and self._classes[-1]) and self._selves[-1] is None
        outer = self._selves[-1] if self._selves else None
        self._selves.append(self_name(node) if is_method else outer)

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        self._selves.pop()
        return updated_node

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self._note_targets(node.target)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self._note_targets(node.target)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self._note_targets(node.target)

    def _note_targets(self, node: cst.CSTNode) -> None:
        if isinstance(node, (cst.Tuple, cst.List)):
            for element in node.elements:
                self._note_targets(element.value)
        self._targets.add(node)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return self._resolved(original_node, updated_node)

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        return self._resolved(original_node, updated_node)

    def _resolved(
        self, node: cst.Name | cst.Attribute, updated: cst.Name | cst.Attribute
    ) -> cst.BaseExpression:
        if node in self._targets:
            return updated
        values = self._facts.values(self._span(node))
        symbol = None if _is_copy(values, node) else _symbol(values)
        if symbol is None:
            return updated
        path, part = symbol
        if part and _is_part_of_context(updated, self._symbols):
            return updated
        is_object = path in (CONTEXT, WRITER) and not _is_class_name(values)
        stand_in = self._symbols.add(Symbol(path, is_object, node, self._module(node)))
        return cst.Attribute(stand_in, cst.Name(part)) if part else stand_in

    def _module(self, node: cst.Name | cst.Attribute) -> cst.BaseExpression:
        """The LightningModule, where ``node`` was the context."""
        if isinstance(node, cst.Attribute) and self._facts.stands_for_trial(self._span(node.value)):
            return node.value
        own = self._selves[-1] if self._selves else None
        in_trial = bool(self._classes and self._classes[-1])
        return cst.Name(own) if own and in_trial else node


def _is_class_name(values: Values) -> bool:
    return any(isinstance(value, Name) for value in values)


_COUNTERS = ("_epoch_len", "_current_batch_idx", "_aggregation_frequency")
#: What a context has that is no method.
_DATA = frozenset(("device", "models", "optimizers", "lr_schedulers", *_COUNTERS))


def _is_copy(values: Values, node: cst.Name | cst.Attribute) -> bool:
    """Whether ``node`` only holds what some attribute of a context was."""
    name = node.attr.value if isinstance(node, cst.Attribute) else ""
    return any(
        isinstance(value, Member) and value.name in _DATA and value.name != name for value in values
    )


def _symbol(values: Values) -> tuple[str, str] | None:
    """The path of what all the values are, and what it is of a context."""
    found: set[tuple[str, str]] = set()
    for value in values:
        if isinstance(value, Name):
            found.add((home(value.path) or value.path, ""))
        elif isinstance(value, Object) and value.owner in (CONTEXT, WRITER):
            found.add((value.owner, ""))
        elif isinstance(value, Object) and value.owner in _PARTS:
            found.add((CONTEXT, _PARTS[value.owner]))
        elif isinstance(value, Member) and value.owner == CONTEXT:
            found.add((CONTEXT, value.name))
        else:
            return None
    return found.pop() if len(found) == 1 else None


def _is_part_of_context(node: cst.BaseExpression, symbols: Symbols) -> bool:
    return symbols.member(node) is not None
