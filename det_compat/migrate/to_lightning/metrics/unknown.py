"""Metrics of which nobody knows what they are before a run has made them."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from det_compat.migrate.shapes.known import Shapes
from det_compat.migrate.shapes.returned import metrics_of, odd_kinds, returned
from det_compat.migrate.shapes.texts import is_no_number, texts
from det_compat.migrate.shapes.values import ONE, Known, is_many, is_odd, is_scalar
from det_compat.migrate.tree import syntax

#: What these return is numbers by name.
_NUMBERS = re.compile(
    r"transformers\.(.*\.)?(glue_compute_metrics|xnli_compute_metrics|squad_evaluate)"
)
#: How it is named what computes a loss.
_LOSS = re.compile(r"(?i)(.*_)?(loss|criterion)(_?(fn|func|function))?")
_BACKWARD = re.compile(r"backward\(\s*(\w+)\s*[,)]|\b(\w+)\.backward\(\)")


def are_unknown(
    method: cst.FunctionDef, shapes: Shapes, losses: Collection[str] = frozenset()
) -> bool:
    """Whether metrics that a method returns come from where nobody knows what they are.

    Args:
        method: the method.
        shapes: what is known of what it calls.
        losses: the variables of which there is a backward pass: each is one number.
    """
    values = [found.value for found in syntax.returns(method)]
    known = _summed(method, losses)
    if any(_is_unknown(v, method, shapes, known, 5) for v in values if v is not None):
        return True
    shown = Shown(method, shapes)
    return any(map(shown.leaves_open, metrics_of(method)))


def _summed(method: cst.FunctionDef, losses: Collection[str]) -> set[str]:
    """The dicts of which all that is in them is added up to one number, as each of it is then."""
    found = set[str]()
    # What is asked for its item is one number, too.
    losses = {*losses, *re.findall(r"\b(\w+)\.item\(\)", syntax.code(method))}
    for line in syntax.find(method.body, cst.Assign):
        for target, value in syntax.pairs(line):
            text = syntax.code(value)
            if syntax.code(target) in losses and text.startswith("sum("):
                found.update(re.findall(r"\b(\w+)\.values\(\)", text))
    return found


def _is_unknown(
    value: cst.BaseExpression,
    method: cst.FunctionDef,
    shapes: Shapes,
    summed: Collection[str],
    deep: int,
) -> bool:
    if isinstance(value, cst.Dict):
        starred = [e.value for e in value.elements if isinstance(e, cst.StarredDictElement)]
        return any(_is_unknown(each, method, shapes, summed, deep) for each in starred)
    if isinstance(value, cst.IfExp):
        return any(_is_unknown(v, method, shapes, summed, deep) for v in (value.body, value.orelse))
    if isinstance(value, cst.BinaryOperation):
        return any(_is_unknown(v, method, shapes, summed, deep) for v in (value.left, value.right))
    if isinstance(value, cst.DictComp):
        return not is_scalar(value.value, {})
    if isinstance(value, cst.Name):
        if deep == 0 or value.value == "None":
            return deep == 0
        lines = syntax.find(method.body, cst.Assign)
        set_to = [
            n.value for n in lines if value.value in (syntax.code(t.target) for t in n.targets)
        ]
        set_to += [
            n.value
            for n in syntax.find(method.body, cst.AugAssign)
            if syntax.code(n.target) == value.value and isinstance(n.operator, cst.BitOrAssign)
        ]
        set_to += [
            arg.value
            for call in syntax.find(method.body, cst.Call)
            for arg in call.args
            if syntax.code(call.func) == f"{value.value}.update" and arg.keyword is None
        ]
        if value.value in summed:
            set_to = [made for made in set_to if not isinstance(made, cst.Call)] or [cst.Dict([])]
        parts = [] if value.value in summed else [*_parts_set_to(value.value, method)]
        if any(_is_part_unknown(call, at, method, shapes) for call, at in parts):
            return True
        is_set = bool(set_to or parts)
        return not is_set or any(_is_unknown(v, method, shapes, summed, deep - 1) for v in set_to)
    if not isinstance(value, cst.Call) or deep == 0:
        # A single value is the loss; what an expression sets within is not followed.
        return isinstance(value, cst.Call | cst.NamedExpr)
    return _returns_unknown(value, method, shapes, deep)


def _parts_set_to(name: str, method: cst.FunctionDef) -> Iterator[tuple[cst.Call, int]]:
    """The calls of whose results a variable is a part, and which."""
    for line in syntax.find(method.body, cst.Assign):
        for target in line.targets:
            names = [syntax.code(part) for part in syntax.parts(target.target)]
            if isinstance(line.value, cst.Call) and len(names) > 1 and name in names:
                yield line.value, names.index(name)


def _is_part_unknown(call: cst.Call, at: int, method: cst.FunctionDef, shapes: Shapes) -> bool:
    """Whether a part of what is returned is anything but a dict that is written out of numbers."""
    called, inner = shapes.reached(call, method)
    if called is None:
        return True
    values = [found.value for found in syntax.returns(called)]
    tuples = [each.elements for each in values if isinstance(each, cst.Tuple)]
    parts = [elements[at].value for elements in tuples if at < len(elements)]
    dicts = [part for part in parts if isinstance(part, cst.Dict)]
    is_known = bool(dicts) and len(dicts) == len(values)
    shown = Shown(called, inner)
    return not is_known or not all(
        isinstance(entry, cst.DictElement) and shown.is_one(entry.value)
        for each in dicts
        for entry in each.elements
    )


def _returns_unknown(call: cst.Call, method: cst.FunctionDef, shapes: Shapes, deep: int) -> bool:
    name = syntax.code(call.func).rpartition(".")[2]
    if syntax.code(call.func).startswith("super("):
        # What a base returns is looked at there.
        return False
    if name == "dict":
        given = (arg.value for arg in call.args if arg.keyword is None)
        return any(_is_unknown(each, method, shapes, (), deep - 1) for each in given)
    called, inner = shapes.reached(call, method)
    if called is None:
        root, _, rest = syntax.code(call.func).partition(".")
        paths = (f"{path}.{rest}".rstrip(".") for path in shapes.imported.get(root, (root,)))
        return not all(map(_NUMBERS.fullmatch, paths))
    values = [r.value for r in syntax.returns(called) if r.value is not None]
    is_unknown = any(_is_unknown(value, called, inner, (), deep - 1) for value in values)
    return is_unknown or not Shown(called, inner).are_metrics()


@dataclass(frozen=True)
class Shown:
    """What is known of the numbers that a method, or function of the project, computes.

    Attributes:
        method: the method or function.
        shapes: what is known of what it calls.
        given: its parameters that are given one number.
    """

    method: cst.FunctionDef
    shapes: Shapes
    given: frozenset[str] = frozenset()

    def are_metrics(self) -> bool:
        """Whether each metric in the dicts that it returns is shown to be one number."""
        return not (self._is_own and odd_kinds(self.method, self._known)) and all(
            map(self._is_shown, metrics_of(self.method))
        )

    def is_number(self) -> bool:
        """Whether what it returns is shown to be one number."""
        values = [r.value for r in syntax.returns(self.method) if r.value is not None]
        return bool(values) and all(map(self._is_shown, values))

    def is_one(self, value: cst.BaseExpression) -> bool:
        """Whether a value of it is sure to be one number."""
        return is_scalar(value, self._known)

    @property
    def _is_own(self) -> bool:
        """Whether it is a method of the trial, which is judged as what calls it is."""
        return self.method in self.shapes.own.values()

    def _is_shown(self, value: cst.BaseExpression) -> bool:
        if self._is_own:
            return not (is_odd(value, self._known) or self.leaves_open(value))
        return is_scalar(value, self._known)

    def leaves_open(self, value: cst.BaseExpression, deep: int = 6) -> bool:
        """Whether code of the project makes a value, or a part of it, that may be no number."""
        if deep == 0 or is_scalar(value, self._known) or is_many(value, self._known):
            return False
        if (inner := self._called(value)) is not None:
            return not inner.is_number()
        return any(self.leaves_open(part, deep - 1) for part in self._made_of(value))

    def _made_of(self, value: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """What a value is, or is computed from: what is one number if these are."""
        if isinstance(value, cst.BinaryOperation):
            yield from (value.left, value.right)
        elif isinstance(value, cst.IfExp):
            yield from (value.body, value.orelse)
        elif isinstance(value, cst.Name):
            yield from self._set_to(value.value)
        elif isinstance(value, cst.Subscript):
            owner = self._known.get(syntax.code(value.value)) or value.value
            inner, key = self._called(owner), syntax.code(value.slice[0].slice)
            if inner is None or not inner._is_entry_number(key):
                yield owner
        elif isinstance(value, cst.Attribute):
            yield self._known.get(syntax.code(value)) or value.value
        elif isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
            # A tensor moved, or an array made of one.
            yield value.func.value
            if syntax.code(value.func.value) in ("np", "numpy", "torch"):
                yield from (arg.value for arg in value.args)

    def _set_to(self, name: str) -> Iterator[cst.BaseExpression]:
        """What a variable is set to, or goes through, or a part of that which may be no number."""
        for loop in syntax.find(self.method.body, cst.For):
            if name in map(syntax.code, syntax.parts(loop.target)):
                yield loop.iter
        for line in syntax.find(self.method.body, cst.Assign):
            for target in line.targets:
                names = [syntax.code(part) for part in syntax.parts(target.target)]
                inner = self._called(line.value)
                if name not in names or (len(names) > 1 and inner is None):
                    continue
                if len(names) == 1 or inner is None or not inner._is_part_number(names.index(name)):
                    yield line.value

    def have_text(self, value: cst.BaseExpression, deep: int = 3) -> bool:
        """Whether code of the project puts a text into a dict of metrics, which nobody logs."""
        if (inner := self._called(value)) is None:
            if not isinstance(value, cst.Name) or not deep:
                return False
            calls = syntax.find(self.method.body, cst.Call)
            added = [c.args for c in calls if syntax.code(c.func) == f"{value.value}.update"]
            parts = [*self._set_to(value.value), *(arg.value for args in added for arg in args)]
            return any(self.have_text(part, deep - 1) for part in parts)
        names = texts(inner.method)
        return any(
            is_no_number(each, names) and syntax.code(each) != "None"
            for each in metrics_of(inner.method)
        )

    def _is_entry_number(self, key: str) -> bool:
        """Whether an entry of the dicts that it returns is shown to be one number."""
        dicts = [each for each in returned(self.method) if isinstance(each, cst.Dict)]
        entries = [e for each in dicts for e in each.elements if isinstance(e, cst.DictElement)]
        found = [entry.value for entry in entries if syntax.code(entry.key) == key]
        return bool(found) and all(map(self._is_shown, found))

    def _is_part_number(self, at: int) -> bool:
        """Whether a part of the tuples that it returns, if it returns such, is one number."""
        tuples = [r.value for r in syntax.returns(self.method) if isinstance(r.value, cst.Tuple)]
        parts = (each.elements[at].value for each in tuples if at < len(each.elements))
        return all(map(self._is_shown, parts))

    def _called(self, value: cst.BaseExpression) -> "Shown | None":
        """What is called, if a value is what other code of the project returns."""
        if not isinstance(value, cst.Call):
            return None
        called, inner = self.shapes.reached(value, self.method)
        if called is None or called is self.method:
            return None
        names = [param.name.value for param in called.params.params]
        names = names[1:] if names[:1] in (["self"], ["cls"]) else names
        by_name = [(arg.keyword.value, arg.value) for arg in value.args if arg.keyword is not None]
        placed = zip(names, (arg.value for arg in value.args if arg.keyword is None), strict=False)
        numbers = {name for name, each in (*by_name, *placed) if is_scalar(each, self._known)}
        return Shown(called, inner, frozenset(numbers))

    @cached_property
    def _known(self) -> Known:
        """What it knows, with losses as the numbers that they are.

        These are what there is a backward pass of, and what is computed by what is named after a
        loss, unless the project has made that itself.
        """
        known: Known = dict.fromkeys(self.given, ONE) | self.shapes.known(self.method)
        for match in _BACKWARD.finditer(syntax.code(self.method)):
            known[match.group(1) or match.group(2)] = ONE
        for call in syntax.find(self.method.body, cst.Call):
            func = syntax.code(call.func)
            made = known.get(func)
            maker = syntax.code(made.func).rpartition(".")[2] if isinstance(made, cst.Call) else ""
            is_plain = "reduction" not in syntax.code(call if made is None else made)
            is_plain &= maker not in self.shapes.texts
            is_plain &= self.shapes.reached(call, self.method)[0] is None
            if _LOSS.fullmatch(func.rpartition(".")[2]) and is_plain:
                known[f"{func}()"] = ONE
        for found in syntax.find(self.method.body, cst.Attribute):
            # So is the average that a meter has.
            if found.attr.value == "avg":
                known[syntax.code(found)] = ONE
        return known
