"""What methods that ``__init__`` calls keep, where only a Trainer knows it: properties say it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import libcst as cst

from det_compat.analysis.scopes import Scope
from det_compat.migrate.to_lightning.early.late import late_property, late_value, read_by
from det_compat.migrate.to_lightning.early.telling import RANKS
from det_compat.migrate.to_lightning.moving.lines import hands_on
from det_compat.migrate.to_lightning.returned.hoisting import Resolved
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.facts import Analysis
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import attributes_changed, attributes_read


def with_late_properties(files: Sequence[Resolved], analysis: Analysis) -> list[Resolved]:
    """Files in which properties of trials, and mixins, say what their methods kept too early.

    ``__init__`` itself is looked at where it is rewritten. It asks the context here for a rank that
    it has kept, which may become a property then.
    """
    every = {file.path: _trials(file, analysis) for file in files}
    nodes = {scope: node for trials in every.values() for scope, node in trials.items()}
    hierarchy, made = analysis.inference.hierarchy, list[Resolved]()
    for file in files:
        tree = file.tree
        for scope, node in every[file.path].items():
            family = {scope, *hierarchy.relatives(scope)}
            # Of others it is not known what they keep, and when they ask for it.
            if family <= nodes.keys():
                new = _Family([nodes[each] for each in family]).rewritten(node, file.symbols)
                tree = syntax.with_node(tree, node, new) if new is not node else tree
        made.append(replace(file, tree=tree))
    return made


def _trials(file: Resolved, analysis: Analysis) -> dict[Scope, cst.ClassDef]:
    facts = analysis.facts(file.path) if len(file.symbols) else None
    nodes = {node.name.value: node for node in syntax.find(file.tree, cst.ClassDef)}
    scopes = facts.classes.values() if facts is not None else ()
    return {s: nodes[s.name] for s in scopes if s.name in nodes and facts and facts.is_trial(s)}


class _Family:
    """The classes of a trial, as far as there is code of them."""

    def __init__(self, nodes: Sequence[cst.ClassDef]) -> None:
        self._own: dict[str, list[cst.FunctionDef]] = {}
        for node in nodes:
            for name, method in syntax.methods(node).items():
                self._own.setdefault(name, []).append(method)
        self._fields = {syntax.target_of(line) for n in nodes for line in syntax.body_of(n)}

    @cached_property
    def _early(self) -> list[cst.FunctionDef]:
        """The methods that run before there is a Trainer: each ``__init__``, and what it calls."""
        names = ["__init__"]
        for name in names:
            asked = (each for m in self._own.get(name, ()) for each in attributes_read(m))
            names += [each for each in dict.fromkeys(asked) if each in self._own.keys() - {*names}]
        return [method for name in names for method in self._own.get(name, ())]

    @cached_property
    def _are_handed(self) -> bool:
        """Whether other code gets the trial before there is a Trainer, and may ask it."""
        return any(hands_on(method, syntax.self_name(method)) for method in self._early)

    def rewritten(self, node: cst.ClassDef, symbols: Symbols) -> cst.ClassDef:
        """One of the classes; itself if nothing of it changes."""
        body: list[cst.BaseStatement] = []
        for line in syntax.body_of(node):
            is_early = any(line is method for method in self._early)
            if not isinstance(line, cst.FunctionDef) or not is_early or self._are_handed:
                body.append(line)
                continue
            method, made = line, list[cst.BaseStatement]()
            for each in syntax.body_of(line):
                found = late_value(each, line, syntax.methods(node), symbols)
                if found is None or not self._is_set_once(found[0]):
                    continue
                attribute, value = found
                read = read_by(value, syntax.self_name(line), syntax.methods(node))
                if not all(self._is_settled(name) for name in read):
                    continue
                asking = _without_kept_rank(method, each, attribute, value, symbols)
                others = [m for m in self._early if m is not line]
                if any(syntax.has_attribute(other, attribute) for other in others):
                    continue
                if line.name.value == "__init__":
                    method = asking if syntax.code(asking) != syntax.code(method) else method
                elif not any(syntax.has_attribute(n, attribute) for n in _but(asking, attribute)):
                    method = syntax.with_body(method, _but(asking, attribute))
                    made.append(late_property(attribute, value, line))
            body += [method, *made]
        is_same = [*map(id, body)] == [*map(id, syntax.body_of(node))]
        return node if is_same else syntax.with_body(node, body)

    @cached_property
    def _changed(self) -> list[tuple[str, cst.FunctionDef]]:
        """The attributes that methods set or change, each time that they do."""
        every = [method for methods in self._own.values() for method in methods]
        return [(name, method) for method in every for name in attributes_changed(method)]

    def _is_set_once(self, attribute: str) -> bool:
        is_other = attribute in self._own or attribute in self._fields
        return [name for name, _ in self._changed].count(attribute) == 1 and not is_other

    def _is_settled(self, attribute: str) -> bool:
        """Whether an attribute is the same as soon as there is a Trainer, and was before."""
        changing = [method for name, method in self._changed if name == attribute]
        are_early = all(any(each is m for m in self._early) for each in changing)
        return are_early and len(changing) + (attribute in self._fields) < 2


def _but(method: cst.FunctionDef, attribute: str) -> list[cst.BaseStatement]:
    """The statements of a method but for that which sets an attribute."""
    target = f"{syntax.self_name(method)}.{attribute}"
    return [line for line in syntax.body_of(method) if syntax.target_of(line) != target]


def _without_kept_rank(
    method: cst.FunctionDef,
    line: cst.BaseStatement,
    attribute: str,
    value: cst.BaseExpression,
    symbols: Symbols,
) -> cst.FunctionDef:
    """The method that asks the context, and not an attribute, for the rank that ``line`` keeps."""
    found = symbols.called(value) or symbols.member(value)
    if found is None or found[1] not in RANKS:
        return method
    name, text = f"{syntax.self_name(method)}.{attribute}", syntax.code(value)
    target = syntax.target_of(line)

    def asking(each: cst.BaseStatement) -> cst.BaseStatement:
        return each if syntax.target_of(each) == target else syntax.replaced(each, name, text)

    return syntax.with_body(method, [*map(asking, syntax.body_of(method))])
