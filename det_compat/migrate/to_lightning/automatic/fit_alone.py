"""LR schedulers that a validation steps: only one that belongs to training may.

Determined validated nowhere else. ``Trainer.validate`` would change the learning rate, or find no
scheduler where ``configure_optimizers`` has not run.
"""

import re
from collections.abc import Callable, Iterable, Mapping

import libcst as cst

from det_compat.migrate.to_lightning.automatic.beside_fit import (
    begins_with_validation,
    with_last_validation,
)
from det_compat.migrate.to_lightning.automatic.moved_in_fit import both, condition_of, is_under
from det_compat.migrate.to_lightning.automatic.state_in_fit import HOOK, HOOKS, with_state_in_fit
from det_compat.migrate.to_lightning.plan import LightningFile, TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line, Lines
from det_compat.migrate.tree.marks import marked
from det_compat.migrate.tree.trial_attributes import (
    VALIDATING,
    reachable,
    values_set,
)

_LEFT = "Trainer.validate steps an LR scheduler here, too, which only fit should"
#: What makes a scheduler, by the last part of its name; and the name of an attribute that has one.
_MAKER = re.compile(r"\w*(LR|[Ss]cheduler|Plateau|Restarts)|get_\w*schedule\w*")
_NAME = re.compile(r"(?i)\w*(sched|plateau)\w*")


def with_steps_in_fit(tree: cst.Module, file: LightningFile) -> cst.Module:
    """The file, whose validations move what training goes by, and step schedulers, in fit alone."""
    if begins_with_validation(file.elsewhere):
        # The validation before the first batch counts, which a script has above ``fit()``.
        return tree
    made = with_state_in_fit(tree, file)
    if syntax.has_attribute(made, "step"):
        made = _with_steps_in_fit(made, file)
    return with_last_validation(made, tree, file.elsewhere)


def _with_steps_in_fit(tree: cst.Module, file: LightningFile) -> cst.Module:
    classes = {n.name.value: n for n in syntax.find(tree, cst.ClassDef)}

    def guarded(node: cst.ClassDef) -> cst.ClassDef:
        name = node.name.value
        plan = file.plans.get(name)
        if plan is not None:
            family = [p for p in (*file.every, *file.trials.values(), plan) if plan in p.ancestors]
            reached = {each for p in family for each in p.reached(*VALIDATING)}
            own = syntax.methods(node)
            starts = [each for each in own if each in reached or each in HOOKS]
            return _in_fit(node, starts, _known(family, node, file), file, "{0}.")
        if name in file.callbacks:
            starts = [each for each in syntax.methods(node) if each.startswith(HOOK)]
            return _in_fit(node, starts, _of_callback(node, classes, file), file, "")
        return node

    return syntax.each(tree, cst.ClassDef, guarded)


def _in_fit(
    node: cst.ClassDef, starts: Iterable[str], known: set[str], file: LightningFile, owner: str
) -> cst.ClassDef:
    own = syntax.methods(node)
    changed = {}
    for name in reachable(own, *starts):
        method = own[name]
        changed[method] = _guarded(method, known, file, condition_of(method, owner))
    body = [changed.get(line, line) for line in syntax.body_of(node)]  # type: ignore[call-overload]
    return node if all(old is new for old, new in changed.items()) else syntax.with_body(node, body)


def _guarded(
    method: cst.FunctionDef, known: set[str], file: LightningFile, condition: str
) -> cst.FunctionDef:
    """A method whose steps wait for a condition; a mark where there is none."""
    local = known | _local(method, known)
    if condition and condition.replace("==", "!=") in syntax.code(method):
        # It ends there outside of fit.
        return method
    waiting = {
        each
        for block in syntax.find(method.body, cst.If)
        if is_under(block, condition)
        for each in syntax.find(block, cst.Call)
    }
    steps = [
        c for c in syntax.find(method.body, cst.Call) if c not in waiting and _is_step(c, local)
    ]
    others = [c for c in syntax.find(method.body, cst.Call) if _hands_on(c, local, file)]
    if not steps and not others:
        return method
    guarding = _Guarding(lambda call: _is_step(call, local), condition)
    made = syntax.transformed(method, guarding) if condition else method
    is_left = bool(others) or guarding.count < len(steps)
    return marked(made, _LEFT) if is_left else made


def _known(family: Iterable[TrialPlan], node: cst.ClassDef, file: LightningFile) -> set[str]:
    """The attributes of a trial that have schedulers, or what has some."""
    ancestors = {each for plan in family for each in plan.ancestors}
    wrapped = (s.attribute for plan in ancestors for s in plan.own.schedulers)
    known = {name.removeprefix("*").partition("[")[0] for name in wrapped}
    texts = (file.elsewhere.texts.get(plan.own.name, "") for plan in ancestors)
    for tree in (node, *map(syntax.looked_at, texts)):
        known |= _attributes(tree, known, file.elsewhere.texts)
    return known


def _of_callback(
    node: cst.ClassDef, classes: Mapping[str, cst.ClassDef], file: LightningFile
) -> set[str]:
    """The attributes of trials, and of a callback that got these, which have schedulers."""
    known = set[str]()
    for name, plan in file.trials.items():
        known |= _known([plan], classes.get(name, node), file)
    init = syntax.methods(node).get("__init__")
    if init is None:
        return known | _attributes(node, known, file.elsewhere.texts)
    names = [param.name.value for param in (*init.params.params[1:], *init.params.kwonly_params)]
    given = set[str]()
    texts = [t for t in file.elsewhere.texts.values() if f"{node.name.value}(" in t]
    for tree in map(syntax.looked_at, texts):
        calls = [c for c in syntax.find(tree, cst.Call) if _called(c) == node.name.value]
        for call in calls:
            for at, name in enumerate(names):
                value = syntax.argument(call, at, name)
                if value is not None and _mentions(value, known | _local(tree, known)):
                    given.add(name)
    return known | _attributes(node, known | given, file.elsewhere.texts)


def _attributes(node: cst.CSTNode, known: set[str], texts: Mapping[str, str]) -> set[str]:
    """The attributes that some code sets to schedulers, or to what is made of them."""
    known = known | _local(node, known, texts)
    found = ((_stem(target), value) for target, value in values_set(node))
    return {
        target.attr.value
        for target, value in found
        if isinstance(target, cst.Attribute) and (_mentions(value, known) or _makes(value, texts))
    }


def _local(node: cst.CSTNode, known: set[str], texts: Mapping[str, str] | None = None) -> set[str]:
    """The variables of some code that are schedulers, or have some."""
    found = set[str]()
    pairs = [*values_set(node)]
    pairs += [(loop.target, loop.iter) for loop in syntax.find(node, cst.For)]
    for target, value in pairs:
        if _mentions(value, known | found) or _makes(value, texts or {}):
            found |= {n for n in syntax.names_in(target) if not isinstance(target, cst.Attribute)}
    return found


def _stem(target: cst.BaseExpression) -> cst.BaseExpression:
    while isinstance(target, cst.Subscript):
        target = target.value
    return target


def _makes(value: cst.BaseExpression, texts: Mapping[str, str]) -> bool:
    """Whether a scheduler is made in an expression."""
    for call in syntax.find(value, cst.Call):
        name = _called(call)
        header = texts.get(name, "").partition(":")[0]
        bases = re.findall(r"\w+", header) if header.startswith("class ") else []
        if any(map(_MAKER.fullmatch, (name, *bases[2:]))):
            return True
    return False


def _called(call: cst.Call) -> str:
    return syntax.code(call.func).rpartition(".")[2]


def _mentions(node: cst.BaseExpression, known: set[str]) -> bool:
    """Whether an expression has a scheduler in it, by the names that these are known by."""
    names = {each.attr.value for each in syntax.find(node, cst.Attribute)} | syntax.names_in(node)
    return not names.isdisjoint(known)


def _is_step(call: cst.Call, known: set[str]) -> bool:
    func = call.func
    if not isinstance(func, cst.Attribute) or not _may_step(call):
        return False
    last = syntax.code(_stem(func.value)).rpartition(".")[2]
    return _mentions(func.value, known) or bool(_NAME.fullmatch(last))


def _may_step(call: cst.Call) -> bool:
    """Whether a call may be that of an LR scheduler: a noise scheduler's step is given more."""
    return _called(call) == "step" and len(call.args) <= len(("metrics", "epoch"))


def _steps(node: cst.CSTNode) -> bool:
    return any(map(_may_step, syntax.find(node, cst.Call)))


def _hands_on(call: cst.Call, known: set[str], file: LightningFile) -> bool:
    """Whether a call leaves it to a function or object of the project to step a scheduler."""
    name, elsewhere = _called(call), file.elsewhere
    if isinstance(call.func, cst.Attribute) and name != "step" and _mentions(call.func, known):
        trees = map(syntax.looked_at, elsewhere.classes_with.get(name, ()))
        every = [syntax.methods(n) for tree in trees for n in syntax.find(tree, cst.ClassDef)]
        return any(name in own and _steps(own[name]) for own in every)
    function = elsewhere.functions.get(name)
    is_given = any(_mentions(arg.value, known) for arg in call.args)
    return is_given and function is not None and _steps(function)


class _Guarding(cst.CSTTransformer):
    """Puts steps under a condition, several in a row or a whole loop under one.

    Attributes:
        count: how many steps have it.
    """

    def __init__(self, is_step: Callable[[cst.Call], bool], condition: str) -> None:
        super().__init__()
        self.count = 0
        self._is_step = is_step
        self._condition = condition

    def visit_If(self, node: cst.If) -> bool:
        return not is_under(node, self._condition)

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        if not any(map(self._is_step, syntax.find(updated, cst.Call))):
            return updated
        lines = self._lines(updated.body)
        first = lines[0].with_changes(leading_lines=updated.leading_lines)
        if len(lines) == 1 and isinstance(first, cst.SimpleStatementLine):
            return updated
        return cst.FlattenSentinel([first, *lines[1:]])

    def leave_SimpleStatementSuite(
        self, original: cst.SimpleStatementSuite, updated: cst.SimpleStatementSuite
    ) -> cst.BaseSuite:
        if not any(map(self._is_step, syntax.find(updated, cst.Call))):
            return updated
        return cst.IndentedBlock(self._lines(updated.body), header=updated.trailing_whitespace)

    def _lines(self, body: Iterable[cst.BaseSmallStatement]) -> list[cst.BaseStatement]:
        parts = [part.with_changes(semicolon=cst.MaybeSentinel.DEFAULT) for part in body]
        return [self._line(cst.SimpleStatementLine([part])) for part in parts]

    def _line(self, line: cst.SimpleStatementLine) -> cst.BaseStatement:
        call = syntax.lone_call(line)
        if call is None or not self._is_step(call):
            return line
        self.count += 1
        return self._under([line])

    def _under(self, lines: Iterable[cst.BaseStatement]) -> cst.If:
        return cst.If(syntax.expression(self._condition), cst.IndentedBlock([*lines]))

    def leave_IndentedBlock(
        self, original: cst.IndentedBlock, updated: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        lines: list[cst.BaseStatement] = []
        for line in updated.body:
            last = lines[-1] if lines else None
            if last is not None and self._made(line) and self._made(last):
                assert isinstance(last, cst.If) and isinstance(line, cst.If)
                first, *rest = syntax.body_of(line)
                first = first.with_changes(leading_lines=line.leading_lines)
                lines[-1] = self._under([*syntax.body_of(last), first, *rest]).with_changes(
                    leading_lines=last.leading_lines
                )
            else:
                lines.append(line)
        return updated if len(lines) == len(updated.body) else updated.with_changes(body=lines)

    def leave_If(self, original: cst.If, updated: cst.If) -> cst.If:
        inner = self._only(updated)
        if inner is not None and updated.orelse is None:
            return syntax.with_body(updated, syntax.body_of(inner)).with_changes(
                test=both(updated.test, inner.test)
            )
        if isinstance(updated.orelse, cst.Else) and (other := self._only(updated.orelse)):
            lines = updated.orelse.leading_lines
            return updated.with_changes(orelse=other.with_changes(leading_lines=lines))
        return updated

    def leave_For(self, original: cst.For, updated: cst.For) -> cst.For | cst.If:
        inner = self._only(updated)
        if inner is None or updated.orelse is not None:
            return updated
        loop = syntax.with_body(updated, syntax.body_of(inner)).with_changes(leading_lines=[])
        return self._under([loop]).with_changes(leading_lines=updated.leading_lines)

    def _only(self, node: cst.If | cst.Else | cst.For) -> cst.If | None:
        """The condition that is all of a block, below no comment."""
        body = syntax.body_of(node)
        line = body[0] if len(body) == 1 else None
        is_said = line is None or any(each.comment for each in getattr(line, "leading_lines", ()))
        return line if isinstance(line, cst.If) and self._made(line) and not is_said else None

    def _made(self, line: cst.BaseStatement) -> bool:
        if not isinstance(line, cst.If) or line.orelse is not None:
            return False
        return syntax.code(line.test) == self._condition
