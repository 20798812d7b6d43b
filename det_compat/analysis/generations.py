"""Which generation a trial class belongs to, told from its source."""

import ast
import warnings
from collections.abc import Iterator
from inspect import FullArgSpec
from types import CodeType

from det_compat.analysis.classes import Hierarchy
from det_compat.analysis.collect import positional
from det_compat.analysis.expressions import decorators
from det_compat.analysis.scopes import Class, Function, FunctionNode, Scope
from det_compat.catalog import generations as rules
from det_compat.catalog.support import home

#: What ``check`` says of a class whose generation cannot be told, or of a script without one.
BASE = "a base class of trials"
SCRIPT = "a script with pytorch.init() and pytorch.Trainer"
REFUSED = "not supported"
UNKNOWN = "not known: a base class is not in the tree"


class TrialClass:
    """One trial class of the tree, with what it inherits there: the TrialFacts of its source.

    Attributes:
        refused_base: the class of Determined it derives from, if that is refused.
        generation: its generation; None if that cannot be told, or it is a base class of trials.
        description: the generation, or why there is none.
    """

    def __init__(self, scope: Scope, hierarchy: Hierarchy) -> None:
        self._members = [_members(cls, hierarchy) for cls in hierarchy.ancestors(scope)]
        self._bases = hierarchy.determined_bases(scope)
        self._unknown_bases = [*hierarchy.unknown_bases(scope)]
        self.refused_base = next((base for base in self._bases if home(base) is None), None)
        self.generation: rules.Generation | None = None
        # A class without either is a base of trials, or has them from elsewhere.
        is_whole = self.defines("train_batch") or self.defines("losses")
        if self.refused_base is not None:
            self.description = f"{self.refused_base}: {REFUSED}"
        elif not is_whole and self._unknown_bases:
            self.description = UNKNOWN
        elif not is_whole and hierarchy.children(scope):
            self.description = BASE
        else:
            self._tell()

    def _tell(self) -> None:
        generation = rules.by_methods(self)
        # Determined does not make objects of a class with abstract methods.
        missing = [] if self._unknown_bases else rules.missing_methods(self, generation)
        is_base = missing and not rules.builds_itself(self, generation)
        self.generation = None if is_base else generation
        self.description = BASE if is_base else generation.value

    @property
    def is_known(self) -> bool:
        """Whether all that matters of the class is in the tree."""
        return self.description != UNKNOWN and bool(self._bases)

    @property
    def problem(self) -> str:
        """What keeps the class from being trained, but for what is refused anyway."""
        if not self.is_known:
            return f"its base {', '.join(self._unknown_bases)} is not in the tree that was read"
        mixed = [] if self.generation is None else rules.mixed_in(self, self.generation)
        if mixed:
            return (
                f"mixes generations: build_model, optimizer and a train_batch that is given the "
                f"model are those of Determined 0.12, {', '.join(mixed)} of the context API"
            )
        return ""

    # The facts

    def defines(self, name: str) -> bool:
        """Whether a method is user code; a property, None or a number is no method."""
        found = self._found(name)
        return not (found is None or isinstance(found, ast.Constant) or _is_property(found))

    def parameters(self, name: str) -> FullArgSpec | None:
        """The parameters of a method that a file of the tree defines."""
        node = self._found(name)
        if not isinstance(node, FunctionNode):
            return None
        arguments = node.args
        return FullArgSpec(
            args=[argument.arg for argument in positional(node)],
            varargs=arguments.vararg.arg if arguments.vararg else None,
            varkw=arguments.kwarg.arg if arguments.kwarg else None,
            defaults=tuple(arguments.defaults),
            kwonlyargs=[argument.arg for argument in arguments.kwonlyargs],
            kwonlydefaults=None,
            annotations={},
        )

    def names_used(self) -> set[str]:
        """Every global and attribute that the methods name, as Python compiles them."""
        found = [node for members in self._members for node in members.values()]
        return {name for node in found if not _is_property(node) for name in _names_in(node)}

    def derives_from_pedl(self) -> bool:
        """Whether a class of ``pedl`` is among the bases."""
        return any((home(base) or "").startswith("det_compat.pedl") for base in self._bases)

    def _found(self, name: str) -> ast.AST | None:
        return next((members[name] for members in self._members if name in members), None)


def _members(cls: Scope, hierarchy: Hierarchy) -> dict[str, ast.AST]:
    """What the names in the body of a class are bound to last: functions and expressions."""
    found: dict[str, ast.AST | None] = {name: f.node for name, f in cls.functions.items()}
    for statement in cls.node.body if isinstance(cls.node, ast.ClassDef) else ():
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found[statement.name] = statement
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                found.update(_bound(target, statement.value))
    return {
        name: _function(node, cls, hierarchy) or node
        for name, node in found.items()
        if node is not None
    }


def _function(node: ast.AST, cls: Scope, hierarchy: Hierarchy) -> ast.AST | None:
    """The function that an expression names, as in ``train_batch = Other.train_batch``."""
    if isinstance(node, ast.Name):
        values = hierarchy.evaluate(node, cls)
        return next((value.scope.node for value in values if isinstance(value, Function)), None)
    if isinstance(node, ast.Attribute):
        for owner in hierarchy.evaluate(node.value, cls):
            for base in hierarchy.ancestors(owner.scope) if isinstance(owner, Class) else ():
                if node.attr in base.functions:
                    return base.functions[node.attr].node
    return None


def _bound(target: ast.expr, value: ast.expr) -> dict[str, ast.AST]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = zip(target.elts, value.elts, strict=False)
        return {name: node for pair in pairs for name, node in _bound(*pair).items()}
    return {target.id: value} if isinstance(target, ast.Name) else {}


def _is_property(node: ast.AST) -> bool:
    return bool(decorators(node) & {"property", "cached_property", "setter"})


def _names_in(node: ast.AST) -> Iterator[str]:
    """The globals and attributes that a function names, by compiling it; nothing runs."""
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return
    try:
        with warnings.catch_warnings():
            # Python warns of the user's comparisons, which is not our business.
            warnings.simplefilter("ignore")
            module = compile(ast.Module([node], []), node.name, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # A function may need the one around it, by `nonlocal` for example.
        return
    for code in module.co_consts:
        if isinstance(code, CodeType) and code.co_name == node.name:
            yield from rules.names_in(code)
