"""What a trial takes beside its context under the name of a hyperparameter.

Determined kept the two apart: it gave nothing but the context, whatever a config said.
"""

import ast
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import libcst as cst

from det_compat.analysis.classes import Hierarchy
from det_compat.analysis.expressions import called, last_name, literal
from det_compat.analysis.given.again import values_given
from det_compat.analysis.given.values import Given
from det_compat.analysis.scopes import Scope
from det_compat.config.hyperparameters import Const
from det_compat.migrate.configs import configs_of
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.parameters import ConfigUse, config_use
from det_compat.migrate.tree.symbols import Symbols

#: What is said of those that may have had two values.
APART = '"{0}" is a parameter and a hyperparameter, which Determined kept apart: rename one of them'


@dataclass(frozen=True)
class SameNames:
    """The parameters with names of hyperparameters; those ``apart`` may have other values."""

    names: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()


def same_names(
    scope: Scope,
    hierarchy: Hierarchy,
    classes: Mapping[Scope, tuple[Path, cst.ClassDef, Symbols]],
    given: Given,
    asked: Collection[str] = (),
) -> SameNames:
    """What ``__init__`` of a trial class takes that has the name of a hyperparameter.

    Args:
        scope: the class.
        hierarchy: of all classes.
        classes: the file and text of each trial class, and what placeholders in it stand for.
        given: what is made in all files.
        asked: the names of hyperparameters that the code around asks for.
    """
    init = syntax.methods(classes[scope][1]).get("__init__")
    params = [] if init is None else [*init.params.params[1:], *init.params.kwonly_params]
    places = [each.name.value for each in params]
    # No config has a hyperparameter of this name.
    named = {n.name.value: n.default for n in params if "context" not in n.name.value}
    if not named:
        return SameNames()
    family = [each for each in hierarchy.relatives(scope) if each in classes]
    configs = {each: configs_of(classes[each][0], each.name) for each in family}
    known = {n for every in configs.values() for c in every for n in c.hyperparameters.space}
    nodes = [classes[each][1:] for each in family]
    known.update(asked, *(config_use(*each).names for each in nodes))
    # What is looked up in all hyperparameters, by a method for example, stands there as a text.
    texts = [syntax.code(node) for node, _ in nodes]
    known.update(n for n in named if any(f'"{n}"' in t or f"'{n}'" in t for t in texts))
    if not (names := named.keys() & known):
        return SameNames()
    # A config starts the class, or one that has its __init__ from it. A mixin is handed all
    # hyperparameters by whatever is behind it, also by an __init__.
    started, is_mixin = [scope], not hierarchy.is_trial(scope)
    for each in started:
        heirs = (heir for heir in hierarchy.children(each) if heir in classes)
        started += [
            heir for heir in heirs if is_mixin or "__init__" not in syntax.methods(classes[heir][1])
        ]
    spaces = [
        config.hyperparameters.space
        for each in started
        for config in configs[each]
        if config.entrypoint is not None and config.entrypoint.trial is not None
    ]
    apart = {
        name
        for name in names
        for space in spaces
        if name in space and not _is_same(space[name], named[name])
    }
    uses = [_use(*each) for each in nodes]
    read = {name for use in uses for name in (*use.names, *use.read)}
    if any(use.is_open or use.is_whole for use in uses):
        # What is looked up in all of them may have any name.
        read |= names
    for name, (value, at) in values_given(given, scope.name, places):
        if name in names & read and not _is_of_name(value, at, name):
            apart.add(name)
    return SameNames(frozenset(names), frozenset(apart))


def _is_same(value: object, default: cst.BaseExpression | None) -> bool:
    try:
        known = None if default is None else ast.literal_eval(syntax.code(default))
    except ValueError:
        return False
    return isinstance(value, Const) and default is not None and value.value == known


def _is_of_name(value: ast.expr, scope: ast.AST, name: str) -> bool:
    """Whether an expression is surely the hyperparameter of this name, maybe as another type."""
    if isinstance(value, ast.Call):
        last, given = called(value), [literal(each) for each in value.args[:1]]
        if last in _TYPES and len(value.args) == 1:
            return _is_of_name(value.args[0], scope, name)
        is_asked = last == "get_hparam" or (last == "get" and _is_of_all(value.func))
        return is_asked and given == [name]
    if isinstance(value, ast.Subscript):
        return literal(value.slice) == name and _is_of_all(value.value)
    if isinstance(value, ast.Attribute):
        return value.attr == name and _is_of_all(value.value)
    # What a class hands on to its base is its own to judge.
    is_init = isinstance(scope, ast.FunctionDef) and scope.name == "__init__"
    return is_init and last_name(value) == name


def _is_of_all(node: ast.expr) -> bool:
    """Whether an expression has all hyperparameters, as far as its name says."""
    return re.search(r"(?i)\bhp|hparam|hyperparam", ast.unparse(node)) is not None


_TYPES = ("int", "float", "str", "bool")


def _use(node: cst.ClassDef, symbols: Symbols) -> ConfigUse:
    """What a class asks of the hyperparameters, but not to give them to its base."""

    def bare(call: cst.Call) -> cst.Call:
        is_init = syntax.code(call.func).endswith(".__init__")
        return call.with_changes(args=[]) if is_init else call

    return config_use(syntax.each(node, cst.Call, bare), symbols)
