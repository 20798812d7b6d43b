"""What a validation moves, and training goes by: best values, patience, counters, learning rates.

Determined validated nowhere outside of training, and ``Trainer.validate`` would move them, too.
What a validation sets anew each time, or only tells of, is none of them.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.trial_attributes import reachable
from det_compat.migrate.tree.walking import children

#: What training calls, of trials and callbacks, as they were and as they are.
TRAINING = words(
    """
    train_batch training_step forward optimizer_step optimizer_zero_grad lr_scheduler_step backward
    configure_optimizers train_dataloader build_training_data_loader configure_gradient_clipping
    on_train_start on_train_end on_train_epoch_start on_train_epoch_end on_train_batch_start
    on_train_batch_end on_before_zero_grad on_before_backward on_after_backward
    on_before_optimizer_step on_training_start on_training_epoch_start on_training_epoch_end
    on_training_workload_end
    """
)
_RATES = ("lr", "momentum", "weight_decay")
_ADDING = words("append appendleft extend insert add")
_EMPTYING = ("clear", "reset")
#: What only tells of what it is given.
_TELLING = words("print info debug warning error add_scalar add_scalars add_text report write")
_LOGGING = ("log", "log_dict")
#: What is in the code of what ends training, or changes how it goes on.
_ENDING = ("should_stop", "requires_grad", "param_groups", '["lr"]')
_ORDER = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
#: A small statement, and the tests that it is under.
_Placed: TypeAlias = tuple[cst.BaseSmallStatement, tuple[cst.BaseExpression, ...]]


@dataclass(frozen=True)
class Moving:
    """What a class moves in validations.

    Attributes:
        own: its methods, with those of its bases and heirs.
        starts: those that validations call.
        file: its file.
        read: attributes that others read in training.
        emptied: attributes that others set anew in validations.
        alone: those of its methods that know no Trainer which they could ask.
    """

    own: Mapping[str, cst.FunctionDef]
    starts: Sequence[str]
    file: LightningFile
    read: Collection[str] = ()
    emptied: Collection[str] = ()
    alone: Collection[str] = ()

    @cached_property
    def used(self) -> set[str]:
        """The attributes by which a validation does more than to decide something."""
        names = {*reachable(self.own, *self.starts, "forward")}
        return {a for name in names for a in read_by(self.own[name], but=(), tests=False)}

    @cached_property
    def logged(self) -> set[str]:
        """The attributes that may be metrics of a validation, or what these are made of."""
        names = reachable(self.own, *self.starts)
        return {a for name in names for a in read_by(self.own[name], but=_TELLING, tests=False)}

    @cached_property
    def trained(self) -> set[str]:
        """The attributes that training reads."""
        names = reachable(self.own, *TRAINING)
        return {*self.read}.union(*(read_by(self.own[name]) for name in names))

    @cached_property
    def summed(self) -> set[str]:
        """The attributes that validations add to, and which are not kept."""
        bodies = [self.own[name] for name in reachable(self.own, *self.starts)]
        stored = (each for m in bodies for s, _ in smalls(m) for each in stored_by(s, m))
        return {name for name, is_added in stored if is_added} - self.attributes

    @cached_property
    def attributes(self) -> frozenset[str]:
        """The attributes that validations move, and training goes by."""
        bodies = [self.own[name] for name in reachable(self.own, *self.starts)]
        training = [self.own[name] for name in reachable(self.own, *TRAINING)]
        stored = [
            (name, is_added, [test for test in around if _asked(test, m) & {name}], around, m)
            for m in bodies
            for small, around in smalls(m)
            for name, is_added in stored_by(small, m)
        ]
        every = {name for name, *_ in stored} - {*self.emptied}
        anew = {
            name
            for name, is_added, _, around, m in stored
            if not is_added and not any(_asked(test, m) & every for test in around)
        }
        best = {name for name, _, tests, _, _ in stored if any(map(_is_compared, tests))}
        best |= {
            n for m in bodies for s, _ in smalls(m) if _is_extreme(s) for n, _ in stored_by(s, m)
        }
        counted = {name for name, is_added, *_ in stored if is_added} - anew
        again = {n for m in training for small, _ in smalls(m) for n, _ in stored_by(small, m)}
        last = anew - {name for name, is_added, *_ in stored if is_added} - again - self.used
        best -= anew
        # What is logged is to be that of this validation.
        found = (best - self.logged) | ((counted | last) & self.trained)
        before = None
        while found != before:
            before = {*found}
            for method in bodies:
                blocks = (b for b in syntax.find(method.body, cst.If) if _ends(b, found))
                deciding = {a for block in blocks for a in _asked(block.test, method)}
                rates = (small for small, _ in smalls(method) if is_rate(small, method))
                deciding |= {a for small in rates for a in asked_of(small)}
                calls = (c for c in syntax.find(method.body, cst.Call) if self._sets_rates(c))
                deciding |= {a for call in calls for arg in call.args for a in asked_of(arg)}
                deciding |= self._asked_by_results(deciding)
                found |= (best | counted | last) & deciding
                before_it = {a for s in _deciding(method, found) for a in _asked(s, method)}
                before_it |= self._asked_by_results(before_it)
                # What training sets back is what this validation has summed up.
                found |= (best | last | (counted - (again & self.logged))) & before_it
        return frozenset(found & every)

    def _asked_by_results(self, names: Collection[str]) -> set[str]:
        """The attributes that the results of its methods of these names go by."""
        methods = [self.own[name] for name in reachable(self.own, *names)]
        return {
            asked
            for m in methods
            for node in (*syntax.find(m.body, cst.Return), *_ending_tests(m))
            for asked in _asked(node, m)
        }

    def moves(self, small: cst.BaseSmallStatement, method: cst.FunctionDef) -> bool:
        """Whether a statement moves some of it."""
        call = small.value if isinstance(small, cst.Expr) else None
        is_own = isinstance(call, cst.Call) and self.by_another(call)
        return is_own or self._moves_itself(small, method)

    def _moves_itself(self, small: cst.BaseSmallStatement, method: cst.FunctionDef) -> bool:
        is_moving = any(name in self.attributes for name, _ in stored_by(small, method))
        call = small.value if isinstance(small, cst.Expr) else None
        is_called = isinstance(call, cst.Call) and (
            self._compares_with_kept(call) or self._sets_rates(call)
        )
        return is_moving or is_called or is_rate(small, method)

    def by_another(self, call: cst.Call) -> bool:
        """Whether a call has a method that knows no Trainer move some of it, and do no more."""
        owner, _, name = syntax.code(call.func).rpartition(".")
        if name not in self.alone or owner != syntax.self_name(self.own[name]):
            return False
        called = [self.own[each] for each in reachable(self.own, name)]
        every = [(small, method) for method in called for small, _ in smalls(method.body)]
        calls = (syntax.code(c.func) for m in called for c in syntax.find(m.body, cst.Call))
        if any(each.rpartition(".")[2] in _LOGGING for each in calls):
            return False
        stored = {n for small, method in every for n, _ in stored_by(small, method)}
        if (stored - self.attributes) & self.used:
            return False
        return any(self._moves_itself(small, method) for small, method in every)

    def _sets_rates(self, call: cst.Call) -> bool:
        """Whether a call has a function of the project set what an optimizer goes by."""
        owner, _, name = syntax.code(call.func).rpartition(".")
        functions = self.file.elsewhere.functions if not owner else self.own
        function = functions.get(name) if owner in ("", "self") else None
        return function is not None and any(is_rate(s, function) for s, _ in smalls(function))

    def keeps(self, call: cst.Call) -> bool:
        """Whether a call has another method, or object, compare with what it has kept."""
        return self.by_another(call) or self._compares_with_kept(call)

    def _compares_with_kept(self, call: cst.Call) -> bool:
        """Whether a call has an object of the project compare with what it has kept."""
        owner, _, name = syntax.code(call.func).rpartition(".")
        if not owner.startswith("self.") or name in self.own:
            return False
        trees = map(syntax.looked_at, self.file.elsewhere.classes_with.get(name, ()))
        every = [syntax.methods(node) for tree in trees for node in syntax.find(tree, cst.ClassDef)]
        return any("reset" not in own and name in own and _compares(own[name]) for own in every)


def _compares(method: cst.FunctionDef) -> bool:
    """Whether a method sets an attribute to what is better than that."""
    return any(
        _is_compared(test) and name in _asked(test, method)
        for small, around in smalls(method)
        for name, _ in stored_by(small, method)
        for test in around
    )


def _ends(block: cst.If, known: Collection[str]) -> bool:
    """Whether a decision is one for training: its rates, its end, or what it goes by."""
    if any(each in syntax.code(block).replace("'", '"') for each in _ENDING):
        return True
    stored = (target for line in syntax.find(block, cst.AssignTarget) for target in [line.target])
    added = (line.target for line in syntax.find(block, cst.AugAssign))
    return any(name in known for target in (*stored, *added) for name in asked_of(target))


def _deciding(method: cst.FunctionDef, known: Collection[str]) -> Iterator[cst.CSTNode]:
    """What sets something that training goes by, and the tests that end a method before that."""
    placed = [small for small, _ in smalls(method.body)]
    setting = [
        small
        for small in placed
        if any(name in known for name, _ in stored_by(small, method))
        or (isinstance(small, cst.Assign) and _ENDING[0] in syntax.code(small))
    ]
    yield from setting
    if setting:
        yield from _ending_tests(method)


def _ending_tests(method: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
    blocks = syntax.find(method.body, cst.If)
    return (block.test for block in blocks if any(syntax.find(block.body, cst.Return)))


def smalls(node: cst.CSTNode, around: tuple[cst.BaseExpression, ...] = ()) -> Iterator[_Placed]:
    """The small statements below a node, each with the tests that it is under."""
    if isinstance(node, cst.BaseSmallStatement):
        yield node, around
    elif not isinstance(node, (cst.BaseExpression, cst.ClassDef)):
        inner = (*around, node.test) if isinstance(node, cst.If) else around
        for each in children(node):
            yield from smalls(each, inner)


def stored_by(small: cst.BaseSmallStatement, method: cst.FunctionDef) -> Iterator[tuple[str, bool]]:
    """The attributes that a statement sets, and whether it adds to what they were."""
    if isinstance(small, cst.AugAssign):
        yield from ((name, True) for name in _stem(small.target, method))
    elif isinstance(small, cst.Assign):
        for target, value in syntax.pairs(small):
            is_whole = isinstance(target, cst.Attribute)
            names = [] if isinstance(target, cst.Name) else _stem(target, method)
            yield from ((n, not is_whole or n in asked_of(value)) for n in names)
    elif isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
        func = small.value.func
        if isinstance(func, cst.Attribute) and func.attr.value in (*_ADDING, *_EMPTYING):
            is_added = func.attr.value in _ADDING
            yield from ((name, is_added) for name in _stem(func.value, method))


def _stem(node: cst.BaseExpression, method: cst.FunctionDef) -> list[str]:
    """``a`` of ``self.a``, ``self.a[0]`` and ``self.trial.a``, in a list."""
    while isinstance(node, cst.Subscript):
        node = node.value
    if isinstance(node, cst.Name):
        node = _kept_as(method).get(node.value, node)
    if isinstance(node, cst.Attribute) and _is_kept(node):
        root = syntax.code(node).partition(".")[0]
        if root in (syntax.self_name(method), "pl_module", *_kept_as(method)):
            return [node.attr.value]
    return []


@lru_cache(maxsize=512)
def _kept_as(method: cst.FunctionDef) -> dict[str, cst.Attribute]:
    """The variables of a method that are attributes such as ``self.trial``, with these."""
    values = (pair for small, _ in smalls(method.body) for pair in _values(small))
    return {
        target.value: value
        for target, value in values
        if isinstance(target, cst.Name) and isinstance(value, cst.Attribute) and _is_kept(value)
    }


def _is_kept(node: cst.Attribute) -> bool:
    """Whether a node is ``self.a``, or such as ``self.trial.a``, and no hyperparameter."""
    owner = node.value
    while isinstance(owner, cst.Attribute) and owner.attr.value not in ("hparams", "trainer"):
        owner = owner.value
    return isinstance(owner, cst.Name) and not syntax.is_name(node.value, "trainer")


def asked_of(node: cst.CSTNode) -> set[str]:
    """The attributes of variables, and of what these keep, that are named below a node."""
    return {each.attr.value for each in syntax.find(node, cst.Attribute) if _is_kept(each)}


def _asked(node: cst.CSTNode, method: cst.FunctionDef) -> set[str]:
    """The attributes that a test, or what a statement sets, goes by, also by variables."""
    found, names = asked_of(node), syntax.names_in(node)
    values = [pair for small, _ in smalls(method.body) for pair in _values(small)]
    while new := [pair for pair in values if syntax.is_name(pair[0], *names)]:
        values = [pair for pair in values if pair not in new]
        found = found.union(*(asked_of(value) for _, value in new))
        names = names.union(*(syntax.names_in(value) for _, value in new))
    return found


def _values(small: cst.BaseSmallStatement) -> Iterator[tuple[cst.BaseExpression, cst.CSTNode]]:
    """What a statement sets, and to what."""
    if isinstance(small, cst.Assign):
        yield from syntax.pairs(small)
    elif isinstance(small, (cst.AugAssign, cst.AnnAssign)) and small.value:
        yield small.target, small.value


def _is_compared(test: cst.BaseExpression) -> bool:
    """Whether a test is for more or less, or for a variable, which may be such a test."""
    targets = syntax.find(test, cst.ComparisonTarget)
    return isinstance(test, cst.Name) or any(isinstance(t.operator, _ORDER) for t in targets)


def _is_extreme(small: cst.BaseSmallStatement) -> bool:
    """Whether a statement is such as ``self.best = max(self.best, loss)``."""
    call = small.value if isinstance(small, cst.Assign) else None
    return isinstance(call, cst.Call) and syntax.is_name(call.func, "max", "min")


def is_rate(small: cst.BaseSmallStatement, method: cst.FunctionDef) -> bool:
    """Whether a statement sets what an optimizer goes by."""
    targets = [each.target for each in small.targets] if isinstance(small, cst.Assign) else []
    targets += [small.target] if isinstance(small, cst.AugAssign) else []
    for target in targets:
        text = syntax.code(target).replace("'", '"')
        if isinstance(target, cst.Subscript) and text.endswith(tuple(f'["{n}"]' for n in _RATES)):
            loops = syntax.find(method.body, cst.For)
            over = [syntax.code(e.iter) for e in loops if e.target.deep_equals(target.value)]
            if any("param_groups" in each for each in (text, *over)):
                return True
    return False


def read_by(
    method: cst.FunctionDef,
    *,
    but: Collection[str] = (*_TELLING, *_LOGGING),
    tests: bool = True,
) -> set[str]:
    """The attributes that a method reads.

    Args:
        method: the method.
        but: functions; what these are given does not count.
        tests: whether what decides something counts.
    """
    reading = _Reading(but, tests=tests)
    method.body.visit(reading)
    return reading.found


class _Reading(cst.CSTVisitor):
    def __init__(self, but: Collection[str], *, tests: bool) -> None:
        super().__init__()
        self.found = set[str]()
        self._but, self._tests = but, tests
        self._before, self._of_line = set[str](), set[str]()

    def visit_Call(self, node: cst.Call) -> bool:
        return syntax.code(node.func).rpartition(".")[2] not in self._but

    def visit_If_test(self, node: cst.If) -> None:
        self._before = {*self.found}

    def leave_If_test(self, node: cst.If) -> None:
        self.found = self.found if self._tests else self._before

    def visit_AugAssign_target(self, node: cst.AugAssign) -> None:
        self._before = {*self.found}

    def leave_AugAssign_target(self, node: cst.AugAssign) -> None:
        self.found = self._before

    def visit_Assign(self, node: cst.Assign) -> bool:
        self._of_line = {*self.found}
        return self._tests or not isinstance(node.value, (cst.Comparison, cst.BooleanOperation))

    def leave_Assign(self, node: cst.Assign) -> None:
        # ``self.best = max(self.best, loss)`` is no use of it.
        targets = [part for each in node.targets for part in syntax.parts(each.target)]
        own = {t.attr.value for t in targets if isinstance(t, cst.Attribute)}
        self.found -= own - self._of_line

    def visit_AssignTarget(self, node: cst.AssignTarget) -> bool:
        return not isinstance(node.target, cst.Attribute)

    def visit_Expr(self, node: cst.Expr) -> bool:
        # What is added to ``self.seen`` by ``self.seen.append(...)`` is read, and that is not.
        call = node.value
        func = call.func if isinstance(call, cst.Call) else None
        if isinstance(func, cst.Attribute) and func.attr.value in (*_ADDING, *_EMPTYING):
            assert isinstance(call, cst.Call)
            for arg in call.args:
                arg.visit(self)
            return False
        return True

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self.found |= {node.attr.value} if _is_kept(node) else set()
