"""The statements of ``__init__`` that make optimizers and schedulers, where they can move on.

With them moves what only they need, and what is done with what they make.
"""

import re
from collections.abc import Collection, Iterator, Sequence

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.class_facts import asks_sizes
from det_compat.migrate.to_lightning.moving.commuting import Commuting
from det_compat.migrate.to_lightning.moving.names import Scope
from det_compat.migrate.to_lightning.moving.reading import Reader
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import DRAWS
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.walking import children, has

MOVED = ("wrap_optimizer", "wrap_lr_scheduler")


def moved_lines(
    init: cst.FunctionDef,
    early: Sequence[cst.FunctionDef],
    reader: Reader,
    *,
    is_automatic: bool,
) -> tuple[list[cst.BaseStatement], dict[str, str]]:
    """The statements of ``__init__`` that make optimizers and schedulers, if they can be moved.

    They cannot if the rest of it, or a method of ``early`` that it calls, needs what they make, or
    hands the trial to code that may; nor if they may do something else later. Where optimization
    ``is_automatic``, an ``if`` that does nothing but to make a scheduler moves as a whole.

    Where optimizers have to stay, schedulers move that ask how many processes there are.

    Returns:
        The statements, and what they ask in place of variables that stay where they are.
    """
    every = _moved(init, early, reader, MOVED, is_automatic=is_automatic)
    rates = any(_RATE.search(syntax.code(method)) for method in early)
    symbols = reader.symbols
    if every[0] or rates or not asks_sizes(init, symbols):
        return every
    alone = _moved(init, early, reader, MOVED[1:], is_automatic=is_automatic)
    return alone if any(asks_sizes(line, symbols) for line in alone[0]) else every


#: Where a rate is read that a scheduler sets.
_RATE = re.compile(r"""["']lr["']""")


def _moved(
    init: cst.FunctionDef,
    early: Sequence[cst.FunctionDef],
    reader: Reader,
    kinds: Sequence[str],
    *,
    is_automatic: bool,
) -> tuple[list[cst.BaseStatement], dict[str, str]]:
    """The same for what these ``kinds`` of calls have wrapped."""
    body, me, symbols = syntax.body_of(init), syntax.self_name(init), reader.symbols
    makers = [line for line in body if is_automatic or not isinstance(line, cst.If)]
    wraps = [line for line in makers if symbols.method(syntax.call_of(maker(line))) in kinds]
    moved = [line for line in wraps if "." in target(line)]
    if not moved or len(moved) != sum(len(symbols.calls(line, *kinds)) for line in body):
        return [], {}
    known = {target(line) for line in moved}
    given = {target(line) for line in moved if wraps_itself(line)}
    moved = [
        line
        for line in body
        if line in moved or has_default(line, known) or _makes_one(line, given)
    ]
    moved, kept = Slice(init, symbols).whole(moved)
    rest = [*early, *(line for line in body if line not in moved)]
    made = {target(line) for line in moved if "." in target(line)}
    local = _local(init)
    needed = {name for line in moved for name in syntax.names_in(line)} & local - kept.keys()
    unset = needed - {name for line in moved for name in _bound(line)}
    shared = needed & {name for line in rest[len(early) :] for name in syntax.names_in(line)}
    if unset or shared or any(asks_for(node, name) for name in made for node in rest):
        return [], {}
    if not Commuting(init, reader).may_move(moved, kept):
        return [], {}
    attributes = (found for node in rest for found in syntax.find(node, cst.Attribute))
    members = {pair[1] for found in attributes if (pair := symbols.member(found)) is not None}
    if not _LISTS.isdisjoint(members | {*reader.around.asked}):
        # A context listed what it had wrapped by then, and tells others, too.
        return [], {}
    is_asked = any(name.rpartition(".")[2] in reader.around.asked for name in made)
    return ([], {}) if is_asked and any(hands_on(n, me) for n in rest) else (moved, kept)


_LISTS = frozenset(("optimizers", "lr_schedulers", "get_optimizer", "get_lr_scheduler"))


def _local(init: cst.FunctionDef) -> set[str]:
    """The variables of ``__init__``; what it only sets attributes of is none."""
    scope = Scope(init, is_trial=True)
    return syntax.local_names(init) & {*scope.names, *scope.imports}


def maker(line: cst.BaseStatement) -> cst.BaseStatement:
    """A statement, or the last one below a plain ``if``, where those above it set variables."""
    if not isinstance(line, cst.If) or line.orelse is not None:
        return line
    *above, last = syntax.body_of(line)
    names = [syntax.target_of(each) or "" for each in above]
    is_plain = isinstance(last, cst.SimpleStatementLine) and all(map(str.isidentifier, names))
    return last if is_plain else line


def target(line: cst.BaseStatement) -> str:
    """What a statement sets, or the last one below a plain ``if``."""
    return syntax.target_of(maker(line)) or ""


def has_default(line: cst.BaseStatement, targets: Collection[str]) -> bool:
    """Whether a statement says that there is none of these yet."""
    value = getattr(syntax.simple(line), "value", None)
    return target(line) in targets and value is not None and syntax.code(value) == "None"


def _makes_one(line: cst.BaseStatement, targets: Collection[str]) -> bool:
    """Whether a statement makes one of these by a call."""
    return syntax.call_of(line) is not None and syntax.target_of(line) in targets


class Slice:
    """What moves along with statements of ``__init__``.

    Variables move that nothing else needs, with all that sets them, and what is done with
    optimizers and schedulers. What an attribute keeps, or the context is asked for, is taken from
    there.
    """

    def __init__(self, init: cst.FunctionDef, symbols: Symbols) -> None:
        self._init, self._symbols = init, symbols
        self._body, self._me = syntax.body_of(init), syntax.self_name(init)
        self._local = _local(init)
        values: dict[str, list[cst.BaseExpression]] = {}
        for line in syntax.find(init, cst.Assign):
            for name, value in syntax.pairs(line):
                values.setdefault(syntax.code(name), []).append(value)
        #: what is a list or dict, which was made for this alone
        self._fresh = {n for n, v in values.items() if n.isidentifier() and all(map(_is_new, v))}
        self._set = values

    def whole(
        self, moved: list[cst.BaseStatement]
    ) -> tuple[list[cst.BaseStatement], dict[str, str]]:
        """These statements and the others, and what is asked in place of variables that stay."""
        rest = [line for line in self._body if line not in moved]
        made = {target(line) for line in moved if "." in target(line)}
        calls = [call for line in moved for call in self._symbols.calls(line, *MOVED)]
        made |= {syntax.code(call.args[0].value) for call in calls if call.args}
        names = {name for line in moved for name in syntax.names_in(line)} & self._local
        kept = self._kept(names, moved)
        more = [line for line in rest if self._is_of(line, made)]
        for name in names - kept.keys():
            lines = [line for line in rest if name in syntax.names_in(line)]
            more += (
                lines if all(self._only_sets(line, made | self._fresh) for line in lines) else []
            )
        if not more:
            return moved, kept
        return self.whole([line for line in self._body if line in moved or line in more])

    def _is_of(self, line: cst.BaseStatement, made: Collection[str]) -> bool:
        """Whether a statement does nothing but to change what is made, or to schedule it."""
        if not any(syntax.mentions(line, each) for each in made):
            return False
        call, name = syntax.call_of(line), syntax.target_of(line) or ""
        is_kept = name.startswith(f"{self._me}.") and len(self._set.get(name, ())) == 1
        if is_kept and call is not None and self._is_plain(line):
            return bool(_SCHEDULER.search(syntax.code(call.func).rpartition(".")[2]))
        return self._only_sets(line, made)

    def _only_sets(self, line: cst.BaseStatement, changing: Collection[str]) -> bool:
        """Whether a statement does nothing but to set variables, or to change some of these."""
        if isinstance(line, cst.FunctionDef):
            return True
        if not self._is_plain(line):
            return False
        if isinstance(line, cst.If):
            both = [*syntax.body_of(line), *_otherwise(line)]
            return all(self._only_sets(each, changing) for each in both)
        if isinstance(line, cst.For) and line.orelse is None and _is_in(line.iter, changing):
            changing = {*changing, syntax.code(line.target)}
            return all(self._only_sets(each, changing) for each in syntax.body_of(line))
        small = syntax.simple(line)
        if isinstance(small, (cst.Pass, cst.Raise)):
            return True
        if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
            function = small.value.func
            return isinstance(function, cst.Attribute) and _is_in(function, changing)
        if isinstance(small, cst.AugAssign):
            # A list would be another one for others, too.
            is_number = isinstance(small.value, (cst.Integer, cst.Float))
            is_own = is_number and isinstance(small.target, cst.Name)
            return is_own or _is_in(small.target, changing)
        parts = [*targets(line)] if isinstance(small, (cst.Assign, cst.AnnAssign)) else []
        are_own = all(isinstance(each, cst.Name) or _is_in(each, changing) for each in parts)
        return bool(parts) and are_own

    def _is_plain(self, line: cst.BaseStatement) -> bool:
        """Whether it is all the same when a statement runs: it draws and wraps nothing."""
        wraps = (self._symbols.method(call) for call in syntax.find(line, cst.Call))
        is_wrap = any("wrap_" in name and name not in MOVED for name in wraps)
        is_odd = has(line, cst.NamedExpr, cst.Await, cst.Yield, cst.With, cst.Try)
        return not (is_wrap or is_odd or DRAWS.search(syntax.code(line)))

    def _kept(self, names: Collection[str], moved: Sequence[cst.BaseStatement]) -> dict[str, str]:
        """What says the same as variables do, which others need, too."""
        found: dict[str, str] = {}
        for name in names:
            uses = [at for at, line in enumerate(self._body) if name in syntax.names_in(line)]
            sets = [at for at in uses if name in _bound(self._body[at])]
            asking = [at for at in uses if self._body[at] in moved]
            if sets and (sets[-1] > asking[0] or not {*sets}.isdisjoint(asking)):
                continue
            answers = [self._answer(self._body[at]) for at in sets]
            is_shared = {*uses} - {*asking} > {*sets}
            if len(answers) == 1 and answers[0] and is_shared and not self._is_changed(name):
                found[name] = answers[0]
            for line in self._body[sets[-1] if sets else 0 :]:
                attribute = syntax.target_of(line) or ""
                is_own = attribute.startswith(f"{self._me}.") and attribute.count(".") == 1
                is_one = len(self._set.get(attribute, ())) == 1 and attribute not in self._taken()
                if is_own and is_one and self._is_same(line, name):
                    found[name] = attribute
        return found

    def _taken(self) -> set[str]:
        """The attributes that are Lightning's."""
        return {f"{self._me}.hparams", f"{self._me}.trainer"}

    def _answer(self, line: cst.BaseStatement) -> str:
        """What a statement asks the context for, which says the same whenever it is asked."""
        call = syntax.call_of(line)
        is_known = call is not None and self._symbols.method(call) in _ANSWERS
        return syntax.code(call) if call is not None and is_known else ""

    def _is_changed(self, name: str) -> bool:
        calls = (syntax.code(call.func) for call in syntax.find(self._init, cst.Call))
        is_called = any(f"{name}.{mutator}" in {*calls} for mutator in _MUTATORS)
        return is_called or any(each.startswith((f"{name}[", f"{name}.")) for each in self._set)

    def _is_same(self, line: cst.BaseStatement, name: str) -> bool:
        """Whether a statement keeps what a variable is, which it may wrap as a model."""
        value = getattr(syntax.simple(line), "value", None)
        call = syntax.call_of(line)
        if call is not None and self._symbols.method(call) == "wrap_model" and len(call.args) == 1:
            value = _in_place(call.args[0].value)
        return isinstance(value, cst.Name) and value.value == name


#: What changes a list or a dict.
_MUTATORS = words("append extend insert update pop popleft add remove clear setdefault sort")
#: What the context says the same to whenever it is asked.
_ANSWERS = words("get_hparam get_hparams get_global_batch_size")
#: What is a scheduler, as its name says.
_SCHEDULER = re.compile(r"(?i)sched|lr$|warmup")


def _is_new(value: cst.BaseExpression) -> bool:
    kinds = (cst.List, cst.Dict, cst.Set, cst.ListComp, cst.DictComp, cst.Integer, cst.Float)
    is_made = isinstance(value, cst.Call) and syntax.code(value.func) in ("list", "dict", "set")
    return isinstance(value, kinds) or is_made


def _is_in(node: cst.BaseExpression, owners: Collection[str]) -> bool:
    """Whether an expression is of one of these, as ``opt.groups[0]`` is of ``opt``."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        if syntax.code(node) in owners:
            return True
        node = node.value
    return syntax.code(node) in owners


def _otherwise(line: cst.If) -> list[cst.BaseStatement]:
    orelse = line.orelse
    return [orelse] if isinstance(orelse, cst.If) else [*syntax.body_of(orelse)] if orelse else []


def targets(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What some code sets, part by part."""
    found: list[cst.BaseExpression] = [n.target for n in syntax.find(node, cst.AssignTarget)]
    found += [each.target for each in syntax.find(node, cst.AugAssign)]
    found += [each.target for each in syntax.find(node, cst.AnnAssign)]
    found += [each.target for each in syntax.find(node, cst.For)]
    found += [each.target for each in syntax.find(node, cst.NamedExpr)]
    yield from (part for one in found for part in syntax.parts(one))


def _bound(line: cst.BaseStatement) -> set[str]:
    """The variables that a statement sets."""
    if isinstance(line, (cst.FunctionDef, cst.ClassDef)):
        return {line.name.value}
    return {each.value for each in targets(line) if isinstance(each, cst.Name)}


def asks_for(node: cst.CSTNode, made: str) -> bool:
    """Whether code needs what is made, or a dict that it is in, but for making that empty."""
    owner = made.partition("[")[0]
    value = getattr(syntax.simple(node), "value", None)
    is_empty = isinstance(value, cst.Dict) and not value.elements
    if owner != made and is_empty and syntax.target_of(node) == owner:
        return False
    return syntax.mentions(node, owner)


def hands_on(node: cst.CSTNode, me: str) -> bool:
    """Whether code does more with an object than to read, set and call what it has."""
    if isinstance(node, cst.Name):
        return node.value == me
    if isinstance(node, cst.Attribute):
        return not isinstance(node.value, cst.Name) and hands_on(node.value, me)
    if isinstance(node, cst.FunctionDef):
        node = node.body
    elif isinstance(node, cst.Call):
        name = syntax.code(node.func)
        if name == "super" or name.endswith(".__init__"):
            return False
    return any(hands_on(child, me) for child in children(node))


def wraps_itself(line: cst.BaseStatement) -> bool:
    """Whether a statement wraps what its own target is by then."""
    call = syntax.call_of(line)
    if call is None or not call.args or "wrap_" not in syntax.code(call.func):
        return False
    return syntax.target_of(line) == syntax.code(_in_place(call.args[0].value))


def _in_place(model: cst.BaseExpression) -> cst.BaseExpression:
    """A model that is moved to a device, which is the same one then."""
    func = model.func if isinstance(model, cst.Call) else None
    is_moved = isinstance(func, cst.Attribute) and func.attr.value == "to"
    return func.value if isinstance(func, cst.Attribute) and is_moved else model
