"""How often a batch steps optimizers: Lightning's ``max_steps`` counts steps, not batches."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from det_compat.migrate.to_lightning.class_facts import ClassFacts
from det_compat.migrate.to_lightning.optimization.accumulation import IS_DUE
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.trial_attributes import set_otherwise, values_of

#: Statements of which only the running code knows whether, or how often, they do what they say.
_OPEN = (ast.For, ast.While, ast.AsyncFor, ast.Try, ast.Match)
_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
#: What has a method ``step()`` and is no optimizer.
_OTHERS = ("sched", "scaler", "profiler", "env")
#: A call that makes or asks for schedulers of learning rates.
_SCHEDULER = re.compile(r"sched\w*\.?\w*\(|(^|\.)\w*LR\w*\(")


def is_manual(node: ast.ClassDef) -> bool:
    """Whether a class of modules steps optimizers by itself."""
    return any("automatic_optimization = False" in ast.unparse(each) for each in node.body)


def steps_of_module(family: Sequence[ast.ClassDef]) -> int | None:
    """How often each batch steps optimizers, or each in which a step is due.

    ``family`` is a class and its bases, nearest first. None if only the running code knows.
    """
    if not any(map(is_manual, family)):
        return 1
    nodes = [part for node in family for part in ast.walk(node)]
    assigned = [
        (ast.unparse(part), ast.unparse(assign.value))
        for assign in nodes
        if isinstance(assign, ast.Assign)
        for target in assign.targets
        for part in getattr(target, "elts", [target])
    ]
    stepping = {name for name, value in assigned if value.endswith(".optimizers()")}
    scheduling = {name for name, value in assigned if _SCHEDULER.search(value)} - stepping
    loops = [each for each in nodes if isinstance(each, ast.For) and _length(each)]
    listed = {each: [*map(ast.unparse, getattr(each.iter, "elts", ()))] for each in loops}
    stepping |= {ast.unparse(each.target) for each in loops if stepping.issuperset(listed[each])}

    def is_step(call: ast.Call) -> bool | None:
        owner, _, name = ast.unparse(call.func).rpartition(".")
        # What is stepped with an action is an environment.
        is_other = owner in scheduling or any(word in owner.lower() for word in _OTHERS)
        if name != "step" or call.args or is_other:
            return False
        is_known = owner in stepping or owner.startswith("self.optimizers()")
        return True if is_known else None

    found = [each for node in reversed(family) for each in node.body]
    functions = [each for each in found if isinstance(each, ast.FunctionDef)]
    methods = {each.name: each for each in functions}
    return _Counting(methods, is_step, functions).of("training_step") or None


def steps_of_trial(
    classes: Iterable[Mapping[str, cst.FunctionDef]], facts: Iterable[ClassFacts]
) -> int | None:
    """The same of a trial, given the methods of its bases and last its own, and their facts.

    It is 0 for one that leaves ``train_batch`` to its heirs, so that nobody trains it.
    """
    attributes = {f"self.{name}" for own in facts for name in own.optimizers}
    parsed = [ast.parse(syntax.code(each)).body[0] for own in classes for each in own.values()]
    every = [each for each in parsed if isinstance(each, ast.FunctionDef)]
    own = {each.name: each for each in every}

    def is_step(call: ast.Call) -> bool | None:
        owner, _, name = ast.unparse(call.func).rpartition(".")
        return name == "step_optimizer" or (name == "step" and owner in attributes)

    if "train_batch" not in own or _is_left_to_heirs(own["train_batch"]):
        return 0
    return _Counting(own, is_step, every).of("train_batch") or None


def _is_left_to_heirs(method: ast.FunctionDef) -> bool:
    """Whether a method does nothing but to say that those of heirs are meant."""
    is_said = any(ast.unparse(each).endswith("abstractmethod") for each in method.decorator_list)
    texts = (ast.unparse(line) for line in method.body if not _is_constant(line))
    return is_said or all(re.match(r"pass$|raise NotImplementedError\b", text) for text in texts)


def _is_constant(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def in_steps(batches: str, aggregation: str, of_batch: int) -> tuple[str, bool]:
    """The number of steps in so many batches, as text, and whether it is known to be a whole one.

    Args:
        batches: an expression.
        aggregation: that of how many batches go into one step; ``""`` for one.
        of_batch: how many steps a batch makes in which one is due.
    """
    steps, is_whole = batches, not aggregation
    if batches.isdigit() and aggregation.isdigit() and aggregation != "0":
        number, left = divmod(int(batches), int(aggregation))
        steps, is_whole = str(number), not left
    elif aggregation:
        steps = f"{batches} // {aggregation}"
    if of_batch > 1:
        factor = steps if re.fullmatch(r"[\w.]+", steps) else f"({steps})"
        steps = str(of_batch * int(steps)) if steps.isdigit() else f"{of_batch} * {factor}"
    return steps, is_whole


def constants(tree: cst.Module) -> dict[str, str]:
    """The numbers that stand at the top of a file, by what asks for them: ``N`` and ``D["n"]``."""
    values, text = values_of(tree), syntax.code(tree)
    found: dict[str, str] = {}
    for name in values.keys() - set_otherwise(tree):
        value = values[name][0] if len(values[name]) == 1 else None
        if isinstance(value, cst.Integer):
            found[name] = value.value
        # A method of a dict, and an operator, may change it.
        if isinstance(value, cst.Dict) and not re.search(rf"\b{re.escape(name)}(\.| *\|=)", text):
            pairs = [(getattr(e, "key", None), getattr(e, "value", None)) for e in value.elements]
            keys = [key.raw_value for key, _ in pairs if isinstance(key, cst.SimpleString)]
            is_plain = len({*keys}) == len(pairs)
            for key, (_, number) in zip(keys, pairs, strict=False) if is_plain else ():
                asked = {f'{name}["{key}"]', f"{name}['{key}']"}
                if isinstance(number, cst.Integer) and asked.isdisjoint(values):
                    found |= dict.fromkeys(asked, number.value)
    return found


@dataclass
class _Counting:
    """The methods of a class, and which calls in them are steps: None where that is not known.

    ``every`` has those of its bases, too, that its own stand in front of.
    """

    methods: Mapping[str, ast.FunctionDef]
    is_step: Callable[[ast.Call], bool | None]
    every: Sequence[ast.FunctionDef] = ()
    _asked: list[str] = field(default_factory=list)

    def of(self, name: str) -> int | None:
        """How many steps a method makes."""
        method = self.methods.get(name)
        if method is None or name in self._asked:
            return None
        self._asked.append(name)
        try:
            return self._block(method.body)
        finally:
            self._asked.pop()

    def _block(self, body: Sequence[ast.stmt]) -> int | None:
        made, may_have_left = 0, False
        for line in body:
            steps = self._line(line)
            if steps is None or (steps and may_have_left):
                return None
            made += steps
            may_have_left |= any(isinstance(each, ast.Return) for each in _within(line))
        return made

    def _line(self, line: ast.stmt) -> int | None:
        if isinstance(line, _NESTED):
            calls = (each for each in ast.walk(line) if isinstance(each, ast.Call))
            return None if any(self.is_step(call) is not False for call in calls) else 0
        if isinstance(line, ast.With):
            return self._block(line.body)
        if isinstance(line, ast.For) and (times := _length(line)):
            steps = self._block(line.body)
            return None if steps is None else times * steps
        if isinstance(line, ast.If) and IS_DUE in ast.unparse(line.test):
            return self._block(line.body)
        if isinstance(line, ast.If):
            either, other = self._block(line.body), self._block(line.orelse)
            return either if either == other else None
        steps = self._expressions(line)
        return None if steps and isinstance(line, _OPEN) else steps

    def _expressions(self, line: ast.stmt) -> int | None:
        made = 0
        for call in _within(line):
            if not isinstance(call, ast.Call):
                continue
            is_step = self.is_step(call)
            if is_step is None:
                return None
            made += is_step
            owner, _, name = ast.unparse(call.func).rpartition(".")
            if owner in ("self", "super()") and name in self.methods:
                steps = self.of(name) if owner == "self" else self._of_bases(name)
                if steps is None:
                    return None
                made += steps
        return made

    def _of_bases(self, name: str) -> int | None:
        """How many steps a method of some base makes."""
        others = [each for each in self.every if each.name == name]
        others = [each for each in others if each is not self.methods.get(name)]
        if len(others) == 1 and "super()" not in ast.unparse(others[0]):
            return self._block(others[0].body)
        return self._of_all(name)

    def _of_all(self, name: str) -> int | None:
        """The same where it may be one of several: none if no method of this name makes any."""
        names = [name]
        for each in names:
            bodies = [method for method in self.every if method.name == each]
            calls = [c for body in bodies for c in ast.walk(body) if isinstance(c, ast.Call)]
            if not bodies or any(self.is_step(call) is not False for call in calls):
                return None
            called = (ast.unparse(call.func).rpartition(".")[2] for call in calls)
            names += [n for n in called if n in self.methods and n not in names]
        return 0


def _length(loop: ast.For) -> int:
    """How often a loop over things that are written out is gone through; 0 if it is not known."""
    listed = loop.iter.elts if isinstance(loop.iter, (ast.List, ast.Tuple)) else []
    leaves = any(isinstance(each, (ast.Break, ast.Continue, ast.Return)) for each in _within(loop))
    is_open = leaves or loop.orelse or any(isinstance(each, ast.Starred) for each in listed)
    return 0 if is_open else len(listed)


def _within(line: ast.stmt) -> Iterator[ast.AST]:
    """What is in a statement, but for functions that it only makes."""
    waiting: list[ast.AST] = [line]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [n for n in ast.iter_child_nodes(node) if not isinstance(n, _NESTED)]
