"""What is wrapped in one statement and kept in another: both become one, which can be seen."""

from collections.abc import Callable, Sequence

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line
from det_compat.migrate.tree.marks import above, comments_of
from det_compat.migrate.tree.symbols import Symbols

#: The methods that give back what they are given, for a module that wraps nothing.
_SAME = ("wrap_model", "wrap_optimizer", "wrap_lr_scheduler", "wrap_reducer")


def keep_rebound(tree: cst.Module, symbols: Symbols) -> cst.Module:
    """Wrap ``opt`` where an attribute keeps it, of ``opt = context.wrap_optimizer(opt)``.

    Since a module wraps nothing, the first statement would set a variable to itself.
    """

    def kept(function: cst.FunctionDef) -> cst.FunctionDef:
        if not symbols.calls(function, *_SAME):
            return function
        return _kept_containers(syntax.transformed(function, _Sinking(symbols)), symbols)

    return syntax.each(tree, cst.FunctionDef, kept)


class _Sinking(cst.CSTTransformer):
    """Moves a call that wraps a variable into the statement of its block that keeps this."""

    def __init__(self, symbols: Symbols) -> None:
        super().__init__()
        self._symbols = symbols

    def leave_IndentedBlock(
        self, original: cst.IndentedBlock, updated: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        lines = [*updated.body]
        # What is wrapped last sinks first, so that all are wrapped in the order that they had.
        for index in reversed(range(len(lines))):
            line = lines[index]
            rest = self._sunk(line, lines[index + 1 :])
            if rest is not None:
                lines[index:] = [above(rest[0], comments_of(line)), *rest[1:]]
        return updated.with_changes(body=lines)

    def _sunk(
        self, line: cst.BaseStatement, rest: Sequence[cst.BaseStatement]
    ) -> list[cst.BaseStatement] | None:
        """The statements after one that wraps a variable anew, with the call in one of them."""
        call, name = syntax.call_of(line), syntax.target_of(line) or ""
        member = self._symbols.method(call)
        given = call.args[0] if call is not None and call.args else None
        if call is None or member not in _SAME or given is None or given.star:
            return None
        if syntax.code(given.value) != name or not name.isidentifier():
            return None
        needed = {name, *(each for arg in call.args[1:] for each in syntax.names_in(arg))}
        for index, later in enumerate(rest):
            small = syntax.simple(later)
            values = _keeps(later)
            found = next((v for v in values if syntax.is_name(v, name)), None)
            before = values[: values.index(found)] if found is not None else values
            if any(self._symbols.calls(value, member) for value in before):
                return None
            if found is not None and small is not None:
                made = syntax.with_node(later, found, call.deep_clone())
                return [*rest[:index], made, *rest[index + 1 :]]
            if needed.intersection(_bound(later)) or self._symbols.calls(later, member):
                return None
        return None


def _keeps(line: cst.BaseStatement) -> list[cst.BaseExpression]:
    """What a statement keeps in attributes or containers, or returns."""
    small = syntax.simple(line)
    value = getattr(small, "value", None)
    if (appended := syntax.appended(line)) and not appended[1].star:
        return [appended[1].value]
    target = syntax.target_of(line) or ""
    is_kept = isinstance(small, cst.Return) or "." in target or "[" in target
    return syntax.parts(value) if is_kept and value is not None else []


def _bound(line: cst.CSTNode) -> list[str]:
    """The names that a statement, and what is in it, binds: each as often as it does."""
    found = [
        *(each.target for each in syntax.find(line, cst.AssignTarget)),
        *(each.target for each in syntax.find(line, cst.AnnAssign)),
        *(each.target for each in syntax.find(line, cst.AugAssign)),
        *(each.target for each in syntax.find(line, cst.NamedExpr)),
        *(each.target for each in syntax.find(line, cst.For)),
        *(each.target for each in syntax.find(line, cst.CompFor)),
        *(each.name for each in syntax.find(line, cst.AsName)),
        *(each.name for each in syntax.find(line, cst.Param)),
    ]
    parts = (part for target in found for part in _names(target))
    return [part for part in parts if part.isidentifier()]


def _names(target: cst.CSTNode) -> list[str]:
    """What a target binds, as text: of ``nets["d"]`` and ``self.opt``, no name."""
    if isinstance(target, (cst.Tuple, cst.List)):
        return [name for element in target.elements for name in _names(element.value)]
    return [syntax.code(target)]


def _kept_containers(function: cst.FunctionDef, symbols: Symbols) -> cst.FunctionDef:
    """The function with a list or dict of what is wrapped where it keeps this from the start on.

    ``opts = []``, to which a loop appends, and ``self.opts = opts`` are ``self.opts = []``.
    """
    inner = [*syntax.find(function, cst.SimpleStatementLine)]
    lines = [
        each
        for line in syntax.body_of(function)
        for each in _apart(line, lambda name: any(_fills(each, name, symbols) for each in inner))
    ]
    own = syntax.self_name(function)
    bound = _bound(function)
    for made in lines:
        name, value = syntax.target_of(made) or "", getattr(syntax.simple(made), "value", None)
        if not _is_empty(value) or bound.count(name) != 1:
            continue
        keeping = [line for line in lines if _is_keeping(line, own, name)]
        if len(keeping) != 1 or not any(_fills(line, name, symbols) for line in inner):
            continue
        target = syntax.target_of(keeping[0]) or ""
        before = lines[: lines.index(keeping[0])]
        is_new = not any(syntax.mentions(line, target) for line in before)
        if is_new and [syntax.target_of(line) for line in inner].count(target) == 1:
            rest = [line for line in lines if line is not keeping[0]]
            made_anew = syntax.replaced(syntax.with_body(function, rest), name, target)
            return _kept_containers(made_anew, symbols)
    return function


def _apart(line: cst.BaseStatement, is_filled: Callable[[str], bool]) -> list[cst.BaseStatement]:
    """A statement that sets several empty containers, as one for each if one of them is filled."""
    small = syntax.simple(line)
    pairs = [*syntax.pairs(small)] if isinstance(small, cst.Assign) else []
    is_empty = all(_is_empty(value) for _, value in pairs)
    if len(pairs) < 2 or not is_empty or not any(is_filled(syntax.code(t)) for t, _ in pairs):
        return [line]
    made: list[cst.BaseStatement] = [
        cst.SimpleStatementLine([syntax.assignment(target, value.deep_clone())])
        for target, value in pairs
    ]
    return [above(made[0], comments_of(line)), *made[1:]]


def _is_empty(value: cst.CSTNode | None) -> bool:
    return isinstance(value, (cst.List, cst.Dict)) and not value.elements


def _is_keeping(line: cst.CSTNode, own: str, name: str) -> bool:
    """Whether a statement keeps a variable in an attribute."""
    small = syntax.simple(line)
    if not isinstance(small, cst.Assign) or len(small.targets) != 1:
        return False
    target = small.targets[0].target
    is_own = isinstance(target, cst.Attribute) and syntax.is_name(target.value, own)
    return is_own and syntax.is_name(small.value, name)


def _fills(line: Line, name: str, symbols: Symbols) -> bool:
    """Whether a statement puts something that it wraps into a container."""
    starts = (f"{name}[", f"{name}.append(")
    return syntax.code(line).strip().startswith(starts) and bool(symbols.calls(line, *_SAME))
