"""What an expression may stand for, given what variables do."""

import ast
import functools
import itertools

from det_compat.analysis import containers, scopes
from det_compat.analysis.classes import Hierarchy
from det_compat.analysis.expressions import called, decorators, imported, last_name, literal
from det_compat.analysis.project import Project
from det_compat.catalog.members import MEMBERS, RESULTS, TYPES
from det_compat.catalog.status import Status
from det_compat.catalog.support import exports, home, is_determined, of_name

_MAX_DEPTH = 40
_MAX_DOTS = 10
# A name is imported from a file that imports it from another one, and so on.
_MOST_FILES = 100
_MAX_CALLS = 3
# These return their argument, or a thing that is as good as it.
_PASSING = ("copy", "deepcopy", "enter_context", "proxy")
_SEQUENCES = ("list", "List", "tuple", "Tuple", "set", "Set", "Sequence", "Iterable", "Iterator")


class Evaluator:
    """Evaluates expressions in scopes. ``hierarchy`` is renewed as more becomes known."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.hierarchy = Hierarchy([], self.evaluate)
        self.lambdas: dict[ast.Lambda, scopes.Scope] = {}
        self._links: dict[tuple[scopes.Scope, str], list[tuple[scopes.Scope, str]]] = {}
        self._following: set[tuple[scopes.Scope, str]] = set()
        self._depth = 0

    def link(self, scope: scopes.Scope, variable: str, module: scopes.Scope, name: str) -> None:
        """Let a variable have the values that a name has in another file."""
        self._links.setdefault((scope, variable), []).append((module, name))

    def evaluate(self, node: ast.expr, scope: scopes.Scope) -> scopes.Values:
        """What ``node`` may stand for; nothing where that does not concern Determined."""
        if self._depth > _MAX_DEPTH:
            return scopes.NOTHING
        self._depth += 1
        try:
            return self._evaluate(node, scope)
        finally:
            self._depth -= 1

    def _evaluate(self, node: ast.expr, scope: scopes.Scope) -> scopes.Values:
        if isinstance(node, ast.Name):
            return self.variable(node.id, scope)
        if isinstance(node, ast.Attribute):
            owners = self.evaluate(node.value, scope)
            return self._attribute(owners, node.attr) if owners else scopes.NOTHING
        if isinstance(node, ast.Call):
            return self._result(node, scope)
        if isinstance(node, ast.Subscript):
            return self._element(node, scope)
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            return containers.sequence([self.evaluate(e, scope) for e in node.elts])
        if isinstance(node, ast.Dict):
            values = [self.evaluate(value, scope) for value in node.values]
            return containers.mapping([literal(k) if k else None for k in node.keys], values)
        return self._evaluate_seldom(node, scope)

    def _evaluate_seldom(self, node: ast.expr, scope: scopes.Scope) -> scopes.Values:
        if isinstance(node, ast.IfExp):
            return self.evaluate(node.body, scope) | self.evaluate(node.orelse, scope)
        if isinstance(node, ast.BoolOp):
            return scopes.NOTHING.union(*(self.evaluate(value, scope) for value in node.values))
        if isinstance(node, (ast.NamedExpr, ast.Await, ast.Starred)):
            return self.evaluate(node.value, scope)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return containers.sequence([self.evaluate(node.elt, scope)])
        if isinstance(node, ast.Lambda) and node in self.lambdas:
            return frozenset([scopes.Function(self.lambdas[node])])
        return scopes.NOTHING

    def _element(self, node: ast.Subscript, scope: scopes.Scope) -> scopes.Values:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "modules":
            name = literal(node.slice) or ""
            return frozenset([scopes.Name(name)]) if is_determined(name) else scopes.NOTHING
        held_by = self.evaluate(node.value, scope)
        return containers.element(held_by, node.slice) if held_by else scopes.NOTHING

    # Variables

    def variable(self, name: str, scope: scopes.Scope) -> scopes.Values:
        """The values of a variable, as seen from a scope."""
        current: scopes.Scope | None = scope
        while current is not None:
            if current is scope or current.kind != "class":
                values = self.own(current, name)
                if values or name in current.variables:
                    return values
            current = current.parent
        return scopes.NOTHING

    def own(self, scope: scopes.Scope, name: str) -> scopes.Values:
        """The values of a scope's own variable, imports included."""
        found = scope.variables.get(name, scopes.NOTHING)
        key = (scope, name)
        if (key not in self._links and not scope.stars) or key in self._following:
            return found
        if len(self._following) > _MOST_FILES:
            return found
        self._following.add(key)
        try:
            for module, exported in self._links.get(key, ()):
                found |= self.own(module, exported)
            if not found and scope.stars:
                found = self._from_stars(scope, name)
        finally:
            self._following.discard(key)
        return found

    def _from_stars(self, scope: scopes.Scope, name: str) -> scopes.Values:
        found = scopes.NOTHING
        for star in scope.stars:
            if isinstance(star, scopes.Module) and not name.startswith("_"):
                found |= self.own(star.scope, name)
            elif isinstance(star, scopes.Name) and name in exports(star.path):
                found |= {scopes.Name(f"{star.path}.{name}")}
        return found

    # Attributes

    def _attribute(self, owners: scopes.Values, name: str) -> scopes.Values:
        return scopes.NOTHING.union(*(self._attribute_of(owner, name) for owner in owners))

    def _attribute_of(self, owner: scopes.Value, name: str) -> scopes.Values:
        if isinstance(owner, scopes.Name):
            is_endless = owner.path.endswith(f".{name}") or _is_long(owner.path)
            return frozenset([owner if is_endless else scopes.Name(f"{owner.path}.{name}")])
        if isinstance(owner, scopes.Object):
            typed = TYPES.get((owner.owner, name))
            value = (
                scopes.Object(typed, owner.guessed) if typed else scopes.Member(owner.owner, name)
            )
            return frozenset([value])
        if isinstance(owner, scopes.Module):
            return self._of_module(owner.scope, name)
        if isinstance(owner, (scopes.Class, scopes.Instance)):
            return self._of_class(owner, name)
        if isinstance(owner, scopes.Parent):
            return self._of_parent(owner.scope, name)
        return scopes.NOTHING

    def _of_module(self, module: scopes.Scope, name: str) -> scopes.Values:
        found = self.own(module, name)
        if not found and module.source.path.name == "__init__.py":
            submodule = self.project.module(module, name, level=1)
            return frozenset([scopes.Module(submodule)]) if submodule else scopes.NOTHING
        return found

    def _of_class(self, owner: scopes.Class | scopes.Instance, name: str) -> scopes.Values:
        is_instance = isinstance(owner, scopes.Instance)
        found = self.own_attribute(owner.scope, name, is_instance)
        if found is not None:
            return found
        if name == "context" and is_instance:
            # Where no class defines __init__, Determined's own keeps the context under this name.
            context = self.hierarchy.context_class(owner.scope)
            if context is not None:
                return frozenset([scopes.Object(context)])
        return frozenset(scopes.Member(base, name) for base in self.hierarchy.owners(owner.scope))

    def own_attribute(self, scope: scopes.Scope, name: str, bound: bool) -> scopes.Values | None:
        """What classes of the tree set or define; None if none of them does."""
        found = scopes.NOTHING
        is_there = False
        # Heirs may have set an attribute; their constructors are others.
        is_init = name == "__init__"
        look = self.hierarchy.ancestors if is_init else self.hierarchy.relatives
        for relative in look(scope):
            if name in relative.attributes:
                is_there = True
                found |= relative.attributes[name]
            if name in relative.variables:
                is_there = True
                found = found.union(*(self._bound(v, bound) for v in self.own(relative, name)))
            if is_init and is_there:
                break
        return found if is_there else None

    def _bound(self, value: scopes.Value, bound: bool) -> scopes.Values:
        if not isinstance(value, scopes.Function) or value.scope.parent is None:
            return frozenset([value])
        marks = decorators(value.scope.node)
        if bound and marks & {"property", "cached_property"}:
            return value.scope.variables.get(scopes.RETURNED, scopes.NOTHING)
        is_bound = (bound or "classmethod" in marks) and "staticmethod" not in marks
        return frozenset([scopes.Function(value.scope, is_bound)])

    def _of_parent(self, scope: scopes.Scope, name: str) -> scopes.Values:
        found = set[scopes.Value]()
        for order in self.hierarchy.behind(scope):
            reached = (each.functions[name] for each in order if name in each.functions)
            found |= {scopes.Function(each, bound=True) for each in itertools.islice(reached, 1)}
        members = (scopes.Member(base, name) for base in self.hierarchy.owners(scope))
        return frozenset(found or members)

    # Calls

    def _result(self, node: ast.Call, scope: scopes.Scope) -> scopes.Values:
        name = called(node)
        if isinstance(node.func, ast.Name) or name in ("cast", "import_module", *_PASSING):
            special = self._of_builtin(name, node, scope)
            if special is not None:
                return special
        if isinstance(node.func, ast.Attribute) and name in containers.METHODS:
            return self._of_container(node.func, node.args, scope)
        callees = self.evaluate(node.func, scope)
        return scopes.NOTHING.union(*(self._returned(callee) for callee in callees))

    def _of_builtin(self, name: str, node: ast.Call, scope: scopes.Scope) -> scopes.Values | None:
        if name == "super":
            owner = scope.enclosing("class")
            return frozenset([scopes.Parent(owner)]) if owner else scopes.NOTHING
        if name in ("import_module", "__import__") and node.args:
            return self._imported(node)
        if name == "getattr" and len(node.args) > 1:
            attribute = literal(node.args[1])
            owners = self.evaluate(node.args[0], scope)
            return self._attribute(owners, attribute) if attribute else scopes.NOTHING
        if name == "dict" and node.keywords:
            values = [self.evaluate(keyword.value, scope) for keyword in node.keywords]
            return containers.mapping([keyword.arg for keyword in node.keywords], values)
        if name in _PASSING and node.args:
            return self.evaluate(node.args[0], scope)
        if name == "cast" and len(node.args) == 2:
            return self.annotated(node.args[0], scope) or self.evaluate(node.args[1], scope)
        return None

    def _of_container(
        self, func: ast.Attribute, args: list[ast.expr], scope: scopes.Scope
    ) -> scopes.Values:
        owners = self.evaluate(func.value, scope)
        found = containers.result(func.attr, owners, args)
        callees = self._attribute(owners, func.attr)
        return found.union(*(self._returned(callee) for callee in callees))

    def _imported(self, node: ast.Call) -> scopes.Values:
        name = imported(node)
        if not name or not is_determined(name):
            return scopes.NOTHING
        is_import = isinstance(node.func, ast.Name) and node.func.id == "__import__"
        is_import = is_import and not any(k.arg == "fromlist" for k in node.keywords)
        return frozenset([scopes.Name(name.partition(".")[0] if is_import else name)])

    def _returned(self, callee: scopes.Value) -> scopes.Values:
        if isinstance(callee, scopes.Class):
            return frozenset([scopes.Instance(callee.scope)])
        if isinstance(callee, scopes.Function):
            return callee.scope.variables.get(scopes.RETURNED, scopes.NOTHING)
        if isinstance(callee, scopes.Name):
            return self._made_by(callee.path)
        return scopes.NOTHING

    def _made_by(self, path: str) -> scopes.Values:
        where = home(path)
        if where is None:
            is_refused = of_name(path).status is Status.REFUSED
            made = path if _is_long(path) else f"{path}()"
            return frozenset([scopes.Name(made)]) if is_refused else scopes.NOTHING
        if where in RESULTS:
            return frozenset([scopes.Object(RESULTS[where])])
        return frozenset([scopes.Object(where)]) if where in MEMBERS else scopes.NOTHING

    # Annotations

    def annotated(self, node: ast.expr, scope: scopes.Scope) -> scopes.Values:
        """What a variable with an annotation may hold."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            parsed = _parsed(node.value)
            if parsed is None:
                return scopes.NOTHING
            node = parsed
        if self._depth > _MAX_DEPTH:
            return scopes.NOTHING
        self._depth += 1
        try:
            if isinstance(node, ast.BinOp):
                return self.annotated(node.left, scope) | self.annotated(node.right, scope)
            if isinstance(node, ast.Subscript):
                return self._generic(node, scope)
            return frozenset(self._instances(self.evaluate(node, scope)))
        finally:
            self._depth -= 1

    def _generic(self, node: ast.Subscript, scope: scopes.Scope) -> scopes.Values:
        name = last_name(node.value)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        values = scopes.NOTHING.union(*(self.annotated(part, scope) for part in parts))
        if name in ("Optional", "Union", "Annotated", "Final", "ClassVar"):
            return values
        if name in ("dict", "Dict", "Mapping", "MutableMapping", "defaultdict", "DefaultDict"):
            return containers.mapping([None], [values])
        return containers.sequence([values]) if name in _SEQUENCES else scopes.NOTHING

    def _instances(self, classes: scopes.Values) -> list[scopes.Value]:
        found: list[scopes.Value] = []
        for cls in classes:
            if isinstance(cls, scopes.Class):
                found.append(scopes.Instance(cls.scope))
            elif isinstance(cls, scopes.Name):
                where = home(cls.path)
                if where in MEMBERS:
                    found.append(scopes.Object(where))
                elif where is None and cls.path.endswith("Context"):
                    # EnvContext and other contexts of older releases had what the context has.
                    found.append(scopes.Object(cls.path if "." in cls.path else scopes.CONTEXT))
        return found


def _is_long(path: str) -> bool:
    # Code such as `x = x.next` and `x = x.get()` would make longer names forever.
    return path.count(".") > _MAX_DOTS or path.count("()") >= _MAX_CALLS


@functools.cache
def _parsed(annotation: str) -> ast.expr | None:
    try:
        return ast.parse(annotation, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
