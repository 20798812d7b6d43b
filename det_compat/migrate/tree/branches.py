"""Branches whose condition is known: only the code that runs stays.

Off a cluster, the function that tells of it returns None. Whether a context has something is known
by its name. What follows is known as well: whether a value is None, the variables that hold it, and
the parameters that are given nothing else.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import libcst as cst
from libcst.helpers import ensure_type
from libcst.metadata import Assignment, GlobalScope, MetadataWrapper, Scope, ScopeProvider

from det_compat.analysis.scopes import CONTEXT
from det_compat.catalog.members import TYPES
from det_compat.catalog.status import Status
from det_compat.catalog.support import of_member
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.docstrings import without_entries
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.symbols import Symbols

#: What an expression is if it is not known to be None, True or False.
_UNKNOWN: Final = object()


def without_cluster(
    tree: cst.Module, symbols: Symbols, path: str, *, asked: Collection[str]
) -> cst.Module:
    """The file without what only runs on a cluster.

    Args:
        tree: of the file, with placeholders.
        symbols: what these stand for.
        path: the name of the function that tells of the cluster.
        asked: the names of the file that others may use; ``*`` if that may be any.
    """

    def original(name: cst.Name) -> cst.BaseExpression:
        # What is asked of the cluster stays as it is where the branch stays.
        symbol = symbols.get(name)
        is_of_it = symbol is not None and symbol.path.startswith(f"{path}()")
        return symbol.original.deep_clone() if symbol is not None and is_of_it else name

    tree, values, left = syntax.each(tree, cst.Name, original), None, Counter[str]()
    calls = _calls(tree)
    # Without the calls of a branch, a function may know more of its parameters.
    for step in (_Branches, _Branches, _Parameters, _Constants):
        if values is None:
            wrapper = MetadataWrapper(tree)
            tree, values = (
                wrapper.module,
                _Values(wrapper, symbols, path, asked=asked, left=left),
            )
        made = syntax.transformed(tree, step(values))
        if made is not tree:
            # What is used has changed, so the next step looks again.
            tree, values = made, None
            left = calls - _calls(made)
    return tree


def _calls(tree: cst.Module) -> Counter[str]:
    """How often each name is called."""
    return Counter(syntax.code(call.func) for call in syntax.find(tree, cst.Call))


def without_questions(tree: cst.Module, symbols: Symbols) -> cst.Module:
    """The file with what it asks a context for by name, as in ``getattr(context, "device")``.

    Determined's releases had different members, so trials ask whether there is one. A module has
    them under other names, so what is not known here must not ask it instead.
    """
    asking = [call for call in syntax.find(tree, cst.Call) if asked_by_name(call, symbols)]
    if not any(_has(call, symbols) for call in asking):
        return tree
    wrapper = MetadataWrapper(tree)
    values = _Values(wrapper, symbols, "", asked="*")
    tree = syntax.transformed(wrapper.module, _Branches(values))
    return syntax.each(tree, cst.Call, lambda call: _answer(call, symbols))


def asked_by_name(call: cst.Call, symbols: Symbols) -> tuple[str, cst.BaseExpression] | None:
    """The class of a context, or of a part of it, that a call asks for a name; and this name."""
    if syntax.code(call.func) not in ("hasattr", "getattr") or len(call.args) < 2:
        return None
    owner, name = (arg.value for arg in call.args[:2])
    member = symbols.member(owner)
    path = TYPES.get((CONTEXT, member[1])) if member is not None else None
    path = CONTEXT if symbols.is_context(owner) else path
    return (path, name) if path is not None else None


def _has(call: cst.Call, symbols: Symbols) -> str:
    """The name of what is asked for, where a context has it for sure; ``""`` otherwise."""
    path, name = asked_by_name(call, symbols) or ("", None)
    if not isinstance(name, cst.SimpleString):
        return ""
    # What no release has may be the trial's own, and what is refused was in some of them.
    text = str(name.evaluated_value)
    is_there = of_member(path, text).status in (Status.SAME, Status.DIFFERENT)
    return text if is_there and text.isidentifier() else ""


def _answer(call: cst.Call, symbols: Symbols) -> cst.BaseExpression:
    name = _has(call, symbols)
    if not name:
        return call
    if syntax.code(call.func) == "hasattr":
        return cst.Name("True", lpar=call.lpar, rpar=call.rpar)
    return cst.Attribute(call.args[0].value, cst.Name(name), lpar=call.lpar, rpar=call.rpar)


class _Values:
    """What is known of the expressions of a file."""

    def __init__(
        self,
        wrapper: MetadataWrapper,
        symbols: Symbols,
        path: str,
        *,
        asked: Collection[str],
        left: Collection[str] = (),
    ) -> None:
        tree = wrapper.module
        self._scopes = wrapper.resolve(ScopeProvider)
        self._symbols = symbols
        self._path = path
        self._is_imported = bool(asked)
        self._left = left
        self._asked: set[cst.CSTNode] = set()
        single = [a for a in syntax.find(tree, cst.Assign) if len(a.targets) == 1]
        self._assigned = {assign.targets[0].target: assign.value for assign in single}
        self._calls: dict[cst.CSTNode, cst.Call] = {
            call.func: call for call in syntax.find(tree, cst.Call)
        }
        self._owners = {attribute.value for attribute in syntax.find(tree, cst.Attribute)}
        functions = [f for f in tree.body if isinstance(f, cst.FunctionDef) and "*" not in asked]
        own = (f for f in functions if f.name.value not in asked)
        self._functions = {param: f for f in own for param in f.params.params}

    def of(self, node: cst.BaseExpression) -> object:
        """None, True or False, if an expression is known to be that."""
        if isinstance(node, cst.Call):
            if syntax.code(node.func) == "hasattr" and _has(node, self._symbols):
                return True
            return None if self._symbols.path(node.func) == self._path else _UNKNOWN
        if isinstance(node, cst.Name):
            return self._of_name(node)
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            value = self.of(node.expression)
            return value if value is _UNKNOWN else not value
        if isinstance(node, cst.BooleanOperation):
            value = self.of(node.left)
            is_left = isinstance(node.operator, cst.And) != bool(value)
            return value if value is _UNKNOWN or is_left else self.of(node.right)
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            (target,) = node.comparisons
            value = self.of(node.left)
            is_sure = value is not _UNKNOWN and syntax.code(target.comparator) == "None"
            if is_sure and isinstance(target.operator, (cst.Is, cst.Equal)):
                return value is None
            if is_sure and isinstance(target.operator, (cst.IsNot, cst.NotEqual)):
                return value is not None
        return _UNKNOWN

    def _of_name(self, name: cst.Name) -> object:
        scope = self._scopes.get(name)
        found = [*scope[name.value]] if isinstance(scope, Scope) else []
        binding = found[0] if len(found) == 1 else None
        if not isinstance(binding, Assignment) or binding.node in self._asked:
            return _UNKNOWN
        self._asked.add(binding.node)
        values = {_UNKNOWN}
        if isinstance(binding.node, cst.Param):
            known = self._known_by_text(binding.node)
            values = {
                known.get(syntax.code(each), self.of(each)) for each in self.given(binding.node)
            } or values
        elif isinstance(binding.node, cst.Name) and binding.node in self._assigned:
            values = {self.of(self._assigned[binding.node])}
        self._asked.discard(binding.node)
        return values.pop() if len(values) == 1 else _UNKNOWN

    def _known_by_text(self, param: cst.Param) -> Mapping[str, object]:
        """What a parameter may be given as it stands, where some of the calls are left out."""
        function = self._functions.get(param)
        if function is None or function.name.value not in self._left:
            return {}
        # A helper that has nothing to do with Determined stays as it is.
        is_its = any(map(self._symbols.get, syntax.find(function, cst.Name)))
        return {"None": None, "True": True, "False": False} if is_its else {}

    def given(self, param: cst.Param) -> list[cst.BaseExpression]:
        """All that a parameter is ever given; nothing if that is not known."""
        function = self._functions.get(param)
        if function is None:
            return []
        at = [*function.params.params].index(param)
        calls = [self._calls.get(node) for node in self._reads(function)]
        default = param.default if self._known_by_text(param) else None
        values = [c and (syntax.argument(c, at, param.name.value) or default) for c in calls]
        return [v for v in values if v is not None] if all(values) else []

    def is_read(self, node: cst.CSTNode) -> bool:
        """Whether a variable or parameter, given by what binds it, is read at all."""
        scopes = (each.scope for each in self._bindings(node))
        is_global = any(isinstance(scope, GlobalScope) for scope in scopes)
        return (self._is_imported and is_global) or bool(self._reads(node))

    def is_asked(self, node: cst.CSTNode) -> bool:
        """Whether something is asked of what a variable holds."""
        return any(read in self._owners for read in self._reads(node))

    def is_of_cluster(self, node: cst.CSTNode) -> bool:
        """Whether some code has nothing of Determined's but what tells of the cluster."""
        found = map(self._symbols.get, syntax.find(node, cst.Name))
        return all(symbol.path.startswith(self._path) for symbol in found if symbol is not None)

    def is_asked_of(self, attribute: cst.BaseExpression) -> bool:
        """Whether something is asked of what an attribute of this name holds."""
        last = syntax.code(attribute).rpartition(".")[2]
        return any(isinstance(n, cst.Attribute) and n.attr.value == last for n in self._owners)

    def _reads(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        return [access.node for each in self._bindings(node) for access in each.references]

    def _bindings(self, node: cst.CSTNode) -> list[Assignment]:
        scopes = {scope for scope in self._scopes.values() if scope is not None}
        found = (each for scope in scopes for each in scope.assignments)
        return [each for each in found if isinstance(each, Assignment) and each.node is node]

    def idle(self) -> set[cst.Param]:
        """The parameters that nothing reads, and that are given nothing but what is known."""
        return {
            param
            for param in self._functions
            if not self.is_read(param)
            and (given := self.given(param))
            and all(
                syntax.code(value) in self._known_by_text(param) or self.of(value) is not _UNKNOWN
                for value in given
            )
        }


class _Step(cst.CSTTransformer):
    def __init__(self, values: _Values) -> None:
        super().__init__()
        self.values = values


class _Branches(_Step):
    """Puts the branch that is taken in the place of a condition."""

    def __init__(self, values: _Values) -> None:
        super().__init__(values)
        self._elifs: set[cst.CSTNode] = set()
        # What comes behind each statement of a block, and what is the end of one now.
        self._rest: dict[cst.CSTNode, Sequence[cst.BaseStatement]] = {}
        self._ends: list[cst.BaseStatement] = []
        # Of these it only matters whether they are true.
        self._tests: set[cst.CSTNode] = set()

    def visit_IfExp(self, node: cst.IfExp) -> None:
        self._tests.add(node.test)

    def visit_BooleanOperation(self, node: cst.BooleanOperation) -> None:
        if node in self._tests:
            self._tests |= {node.left, node.right}

    def visit_If(self, node: cst.If) -> None:
        self._tests.add(node.test)
        if isinstance(node.orelse, cst.If):
            self._elifs.add(node.orelse)

    def visit_IndentedBlock(self, node: cst.IndentedBlock) -> None:
        self._rest |= {line: node.body[at + 1 :] for at, line in enumerate(node.body)}

    def leave_IndentedBlock(
        self, original: cst.IndentedBlock, updated: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        at = next((i for i, line in enumerate(updated.body) if line in self._ends), None)
        return updated if at is None else updated.with_changes(body=updated.body[: at + 1])

    def leave_If(
        self, original: cst.If, updated: cst.If
    ) -> cst.BaseStatement | cst.RemovalSentinel | cst.FlattenSentinel[cst.BaseStatement]:
        below = original.orelse
        if isinstance(below, cst.If) and isinstance(updated.orelse, cst.If):
            updated = updated.with_changes(orelse=self._taken(below, updated.orelse))
        taken = updated if original in self._elifs else self._taken(original, updated)
        if taken is updated:
            return updated
        if isinstance(taken, cst.If):
            return taken.with_changes(leading_lines=updated.leading_lines)
        lines = [] if taken is None else [*syntax.body_of(taken)]
        lines[:1] = [above(line, updated.leading_lines) for line in lines[:1]]
        self._ends += filter(ends, lines[-1:])
        return cst.FlattenSentinel(lines) if lines else cst.RemoveFromParent()

    def _taken(self, original: cst.If, updated: cst.If) -> cst.If | cst.Else | None:
        """What stays of a condition: itself, its branch, or what there is otherwise."""
        value = self.values.of(original.test)
        taken = cst.Else(updated.body, updated.leading_lines) if value else updated.orelse
        lines = [] if taken is None else syntax.body_of(taken)
        is_open = any(map(ends, lines[-1:])) and not self._may_end(original, lines[-1])
        return updated if value is _UNKNOWN or is_open else taken

    def _may_end(self, original: cst.If, last: cst.BaseStatement) -> bool:
        """Whether a branch may end a function, which never runs what only a cluster needs."""
        small, rest = syntax.simple(last), self._rest.get(original)
        gives = isinstance(small, cst.Return) and small.value is not None
        return gives and rest is not None and all(map(self.values.is_of_cluster, rest))

    def leave_BooleanOperation(
        self, original: cst.BooleanOperation, updated: cst.BooleanOperation
    ) -> cst.BaseExpression:
        is_and = isinstance(updated.operator, cst.And)
        left, right = self.values.of(original.left), self.values.of(original.right)
        if left is not _UNKNOWN:
            return _in_place(updated, updated.right if is_and == bool(left) else updated.left)
        is_idle = right is not _UNKNOWN and is_and == bool(right) and original in self._tests
        return _in_place(updated, updated.left) if is_idle else updated

    def leave_SimpleStatementLine(
        self, original: cst.SimpleStatementLine, updated: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        small, was = syntax.simple(updated), syntax.simple(original)
        is_left = isinstance(small, cst.Expr) and isinstance(small.value, cst.Name)
        is_other = is_left and isinstance(was, cst.Expr) and not isinstance(was.value, cst.Name)
        return cst.RemoveFromParent() if is_other else updated

    def leave_IfExp(self, original: cst.IfExp, updated: cst.IfExp) -> cst.BaseExpression:
        value = self.values.of(original.test)
        if value is _UNKNOWN:
            return updated
        return _in_place(updated, updated.body if value else updated.orelse)


def _in_place(whole: cst.BaseExpression, part: cst.BaseExpression) -> cst.BaseExpression:
    """A part of an expression in the place of the whole, with the parentheses of both."""
    return part.with_changes(lpar=[*whole.lpar, *part.lpar], rpar=[*part.rpar, *whole.rpar])


def ends(line: cst.BaseStatement) -> bool:
    """Whether nothing runs after a statement."""
    call = syntax.lone_call(line)
    is_exit = call is not None and syntax.code(call.func) in ("exit", "quit", "sys.exit")
    return is_exit or isinstance(
        syntax.simple(line), (cst.Return, cst.Raise, cst.Break, cst.Continue)
    )


class _Parameters(_Step):
    """Takes away the parameters that nothing reads any more."""

    def __init__(self, values: _Values) -> None:
        super().__init__(values)
        self._gone = values.idle()
        self._args = {value for param in self._gone for value in values.given(param)}

    def leave_FunctionDef(
        self, original: cst.FunctionDef, updated: cst.FunctionDef
    ) -> cst.FunctionDef:
        there = original.params.params
        gone = [param.name.value for param in there if param in self._gone]
        if not gone:
            return updated
        kept = [p for p in updated.params.params if p.name.value not in gone]
        kept[-1:] = [param.with_changes(comma=there[-1].comma) for param in kept[-1:]]
        updated = updated.with_changes(params=updated.params.with_changes(params=kept))
        return without_entries(updated, gone, returns=True)

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        pairs = zip(original.args, updated.args, strict=True)
        kept = [new for old, new in pairs if old.value not in self._args]
        if len(kept) == len(original.args):
            return updated
        kept[-1:] = [arg.with_changes(comma=original.args[-1].comma) for arg in kept[-1:]]
        return updated.with_changes(args=kept)


class _Constants(_Step):
    """Writes out what is known where it is kept or given, and drops what is not read."""

    def leave_IndentedBlock(
        self, original: cst.IndentedBlock, updated: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        return updated.with_changes(body=self._kept(original.body, updated.body))

    def leave_Module(self, original: cst.Module, updated: cst.Module) -> cst.Module:
        return updated.with_changes(body=self._kept(original.body, updated.body))

    def _kept(
        self, before: Sequence[cst.BaseStatement], after: Sequence[cst.BaseStatement]
    ) -> list[cst.BaseStatement]:
        """The statements of a block, with the blank line above one that goes on the next one."""
        kept: list[cst.BaseStatement] = []
        space: list[cst.EmptyLine] = []
        for old, new in zip(before, after, strict=True):
            value, target = self._known(old)
            leading = getattr(new, "leading_lines", ())
            if target is not None and not self.values.is_read(target):
                space = space or [line for line in leading if line.comment is None]
                continue
            if target is not None:
                small = ensure_type(syntax.simple(new), cst.Assign)
                new = new.with_changes(body=[small.with_changes(value=cst.Name(str(value)))])
            kept.append(new if leading else above(new, space))
            space = []
        return kept

    def _known(self, line: cst.BaseStatement) -> tuple[object, cst.Name | None]:
        """What a statement sets a variable to, if that is known and nothing is asked of it."""
        small = syntax.simple(line)
        if not isinstance(small, cst.Assign) or len(small.targets) != 1:
            return None, None
        target, value = small.targets[0].target, self.values.of(small.value)
        if value is _UNKNOWN or not isinstance(target, cst.Name) or self.values.is_asked(target):
            return None, None
        return value, target

    def leave_Return(self, original: cst.Return, updated: cst.Return) -> cst.Return:
        value = _UNKNOWN if original.value is None else self.values.of(original.value)
        if value is _UNKNOWN or isinstance(original.value, cst.Name):
            return updated
        return updated.with_changes(value=cst.Name(str(value)))

    def leave_Assign(self, original: cst.Assign, updated: cst.Assign) -> cst.Assign:
        value, kept = self.values.of(original.value), [each.target for each in original.targets]
        is_attribute = all(isinstance(target, cst.Attribute) for target in kept)
        if value is _UNKNOWN or not is_attribute or any(map(self.values.is_asked_of, kept)):
            return updated
        return updated.with_changes(value=cst.Name(str(value)))

    def leave_Arg(self, original: cst.Arg, updated: cst.Arg) -> cst.Arg:
        value = self.values.of(original.value)
        if value is _UNKNOWN or isinstance(original.value, cst.Name):
            return updated
        return updated.with_changes(value=cst.Name(str(value)))
