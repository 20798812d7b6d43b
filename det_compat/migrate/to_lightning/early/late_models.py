"""Models that a trial gets after ``__init__``, which no checkpoint of Determined's had.

A LightningModule takes one for a submodule. A checkpoint would then have keys that the module of a
run which goes on with it lacks, and Lightning would not load it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import takewhile

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.plan import LightningFile, TrialPlan
from det_compat.migrate.to_lightning.transformer import LightningTransformer
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.file import Line, Lines
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.trial_attributes import attributes_made, values_set

_SAID = "# no submodule: a run that goes on with a checkpoint has none yet to load it into"
#: Methods that return the model that they are called on.
_SAME = words("to cuda cpu train eval float double half bfloat16 requires_grad_")
#: What returns a model, whatever it is given.
_MAKING = words("from_pretrained create_model AveragedModel DataParallel")
#: Classes of torch.nn that are no models, and what makes one of its losses without weights.
_OTHERS = words("PackedSequence Loss")
#: What only models are asked for.
_OF_MODELS = words("parameters named_parameters")
#: What hooks call a trial.
_TRIALS = frozenset(("trial", "pl_module"))


def leave_out_late(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Keep models that are set after ``__init__`` where Lightning does not look for submodules."""
    return syntax.transformed(tree, _Late(file)) if file.trials else tree


class Models:
    """What is known of the models of a trial, or of those of several."""

    def __init__(self, plans: Sequence[TrialPlan], around: Elsewhere) -> None:
        self._around = around
        self._plans = [*dict.fromkeys(each for plan in plans for each in plan.ancestors)]

    @cached_property
    def _classes(self) -> list[dict[str, cst.FunctionDef]]:
        """The methods of the classes, as they were."""
        texts = (self._around.texts.get(plan.own.name, "") for plan in self._plans)
        trees = [*map(syntax.looked_at, texts)]
        nodes = (line for tree in trees for line in tree.body)
        return [syntax.methods(node) for node in nodes if isinstance(node, cst.ClassDef)]

    @cached_property
    def early(self) -> set[str]:
        """The attributes that ``__init__`` gives a value."""
        own = {name: method for methods in self._classes for name, method in methods.items()}
        inits = (methods["__init__"] for methods in self._classes if "__init__" in methods)
        return {n for init in inits for n in attributes_made({**own, "__init__": init}, "__init__")}

    @cached_property
    def attributes(self) -> set[str]:
        """The attributes that are models."""
        found = {model.attribute.strip("*") for plan in self._plans for model in plan.all_models}
        methods = [each for own in self._classes for each in own.values()]
        for method in methods:
            me = syntax.self_name(method)
            for target, value in _each_set(method):
                owner, _, name = syntax.code(target).rpartition(".")
                if owner == me and self.is_one(value, method, found):
                    found.add(name)
        return found

    def is_one(
        self,
        value: cst.BaseExpression,
        function: cst.FunctionDef,
        attributes: Collection[str],
        seen: frozenset[str] = frozenset(),
    ) -> bool:
        """Whether a value in a function is a model, as far as is known."""
        if isinstance(value, cst.IfExp):
            sides: Sequence[cst.BaseExpression] = (value.body, value.orelse)
        elif isinstance(value, cst.BooleanOperation):
            sides = (value.left, value.right)
        elif isinstance(value, cst.Name):
            name = value.value
            asked = {f"{name}.{each}" for each in _OF_MODELS}
            if any(syntax.code(call.func) in asked for call in syntax.find(function, cst.Call)):
                return True
            sides = [v for to, v in _each_set(function) if syntax.code(to) == name]
            seen, sides = seen | {name}, ([] if name in seen else sides)
        elif isinstance(value, cst.NamedExpr):
            sides = (value.value,)
        elif isinstance(value, cst.Subscript):
            return self._is_part(value, function, attributes, seen)
        elif isinstance(value, cst.Attribute):
            return value.attr.value in attributes and syntax.code(value.value) != "torch"
        elif isinstance(value, cst.Call):
            return self._is_made(value, function, attributes, seen)
        else:
            return False
        return any(self.is_one(side, function, attributes, seen) for side in sides)

    def _is_part(
        self,
        value: cst.Subscript,
        function: cst.FunctionDef,
        attributes: Collection[str],
        seen: frozenset[str],
    ) -> bool:
        whole, number = value.value, syntax.code(value.slice[0])
        if isinstance(whole, cst.Attribute) or not number.isdecimal():
            return isinstance(whole, cst.Attribute) and self.is_one(whole, function, attributes)
        name = syntax.code(whole.func if isinstance(whole, cst.Call) else whole).rpartition(".")[2]
        if name in seen:
            return False
        if isinstance(whole, cst.Call):
            return self._makes(name, seen | {name}, int(number))
        sides = (v for to, v in _each_set(function) if syntax.code(to) == syntax.code(whole))
        parts = (_part(side, int(number)) for side in sides)
        return any(self.is_one(part, function, attributes, seen | {name}) for part in parts)

    def _is_made(
        self,
        call: cst.Call,
        function: cst.FunctionDef,
        attributes: Collection[str],
        seen: frozenset[str],
    ) -> bool:
        path = syntax.code(call.func)
        name = path.rpartition(".")[2]
        if isinstance(call.func, cst.Attribute) and name in _SAME:
            return self.is_one(call.func.value, function, attributes, seen)
        if name in ("deepcopy", "copy") and call.args:
            root = call.args[0].value
            while isinstance(root, cst.Attribute | cst.Subscript):
                if isinstance(root, cst.Attribute) and root.attr.value in attributes:
                    return True
                root = root.value
            return self.is_one(call.args[0].value, function, attributes, seen)
        root_name, _, rest = path.partition(".")
        paths = self._around.imported.get(root_name, frozenset())
        full = {f"{each}.{rest}".rstrip(".") for each in paths} or {path}
        is_stateless = name in _OTHERS or (name.endswith("Loss") and not call.args)
        if any(each.startswith("torch.nn.") for each in full):
            return name[:1].isupper() and not is_stateless
        return name in _MAKING or (name not in seen and self._makes(name, seen | {name}))

    def _makes(self, name: str, seen: frozenset[str], number: int | None = None) -> bool:
        """Whether a class of the project is one of models, or a function or method returns one.

        It may be the part with a ``number`` of what is returned.
        """
        found = [own[name] for own in self._classes if name in own]
        for line in syntax.looked_at(self._around.texts.get(name, "")).body:
            if isinstance(line, cst.ClassDef) and number is None:
                bases = [syntax.code(base.value).rpartition(".")[2] for base in line.bases]
                if "Module" in bases or "forward" in syntax.methods(line):
                    return True
                if any(base not in seen and self._makes(base, seen | {base}) for base in bases):
                    return True
            found += [line] if isinstance(line, cst.FunctionDef) else []
        return any(
            each.value is not None
            and self.is_one(
                each.value if number is None else _part(each.value, number), function, (), seen
            )
            for function in found
            for each in syntax.returns(function)
        )


def _each_set(node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """What some code sets, and to what: of what is taken apart, to which part."""
    for line in syntax.find(node, cst.Assign):
        for each in line.targets:
            parts = _unstarred(each.target)
            yield from ((part, _part(line.value, at)) for at, part in enumerate(parts or ()))
            yield from [(each.target, line.value)] if parts is None else ()
    for named in syntax.find(node, cst.NamedExpr):
        yield named.target, named.value
    for annotated in syntax.find(node, cst.AnnAssign):
        if annotated.value is not None:
            yield annotated.target, annotated.value


def _unstarred(target: cst.BaseExpression) -> list[cst.BaseExpression] | None:
    """What a value is taken apart into, as far as each is one part; None if it stays whole."""
    if not isinstance(target, (cst.Tuple, cst.List)):
        return None
    first = takewhile(lambda each: not isinstance(each, cst.StarredElement), target.elements)
    return [each.value for each in first]


def _part(value: cst.BaseExpression, number: int) -> cst.BaseExpression:
    """A part of a value that is several."""
    if isinstance(value, (cst.Tuple, cst.List)) and number < len(value.elements):
        return value.elements[number].value
    if isinstance(value, (cst.ListComp, cst.GeneratorExp)):
        return value.elt
    if isinstance(value, cst.IfExp):
        sides = {name: _part(getattr(value, name), number) for name in ("body", "orelse")}
        return value.with_changes(**sides)
    index = cst.SubscriptElement(cst.Index(cst.Integer(f"{number}")))
    return cst.Subscript(value, [index])


class _Late(LightningTransformer):
    def visit_Module(self, node: cst.Module) -> None:
        self._models: dict[str, Models] = {}
        self._trials = {*_TRIALS, *_called_trials(node, self.file.trials)}

    def leave_Assign(
        self, original: cst.Assign, updated: cst.Assign
    ) -> cst.BaseSmallStatement | cst.FlattenSentinel[cst.BaseSmallStatement]:
        kept, late = list[cst.AssignTarget](), list[tuple[cst.BaseExpression, str]]()
        for each in original.targets:
            parts = _unstarred(each.target)
            if parts is None:
                is_late = self._is_late(each.target, original.value)
                late += [(each.target, "")] if is_late else []
                kept += [] if is_late else [each]
                continue
            for at, part in enumerate(parts):
                if self._is_late(part, _part(original.value, at)):
                    late.append((part, name := self._variable(part)))
                    each = syntax.with_node(each, part, cst.Name(name))
            kept.append(each)
        if not late:
            return updated
        plain = next((each.target for each in kept if not isinstance(each.target, cst.Tuple)), None)
        made: list[cst.BaseSmallStatement] = [cst.Assign(kept, original.value)] if kept else []
        value = plain or original.value
        for target, name in late:
            made.append(unregistered(target, cst.Name(name) if name else value))
            value = value if name else target
        return cst.FlattenSentinel(made)

    def _variable(self, target: cst.BaseExpression) -> str:
        """A free name for what becomes an attribute a line later."""
        name = syntax.code(target).rpartition(".")[2]
        return f"late_{name}" if name in syntax.names_in(self.functions[-1]) else name

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        if syntax.code(original.func) != "setattr" or len(original.args) != 3:
            return updated
        owner, name, value = (each.value for each in original.args)
        # One of a variable may be any that the function knows of, or another.
        known = name if isinstance(name, cst.SimpleString) or not self.functions else None
        texts = syntax.find(known or self.functions[-1], cst.SimpleString)
        parts = [*(str(each.evaluated_value) for each in texts), *(() if known else ("_",))]
        targets = [cst.Attribute(owner, cst.Name(part)) for part in parts if part.isidentifier()]
        if targets and all(self._is_late(target, value) for target in targets):
            return updated.with_changes(func=syntax.expression("object.__setattr__"))
        return updated

    def leave_AnnAssign(
        self, original: cst.AnnAssign, updated: cst.AnnAssign
    ) -> cst.BaseSmallStatement:
        value = original.value
        is_late = value is not None and self._is_late(original.target, value)
        return unregistered(original.target, value) if is_late and value is not None else updated

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        if updated is original or len(original.body) > 1:
            return updated
        lines = [cst.SimpleStatementLine([small]) for small in updated.body]
        lines[0] = lines[0].with_changes(leading_lines=updated.leading_lines)
        lines[-1] = lines[-1].with_changes(trailing_whitespace=updated.trailing_whitespace)
        lines[0] = above(lines[0], [cst.EmptyLine(comment=cst.Comment(_SAID))])
        return cst.FlattenSentinel(lines)

    def _is_late(self, target: cst.BaseExpression, value: cst.BaseExpression) -> bool:
        """Whether a model is set on a trial that is there already, and has none yet."""
        if not isinstance(target, cst.Attribute) or not self.functions:
            return False
        function, plan = self.functions[-1], self.plan
        me = syntax.self_name(self.functions[0]) if self.classes else ""
        owner = syntax.code(target.value)
        if owner == me and plan is not None:
            early = {"setup", *self.file.early.get(plan.own.name, ("__init__",))}
            if self.functions[0].name.value in early:
                return False
        elif owner == me or owner.rpartition(".")[2] not in self._trials:
            return False
        plans = [*self.file.trials.values()]
        if plan is not None and owner == me:
            plans = [each for each in plans if plan.own.name in _names(each)] or [plan]
        key = plan.own.name if plan is not None and owner == me else ""
        if key not in self._models:
            self._models[key] = Models(plans, self.file.elsewhere)
        models, name = self._models[key], target.attr.value
        # Determined's checkpoints had what a trial wraps, whenever it does.
        wrapped = {each.attribute.strip("*") for plan in plans for each in plan.all_models}
        return name not in models.early | wrapped and models.is_one(
            value, function, models.attributes
        )


def _names(plan: TrialPlan) -> list[str]:
    return [each.own.name for each in plan.ancestors]


def _called_trials(tree: cst.Module, trials: Mapping[str, TrialPlan]) -> Iterator[str]:
    """What functions and classes of a file call a trial that they are given."""
    for function in syntax.find(tree, cst.FunctionDef):
        for param in syntax.find(function.params, cst.Param):
            kind = "" if param.annotation is None else syntax.code(param.annotation.annotation)
            if kind.strip("\"'").rpartition(".")[2] in trials:
                yield param.name.value
                kept = (to for to, v in values_set(function) if syntax.code(v) == param.name.value)
                yield from (syntax.code(to).rpartition(".")[2] for to in kept)


def unregistered(target: cst.BaseExpression, value: cst.BaseExpression) -> cst.Expr:
    """A statement that sets an attribute, which torch does not take for a submodule then."""
    owner, _, name = syntax.code(target).rpartition(".")
    text = f'object.__setattr__({owner}, "{name}", {syntax.code(value)})'
    return cst.Expr(syntax.expression(text))
