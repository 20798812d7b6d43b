"""Validations that move what training goes by in fit alone."""

from collections.abc import Container, Iterator, Sequence

import libcst as cst

from det_compat.migrate.to_lightning.automatic.moved import Moving, asked_of, smalls, stored_by
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import marked
from det_compat.migrate.tree.walking import below

_IN_FIT = '{0}trainer.state.fn == "fit"'
_LEFT = "Trainer.validate moves {0} here, too, which training goes by and only fit should move"
_LOGGING = ("log", "log_dict")


def moved_in_fit(
    method: cst.FunctionDef, own: Container[str], moving: Moving, condition: str
) -> cst.FunctionDef:
    """A method of a class that moves what it moves under a condition; a mark where it does not.

    Args:
        method: the method.
        own: the methods of its class.
        moving: what that moves.
        condition: the condition; ``""`` if the method knows no Trainer.
    """
    guarding = _Guarding(method, moving, condition)
    if not any(guarding.left(method.body)):
        return method
    made = method
    if condition and (early := guarding.with_early_end(syntax.body_of(method))):
        return syntax.with_body(method, early)
    if condition:
        made = syntax.with_body(method, guarding.block(syntax.body_of(method)))
        # What goes on with what has not moved would find it as no validation left it.
        is_half = asked_without(made.body, condition) & {*guarding.left(method.body)}
        if is_half and (early := guarding.with_early_end(syntax.body_of(method), ends=True)):
            return syntax.with_body(method, early)
    # What a method has another one move is said above that one.
    left = {name for name in guarding.left(made.body) if name not in own}
    return marked(made, _LEFT.format(", ".join(sorted(left)))) if left else made


def condition_of(method: cst.FunctionDef, owner: str) -> str:
    """The condition that a method is called in fit; ``""`` where it knows no Trainer."""
    given = {param.name.value for param in method.params.params}
    is_known = not is_static(method) if owner else "trainer" in given
    return _IN_FIT.format(owner.format(syntax.self_name(method))) if is_known else ""


def is_static(method: cst.FunctionDef) -> bool:
    """Whether a method has no object that could know a Trainer."""
    names = "staticmethod", "classmethod"
    return any(syntax.is_name(each.decorator, *names) for each in method.decorators)


def both(*tests: cst.BaseExpression) -> cst.BooleanOperation:
    """The condition of both tests, each in parentheses where it needs some."""
    needs = (cst.BooleanOperation, cst.IfExp, cst.NamedExpr, cst.Lambda)
    parts = []
    for test in tests:
        is_and = isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And)
        if isinstance(test, needs) and not (is_and or test.lpar):
            test = test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        parts.append(test)
    return cst.BooleanOperation(parts[0], cst.And(), parts[1])


def is_under(block: cst.If, condition: str) -> bool:
    """Whether a block waits for a condition."""
    text = syntax.code(block.test)
    return bool(condition) and (text.endswith(condition) or text.startswith(f"{condition} and "))


def asked_without(node: cst.CSTNode, condition: str) -> set[str]:
    """The attributes that are named below a node without the condition."""
    if isinstance(node, cst.If) and is_under(node, condition):
        return set()
    name = {node.attr.value} if isinstance(node, cst.Attribute) else set[str]()
    parts = node.children
    if condition and isinstance(node, cst.IndentedBlock):
        ends = [isinstance(n, cst.If) and syntax.code(n.test) == _outside(condition) for n in parts]
        parts = parts[: ends.index(True)] if True in ends else parts
    return name.union(*(asked_without(each, condition) for each in parts))


def _outside(condition: str) -> str:
    return condition.replace("==", "!=")


def _last(call: cst.Call) -> str:
    return syntax.code(call.func).rpartition(".")[2]


class _Guarding:
    def __init__(self, method: cst.FunctionDef, moving: Moving, condition: str) -> None:
        self._method, self._moving, self._condition = method, moving, condition
        self._names = [name.value for name in syntax.find(method.body, cst.Name)]

    def left(self, node: cst.CSTNode) -> Iterator[str]:
        """What is moved below a node without the condition."""
        if isinstance(node, cst.If) and is_under(node, self._condition):
            return
        if isinstance(node, cst.BaseSmallStatement) and self._moving.moves(node, self._method):
            names = [name for name, _ in stored_by(node, self._method)]
            moved = [name for name in names if name in self._moving.attributes]
            calls = filter(self._moving.by_another, syntax.find(node, cst.Call))
            yield from moved or [*map(_last, calls)] or ["what optimizers go by"]
        elif isinstance(node, cst.Call) and self._moving.keeps(node):
            owner = syntax.code(node.func).rpartition(".")[0].removeprefix("self.")
            yield _last(node) if self._moving.by_another(node) else owner
        else:
            for each in node.children:
                yield from self.left(each)

    def with_early_end(
        self, body: Sequence[cst.BaseStatement], *, ends: bool = False
    ) -> list[cst.BaseStatement]:
        """A body that ends where it moves something, if nothing else comes behind; else nothing.

        What moves may end it by itself, so that no block of it can wait; or it ``ends`` anyway.
        """
        at = next((i for i, line in enumerate(body) if any(self.left(line))), len(body))
        rest = body[at:]
        returns = syntax.returns_in(rest)
        stored = {
            n for line in rest for s, _ in smalls(line) for n, _ in stored_by(s, self._method)
        }
        calls = [syntax.code(c.func) for line in rest for c in syntax.find(line, cst.Call)]
        if not (returns or ends) or any(each.value is not None for each in returns):
            return []
        if any(name.rpartition(".")[2] in _LOGGING for name in calls):
            return []
        if (stored - self._moving.attributes) & self._moving.used:
            return []
        end = syntax.statement(f"if {_outside(self._condition)}:\n    return\n")
        return [*body[:at], end, *rest]

    def block(self, body: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
        """A block, in which what moves is under the condition, all in a row under one."""
        made: list[cst.BaseStatement] = []
        row: list[cst.BaseStatement] = []
        for line in body:
            if self._can_wait(line):
                row.append(line)
                continue
            made += self._under(row)
            row = []
            made.append(self._inside(line))
        return [*made, *self._under(row)]

    def _under(self, row: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
        if not row:
            return []
        first, condition = row[0], syntax.expression(self._condition)
        if len(row) == 1 and isinstance(first, cst.If) and first.orelse is None:
            if any(map(self._moving.keeps, syntax.find(first.test, cst.Call))):
                return [first.with_changes(test=both(condition, first.test))]
            return [first.with_changes(test=both(first.test, condition))]
        lines = getattr(first, "leading_lines", ())
        inner = [first.with_changes(leading_lines=()), *row[1:]]
        return [cst.If(condition, cst.IndentedBlock(inner), leading_lines=lines)]

    def _inside(self, line: cst.BaseStatement) -> cst.BaseStatement:
        """A statement that does more, with what moves in its blocks under the condition."""
        if isinstance(line, cst.SimpleStatementLine) or not any(self.left(line)):
            return line
        changes: dict[str, object] = {}
        for name in ("body", "orelse", "finalbody"):
            part = getattr(line, name, None)
            if isinstance(part, cst.IndentedBlock):
                changes[name] = part.with_changes(body=self.block(part.body))
            elif isinstance(part, (cst.Else, cst.Finally)):
                changes[name] = self._of_branch(part)
            elif isinstance(part, cst.If):
                (made,) = self.block([part])
                changes[name] = made
        return line.with_changes(**changes)

    def _of_branch(self, part: cst.Else | cst.Finally) -> cst.CSTNode:
        inner = part.body
        if not isinstance(inner, cst.IndentedBlock):
            return part
        return part.with_changes(body=inner.with_changes(body=self.block(inner.body)))

    def _can_wait(self, line: cst.BaseStatement) -> bool:
        """Whether nothing but what training goes by needs a statement that moves some of it."""
        if not any(self.left(line)):
            return False
        if isinstance(line, cst.SimpleStatementLine):
            return all(self._moving.moves(each, self._method) for each in line.body) and (
                not self._bound(line)
            )
        if not isinstance(line, (cst.If, cst.For)) or not self._is_apart(line):
            return False
        inner = [small for small, _ in smalls(line)]
        if isinstance(line, cst.If):
            asked = asked_of(line.test) | self._asked_by_variables(line.test)
            kept = any(map(self._moving.keeps, syntax.find(line.test, cst.Call)))
            if kept or asked & self._moving.attributes:
                return True
        return all(self._moving.moves(s, self._method) or self._bound(s) for s in inner)

    def _asked_by_variables(self, test: cst.BaseExpression) -> set[str]:
        names = syntax.names_in(test)
        pairs = [
            p for line in syntax.find(self._method.body, cst.Assign) for p in syntax.pairs(line)
        ]
        return {a for to, value in pairs if syntax.is_name(to, *names) for a in asked_of(value)}

    def _is_apart(self, line: cst.If | cst.For) -> bool:
        """Whether the rest of the method, and of the validation, goes on without a statement."""
        bound, every = self._bound(line), self._bound(self._method.body) - self._bound(line)
        used = [name.value for name in syntax.find(line, cst.Name)]
        if any(self._names.count(name) > used.count(name) for name in bound):
            return False
        if any(syntax.find(line, cst.Return)):
            return False
        for call in syntax.find(line, cst.Call):
            owner, _, name = syntax.code(call.func).rpartition(".")
            is_local = owner.isidentifier() and owner != "self" and owner in every
            if name in _LOGGING or (is_local and name in ("append", "update", "add", "extend")):
                return False
        for small, _ in smalls(line):
            stored = {name for name, _ in stored_by(small, self._method)}
            if (stored - self._moving.attributes) & self._moving.used:
                return False
            for target in _targets(small) if not stored else ():
                stem = target
                while isinstance(stem, cst.Subscript):
                    stem = stem.value
                if stem is not target and isinstance(stem, cst.Name) and stem.value not in bound:
                    return False
        return True

    def _bound(self, node: cst.CSTNode) -> set[str]:
        """The variables that are set below a node."""
        targets = [t for each in below(node) for t in _targets(each)]
        parts = [part for target in targets for part in syntax.parts(target)]
        return {part.value for part in parts if isinstance(part, cst.Name)}


def _targets(node: cst.CSTNode) -> list[cst.BaseExpression]:
    if isinstance(node, cst.Assign):
        return [part for each in node.targets for part in syntax.parts(each.target)]
    if isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.For, cst.NamedExpr)):
        return [node.target]
    return []
