"""Placeholders for what belongs to Determined, under whatever name it is in a file.

Passes work on a tree in which each such expression is a single name: a placeholder, which stands
for a symbol. What no pass has replaced becomes again in the end what it was.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import libcst as cst

from det_compat.analysis.scopes import CONTEXT, Member, Name, Object, Values
from det_compat.catalog.members import TYPES
from det_compat.catalog.support import home
from det_compat.migrate.tree.facts import Facts
from det_compat.migrate.tree.syntax import code, each, find, self_name
from det_compat.migrate.tree.transformers import LocatingTransformer, located, parsed
from det_compat.migrate.tree.walking import below, has

_Tree = TypeVar("_Tree", bound=cst.CSTNode)
_Named: TypeAlias = cst.Name | cst.Attribute
_Holding = TypeVar("_Holding", cst.Arg, cst.DictElement, cst.Element)
_PARTS = {owner: name for (base, name), owner in TYPES.items() if base == CONTEXT}
#: What a context's members were called in some versions of Determined 0.12.
_EARLIER = {"get_rank": "distributed.get_rank", "wrap_lrscheduler": "wrap_lr_scheduler"}
WRITER = "det_compat.tensorboard.metric_writers.pytorch.TorchWriter"


@dataclass(frozen=True)
class Symbol:
    """What a placeholder stands for.

    Attributes:
        path: the name in det_compat, or Determined's own of what is refused; CONTEXT of a context,
            WRITER of a TorchWriter.
        is_object: whether it is an object of that class.
        original: the expression in the file.
        module: for a context, the expression that is the LightningModule in its place.
        part: what the placeholder is asked for, if ``original`` holds that part of a context.
    """

    path: str
    is_object: bool
    original: cst.BaseExpression
    module: cst.BaseExpression
    part: str = ""


@dataclass
class Symbols:
    """The placeholders of a file."""

    _known: dict[str, Symbol] = field(default_factory=dict)

    def add(self, symbol: Symbol) -> cst.Name:
        """A new placeholder."""
        name = f"__det_{len(self._known)}__"
        self._known[name] = symbol
        return cst.Name(name)

    def __len__(self) -> int:
        return len(self._known)

    @property
    def paths(self) -> list[str]:
        """The names that the placeholders stand for, or the classes of objects that they are."""
        return [symbol.path for symbol in self._known.values()]

    def has(self, *paths: str) -> bool:
        """Whether any placeholder stands for one of these names."""
        return any(symbol.path in paths for symbol in self._known.values())

    def has_below(self, package: str) -> bool:
        """Whether any placeholder stands for a name of a package."""
        return any(symbol.path.startswith(f"{package}.") for symbol in self._known.values())

    def get(self, node: cst.CSTNode | None) -> Symbol | None:
        """What ``node`` stands for, if it is a placeholder."""
        # isinstance takes long for LibCST's kinds of nodes, which are abstract classes.
        return self._known.get(node.value) if type(node) is cst.Name else None

    def path(self, node: cst.CSTNode | None) -> str | None:
        """The name of Determined that ``node`` stands for, given in det_compat."""
        symbol = self.get(node)
        return None if symbol is None or symbol.is_object else symbol.path

    def is_context(self, node: cst.CSTNode | None) -> bool:
        """Whether ``node`` stands for a context."""
        return self._is_object(node, CONTEXT)

    def is_writer(self, node: cst.CSTNode | None) -> bool:
        """Whether ``node`` stands for a TorchWriter."""
        return self._is_object(node, WRITER)

    def is_new_writer(self, node: cst.CSTNode) -> bool:
        """Whether ``node`` is ``TorchWriter().writer``."""
        if not isinstance(node, cst.Attribute) or node.attr.value != "writer":
            return False
        return isinstance(node.value, cst.Call) and self.path(node.value.func) == WRITER

    def _is_object(self, node: cst.CSTNode | None, path: str) -> bool:
        symbol = self.get(node)
        return symbol is not None and symbol.is_object and symbol.path == path

    def member(self, node: cst.CSTNode | None) -> tuple[cst.Name, str] | None:
        """The context and the dotted rest of ``context.distributed.get_rank``, for example."""
        names: list[str] = []
        while type(node) is cst.Attribute:
            names.append(node.attr.value)
            node = node.value
        if names and type(node) is cst.Name and self.is_context(node):
            member = ".".join(reversed(names))
            return node, _EARLIER.get(member, member)
        return None

    def is_followed(self, node: cst.CSTNode | None, target: cst.CSTNode) -> bool:
        """Whether ``target``, set to ``node``, is a placeholder itself wherever it is used."""
        found = self.member(node)
        if found is None or "." in found[1]:
            return self.is_context(node)
        name = target.attr.value if isinstance(target, cst.Attribute) else ""
        return found[1] not in _DATA or found[1] == name

    def with_held(self, tree: _Tree) -> _Tree:
        """The tree with what held a part of a context, such as a method of it, put back."""

        def held(node: cst.Attribute) -> cst.BaseExpression:
            symbol = self.get(node.value)
            is_held = symbol is not None and symbol.part == node.attr.value
            return symbol.original if symbol is not None and is_held else node

        return each(tree, cst.Attribute, held)

    def called(self, node: cst.CSTNode | None) -> tuple[cst.Name, str] | None:
        """As ``member``, for the call of one."""
        return self.member(node.func) if type(node) is cst.Call else None

    def method(self, node: cst.CSTNode | None) -> str:
        """The method of a context that ``node`` calls, with its dots; ``""`` if it calls none."""
        found = self.called(node)
        return "" if found is None else found[1]

    def held_by(self, node: cst.Attribute) -> str:
        """The variable that holds the member of a context that ``node`` is; ``""`` if none does."""
        symbol = self.get(node.value)
        if symbol is None or not symbol.part or not isinstance(symbol.original, cst.Name):
            return ""
        return symbol.original.value

    def held(self, member: str) -> bool:
        """Whether something in the file holds a member of a context by another name."""
        return any(symbol.part == member for symbol in self._known.values())

    def calls(self, node: cst.CSTNode, *methods: str) -> list[cst.Call]:
        """The calls of these methods of a context below ``node``."""
        return [call for call in find(node, cst.Call) if self.method(call) in methods]

    def original(self, context: cst.Name) -> str:
        """What stood in the file where the placeholder of a context is, as text."""
        return code(self._known[context.value].original)

    def module(self, context: cst.Name) -> str:
        """The LightningModule in the place of the placeholder of a context, as text."""
        return code(self._known[context.value].module)


def new_name(name: str) -> str:
    """The name that an attribute of a trial gets whose own means something else."""
    return f"_trial{name}" if name.startswith("_") else f"trial_{name}"


def own_name(name: str) -> str:
    """The name that an attribute of a callback gets whose own means something else."""
    return f"own_{name}"


def resolve(
    source: bytes,
    facts: Facts,
    renamed: Collection[str] = (),
    taken: Collection[str] = (),
    hparams: Collection[str] = (),
) -> tuple[cst.Module, Symbols]:
    """The tree of a file, with placeholders.

    Args:
        source: the text.
        facts: what its names stand for.
        renamed: the attributes of trials that get another name.
        taken: those of callbacks.
        hparams: those in which trials keep what the context tells of their hyperparameters: a
            placeholder is asked for that where all of it is handed on.

    Raises:
        CannotRewriteError: LibCST cannot parse the file.
    """
    symbols, wrapper = Symbols(), parsed(source)
    is_renamed = (renamed and facts.has_trials) or any(
        name.encode() in source for name in (*taken, *hparams)
    )
    if not is_renamed and not any(map(_symbol, facts.all_values)):
        # Most files of a project have nothing of Determined's, and need no closer look.
        return wrapper.module, symbols
    return located(wrapper, _Resolver(facts, symbols, renamed, taken, hparams)), symbols


class _Resolver(LocatingTransformer):
    def __init__(
        self,
        facts: Facts,
        symbols: Symbols,
        renamed: Collection[str],
        taken: Collection[str],
        hparams: Collection[str],
    ) -> None:
        super().__init__()
        self._hparams = hparams
        self._facts = facts
        self._renamed = renamed
        self._taken = taken
        self._symbols = symbols

    def leave_Attribute(self, original_node: _Named, updated_node: _Named) -> cst.BaseExpression:
        if isinstance(original_node, cst.Attribute) and isinstance(updated_node, cst.Attribute):
            updated_node = self._with_new_name(original_node, updated_node)
        values = self._facts.values(self.span(original_node))
        symbol = None if self._is_copy(values, original_node) else _symbol(values)
        if symbol is None:
            return updated_node
        path, part = symbol
        if part and self._symbols.member(updated_node) is not None:
            return updated_node
        is_object = path in (CONTEXT, WRITER) and not _is_class_name(values)
        module = self._module(original_node)
        original: cst.BaseExpression = original_node
        if isinstance(original_node, cst.Attribute) and original_node.attr.value == part:
            # It is not known what is asked, but for what it is asked.
            original = original_node.value
        held = part if original is original_node else ""
        placeholder = self._symbols.add(Symbol(path, is_object, original, module, held))
        return cst.Attribute(placeholder, cst.Name(part)) if part else placeholder

    leave_Name = leave_Attribute

    def leave_Arg(self, original_node: _Holding, updated_node: _Holding) -> _Holding:
        """Ask a context for hyperparameters that a trial keeps, as the trial itself has."""
        was, value = original_node.value, updated_node.value
        if not isinstance(was, cst.Attribute) or not isinstance(value, cst.Attribute):
            return updated_node
        is_whole = value.attr.value in self._hparams and not getattr(original_node, "star", "")
        if not is_whole or not self._facts.stands_for_trial(self.span(was.value)):
            return updated_node
        kept = cst.Attribute(value.value, cst.Name("context"))
        placeholder = self._symbols.add(Symbol(CONTEXT, True, kept, value.value))
        call = cst.Call(cst.Attribute(placeholder, cst.Name("get_hparams")))
        return updated_node.with_changes(value=call)

    leave_DictElement = leave_Arg
    leave_Element = leave_Arg

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        """Let ``getattr(trial, "logger")`` and its like ask for the new name."""
        text = original_node.args[1].value if len(original_node.args) > 1 else None
        if not isinstance(text, cst.SimpleString) or code(original_node.func) not in _BY_NAME:
            return updated_node
        is_of_trial = self._facts.is_of_trial(self.span(original_node.args[0].value))
        if text.evaluated_value not in self._renamed or not is_of_trial:
            return updated_node
        new = text.with_changes(value=f'"{new_name(str(text.evaluated_value))}"')
        return updated_node.with_deep_changes(updated_node.args[1], value=new)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.BaseStatement]:
        """Give each of several statements a line, as passes know them."""
        if len(updated_node.body) == 1 or not self._is_read(updated_node):
            return updated_node
        lines = _lines(updated_node.body)
        lines[0] = lines[0].with_changes(leading_lines=updated_node.leading_lines)
        last = lines[-1].with_changes(trailing_whitespace=updated_node.trailing_whitespace)
        return cst.FlattenSentinel([*lines[:-1], last])

    def leave_SimpleStatementSuite(
        self, original_node: cst.SimpleStatementSuite, updated_node: cst.SimpleStatementSuite
    ) -> cst.BaseSuite:
        """Do the same behind a colon."""
        is_alone = len(updated_node.body) == 1 and not has(updated_node, cst.Return)
        if not (self._has_symbol if is_alone else self._is_read)(updated_node):
            return updated_node
        return cst.IndentedBlock(_lines(updated_node.body))

    def _is_read(self, node: cst.CSTNode) -> bool:
        """Whether passes look at statements: those with symbols, and all of a trial."""
        return self._has_symbol(node) or any(map(self._is_trial, self.classes))

    def _has_symbol(self, node: cst.CSTNode) -> bool:
        # Some imports go, and what stands beside them stays.
        return any(
            isinstance(part, (cst.Import, cst.ImportFrom)) or self._symbols.get(part) is not None
            for part in below(node)
        )

    def _with_new_name(self, original: cst.Attribute, updated: cst.Attribute) -> cst.Attribute:
        name, value = original.attr.value, original.value
        # What a class is called for is an object of it.
        owner = self.span(value.func if isinstance(value, cst.Call) else value)
        is_super = code(value) == "super()" and self._is_named_as_trial(self.classes[-1:])
        if name in self._renamed and (is_super or self._facts.is_of_trial(owner)):
            name = new_name(name)
        elif name in self._taken and self._facts.stands_for_callback(owner):
            name = own_name(name)
        return updated.with_changes(attr=updated.attr.with_changes(value=name))

    def _is_named_as_trial(self, around: list[cst.ClassDef]) -> bool:
        """Whether the innermost class gets the names that trials get."""
        scopes = (self._facts.classes.get(self.span(node.name)[0]) for node in around)
        return any(s is not None and self._facts.is_named_as_trial(s) for s in scopes)

    def _is_copy(self, values: Values, node: _Named) -> bool:
        """Whether ``node`` only holds what some attribute of a context was."""
        held = {each.name for each in values if isinstance(each, Member) and each.name in _DATA}
        if not held or not isinstance(node, cst.Attribute) or {node.attr.value} != held:
            return bool(held)
        owner = self.span(node.value)
        if self._facts.stands_for_trial(owner):
            # A base that is handed it keeps it under another name.
            return node.attr.value in self._renamed
        return not any(isinstance(value, Object) for value in self._facts.values(owner))

    def _module(self, node: _Named) -> cst.BaseExpression:
        """The LightningModule, where ``node`` was the context."""
        if isinstance(node, cst.Attribute) and self._facts.stands_for_trial(self.span(node.value)):
            return node.value
        in_trial = bool(self.classes) and self._is_trial(self.classes[-1])
        return cst.Name(self_name(self.method)) if in_trial and self.method else node

    def _is_trial(self, node: cst.ClassDef) -> bool:
        scope = self._facts.classes.get(self.span(node.name)[0])
        return scope is not None and self._facts.is_trial(scope)


_BY_NAME = ("getattr", "hasattr", "setattr", "delattr")


def _is_class_name(values: Values) -> bool:
    return any(isinstance(value, Name) for value in values)


_COUNTERS = ("_epoch_len", "_current_batch_idx", "_aggregation_frequency")
#: What a context has that is no method.
_DATA = frozenset(("device", "models", "optimizers", "lr_schedulers", *_COUNTERS))


def _symbol(values: Values) -> tuple[str, str] | None:
    """The path of what all the values are, and what it is of a context."""
    found: set[tuple[str, str]] = set()
    if any(isinstance(value, Object) and value.owner == CONTEXT for value in values):
        # A script may make the trial with something else, which only does for a context.
        return CONTEXT, ""
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


def _lines(body: Sequence[cst.BaseSmallStatement]) -> list[cst.SimpleStatementLine]:
    parts = (part.with_changes(semicolon=cst.MaybeSentinel.DEFAULT) for part in body)
    return [cst.SimpleStatementLine([part]) for part in parts]
