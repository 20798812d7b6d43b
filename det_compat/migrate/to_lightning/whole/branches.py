"""Validations that are one of several, which something says that stays as it is meanwhile.

What decides is asked in every hook again, and a method that has the whole of one of them is written
where it is called.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import libcst as cst

from det_compat.migrate.to_lightning.whole import flow, kept
from det_compat.migrate.to_lightning.whole.parts import parsed, without_blank
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above, comments_of
from det_compat.migrate.tree.trial_attributes import reachable

STEP = "validation_step"
#: What switches gradients off, as Lightning does where it validates.
WITHOUT_GRADIENTS = {"torch.no_grad()", "torch.inference_mode()"}
Lines = Sequence[cst.BaseStatement]


@dataclass(frozen=True)
class Branch:
    """One of several validations.

    Attributes:
        test: what says that it is this one, where those before it are not; None for the last.
        lines: its statements; none where there are no metrics.
        loader: what these call the loader.
        method: the method that they were in; ``""`` if that is the validation itself.
        said: the comments above what says that it is this one.
    """

    test: cst.BaseExpression | None
    lines: list[cst.BaseStatement]
    loader: str
    method: str = ""
    said: tuple[cst.EmptyLine, ...] = ()


@dataclass(frozen=True)
class Branching:
    """What is known where validations are told apart.

    Attributes:
        own: the methods of the module.
        me: what the validation calls it.
        changed: the attributes of it that are set when it trains or validates.
        asked: those that code elsewhere asks for.
    """

    own: Mapping[str, cst.FunctionDef]
    me: str
    changed: Collection[str]
    asked: Collection[str]

    def branches(self, lines: Lines, loader: str) -> list[Branch]:
        """The validations that these statements are: one, if nothing tells several apart."""
        lines = without_end(lines)
        beside = [*takewhile(lambda line: self._is_beside(line, loader), lines)]
        several = self._several(self._told(lines[len(beside) :]), loader)
        asked = flow.flow(parsed(beside)).read
        set_later = {n for each in several for n in flow.flow(parsed(each.lines)).bound}
        if several and asked.isdisjoint(set_later):
            return [replace(each, lines=[*beside, *each.lines]) for each in several]
        return [self._inlined(Branch(None, lines, loader))]

    def _several(self, lines: Lines, loader: str) -> list[Branch]:
        """The validations that begin with a condition; none if that is no such condition."""
        found: list[Branch] = []
        node: cst.CSTNode | None = lines[0] if lines else None
        while isinstance(node, (cst.If, cst.Else)):
            test = node.test if isinstance(node, cst.If) else None
            own = _ending([*syntax.body_of(node)], lines[1:])
            if own is None or not (test is None or self._is_steady(test)):
                return []
            said = (*comments_of(node),) if isinstance(node, cst.If) else ()
            found.append(self._inlined(Branch(test, own, loader, said=said)))
            node = node.orelse if isinstance(node, cst.If) else None
        is_all = not found or found[-1].test is None
        return found if is_all else [*found, *self.branches(lines[1:], loader)]

    def _is_beside(self, line: cst.BaseStatement, loader: str) -> bool:
        """Whether a statement only calls something that needs neither the loader nor variables."""
        is_call = syntax.lone_call(line) is not None
        return is_call and loader not in syntax.names_in(line) and self.me not in _handed(line)

    def _told(self, lines: Lines) -> list[cst.BaseStatement]:
        """Statements that begin with a condition, without the variables above that it asks."""
        rest, known = [*lines], dict[str, str]()
        while rest and isinstance(small := syntax.simple(rest[0]), cst.Assign):
            name, value = syntax.target_of(rest[0]) or "", small.value
            is_plain = isinstance(value, (cst.Attribute, cst.Subscript)) and name.isidentifier()
            if not (is_plain and self._is_steady(value)):
                return []
            known[name] = syntax.code(value)
            rest.pop(0)
        every = parsed(rest)
        stored = {name for line in every for name in flow.stored(line)}
        if {*known} & (stored | flow.set_otherwise(every)):
            return []
        for name, text in known.items():
            rest = [syntax.replaced(line, name, text) for line in rest]
        return rest

    def _is_steady(self, test: cst.BaseExpression) -> bool:
        """Whether a condition is the same in all hooks of a validation."""
        return self._stays(ast.parse(f"({syntax.code(test)})", mode="eval").body)

    def _stays(self, value: ast.expr) -> bool:
        if isinstance(value, (ast.BoolOp, ast.List, ast.Set, ast.Tuple)):
            inner = value.values if isinstance(value, ast.BoolOp) else value.elts
            return all(map(self._stays, inner))
        if isinstance(value, ast.UnaryOp):
            return self._stays(value.operand)
        if isinstance(value, ast.Compare):
            return all(map(self._stays, (value.left, *value.comparators)))
        if isinstance(value, (ast.Attribute, ast.Subscript)):
            is_by_key = isinstance(value, ast.Subscript)
            owner = value.value if isinstance(value.value, ast.Attribute) else value
            is_own = isinstance(owner, ast.Attribute) and ast.unparse(owner.value) == self.me
            if is_own and isinstance(owner, ast.Attribute) and owner.attr in self.own:
                return False
            if is_own and isinstance(owner, ast.Attribute) and owner is not value:
                is_known = isinstance(value, ast.Attribute) or isinstance(value.slice, ast.Constant)
                is_kept = owner.attr == "hparams" and "hparams" not in self.changed
                return is_known and (is_kept or self._is_only_asked(owner.attr))
            if is_by_key:
                return False
        return kept.is_repeatable(value, self.me, self.changed)

    def _is_only_asked(self, name: str) -> bool:
        """Whether a validation asks an attribute for what it has, and hands it to nobody."""
        text = f"{self.me}.{name}"
        for method in (self.own[each] for each in reachable(self.own, STEP)):
            nodes = [each for line in parsed([method]) for each in ast.walk(line)]
            owners = [n.value for n in nodes if isinstance(n, (ast.Attribute, ast.Subscript))]
            called = [ast.unparse(n.func) for n in nodes if isinstance(n, ast.Call)]
            mentions = [n for n in nodes if isinstance(n, ast.Attribute) and ast.unparse(n) == text]
            if any(each.startswith(f"{text}.") for each in called):
                return False
            if not {*map(id, mentions)} <= {*map(id, owners)}:
                return False
        return name not in self.changed

    def _inlined(self, branch: Branch) -> Branch:
        """A branch with the statements of the method that it only calls, if nobody else does."""
        log = _as_one(branch.lines)
        calls = [
            (call, self.own[name])
            for call in (syntax.find(log, cst.Call) if log is not None else ())
            for name in self.own
            if syntax.code(call.func) == f"{self.me}.{name}"
            and branch.loader in [syntax.code(arg.value) for arg in call.args]
        ]
        if log is None or len(calls) != 1 or not self._is_written_once(method := calls[0][1]):
            return branch
        given = _given(method, calls[0][0], branch.loader)
        if given is None:
            return branch
        loader, values = given
        set_first = [syntax.statement(f"{n} = {syntax.code(v)}") for n, v in values.items()]
        lines = [*syntax.body_of(method)]
        said = _as_comments(lines.pop(0)) if syntax.has_docstring(lines) else []
        lines, value = _returned(lines)
        if value is None or not lines:
            return branch
        made = without_blank([*set_first, *lines, _logged(log, calls[0][0], value)])
        made[0] = above(made[0], said)
        return replace(branch, lines=made, loader=loader, method=method.name.value)

    def _is_written_once(self, method: cst.FunctionDef) -> bool:
        """Whether a method can stand where its only call is."""
        name, params = method.name.value, method.params
        every = [n for each in self.own.values() for n in syntax.find(each, cst.Attribute)]
        given = params.params
        is_plain = not (params.star_kwarg or params.kwonly_params)
        is_plain &= isinstance(params.star_arg, cst.MaybeSentinel) and len(given) > 1
        texts = [syntax.code(each.decorator) for each in method.decorators]
        return (
            is_plain
            and {*texts} <= WITHOUT_GRADIENTS
            and given[0].name.value == self.me
            and [each.attr.value for each in every].count(name) == 1
            and name not in self.asked
            and len(syntax.returns(method)) == 1
        )


def _handed(line: cst.BaseStatement) -> set[str]:
    """The names that a statement hands on as they are, or asks for in any other way than a part."""
    owners = {id(each.value) for each in syntax.find(line, cst.Attribute)}
    return {each.value for each in syntax.find(line, cst.Name) if id(each) not in owners}


def _given(
    method: cst.FunctionDef, call: cst.Call, loader: str
) -> tuple[str, dict[str, cst.BaseExpression]] | None:
    """The parameter of a method that is the loader in a call, and what the others are.

    None where that is not to be told.
    """
    params = method.params.params[1:]
    names = [each.name.value for each in params]
    found = {each.name.value: each.default for each in params if each.default is not None}
    if not all(isinstance(each, _CONSTANTS) for each in found.values()):
        return None
    for at, arg in enumerate(call.args):
        if arg.star or (arg.keyword is None and at >= len(names)):
            return None
        found[arg.keyword.value if arg.keyword else names[at]] = arg.value
    loaders = [name for name, value in found.items() if syntax.code(value) == loader]
    if len(loaders) != 1 or {*names} != {*found}:
        return None
    given = {name: found[name] for name in names if name != loaders[0]}
    # Outside of the method, another thing may be named like a parameter.
    used = {name for value in given.values() for name in syntax.names_in(value)}
    return (loaders[0], given) if used.isdisjoint({loader, *names}) else None


_CONSTANTS = (cst.Name, cst.Integer, cst.Float, cst.SimpleString)


#: How many statements are written in each of several validations that share them, at most.
_SHARED = 2


def _ending(lines: list[cst.BaseStatement], rest: Lines) -> list[cst.BaseStatement] | None:
    """All that a block does until a method ends: it returns, or some statements follow."""
    count = len(syntax.returns_in(lines))
    if not count and lines and isinstance(syntax.simple(lines[-1]), cst.Raise):
        return lines
    if len(without_end(lines)) < len(lines) and count == 1:
        return without_end(lines)
    return [*lines, *rest] if not count and len(rest) <= _SHARED else None


def _as_one(lines: Lines) -> cst.BaseStatement | None:
    """The statement that logs what a call returns, which may have a name of its own before."""
    if len(lines) == 1:
        return lines[0]
    first, log = lines if len(lines) == _SHARED else (None, None)
    name, small = (syntax.target_of(first) if first else None), syntax.simple(first or cst.Pass())
    if log is None or name is None or not isinstance(small, cst.Assign) or not name.isidentifier():
        return None
    uses = [node.value for node in syntax.find(log, cst.Name)].count(name)
    return syntax.replaced(log, name, syntax.code(small.value)) if uses == 1 else None


def _returned(
    lines: list[cst.BaseStatement],
) -> tuple[list[cst.BaseStatement], cst.BaseExpression | None]:
    """The statements before that which returns, and the value, if it only has a name before."""
    *some, end = lines
    last = syntax.simple(end)
    value = last.value if isinstance(last, cst.Return) else None
    made = syntax.simple(some[-1]) if some else None
    if not isinstance(made, cst.Assign) or not isinstance(made.value, cst.Dict):
        return some, value
    is_named = isinstance(value, cst.Name) and syntax.target_of(some[-1]) == value.value
    return (some[:-1], made.value) if is_named else (some, value)


def without_end(lines: Lines) -> list[cst.BaseStatement]:
    """Statements without a return of nothing at their end."""
    last = syntax.simple(lines[-1]) if lines else None
    is_end = isinstance(last, cst.Return) and last.value is None
    return [*lines[:-1]] if is_end else [*lines]


def _logged(log: cst.BaseStatement, call: cst.Call, value: cst.BaseExpression) -> cst.BaseStatement:
    """A statement that logs what a method returned, with that for the call of it."""
    made = _renamed_where_made(log, call, value)
    if made is None:
        plain = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Dict)
        text = syntax.code(value)
        given = syntax.expression(text if isinstance(value, plain) else f"({text})")
        made = syntax.with_node(log, call, given)
    return syntax.each(made, cst.Call, _of_one)


def _of_one(call: cst.Call) -> cst.BaseExpression:
    """What logs one metric by its name, in the place of what logs a dict with no others."""
    owner, _, name = syntax.code(call.func).rpartition(".")
    metrics = call.args[0].value if name == "log_dict" and call.args else None
    elements = metrics.elements if isinstance(metrics, cst.Dict) else ()
    only = elements[0] if len(elements) == 1 else None
    if not isinstance(only, cst.DictElement) or not isinstance(only.key, cst.SimpleString):
        return call
    args = syntax.without_commas([cst.Arg(only.key), cst.Arg(only.value), *call.args[1:]])
    return call.with_changes(func=syntax.expression(f"{owner}.log"), args=args)


def _renamed_where_made(
    log: cst.BaseStatement, call: cst.Call, value: cst.BaseExpression
) -> cst.BaseStatement | None:
    """The statement, if some metrics of a dict that is written out are logged by other names."""
    items = f"{syntax.code(call)}.items()"
    found = [c for c in syntax.find(log, cst.DictComp) if syntax.code(c.for_in.iter) == items]
    if len(found) != 1 or not isinstance(value, cst.Dict):
        return None
    told = _RENAMING.fullmatch(syntax.code(found[0].key))
    elements = [e for e in value.elements if isinstance(e, cst.DictElement)]
    keys = [str(e.key.evaluated_value) for e in elements if isinstance(e.key, cst.SimpleString)]
    if told is None or len(keys) != len(value.elements):
        return None
    names = ast.literal_eval(told["names"])
    names = (names,) if isinstance(names, str) else names
    made = [
        e.with_changes(key=cst.SimpleString(f'"val_{key}"') if key in names else e.key)
        for e, key in zip(elements, keys, strict=True)
    ]
    return syntax.with_node(log, found[0], value.with_changes(elements=made))


_RENAMING = re.compile(r'f"val_\{name\}" if name (==|in) (?P<names>.+) else name')


def _as_comments(docstring: cst.BaseStatement) -> list[cst.EmptyLine]:
    """What a docstring says, as comments."""
    text = ast.literal_eval(syntax.code(docstring).strip())
    lines = (line.strip() for line in text.splitlines())
    return [cst.EmptyLine(comment=cst.Comment(f"# {line}")) for line in lines if line]
