"""Metrics that the hook of a callback is given, under the names that they are logged by."""

import ast
import re
from collections.abc import Iterable, Mapping, Sequence

import libcst as cst

from det_compat.migrate.to_lightning.class_facts import ClassFacts
from det_compat.migrate.to_lightning.metrics.renamed import NOT_YET
from det_compat.migrate.to_lightning.plan import TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.docstrings import with_first
from det_compat.migrate.tree.marks import marked


def with_logged_names(method: cst.FunctionDef, plans: Sequence[TrialPlan]) -> cst.FunctionDef:
    """A hook that asks for metrics by the names that these are logged under."""
    names: dict[str, str] = {}
    differing = set[str]()
    for plan in plans:
        new = plan.validation_names
        differing |= {name for name in names.keys() & new.keys() if names[name] != new[name]}
        names.update(new)
    texts = {str(each.evaluated_value) for each in syntax.find(method, cst.SimpleString)}
    if differing & texts:
        return marked(method, _SEVERAL.format(min(differing & texts)))
    given = [param.name.value for param in method.params.params[1:2]]
    if not given:
        return method
    if any(plan.renames_unknown for plan in plans):
        if not all(plan.renames_unknown for plan in plans):
            return marked(method, _MORE)
        if not any(plan.all_reducers or plan.key == NOT_YET for plan in plans):
            return with_first(method, _ALL_AS_BEFORE.format(given[0]))
        # What reducers log, and has val_ already, has names that only a run tells, as before.
        every = sum(name.value == given[0] for name in syntax.find(method.body, cst.Name))
        changed = with_first(method, _AND_AS_BEFORE.format(given[0]))
        is_harmless = _asks(method, given[0]) + _shows(method, given[0]) == every
        return changed if is_harmless else marked(changed, _MORE)
    asking = _Asking(given[0], names)
    changed = syntax.transformed(method, asking)
    every = sum(name.value == given[0] for name in syntax.find(method.body, cst.Name))
    if every == asking.found:
        return changed
    # It goes through all of them, among which are those of training now.
    families = [each.own for plan in plans for each in plan.ancestors]
    reduced = _united(_reduced(own) for own in families)
    trained = _united((reduced, *(own.every_logged for own in families)))
    validated = _united(own.every_validated for own in families)
    renamed = {name: new for name, new in names.items() if name != new}
    if trained is None or validated is None:
        is_harmless = _asks(method, given[0]) + _shows(method, given[0]) == every
        method = with_first(method, _as_before(given[0], renamed)) if renamed else method
        return method if is_harmless else marked(method, _MORE)
    # Several numbers are one in validation, and each has an index in training.
    validated = frozenset(name for name in validated if not name.endswith("_*"))
    others = sorted((trained | {*renamed.values()}) - (validated - renamed.keys()))
    if not renamed and (not others or _asks(method, given[0]) == every):
        return method
    if any(plan.all_reducers for plan in plans) or validated - names.keys():
        # Reducers have names that only a run tells.
        several = [n.removesuffix("_*") for n in others if n.endswith("_*")]
        others = [n for n in others if not n.endswith("_*")]
        indexed = f' and n.rpartition("_")[0] not in {several!r}' if several else ""
        without = f"{{n: v for n, v in {given[0]}.items() if n not in {others!r}{indexed}}}"
        pairs = "".join(f', "{name}": {given[0]}["{new}"]' for name, new in renamed.items())
        text = f"**{without}{pairs}" if renamed else without
        text = f"{given[0]} = {f'{{{text}}}' if renamed else text}\n".replace("'", '"')
        return with_first(method, text)
    if not renamed:
        listed = ", ".join(f'"{name}"' for name in names)
        text = f"{{name: {given[0]}[name] for name in [{listed}] if name in {given[0]}}}"
        return with_first(method, f"{given[0]} = {text}\n")
    pairs = ", ".join(f'"{name}": "{new}"' for name, new in names.items())
    text = f"""\
logged = {{{pairs}}}
{given[0]} = {{name: {given[0]}[new] for name, new in logged.items() if new in {given[0]}}}
"""
    return with_first(method, text)


_ALL_AS_BEFORE = """\
{0} = {{n.removeprefix("val_"): v for n, v in {0}.items() if n.startswith("val_")}}
"""
_AND_AS_BEFORE = """\
as_before = {{n.removeprefix("val_"): v for n, v in {0}.items() if n.startswith("val_")}}
{0} = {{**{0}, **as_before}}
"""


def _as_before(metrics: str, renamed: Mapping[str, str]) -> str:
    """The lines that have metrics under their names of before, too."""
    pairs = ", ".join(f'"{name}": "{new}"' for name, new in sorted(renamed.items()))
    found = f"{{name: {metrics}[new] for name, new in logged.items() if new in {metrics}}}"
    return f"logged = {{{pairs}}}\n{metrics} = {{**{metrics}, **{found}}}\n"


_SEVERAL = "some trials log {0} as val_{0} now, and others do not"
_MORE = "the metrics of training are among these now"
_SHOWING = ("print", "pprint", "debug", "info", "warning", "format", "dumps")


def _asks(method: cst.FunctionDef, name: str) -> int:
    """How often a dict is asked for one value, or for those that a text with gaps names."""
    owners = [each.value for each in syntax.find(method.body, cst.Subscript)]
    owners += [n.value for n in syntax.find(method.body, cst.Attribute) if n.attr.value == "get"]
    owners += [each.comparator for each in syntax.find(method.body, cst.ComparisonTarget)]
    for call in syntax.find(method.body, cst.Call):
        is_text = isinstance(call.func, cst.Attribute) and call.func.attr.value == "format"
        owners += [arg.value for arg in call.args if is_text and arg.star == "**"]
    return sum(syntax.code(each) == name for each in owners)


def _shows(method: cst.FunctionDef, name: str) -> int:
    """How often a dict is only shown."""
    calls = syntax.find(method.body, cst.Call)
    shown = (c for c in calls if syntax.code(c.func).rpartition(".")[2] in _SHOWING)
    return sum(syntax.code(arg.value) == name for call in shown for arg in call.args)


#: What takes a number for what it is, whoever made it, and keeps nothing of it.
_TAKES_NUMBERS = {*_SHOWING, "float", "int", "bool", "str", "isnan", "isfinite", "isinf"}
#: A scheduler that is stepped by a metric takes its ``float()``.
_STEPS = re.compile(r"(sched|plateau)\w*\.step$")
_PASSED_ON = ("min", "max", "abs", "round")


def are_only_numbers(method: cst.FunctionDef) -> bool:
    """Whether a hook does with the metrics that it is given what plain numbers do as well.

    It compares them, computes with them, shows them or takes their ``float()``: NumPy's numbers
    divide by zero, have roots of less than zero and methods, and may be kept as what they are.
    """
    given = {param.name.value for param in method.params.params[1:2]}
    tree = ast.parse(syntax.code(method).strip())
    above = {inner: outer for outer in ast.walk(tree) for inner in ast.iter_child_nodes(outer)}

    def is_given(node: ast.AST | None) -> bool:
        return isinstance(node, ast.Name) and node.id in given

    def is_asked(node: ast.AST | None) -> bool:
        """Whether it is the metrics, asked for one of them."""
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "get":
            return is_given(getattr(node.func, "value", None))
        return isinstance(node, ast.Subscript) and is_given(node.value)

    numbers = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and is_asked(node.value):
            numbers.update(each.id for each in node.targets if isinstance(each, ast.Name))
        elif isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.iter, ast.Call):
            func, parts = node.iter.func, getattr(node.target, "elts", [node.target])
            if is_given(getattr(func, "value", None)) and getattr(func, "attr", "") != "keys":
                numbers.update(each.id for each in parts[-1:] if isinstance(each, ast.Name))

    def is_fine(node: ast.AST) -> bool:
        """Whether what stands here may be a plain number."""
        outer = above[node]
        if isinstance(outer, ast.BinOp):
            is_text = isinstance(outer.op, ast.Mod) and isinstance(outer.left, ast.Constant)
            is_plain = isinstance(outer.op, (ast.Add, ast.Sub, ast.Mult))
            is_plain |= isinstance(outer.op, ast.Div) and outer.left is node
            return is_text or (is_plain and is_fine(outer))
        if isinstance(outer, (ast.BoolOp, ast.UnaryOp)):
            return is_fine(outer)
        if isinstance(outer, (ast.If, ast.While, ast.IfExp)) and outer.test is node:
            return True
        if isinstance(outer, (ast.IfExp, ast.Tuple)):
            # Several are shown by ``"%s: %s" % (name, value)``.
            return is_fine(outer) and (
                isinstance(outer, ast.IfExp) or isinstance(above[outer], ast.BinOp)
            )
        if isinstance(outer, ast.keyword):
            return is_fine(outer)
        if isinstance(outer, ast.Call):
            name = getattr(outer.func, "attr", getattr(outer.func, "id", ""))
            is_taken = name in _TAKES_NUMBERS or _STEPS.search(ast.unparse(outer.func).lower())
            return bool(is_taken) or (name in _PASSED_ON and is_fine(outer))
        if isinstance(outer, ast.Assign):
            targets = (each.id if isinstance(each, ast.Name) else "" for each in outer.targets)
            return is_asked(node) and numbers.issuperset(targets)
        return isinstance(outer, (ast.Compare, ast.FormattedValue, ast.Expr))

    def is_known(node: ast.Name) -> bool:
        """Whether the metrics, or one of them, are in such a place."""
        outer = above[node]
        if not isinstance(node.ctx, ast.Load):
            return node.id in numbers
        if node.id in numbers:
            return is_fine(node)
        if isinstance(outer, ast.Subscript):
            return isinstance(outer.ctx, ast.Load) and is_fine(outer)
        if isinstance(outer, ast.Attribute):
            call = above[outer]
            is_loop = isinstance(above.get(call), (ast.For, ast.comprehension))
            is_all = outer.attr in ("items", "values", "keys") and is_loop
            return is_all or (is_asked(call) and is_fine(call))
        is_loop = isinstance(outer, (ast.For, ast.comprehension))
        return is_loop or getattr(getattr(outer, "func", None), "id", "") == "len" or is_fine(node)

    names = (each for each in ast.walk(tree) if isinstance(each, ast.Name))
    return all(is_known(each) for each in names if each.id in numbers | given)


def _reduced(own: ClassFacts) -> frozenset[str] | None:
    """The names of what reducers of training metrics compute; None if some are not known."""
    names = [syntax.expression(each.name or "None") for each in own.training_reducers]
    texts = [str(n.evaluated_value) for n in names if isinstance(n, cst.SimpleString)]
    return frozenset(texts) if len(texts) == len(names) else None


def _united(parts: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    """All of some names; None where some are not known."""
    found = [*parts]
    return None if None in found else frozenset[str]().union(*(each for each in found if each))


class _Asking(cst.CSTTransformer):
    """Gives metrics that are asked for by name the names that they are logged under."""

    def __init__(self, metrics: str, names: Mapping[str, str]) -> None:
        self._metrics = metrics
        self._names = names
        self.found = 0

    def _logged(self, text: cst.SimpleString) -> cst.SimpleString:
        self.found += 1
        name = str(text.evaluated_value)
        return (
            text
            if self._names.get(name, name) == name
            else cst.SimpleString(f'"{self._names[name]}"')
        )

    def leave_Subscript(self, original: cst.Subscript, updated: cst.Subscript) -> cst.Subscript:
        index = updated.slice[0].slice
        value = index.value if isinstance(index, cst.Index) else None
        if syntax.code(updated.value) != self._metrics or not isinstance(value, cst.SimpleString):
            return updated
        return updated.with_deep_changes(index, value=self._logged(value))

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        value = updated.args[0].value if updated.args else None
        is_get = syntax.code(updated.func) == f"{self._metrics}.get"
        if not is_get or not isinstance(value, cst.SimpleString):
            return updated
        return updated.with_deep_changes(updated.args[0], value=self._logged(value))

    def leave_Comparison(self, original: cst.Comparison, updated: cst.Comparison) -> cst.Comparison:
        others = [each.comparator for each in updated.comparisons]
        is_one = len(others) == 1 and syntax.code(others[0]) == self._metrics
        if not is_one or not isinstance(updated.left, cst.SimpleString):
            return updated
        return updated.with_changes(left=self._logged(updated.left))
