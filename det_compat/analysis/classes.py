"""Classes of the tree: what they derive from, what derives from them."""

import ast
from collections import deque
from collections.abc import Callable, Iterator

from det_compat.analysis.scopes import CONTEXT, Class, Name, Scope, Value, Values
from det_compat.catalog.support import home, is_determined

#: The classes that trials derive from.
TRIALS = {
    "det_compat.pytorch.PyTorchTrial",
    "det_compat.pedl.frameworks.pytorch.PyTorchTrial",
}
_REFUSED_TRIALS = ("Trial", "LightningAdapter", "PLAdapter", "PTLAdapter")
_WITH_OTHER_CONTEXTS = (
    "determined.keras",
    "determined.estimator",
    "determined.pytorch.deepspeed",
)
#: More are not looked at, nor more relatives: time would grow with their square.
MOST_ANCESTORS = 100
MOST_RELATIVES = 300
_METHODS = {"train_batch", "build_training_data_loader", "build_validation_data_loader"}


def _named(value: Value) -> str:
    scope = getattr(value, "scope", None)
    return getattr(value, "path", "") if scope is None else scope.name


class Hierarchy:
    """Bases and subclasses, as far as the tree tells; valid until more is known.

    Attributes:
        cut: classes with more ancestors or subclasses than are looked at.
    """

    def __init__(self, classes: list[Scope], evaluate: Callable[[ast.expr, Scope], Values]) -> None:
        self.evaluate = evaluate
        self.cut: set[Scope] = set()
        self._bases: dict[Scope, list[Value]] = {}
        self._ancestors: dict[Scope, list[Scope]] = {}
        self._relatives: dict[Scope, list[Scope]] = {}
        self._children: dict[Scope, list[Scope]] = {}
        self._names: dict[Scope, list[str]] = {}
        for scope in classes:
            for base in self.bases(scope):
                if isinstance(base, Class):
                    self._children.setdefault(base.scope, []).append(scope)

    def bases(self, scope: Scope) -> list[Value]:
        """What the bases of a class are known to be, in their order."""
        if scope not in self._bases:
            nodes = base_nodes(scope)
            found = (self.evaluate(node, scope.parent or scope) for node in nodes)
            # What one of them may be is a set, whose order is another in each process.
            every = (value for values in found for value in sorted(values, key=_named))
            self._bases[scope] = [*dict.fromkeys(every)]
        return self._bases[scope]

    def children(self, scope: Scope) -> list[Scope]:
        """The direct subclasses."""
        return self._children.get(scope, [])

    def ancestors(self, scope: Scope) -> list[Scope]:
        """A class and what it derives from in the tree, in the order in which Python asks them.

        Those of classes that Python would refuse are in the order of their distance.
        """
        if scope not in self._ancestors:
            found, has_several = [scope], False
            for current in found:
                bases = self._own(current)
                has_several |= len(bases) > 1
                found.extend(base for base in bases if base not in found)
                if len(found) > MOST_ANCESTORS:
                    self.cut.add(scope)
                    break
            # Classes that derive from each other find this, and come to an end.
            self._ancestors[scope] = found
            if has_several and scope not in self.cut:
                self._ancestors[scope] = self._in_order(scope) or found
        return self._ancestors[scope]

    def _own(self, scope: Scope) -> list[Scope]:
        return [base.scope for base in self.bases(scope) if isinstance(base, Class)]

    def _in_order(self, scope: Scope) -> list[Scope]:
        """A class and its ancestors by Python's rule (C3); none where there is no such order."""
        bases = self._own(scope)
        queues, found = [*map(self.ancestors, bases), bases], [scope]
        while queues := [queue for queue in queues if queue]:
            behind = {each for queue in queues for each in queue[1:]}
            following = next((queue[0] for queue in queues if queue[0] not in behind), None)
            if following is None:
                return []
            found.append(following)
            queues = [[each for each in queue if each is not following] for queue in queues]
        return found

    def behind(self, scope: Scope) -> Iterator[list[Scope]]:
        """What ``super()`` of a class may reach: for itself and each of its heirs, in order."""
        for relative in dict.fromkeys((scope, *self.relatives(scope))):
            order = self.ancestors(relative)
            if scope in order:
                yield order[order.index(scope) + 1 :]

    def relatives(self, scope: Scope) -> list[Scope]:
        """Its ancestors, and its subclasses with theirs: where an attribute of self may be from."""
        if scope not in self._relatives:
            # These dicts are sets that keep the order.
            found = dict.fromkeys(self.ancestors(scope))
            queue = deque(dict.fromkeys(self.children(scope)))
            known = set(queue)
            while queue:
                if len(found) > MOST_RELATIVES:
                    self.cut.add(scope)
                    break
                child = queue.popleft()
                more = [c for c in self.children(child) if c not in known]
                queue.extend(more)
                known.update(more)
                found.update(dict.fromkeys(self.ancestors(child)))
            self._relatives[scope] = [*found]
        return self._relatives[scope]

    def determined_bases(self, scope: Scope) -> list[str]:
        """The names of Determined that a class derives from, as they are written."""
        if scope not in self._names:
            self._names[scope] = [
                path
                for ancestor in self.ancestors(scope)
                for path in sorted(
                    base.path for base in self.bases(ancestor) if isinstance(base, Name)
                )
            ]
        return self._names[scope]

    def owners(self, scope: Scope) -> list[str]:
        """The classes of det_compat whose members a class inherits."""
        return [home(path) or path for path in self.determined_bases(scope)]

    def context_class(self, scope: Scope) -> str | None:
        """The class of the context that ``__init__`` is given; None if this is no trial."""
        for relative in (scope, *self.relatives(scope)):
            for path in self.determined_bases(relative):
                if context := _context_of(path):
                    return context
        return CONTEXT if self.looks_like_trial(scope) else None

    def is_trial(self, scope: Scope) -> bool:
        """Whether a class derives from one of Determined's trial classes, or looks as if."""
        known = any(_context_of(path) for path in self.determined_bases(scope))
        return known or self.looks_like_trial(scope)

    def looks_like_trial(self, scope: Scope) -> bool:
        """Whether a class has a trial's methods, and a base that is not in the tree."""
        defined = {name for ancestor in self.ancestors(scope) for name in ancestor.functions}
        return len(defined & _METHODS) > 1 and bool([*self.unknown_bases(scope)])

    def unknown_bases(self, scope: Scope) -> Iterator[str]:
        """Bases of a class or of its ancestors of which nothing is known."""
        for ancestor in self.ancestors(scope):
            for node in base_nodes(ancestor):
                name = _written(node)
                if name not in _PLAIN and not self.evaluate(node, ancestor.parent or ancestor):
                    yield name

    def foreign_bases(self, scope: Scope) -> Iterator[str]:
        """Bases of a class or of its ancestors that are not in the tree and may have members."""
        for ancestor in self.ancestors(scope):
            for node in base_nodes(ancestor):
                found = self.evaluate(node, ancestor.parent or ancestor)
                if not found or not all(isinstance(base, Class) for base in found):
                    yield from () if (name := _written(node)) in _EMPTY else [name]


#: These have no members that a trial could have.
_EMPTY = {"object", "ABC", "abc.ABC", "Protocol", "Generic", "typing.Generic"}
_PLAIN = {"object", "ABC", "abc.ABC", "nn.Module", "torch.nn.Module", "Protocol", "NamedTuple"}


def _written(node: ast.expr) -> str:
    try:
        return ast.unparse(node)
    except RecursionError:
        return "that is nested too deeply"


def base_nodes(scope: Scope) -> list[ast.expr]:
    """The bases of a class as they are written, without the parameters of generic ones."""
    bases = scope.node.bases if isinstance(scope.node, ast.ClassDef) else []
    return [base.value if isinstance(base, ast.Subscript) else base for base in bases]


def is_refused_trial(path: str) -> bool:
    """Whether a name of Determined is a trial class that det_compat has nothing in the place of."""
    return home(path) is None and _context_of(path) is not None


def _context_of(path: str) -> str | None:
    """The class of the context of a class of Determined's; None if that is no trial."""
    where = home(path)
    if where is not None:
        return CONTEXT if where in TRIALS else None
    if not is_determined(path) or not path.endswith(_REFUSED_TRIALS):
        return None
    return f"{path}Context" if path.startswith(_WITH_OTHER_CONTEXTS) else CONTEXT
