"""What a batch method returned is logged instead: calls of ``self.log``."""

import re
from dataclasses import dataclass, field
from typing import TypeAlias

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.shapes.known import Shapes
from det_compat.migrate.shapes.returned import numbers, odd_kinds
from det_compat.migrate.shapes.texts import is_dict, is_no_number, may_be_none, nones, texts
from det_compat.migrate.shapes.values import (
    assigned,
    is_array,
    is_list,
    is_many,
    is_part,
    without_numpy,
)
from det_compat.migrate.to_lightning.metrics.arrays import Arrays
from det_compat.migrate.to_lightning.metrics.branches import joined, without_last
from det_compat.migrate.to_lightning.metrics.names import names_given
from det_compat.migrate.to_lightning.metrics.numbers import numbers_of
from det_compat.migrate.to_lightning.metrics.on_cpu import Devices
from det_compat.migrate.to_lightning.metrics.rates import is_one_rate
from det_compat.migrate.to_lightning.metrics.renamed import (
    ALL,
    NOT_YET,
    all_renamed,
    owner,
    renamed_in,
)
from det_compat.migrate.to_lightning.metrics.unknown import Shown, are_unknown
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line, Lines
from det_compat.migrate.tree.marks import above, comments_of, marked

_Known: TypeAlias = dict[str, cst.BaseExpression | None]
#: Each batch counts the same, as in Determined, whatever its size, and those of all processes do;
#: so does a validation as a whole, which each process does by itself.
EACH_BATCH = ", batch_size=1, sync_dist=True"
_SAID = cst.EmptyLine(comment=cst.Comment("# each batch counts the same, whatever its size"))
#: The lines that log each of ``metrics`` with the reduction that evaluation_reducer names.
_BY_NAME = f"""\
    reductions = self.evaluation_reducer()
    for name, value in metrics.items():
        reduction = reductions[name] if isinstance(reductions, dict) else reductions
        self.log(name, value, reduce_fx=reduction{EACH_BATCH})
"""
#: The same where a metric may be none, or several.
_IF_NUMBER = _BY_NAME.replace("log(name, value", "log_dict(numbers_of({name: value}, reduction)")


def by_name(key: str, *, is_odd: bool) -> str:
    """The lines that log each metric by itself, as what ``key`` says."""
    lines = _IF_NUMBER if is_odd else _BY_NAME
    return lines.replace("log(name,", f"log({key},").replace("{name:", f"{{{key}:")


@dataclass
class Logged:
    """Turns the metrics that a method returns into calls of ``self.log``.

    Attributes:
        own: the method's name for its object.
        options: the keyword arguments of every call, as text that begins with a comma.
        losses: those that there is a backward pass of: a loss may be returned in place of a dict;
            None for a method that returns none.
        renamed: metrics that are logged under another name.
        key: what the metric ``name`` is logged as.
        done: the variables in which they have that name already.
        said: a comment on their names.
        returns: whether the method still returns them, for those that are told of each batch.
        reduction: what the metrics of a batch that are several numbers are reduced by, as their
            batches are; ``""`` if they are not reduced, and each number is logged under its index.
        shapes: what is known of the metrics.
    """

    own: str
    options: str = ""
    losses: frozenset[str] | None = None
    renamed: dict[str, str] = field(default_factory=dict)
    key: str = "name"
    done: frozenset[str] = frozenset()
    said: str = ""
    returns: bool = False
    reduction: str = "mean"
    shapes: Shapes = field(default_factory=Shapes)
    _known: _Known = field(default_factory=dict, init=False)
    _made: _Known = field(default_factory=dict, init=False)
    _devices: Devices = field(init=False)
    _arrays: Arrays = field(init=False)
    _shown: Shown = field(init=False)
    _left_out: list[str] = field(default_factory=list, init=False)
    _early: list[cst.BaseStatement] = field(default_factory=list, init=False)
    _odd: frozenset[str] = field(default=frozenset(), init=False)
    _nones: set[str] = field(default_factory=set, init=False)
    _texts: set[str] = field(default_factory=set, init=False)
    _numbers: frozenset[str] = field(default=frozenset(), init=False)
    _is_known: bool = field(default=True, init=False)

    def in_method(self, method: cst.FunctionDef, last: str = "") -> cst.FunctionDef:
        """The method; ``last`` is a statement to end with."""
        method = syntax.each(method, cst.SimpleStatementSuite, _in_lines)
        method = joined(method) if self.options else method
        method = _named(method) if self.returns else method
        self._devices = Devices(method, self.shapes)
        self._arrays = Arrays(method, self.shapes)
        self._shown = Shown(method, self.shapes)
        init = self.shapes.own.get("__init__")
        made = assigned(init) if init is not None else {}
        self._known = _followed(self.shapes.known(method))
        self._made = made | self._known
        self._odd = odd_kinds(method, self._known)
        self._is_known = not are_unknown(method, self.shapes, self.losses or ())
        self._nones, self._texts = nones(method), texts(method)
        self._numbers = numbers(method, self._known)
        body = [*syntax.body_of(method)]
        end = syntax.statements(f"{last}\n") if last else []
        if body and isinstance(syntax.simple(body[-1]), cst.Return):
            given = body.pop()
            end = [*self._lines(given), *end]
            if self.options and self.reduction:
                end[:1] = [above(line, [_SAID]) for line in end[:1]]
            if self.said:
                said = cst.EmptyLine(comment=cst.Comment(self.said))
                end[:1] = [above(line, [said]) for line in end[:1]]
            end += [_bare(given)] if self.returns else []
            end[:1] = [above(line, getattr(given, "leading_lines", ())) for line in end[:1]]
        rest = syntax.transformed(cst.IndentedBlock(body), _Returns(self))
        lines = [*rest.body, *end] if end else without_last(rest.body, self._early)
        return self._with_word(syntax.with_body(method, lines))

    def _with_word(self, method: cst.FunctionDef) -> cst.FunctionDef:
        """The method with the comment on its names, if no return at its end has got it."""
        body = [*syntax.body_of(method)]
        if not self.said or self.said in syntax.code(method):
            return method
        at = int(syntax.has_docstring(body))
        said = cst.EmptyLine(comment=cst.Comment(self.said))
        body[at : at + 1] = [above(line, [said]) for line in body[at : at + 1]]
        return syntax.with_body(method, body)

    def _lines(self, line: cst.BaseStatement) -> list[cst.BaseStatement]:
        self._left_out = []
        text = self.text(ensure_type(syntax.simple(line), cst.Return).value)
        lines = syntax.statements(f"{text}\n") if text else []
        if self._left_out and lines:
            names = ", ".join(self._left_out)
            lines[0] = marked(lines[0], f"Lightning logs numbers, and {names} is none")
        return lines

    def early(self, line: Line) -> list[cst.BaseStatement]:
        """What takes the place of a return before the end."""
        lines = self._lines(line)
        last = _bare(line) if self.returns else syntax.statement("return")
        # Where nothing else is, the return is all that there is.
        self._early.extend([last] if lines and not self.returns else [])
        first, *rest = [*lines, last]
        return [above(first, comments_of(line)), *rest]

    def text(self, metrics: cst.BaseExpression | None) -> str:
        """The call that logs ``metrics``; empty if there are none."""
        if metrics is None or syntax.code(metrics) in ("None", "{}", "dict()"):
            return ""
        if self.losses is not None and syntax.code(metrics) in self.losses | self._numbers:
            return f'{self.own}.log("loss", {syntax.code(metrics)}{self.options})'
        if not isinstance(metrics, cst.Dict):
            if "none" in self._odd or self._shown.have_text(metrics):
                self._left_out.append("a text or None among these")
            is_known = self._is_known and not self._arrays.may_have(metrics)
            odd = self._odd if is_known else {*self._odd, "unknown"}
            found = numbers_of(syntax.code(metrics), self.reduction, odd)
            if syntax.code(metrics) not in self.done:
                found = renamed_in(found, self.key)
            if not odd and self._is_on_cpu(metrics):
                found = as_numbers(found)
            return f"{self.own}.log_dict({found}{self.options})"
        named = [made for found in metrics.elements for made in self._elements(found)]
        stars = (e.value for e in metrics.elements if isinstance(e, cst.StarredDictElement))
        if any(map(self._shown.have_text, stars)):
            self._left_out.append("a text among these")
        if not named:
            return ""
        if len(named) != len(metrics.elements):
            named[-1] = named[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        is_open = not self._is_known and any(isinstance(e, cst.StarredDictElement) for e in named)
        is_open = is_open or any(self._is_sorted_out(element.value) for element in named)
        is_open = is_open or any(map(self._is_odd_entry, named))
        if self.key in (ALL, NOT_YET) and not self.renamed:
            named = [all_renamed(element, self.key) for element in named]
        if is_open:
            logged = syntax.code(metrics.with_changes(elements=named))
            found = numbers_of(logged, self.reduction, {"none"})
            return f"{self.own}.log_dict({found}{self.options})"
        if len(named) == 1 and isinstance(named[0], cst.DictElement):
            key, value = syntax.code(named[0].key), syntax.code(named[0].value)
            return f"{self.own}.log({key}, {value}{self.options})"
        logged = syntax.code(metrics.with_changes(elements=named))
        return f"{self.own}.log_dict({logged}{self.options})"

    def _is_sorted_out(self, value: cst.BaseExpression) -> bool:
        """Whether only a run tells how many numbers a metric is."""
        is_listed = not self.reduction and is_many(value, self._known)
        is_open = is_array(value, self._known) or is_part(value, self._known)
        is_open = is_open or (not self.reduction and self._is_odd_array(value))
        return may_be_none(value, self._nones) or is_listed or is_open

    def _is_odd_entry(self, element: cst.BaseDictElement) -> bool:
        """Whether a metric, or each that is made in a loop, may be several or none."""
        value = element.value
        if isinstance(element, cst.DictElement):
            return is_dict(value) or self._shown.leaves_open(value)
        inner = value.value if isinstance(value, cst.DictComp) else None
        return inner is not None and (is_dict(inner) or is_many(inner, self._known))

    def _is_odd_array(self, value: cst.BaseExpression) -> bool:
        """Whether code of the project may have made an array of a metric; never of a loss."""
        return syntax.code(value) not in (self.losses or ()) and self._arrays.may_have(value)

    def _elements(self, element: cst.BaseDictElement) -> list[cst.BaseDictElement]:
        """An entry of the metrics as it is logged: none if it cannot be, or one for each number."""
        value, key = element.value, getattr(element, "key", None)
        if key is None and isinstance(value, cst.Dict):
            return [made for each in value.elements for made in self._elements(each)]
        inner = value.value if key is None and isinstance(value, cst.DictComp) else None
        if isinstance(value, cst.Dict) and isinstance(key, cst.SimpleString):
            name = self.renamed.get(str(key.evaluated_value), str(key.evaluated_value))
            parts = _flattened(name, value)
            if parts is not None:
                return [made for each in parts for made in self._elements(each)]
        if is_no_number(value if inner is None else inner, self._texts):
            self._left_out.append(syntax.code(key) if key is not None else syntax.code(value))
            return []
        if key is None and self.renamed:
            method, own = self._shown.method, self.shapes.own
            is_same = bool(self.renamed.keys() & names_given(value, method, own))
            text = renamed_in(syntax.code(value), self.key) if is_same else syntax.code(value)
            return [element.with_changes(value=syntax.expression(text))]
        if is_one_rate(value, self._made):
            value = syntax.expression(f"{syntax.code(value)}[0]")
        if not self.reduction and key is not None and is_list(value, self._known):
            return _indexed(key, value, element)
        value = without_numpy(value, self._known)
        text = syntax.code(value)
        if self._is_sorted_out(value):
            pass
        elif key is not None and self._is_odd_array(value):
            text = f"float(torch.as_tensor({text}).float().{self.reduction}())"
        elif self._is_odd_entry(element):
            pass
        elif key is not None and (self._is_on_cpu(value) or self._is_array(value)):
            text = f"float({self._as_one(value)})"
        else:
            text = self._as_one(value)
        element = element.with_changes(value=syntax.expression(text))
        if not isinstance(key, cst.SimpleString) or key.evaluated_value not in self.renamed:
            return [element]
        name = self.renamed[str(key.evaluated_value)]
        return [element.with_changes(key=cst.SimpleString(f'"{name}"'))]

    def _as_one(self, value: cst.BaseExpression) -> str:
        """The text of a metric of one batch, reduced if it is several numbers."""
        text, made = syntax.code(value), self._known.get(syntax.code(value))
        if not is_many(value, self._known):
            return text
        of_floats = isinstance(made, cst.Call) and syntax.code(made).endswith(".float()")
        start = text if of_floats else f"torch.as_tensor({text}).float()"
        return f"{start}.{self.reduction or 'mean'}()"

    def _is_array(self, value: cst.BaseExpression) -> bool:
        """Whether a metric is several numbers outside of a tensor, so that one is made here."""
        made = self._known.get(syntax.code(value)) or value
        is_numpys = re.match(r"(np|numpy)\.|.*\.numpy\(\)", syntax.code(made), re.DOTALL)
        is_other = bool(is_numpys) or is_list(value, self._known)
        return is_other and is_many(value, self._known)

    def _is_on_cpu(self, value: cst.BaseExpression) -> bool:
        """Whether devices would have to average a metric that is on none of them."""
        return "sync_dist" in self.options and self._devices.may_be_on_cpu(value)


def _followed(known: _Known) -> _Known:
    """The same, where a variable is another one, as what that is."""

    def end(value: cst.BaseExpression | None, deep: int = 5) -> cst.BaseExpression | None:
        if not isinstance(value, cst.Name) or not deep or value.value not in known:
            return value
        return end(known[value.value], deep - 1)

    return {name: end(value) for name, value in known.items()}


def as_numbers(metrics: str) -> str:
    """The expression of metrics as numbers, which Lightning puts on the device."""
    each = " for name, value in "
    if f": value{each}" in metrics:
        return metrics.replace(f": value{each}", f": float(value){each}")
    return f"{{name: float(value){each}{owner(metrics)}.items()}}"


def _flattened(name: str, nested: cst.Dict) -> list[cst.DictElement] | None:
    """The entries of a dict in another one, named after both; None if not all have a text."""
    made = []
    for each in nested.elements:
        key = each.key if isinstance(each, cst.DictElement) else None
        if not isinstance(key, cst.SimpleString):
            return None
        text = f'"{name}/{key.evaluated_value!s}"'
        made.append(cst.DictElement(cst.SimpleString(text), each.value))
    return made


def _indexed(
    key: cst.BaseExpression, value: cst.BaseExpression, element: cst.BaseDictElement
) -> list[cst.BaseDictElement]:
    """The numbers of a list or vector, each under the name with its index."""
    name = (
        str(key.evaluated_value) if isinstance(key, cst.SimpleString) else f"{{{syntax.code(key)}}}"
    )
    parts = value.elements if isinstance(value, (cst.List, cst.Tuple)) else []
    is_open = any(isinstance(part, cst.StarredElement) for part in parts)
    if parts and isinstance(key, cst.SimpleString) and not is_open:
        listed = [
            cst.DictElement(cst.SimpleString(f'"{name}_{index}"'), part.value)
            for index, part in enumerate(parts)
        ]
        return [*listed[:-1], listed[-1].with_changes(comma=element.comma)]
    made = f'{{f"{name}_{{i}}": value for i, value in enumerate({syntax.code(value)})}}'
    return [cst.StarredDictElement(syntax.expression(made), comma=element.comma)]


def _in_lines(suite: cst.SimpleStatementSuite) -> cst.BaseSuite:
    """What stands behind a colon, with lines for the calls that take the place of a return."""
    if not isinstance(suite.body[-1], cst.Return):
        return suite
    return cst.IndentedBlock([cst.SimpleStatementLine([part]) for part in suite.body])


class _Returns(cst.CSTTransformer):
    def __init__(self, logged: Logged) -> None:
        self._logged = logged

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        return False

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        small = syntax.simple(updated)
        if not isinstance(small, cst.Return) or small.value is None:
            return updated
        return cst.FlattenSentinel(self._logged.early(updated))


def _bare(line: cst.BaseStatement) -> cst.BaseStatement:
    return ensure_type(line, cst.SimpleStatementLine).with_changes(leading_lines=())


def _named(method: cst.FunctionDef) -> cst.FunctionDef:
    """A method that has a name for whatever it returns, which is logged as well."""
    taken = syntax.names_in(method)
    name = next(name for name in ("metrics", "outputs", "returned") if name not in taken)
    body = syntax.transformed(cst.IndentedBlock(syntax.body_of(method)), _Naming(name))
    return syntax.with_body(method, body.body)


class _Naming(cst.CSTTransformer):
    def __init__(self, name: str) -> None:
        self._name = name

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        small = syntax.simple(updated)
        value = small.value if isinstance(small, cst.Return) else None
        if value is None or isinstance(value, cst.Name):
            return updated
        kept = updated.with_changes(body=[syntax.assignment(cst.Name(self._name), value)])
        return cst.FlattenSentinel([kept, syntax.statement(f"return {self._name}")])
