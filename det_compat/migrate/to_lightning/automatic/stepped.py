"""What the step of an optimizer may change, which a module's ``training_step`` comes before."""

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.to_lightning.class_facts import ClassFacts
from det_compat.migrate.to_lightning.data.loader_order import Project
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import values_set
from det_compat.migrate.tree.walking import below, children

_LATER = (cst.Lambda, cst.GeneratorExp, cst.FunctionDef)
_PARAMETERS = ("Parameter", "ParameterList", "ParameterDict")


def changed_by_step(
    own: Mapping[str, cst.FunctionDef],
    functions: Collection[str],
    facts: ClassFacts,
    symbols: Symbols,
    project: Project,
) -> tuple[set[str], set[str]]:
    """The attributes that a step may change, and the variables of ``train_batch``.

    These are models and optimizers, and whatever has them.

    Args:
        own: the methods of the trial.
        functions: those of them that depend on nothing but what else they are given.
        facts: what stands in the class.
        symbols: of its file.
        project: the functions that it may call.
    """
    me = {syntax.self_name(method) for name, method in own.items() if name not in functions}
    wraps = [call for method in own.values() for call in symbols.calls(method, "wrap_model")]
    found = {syntax.code(arg.value).rpartition(".")[2] for call in wraps for arg in call.args}
    found |= {model.attribute.removeprefix("*") for model in facts.models} | {*facts.optimizers}
    optimizers = [
        call for method in own.values() for call in symbols.calls(method, "wrap_optimizer")
    ]
    found |= {name for call in optimizers for name in _trained(call, me)}
    variables: dict[str, set[str]] = {name: set() for name in own}
    # What a decorator has made of a method may return anything; a property is what it returns.
    made = [(name, each.decorator) for name, method in own.items() for each in method.decorators]
    giving = {name for name, decorator in made if syntax.code(decorator) != "property"}
    giving -= {*functions}
    pairs = [(name, *pair) for name, method in own.items() for pair in _set_in(method)]
    results = [(name, value) for name, method in own.items() for value in _results(method)]
    for _, target, value in pairs:
        # What a step changes that is in no model.
        if isinstance(value, cst.Call) and called(value).endswith(_PARAMETERS):
            found.add(syntax.code(target).rpartition(".")[2])
    local = {name: {p.name.value for p in syntax.find(own[name], cst.Param)} for name in own}
    for name, target, _ in pairs:
        local[name] |= {n.value for n in syntax.parts(target) if isinstance(n, cst.Name)}
    shared, before = set[str](), -1
    while before < (now := len(found) + len(giving) + sum(map(len, variables.values()))):
        before = now
        for name, value in results:
            if _Holding(me, found | variables[name], giving, symbols, project)(value):
                giving.add(name)
        for name, target, value in pairs:
            if not _Holding(me, found | variables[name], giving, symbols, project)(value):
                continue
            for part in syntax.parts(target):
                kind = variables[name] if isinstance(part, cst.Name) else found
                kind.add(syntax.code(part).rpartition(".")[2])
                root = _root(part)
                if root and root not in me | local[name]:
                    shared.add(root)
    return found, variables["train_batch"] | _asking(shared, project)


def _set_in(method: cst.FunctionDef) -> Iterator[tuple[cst.BaseExpression, cst.CSTNode]]:
    """What a method sets, and to what, or to a part of what."""
    yield from values_set(method)
    for named in syntax.find(method, cst.NamedExpr):
        yield named.target, named.value
    for loop in syntax.find(method, cst.For):
        yield loop.target, loop.iter
    for item in syntax.find(method, cst.WithItem):
        if item.asname is not None:
            yield item.asname.name, item.item
    for function in syntax.find(method.body, cst.FunctionDef):
        yield function.name, function


def _root(target: cst.BaseExpression) -> str:
    """The variable that a value is put into, as a part of it; ``""`` if it is the variable."""
    node = target
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
    return node.value if isinstance(node, cst.Name) and node is not target else ""


def _asking(shared: Collection[str], project: Project) -> set[str]:
    """Variables of files, with the functions that ask for them, themselves or by others."""
    found, before = {*shared}, 0
    while before < len(found):
        before = len(found)
        for name, every in project.functions.items():
            nodes = (node for function, _ in every for node in ast.walk(function))
            if any(getattr(node, "id", getattr(node, "attr", "")) in found for node in nodes):
                found.add(name)
    return found


def _trained(wrap: cst.Call, own_names: set[str]) -> Iterator[str]:
    """The attributes of a trial that an optimizer is given first, itself or in a list."""
    made = syntax.argument(wrap, 0, "optimizer")
    params = syntax.argument(made, 0, "params") if isinstance(made, cst.Call) else None
    for node in syntax.find(params, cst.Attribute) if params is not None else ():
        if isinstance(node.value, cst.Name) and node.value.value in own_names:
            yield node.attr.value


def _results(method: cst.FunctionDef) -> Iterator[cst.CSTNode]:
    for kind in (cst.Return, cst.Yield):
        yield from syntax.find(method.body, kind)


@dataclass(frozen=True)
class _Holding:
    """Tells values that are, or hold, something of a trial, or the trial itself.

    Attributes:
        own_names: what its methods call the trial.
        names: the attributes and variables that hold something.
        methods: the methods whose results do, or may.
        symbols: of the file.
        project: the functions that are called.
    """

    own_names: set[str]
    names: set[str]
    methods: Collection[str]
    symbols: Symbols
    project: Project

    def __call__(self, node: cst.CSTNode) -> bool:
        """Whether a value does; what a model returns does not."""
        if isinstance(node, cst.Name):
            is_own = node.value in self.own_names or self.symbols.is_context(node)
            return is_own or node.value in self.names
        if isinstance(node, cst.Attribute):
            if self.symbols.member(node) is not None:
                return False
            is_own = isinstance(node.value, cst.Name) and node.value.value in self.own_names
            if is_own:
                return node.attr.value in self.names or node.attr.value in self.methods
            return self(node.value)
        if isinstance(node, _LATER):
            # It asks for what is there when it runs.
            names = (n for n in below(node) if isinstance(n, (cst.Name, cst.Attribute)))
            return any(map(self, names))
        if _is_calculated(node):
            return False
        name = called(node).rpartition(".")[2] if isinstance(node, cst.Call) else ""
        if isinstance(node, cst.Call) and name in self.names:
            return any(self(arg.value) for arg in node.args)
        if name and (self.project.computes(name) or self._is_loss(ensure_type(node, cst.Call))):
            return False
        return any(map(self, children(node)))

    def _is_loss(self, call: cst.Call) -> bool:
        """Whether it is a loss of a library, which computes what it returns from a model's output.

        If it did hand out a parameter, it would be logged as it was before the step; weights are
        what they were.
        """
        owner, _, name = called(call).rpartition(".")
        is_of_library = name not in self.project.functions and owner not in {"", *self.own_names}
        return is_of_library and _LOSS.search(name) is not None


def _is_calculated(node: cst.CSTNode) -> bool:
    """Whether a value is a new number or tensor, and not a part of what it is calculated from."""
    if isinstance(node, (cst.Comparison, cst.UnaryOperation, cst.Float)):
        return True
    if not isinstance(node, cst.BinaryOperation):
        return False
    # Lists are put together by the one, and repeated by the other.
    if not isinstance(node.operator, (cst.Add, cst.Multiply)):
        return True
    return _is_calculated(node.left) or _is_calculated(node.right)


_LOSS = re.compile("(^|_)loss(es)?($|_)")


def called(call: cst.Call) -> str:
    """What a call calls: a model also where it is put into a mode, or on a device, before."""
    func = call.func
    while isinstance(func, cst.Call) and isinstance(func.func, cst.Attribute):
        if func.func.attr.value not in ("to", "cuda", "cpu", "train", "eval"):
            break
        func = func.func.value
    return syntax.code(func)
