"""What is wrapped in one statement and kept in another: both become one, which can be seen."""

from collections.abc import Callable, Collection, Iterator, Sequence

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line, Lines
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


def with_one_name(
    tree: cst.Module, symbols: Symbols, alone: Collection[str], asked: Collection[str]
) -> cst.Module:
    """The file, whose trials have one attribute for each optimizer that they wrap.

    Lightning counts the steps of what an attribute has when training starts, and ``self.opt = sgd``
    above would still be the optimizer that Lightning does not count.

    Args:
        tree: of the file.
        symbols: what its placeholders stand for.
        alone: the trials in it that have neither bases nor heirs.
        asked: the attributes that code beside trials may ask them for.
    """

    def named(node: cst.ClassDef) -> cst.ClassDef:
        if not symbols.calls(node, "wrap_optimizer"):
            return node
        node = syntax.each(node, cst.SimpleStatementLine, lambda line: _unchained(line, symbols))
        while found := next(_second_names(node, tree, symbols, asked), None):
            line, name, first = found
            node = syntax.replaced(ensure_type(node.deep_remove(line), cst.ClassDef), name, first)
        return node

    return syntax.each(
        tree, cst.ClassDef, lambda node: named(node) if node.name.value in alone else node
    )


def with_made_where_kept(tree: cst.Module, symbols: Symbols, asked: Collection[str]) -> cst.Module:
    """The file, whose methods keep the lists and dicts of what they wrap that they would return.

    ``self.opts = self.make()`` says nothing of what ``make`` puts in.

    Args:
        tree: of the file.
        symbols: what its placeholders stand for.
        asked: the attributes that code beside trials may ask them for.
    """
    called = [each.attr.value for each in syntax.find(tree, cst.Attribute)]

    def kept(node: cst.ClassDef) -> cst.ClassDef:
        for line in syntax.find(node, Line):
            small, call = syntax.simple(line), syntax.call_of(line)
            text = "" if call is None else syntax.code(call.func)
            owner, _, name = text.partition(".")
            method, target = syntax.methods(node).get(name), syntax.target_of(line) or ""
            is_own = target.startswith(f"{owner}.") and target.count(".") == 1
            is_once = called.count(name) == 1 and name not in asked
            if method is None or not is_own or not is_once or syntax.self_name(method) != owner:
                continue
            made = _keeping(method, target, symbols)
            if made is not None and isinstance(small, cst.Assign):
                node = syntax.with_node(node, method, made)
                return kept(syntax.with_node(node, small, cst.Expr(small.value)))
        return node

    return syntax.each(tree, cst.ClassDef, kept)


def _keeping(method: cst.FunctionDef, target: str, symbols: Symbols) -> cst.FunctionDef | None:
    """A method that keeps what it wraps, which it returned; None if that is no list or dict."""
    *body, last = syntax.body_of(method)
    small = syntax.simple(last)
    value = small.value if isinstance(small, cst.Return) else None
    if value is None or len(syntax.returns(method)) != 1 or not isinstance(last, Line):
        return None
    is_made = isinstance(value, _DISPLAYS) and bool(symbols.calls(value, *_SAME))
    is_filled = isinstance(value, cst.Name) and any(
        _fills(line, value.value, symbols) for line in syntax.find(method, Line)
    )
    if not is_made and not is_filled:
        return None
    kept = last.with_changes(body=[syntax.assignment(syntax.expression(target), value)])
    return syntax.with_body(method.with_changes(returns=None), [*body, kept])


#: What several are kept in, written out.
_DISPLAYS = (cst.Dict, cst.DictComp, cst.List, cst.ListComp)


def _unchained(line: Line, symbols: Symbols) -> Lines:
    """``a = self.b = wrap(c)`` as two statements."""
    small, call = syntax.simple(line), syntax.call_of(line)
    targets = [each.target for each in small.targets] if isinstance(small, cst.Assign) else []
    if len(targets) < 2 or symbols.method(call) != "wrap_optimizer" or call is None:
        return line
    first = next((each for each in targets if isinstance(each, cst.Attribute)), targets[0])
    made = [line.with_changes(body=[syntax.assignment(first, call)])]
    others = (each for each in targets if each is not first)
    made += [cst.SimpleStatementLine([syntax.assignment(each, first)]) for each in others]
    return cst.FlattenSentinel(made)


def _second_names(
    node: cst.ClassDef, tree: cst.Module, symbols: Symbols, asked: Collection[str]
) -> Iterator[tuple[cst.BaseStatement, str, str]]:
    """The statements that keep an optimizer again, with the second name of it and the first."""
    lines = [*syntax.find(node, Line)]
    sets = [syntax.code(each.target) for each in syntax.find(node, cst.AssignTarget)]
    wrapped = {
        syntax.target_of(line)
        for line in lines
        if symbols.method(syntax.call_of(line)) == "wrap_optimizer"
    }
    every = [each.attr.value for each in syntax.find(tree, cst.Attribute)]
    for line in lines:
        small, name = syntax.simple(line), syntax.target_of(line) or ""
        if not isinstance(small, cst.Assign) or len(small.targets) != 1:
            continue
        # Most of what is set is made right there.
        is_kept = isinstance(small.value, (cst.Attribute, cst.Subscript))
        first = syntax.code(small.value) if is_kept else ""
        if first not in wrapped or {sets.count(first), sets.count(name)} != {1}:
            continue
        last = name.rpartition(".")[2]
        inside = [syntax.code(each) for each in syntax.find(node, cst.Attribute)]
        is_own = name.count(".") == 1 and name.partition(".")[0] == first.partition(".")[0]
        is_own &= inside.count(name) == every.count(last) and last not in asked
        if is_own or _is_local(name, line, node):
            yield line, name, first


def _is_local(name: str, line: cst.BaseStatement, node: cst.ClassDef) -> bool:
    """Whether a name is that of a variable of the one method with a statement."""
    methods = syntax.methods(node).values()
    own = [each for each in methods if any(line is found for found in syntax.find(each, Line))]
    others = (each for each in methods if each not in own)
    is_free = not any(name in syntax.names_in(each) for each in others)
    return name.isidentifier() and len(own) == 1 and is_free and own[0].name.value == "__init__"


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
