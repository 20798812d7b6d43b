"""What the step of an optimizer may change, which a module's ``training_step`` comes before."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.to_lightning.class_facts import ClassFacts
from det_compat.migrate.to_lightning.data.loader_order import Project
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.walking import children

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
    lines = [(name, a) for name, method in own.items() for a in syntax.find(method, cst.Assign)]
    results = [(name, value) for name, method in own.items() for value in _results(method)]
    for _, line in lines:
        # What a step changes that is in no model.
        if isinstance(line.value, cst.Call) and called(line.value).endswith(_PARAMETERS):
            found |= {syntax.code(each.target).rpartition(".")[2] for each in line.targets}
    before = -1
    while before < (now := len(found) + len(giving) + sum(map(len, variables.values()))):
        before = now
        for name, value in results:
            if _Holding(me, found | variables[name], giving, symbols, project)(value):
                giving.add(name)
        for name, line in lines:
            holds = _Holding(me, found | variables[name], giving, symbols, project)
            if holds(line.value):
                for target in (part for each in line.targets for part in syntax.parts(each.target)):
                    kind = variables[name] if isinstance(target, cst.Name) else found
                    kind.add(syntax.code(target).rpartition(".")[2])
    return found, variables["train_batch"]


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


_LOSS = re.compile("(^|_)loss(es)?($|_)")


def called(call: cst.Call) -> str:
    """What a call calls: a model also where it is put into a mode, or on a device, before."""
    func = call.func
    while isinstance(func, cst.Call) and isinstance(func.func, cst.Attribute):
        if func.func.attr.value not in ("to", "cuda", "cpu", "train", "eval"):
            break
        func = func.func.value
    return syntax.code(func)
