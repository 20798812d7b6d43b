"""Which trial classes a script makes, where it chooses one of several."""

from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from det_compat.migrate.tree import syntax

_Values = Mapping[str, Sequence[cst.BaseExpression]]


def chosen(
    func: cst.BaseExpression, values: _Values, tables: Mapping[str, Sequence[str]]
) -> list[str]:
    """The last parts of the names of the classes that an expression may be.

    Args:
        func: the expression.
        values: what the variables of its file are set to.
        tables: the dicts of classes that files have.
    """
    return [*dict.fromkeys(_chosen(func, values, tables))]


def unbound(
    func: cst.BaseExpression, values: _Values
) -> tuple[cst.BaseExpression, Sequence[cst.Arg]]:
    """What ``functools.partial`` was given, and the arguments; else the expression, with none."""
    known = values.get(syntax.code(func)) or [func]
    made = known[0] if len(known) == 1 else func
    if isinstance(made, cst.Call) and syntax.code(made.func).rpartition(".")[2] == "partial":
        first, *rest = made.args
        if not first.star and all(arg.keyword is not None for arg in rest):
            return first.value, rest
    return func, ()


def _chosen(
    func: cst.BaseExpression, values: _Values, tables: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    text = syntax.code(func)
    if isinstance(func, cst.IfExp):
        yield from _chosen(func.body, values, tables)
        yield from _chosen(func.orelse, values, tables)
    elif isinstance(func, cst.Subscript) and isinstance(func.value, cst.Dict):
        for element in func.value.elements:
            yield from _chosen(element.value, values, tables)
    elif isinstance(func, cst.Subscript):
        table = syntax.code(func.value).rpartition(".")[2]
        yield from tables.get(table, [text])
    elif isinstance(func, cst.Call) and syntax.is_name(func.func, "getattr") and len(func.args) > 1:
        asked = func.args[1].value
        yield str(asked.evaluated_value) if isinstance(asked, cst.SimpleString) else text
    elif isinstance(func, cst.Call):
        # A function that returns an entry of a dict.
        name = syntax.code(func.func).rpartition(".")[2]
        for table in tables.get(name, [text]):
            yield from tables.get(table, [table])
    elif text in values and text not in tables:
        for value in values[text]:
            # What a variable is set to names no variable that is set to that.
            yield from _chosen(value, {}, tables)
    else:
        yield text.rpartition(".")[2]
