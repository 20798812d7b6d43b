"""Partials of a context's methods, taken apart where they are called: there it is seen what is."""

from collections.abc import Collection, Iterator, Sequence

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.file import Line, Lines
from det_compat.migrate.tree.symbols import Symbols

_PARTIALS = ("functools.partial", "partial")
_PLAIN = (cst.Name, cst.Attribute, cst.SimpleString, cst.Integer, cst.Float, cst.Lambda)


def without_partials(
    tree: cst.Module, symbols: Symbols, alone: Collection[str], around: Elsewhere
) -> cst.Module:
    """Write ``step()`` as the ``context.step_optimizer(self.opt)`` that a partial of it stands for.

    Args:
        tree: the file.
        symbols: its placeholders.
        alone: the trial classes from which nothing derives, and which derive from no other.
        around: the code around trials.
    """
    if not any(_is_partial(call, symbols) for call in syntax.find(tree, cst.Call)):
        return tree
    names = [node.attr.value for node in syntax.find(tree, cst.Attribute)]

    def called(node: cst.ClassDef) -> cst.ClassDef:
        if node.name.value not in alone:
            return node
        for method in syntax.methods(node).values():
            for line, target, call in _kept(method, symbols):
                uses = _uses(target, node, method, names)
                is_own = bool(uses) and target.rpartition(".")[2] not in around.asked
                is_own = is_own and _is_lasting(call, node, method, around)
                if is_own and all(_joins(call, use) for use in uses):
                    return called(syntax.transformed(node, _Calling(line, call, uses)))
        return node

    return syntax.each(tree, cst.ClassDef, called)


def _is_partial(call: cst.Call, symbols: Symbols) -> bool:
    is_known = syntax.code(call.func) in _PARTIALS and not any(arg.star for arg in call.args)
    return is_known and bool(call.args) and symbols.member(call.args[0].value) is not None


def _kept(method: cst.FunctionDef, symbols: Symbols) -> Iterator[tuple[Line, str, cst.Call]]:
    """The statements of a method, outside of its branches, that keep a partial; and as what."""
    for line in syntax.body_of(method):
        call, target = syntax.call_of(line), syntax.target_of(line)
        if not isinstance(line, cst.SimpleStatementLine) or call is None or target is None:
            continue
        if _is_partial(call, symbols):
            yield line, target, call


def _uses(
    target: str, node: cst.ClassDef, method: cst.FunctionDef, attributes: Sequence[str]
) -> list[cst.Call]:
    """The calls of what a method keeps; none if there are other uses, given a file's attributes."""
    owner, _, name = target.rpartition(".")
    place: cst.ClassDef | cst.FunctionDef = node if owner else method
    if owner and (owner != syntax.self_name(method) or method.name.value != "__init__"):
        return []
    there = [found.value for found in syntax.find(method, cst.Name)]
    count = (attributes if owner else there).count(name)
    uses = [each for each in syntax.find(place, cst.Call) if syntax.code(each.func) == target]
    return uses if count == len(uses) + 1 else []


def _is_lasting(
    call: cst.Call, node: cst.ClassDef, method: cst.FunctionDef, around: Elsewhere
) -> bool:
    """Whether what a partial has been given is the same wherever in the class it is called."""
    own, local = syntax.self_name(method), syntax.local_names(method)
    is_one = all(syntax.self_name(each) == own for each in syntax.methods(node).values())
    found = (part for line in syntax.find(node, cst.Assign) for part in syntax.pairs(line))
    targets = [syntax.code(target) for target, _ in found]
    changed = [syntax.code(found.target) for found in syntax.find(node, cst.AugAssign)]
    given = [arg.value for arg in call.args[1:]]
    read = [syntax.code(each) for arg in given for each in syntax.find(arg, cst.Attribute)]
    return (
        is_one
        and all(isinstance(arg, _PLAIN) for arg in given)
        and not any(syntax.names_in(arg) & (local - {own}) for arg in given)
        and all(targets.count(name) <= 1 and name not in changed for name in read)
        and not any(name.rpartition(".")[2] in around.given for name in read)
    )


def _joins(call: cst.Call, use: cst.Call) -> bool:
    """Whether a call gives nothing that the partial was given by name, and all of it is seen."""
    named = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    return not any(arg.star or (arg.keyword and arg.keyword.value in named) for arg in use.args)


class _Calling(cst.CSTTransformer):
    """Writes the call of the method in the place of each call of a partial, which goes."""

    def __init__(self, line: Line, call: cst.Call, uses: Collection[cst.Call]) -> None:
        super().__init__()
        self._line = line
        self._call = call
        self._uses = uses

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        return cst.RemoveFromParent() if original is self._line else updated

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        if not any(original is use for use in self._uses):
            return updated
        method, *given = (arg.deep_clone() for arg in self._call.args)
        args = sorted([*given, *updated.args], key=lambda arg: arg.keyword is not None)
        return updated.with_changes(func=method.value, args=syntax.without_commas(args))
