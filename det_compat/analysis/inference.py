"""What every variable of the tree may stand for, as far as it concerns Determined.

Values flow through assignments, imports, arguments, attributes of ``self`` and results of
functions, in no particular order, until nothing changes any more.
"""

import ast
from collections.abc import Iterable
from typing import TypeAlias

from det_compat.analysis import containers, scopes
from det_compat.analysis.classes import Hierarchy
from det_compat.analysis.collect import collect, positional
from det_compat.analysis.evaluation import Evaluator
from det_compat.analysis.expressions import called, decorators, last_name, literal
from det_compat.analysis.project import Project
from det_compat.analysis.relevant import relevant
from det_compat.analysis.scopes import NOTHING, Scope, Value, Values
from det_compat.analysis.source import Source
from det_compat.catalog.members import TELLTALE

_Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_GUESS = scopes.Object(scopes.CONTEXT, guessed=True)
_CONTEXTS = {scopes.Object(scopes.CONTEXT), _GUESS}
# Expressions of these kinds can be given a value.
_TARGETS = (ast.Name, ast.Attribute)
_CALLING = {"filter", "map", "partial", "partialmethod", "submit"}
# Values go one step further in each round; nobody hands a context on more often than this.
_MAX_ROUNDS = 20


class Inference:
    """The values of the variables in the files that can refer to Determined at all.

    Attributes:
        codes: what happens in these files.
    """

    def __init__(self, sources: Iterable[Source]) -> None:
        self.codes = [collect(source) for source in relevant(sources)]
        self.project = Project([code.module for code in self.codes])
        self.evaluator = Evaluator(self.project)
        self._changed = False
        imports = [found for code in self.codes for found in code.imports]
        self._imports_determined = any(self.project.is_determined(found) for found in imports)
        for found in imports:
            self._import(found)
        functions = (scope for code in self.codes for scope in code.functions)
        self.evaluator.lambdas.update(
            (scope.node, scope) for scope in functions if isinstance(scope.node, ast.Lambda)
        )
        self._settle()
        if self._bind_trials():
            self._settle()
        if self._bind_by_telltale():
            self._settle()

    @property
    def hierarchy(self) -> Hierarchy:
        """The classes of the tree."""
        return self.evaluator.hierarchy

    def evaluate(self, node: ast.expr, scope: Scope) -> Values:
        """What an expression may stand for."""
        return self.evaluator.evaluate(node, scope)

    def _settle(self) -> None:
        classes = [scope for code in self.codes for scope in code.classes]
        for _ in range(_MAX_ROUNDS):
            self._changed = False
            self.evaluator.hierarchy = Hierarchy(classes, self.evaluate)
            for code in self.codes:
                self._round(code)
            if not self._changed:
                return

    def _round(self, code: scopes.Code) -> None:
        for scope in code.functions:
            self._bind_first_parameter(scope)
        for assignment in code.assignments:
            self._assign(assignment)
        for call in code.calls:
            self._call(call)

    def _add(self, variables: dict[str, Values], name: str, values: Iterable[Value]) -> None:
        known = variables.get(name, NOTHING)
        more = known.union(values)
        if len(more) > len(known) and (more := scopes.limited(more)) != known:
            variables[name] = more
            self._changed = True

    # Imports

    def _import(self, found: scopes.Import) -> None:
        """Bind the variable of an import to what it names."""
        alias, scope = found.node, found.scope
        if found.attribute == "*":
            scope.stars.extend(self._star(found))
            return
        path = variable = alias.name
        if found.attribute is not None:
            path = f"{found.module}.{path}" if found.module else path
        elif not alias.asname:
            path = variable = path.partition(".")[0]
        variable = alias.asname or variable
        is_ours = not found.level and found.module.partition(".")[0] == "det_compat"
        if is_ours or self.project.is_determined(found):
            self._add(scope.variables, variable, [scopes.Name(path)])
            return
        submodule = self.project.module(scope, path, found.level)
        if submodule is not None:
            self._add(scope.variables, variable, [scopes.Module(submodule)])
        module = None if found.attribute is None else self.project.find(found)
        if module is not None:
            self.evaluator.link(scope, variable, module, alias.name)

    def _star(self, found: scopes.Import) -> list[Value]:
        if self.project.is_determined(found):
            return [scopes.Name(found.module)]
        module = self.project.find(found)
        return [] if module is None else [scopes.Module(module)]

    # Assignments

    def _assign(self, assignment: scopes.Assignment) -> None:
        scope, value = assignment.scope, assignment.value
        if assignment.is_annotation:
            values = self.evaluator.annotated(value, scope)
        else:
            values = self.evaluate(value, scope)
        if values:
            self._bind(assignment.target, values, scope)

    def _bind(self, target: ast.expr, values: Values, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            home = scope.module if target.id in scope.globals else scope
            self._add(home.variables, target.id, values)
        elif isinstance(target, ast.Attribute):
            self._bind_attribute(target, values, scope)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for value in values:
                if isinstance(value, scopes.Sequence):
                    self._unpack(target.elts, value, scope)
        elif isinstance(target, ast.Subscript) and isinstance(target.value, _TARGETS):
            self._bind(target.value, containers.mapping([literal(target.slice)], [values]), scope)

    def _unpack(self, targets: list[ast.expr], value: scopes.Sequence, scope: Scope) -> None:
        for index, (part, elements) in enumerate(zip(targets, value.elements, strict=False)):
            if isinstance(part, ast.Starred):
                self._bind(part.value, containers.sequence(value.elements[index:]), scope)
                return
            self._bind(part, elements, scope)

    def _bind_attribute(self, target: ast.Attribute, values: Values, scope: Scope) -> None:
        for owner in self.evaluate(target.value, scope):
            if isinstance(owner, scopes.Instance):
                self._add(owner.scope.attributes, target.attr, values)
            elif isinstance(owner, (scopes.Class, scopes.Module)):
                self._add(owner.scope.variables, target.attr, values)

    # Parameters

    def _bind_first_parameter(self, scope: Scope) -> None:
        owner, node = scope.parent, scope.node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return
        for argument in (*positional(node), *node.args.kwonlyargs):
            if argument.annotation is not None:
                values = self.evaluator.annotated(argument.annotation, scope.parent or scope)
                self._add(scope.variables, argument.arg, values)
        if owner is None or owner.kind != "class":
            return
        names = [argument.arg for argument in positional(node)]
        if names and "staticmethod" not in decorators(node):
            is_class = "classmethod" in decorators(node)
            own = scopes.Class(owner) if is_class else scopes.Instance(owner)
            self._add(scope.variables, names[0], [own])
        if node.name == "__init__":
            self._bind_context(scope, owner, node)

    def _bind_context(self, scope: Scope, owner: Scope, node: _Definition) -> None:
        """Give ``__init__`` of a trial its context, if nothing else told which argument it is."""
        if not self.hierarchy.is_trial(owner) and not self._makes_trials(owner):
            return
        context = scopes.Object(self.hierarchy.context_class(owner) or scopes.CONTEXT)
        given = positional(node)[1:]
        if any(context in scope.variables.get(a.arg, NOTHING) for a in given):
            return
        named = [a for a in given if "context" in a.arg or "ctx" in a.arg]
        first = [a for a in given[:1] if a.annotation is None and a.arg != "hparams"]
        for argument in (*named, *first)[:1]:
            self._add(scope.variables, argument.arg, [context])

    def _makes_trials(self, mixin: Scope) -> bool:
        """Whether the ``__init__`` of a class is what a trial without one is made by."""
        for relative in filter(self.hierarchy.is_trial, self.hierarchy.relatives(mixin)):
            order = self.hierarchy.ancestors(relative)
            if next((each for each in order if "__init__" in each.functions), None) is mixin:
                return True
        return False

    def _call(self, call: scopes.Call) -> None:
        node, scope = call.node, call.scope
        self._pass_to(node, scope)
        name = called(node)
        if name == "setattr" and len(node.args) == 3 and (attribute := literal(node.args[1])):
            target = ast.Attribute(node.args[0], attribute, ast.Store())
            self._bind(target, self.evaluate(node.args[2], scope), scope)
        elif name in containers.ADDING and isinstance(node.func, ast.Attribute) and node.args:
            added = containers.sequence([self.evaluate(node.args[-1], scope)])
            if isinstance(node.func.value, _TARGETS):
                self._bind(node.func.value, added, scope)
        elif name in _CALLING and node.args:
            # `partial(function, ...)` and its like call what they are given.
            function, *args = node.args
            if name in ("map", "filter"):
                args = [ast.Subscript(arg, ast.Constant(None), ast.Load()) for arg in args]
            self._pass_to(ast.Call(function, args, node.keywords), scope)

    def _pass_to(self, node: ast.Call, scope: Scope) -> None:
        """Give arguments to the functions and classes that are called with them."""
        for callee in self.evaluate(node.func, scope):
            function = callee
            if isinstance(callee, scopes.Class):
                ancestors = self.hierarchy.ancestors(callee.scope)
                inits = (cls.functions.get("__init__") for cls in ancestors)
                init = next((init for init in inits if init is not None), None)
                if init is None:
                    self._set_fields(callee.scope, node, scope)
                    continue
                function = scopes.Function(init, bound=True)
            if isinstance(function, scopes.Function):
                self._pass(function, node, scope)

    def _takes_context(self, init: scopes.Function, name: str) -> bool:
        """Whether a parameter may be given a context, which no module has that was a trial."""
        owner = init.scope.enclosing("class")
        bases = (
            self.hierarchy.unknown_bases(owner) if init.scope.name == "__init__" and owner else ()
        )
        is_module = any(base.endswith("LightningModule") for base in bases)
        return not is_module or "context" in name or "ctx" in name

    def _set_fields(self, cls: Scope, call: ast.Call, scope: Scope) -> None:
        """Set the fields of a dataclass or named tuple from the call that makes one."""
        body = cls.node.body if isinstance(cls.node, ast.ClassDef) else []
        fields = [
            statement.target.id
            for statement in body
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        ]
        given = [*zip(fields, call.args, strict=False)]
        given += [(k.arg, k.value) for k in call.keywords if k.arg in fields]
        for name, value in given:
            self._add(cls.attributes, name, self.evaluate(value, scope))

    def _pass(self, callee: scopes.Function, call: ast.Call, scope: Scope) -> None:
        node = callee.scope.node
        if not isinstance(node, scopes.FunctionNode):
            return
        names = [argument.arg for argument in positional(node)][int(callee.bound) :]
        variables = callee.scope.variables
        values = self._positional(call.args, scope)
        for name, value in zip(names, values, strict=False):
            if not _CONTEXTS & value or self._takes_context(callee, name):
                self._add(variables, name, value)
        if node.args.vararg is not None:
            self._add(variables, node.args.vararg.arg, containers.sequence(values[len(names) :]))
        known = {*names, *(a.arg for a in node.args.kwonlyargs)}
        for keyword in call.keywords:
            found = self.evaluate(keyword.value, scope)
            if keyword.arg in known:
                self._add(variables, keyword.arg, found)
            elif keyword.arg is not None and node.args.kwarg is not None:
                one = containers.mapping([keyword.arg], [found])
                self._add(variables, node.args.kwarg.arg, one)
            elif keyword.arg is None:
                self._pass_mapping(known, found, variables)

    def _positional(self, args: list[ast.expr], scope: Scope) -> list[Values]:
        """The arguments, with those of a tuple that is unpacked last."""
        found: list[Values] = []
        for arg in args:
            values = self.evaluate(arg, scope)
            if isinstance(arg, ast.Starred):
                parts = [value.elements for value in values if isinstance(value, scopes.Sequence)]
                return [*found, *(parts[0] if len(parts) == 1 else ())]
            found.append(values)
        return found

    def _pass_mapping(
        self, known: set[str], mappings: Values, variables: dict[str, Values]
    ) -> None:
        for value in mappings:
            for key, found in value.items if isinstance(value, scopes.Mapping) else ():
                if key in known:
                    self._add(variables, key, found)

    # What nothing has told

    def _bind_trials(self) -> bool:
        """Take what a callback is given as ``trial`` for one, where nothing shows who makes it."""
        self._changed = False
        classes = [scope for code in self.codes for scope in code.classes]
        trials = [scopes.Instance(scope) for scope in classes if self.hierarchy.is_trial(scope)]
        for owner in classes:
            init = owner.functions.get("__init__")
            bases = self.hierarchy.determined_bases(owner)
            if init is None or not any(path.endswith("PyTorchCallback") for path in bases):
                continue
            given = positional(init.node) if isinstance(init.node, ast.FunctionDef) else ()
            # Other libraries have trials, too.
            is_given = any(a.arg == "trial" and a.annotation is None for a in given)
            if is_given and not init.variables.get("trial"):
                self._add(init.variables, "trial", trials)
        return self._changed

    # Contexts by what is asked of them

    def _bind_by_telltale(self) -> bool:
        """Take for a context what is unknown, and has a context's own methods called on it."""
        self._changed = False
        for code in self.codes:
            for use in code.uses:
                if isinstance(use.node, ast.Attribute) and use.node.attr in TELLTALE:
                    self._take_for_context(use, use.node.value)
        return self._changed

    def _take_for_context(self, use: scopes.Use, node: ast.expr) -> None:
        name = last_name(node)
        is_called_so = "context" in name or "ctx" in name
        if not (self._imports_determined or is_called_so) or self.evaluate(node, use.scope):
            return
        if isinstance(node, ast.Name):
            scope = use.scope.enclosing("function")
            while scope is not None and node.id not in scope.variables:
                scope = scope.parent.enclosing("function") if scope.parent else None
            if scope is not None:
                self._add(scope.variables, node.id, [_GUESS])
        elif isinstance(node, ast.Attribute):
            for owner in self.evaluate(node.value, use.scope):
                if isinstance(owner, scopes.Instance):
                    self._add(owner.scope.attributes, node.attr, [_GUESS])
