"""What a trial takes beside its context under the name of a hyperparameter.

Determined kept the two apart: it gave nothing but the context, whatever a config said.
"""

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import libcst as cst

from det_compat.analysis.expressions import walked
from det_compat.analysis.given.again import values_given
from det_compat.analysis.given.values import Given
from det_compat.config import ExperimentConfig
from det_compat.config.hyperparameters import Const
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.parameters import config_use
from det_compat.migrate.tree.symbols import Symbols

#: What is said of those that may have had two values.
APART = '"{0}" is a parameter and a hyperparameter, which Determined kept apart: rename one of them'


@dataclass(frozen=True)
class SameNames:
    """The parameters with names of hyperparameters; those ``apart`` may have other values."""

    names: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()


def same_names(
    node: cst.ClassDef,
    family: Sequence[tuple[cst.ClassDef, Symbols]],
    configs: Sequence[ExperimentConfig],
    given: Given,
    known: Collection[str],
) -> SameNames:
    """What ``__init__`` of a trial class takes that has the name of a hyperparameter.

    Args:
        node: the class.
        family: it, and those that it derives from and that derive from it, with their symbols.
        configs: those that start the class, or a class that inherits its ``__init__``.
        given: what is made in all files.
        known: the names of hyperparameters that the code around and other configs have.
    """
    init = syntax.methods(node).get("__init__")
    params = [] if init is None else [*init.params.params[1:], *init.params.kwonly_params]
    named = {each.name.value: each.default for each in params}
    spaces = [config.hyperparameters.space for config in configs]
    asked = (config_use(each, symbols).names for each, symbols in family if named)
    names = named.keys() & {*known}.union(*spaces, *asked)
    if not names:
        return SameNames()
    read = {name for each, symbols in family for name in _read(each, symbols)}
    apart = set[str]()
    for name in names:
        default = named[name]
        values = [space[name] for space in spaces if name in space]
        if any(not _is_same(value, default) for value in values):
            apart.add(name)
    places = [each.name.value for each in params]
    for name, value in values_given(given, node.name.value, places):
        if name in names & read and name not in _names_in(value):
            apart.add(name)
    return SameNames(frozenset(names), frozenset(apart))


def _is_same(value: object, default: cst.BaseExpression | None) -> bool:
    try:
        known = None if default is None else ast.literal_eval(syntax.code(default))
    except ValueError:
        return False
    return isinstance(value, Const) and default is not None and value.value == known


def _names_in(value: ast.expr) -> set[str]:
    found = set[str]()
    for node in walked(value):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def _read(node: cst.ClassDef, symbols: Symbols) -> tuple[str, ...]:
    """The hyperparameters that a class asks for, but not to give them to its base."""

    def bare(call: cst.Call) -> cst.Call:
        is_init = syntax.code(call.func).endswith(".__init__")
        return call.with_changes(args=[]) if is_init else call

    return config_use(syntax.each(node, cst.Call, bare), symbols).names
