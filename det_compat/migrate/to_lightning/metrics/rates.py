"""The learning rates that a scheduler tells."""

from collections.abc import Mapping

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.tree import syntax

_Known = Mapping[str, cst.BaseExpression | None]
_RATES = ("get_last_lr", "get_lr")
#: What gives parameters, and no groups of them.
_OF_ONE_GROUP = words("parameters filter chain")


def is_one_rate(node: cst.BaseExpression, known: _Known) -> bool:
    """Whether a value is the list of learning rates of an optimizer that has one group alone.

    ``known`` has the attributes, and the variables of ``__init__``.
    """
    owner, _, name = syntax.code(getattr(node, "func", node)).rpartition(".")
    if not isinstance(node, cst.Call) or name not in _RATES:
        return False
    scheduler = _made(syntax.expression(owner), known)
    optimizer = _made(syntax.argument(scheduler, 0, "optimizer"), known) if scheduler else None
    given = syntax.argument(optimizer, 0, "params") if optimizer else None
    if isinstance(given, cst.Name):
        given = known.get(given.value)
    if isinstance(given, (cst.ListComp, cst.GeneratorExp)):
        of_parameters = syntax.code(given.for_in.iter).endswith("parameters()")
        return of_parameters and isinstance(given.elt, cst.Name)
    while isinstance(given, cst.Call) and syntax.code(given.func) in ("list", "tuple"):
        given = given.args[0].value if given.args else None
    made_by = syntax.code(given.func) if isinstance(given, cst.Call) else ""
    return made_by.rpartition(".")[2] in _OF_ONE_GROUP


def _made(value: cst.BaseExpression | None, known: _Known) -> cst.Call | None:
    """The call that has made what a value is, and perhaps wrapped it; None if it is not known."""
    for _ in range(5):
        if isinstance(value, cst.Call) and "wrap_" in syntax.code(value.func) and value.args:
            value = value.args[0].value
        elif isinstance(value, (cst.Name, cst.Attribute)):
            value = known.get(syntax.code(value))
    return value if isinstance(value, cst.Call) else None
