"""Hyperparameters that not every config has, as parameters of a constructor that is not open.

One that the code is sure to read is required, and one that a config has a value for has that for
its default. Any other is None where nobody gives it, and no hyperparameter then: what the code
does without it, it does as before.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import libcst as cst

from det_compat.config import ExperimentConfig
from det_compat.config.flat import PLAIN
from det_compat.config.hyperparameters import Const
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.parameters import (
    DATA,
    Arguments,
    ConfigUse,
    annotation_of,
    can_be_parameter,
    distinct,
    values_of,
)
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.walking import children
from det_compat.shared.masking import is_secret_name

#: More of them than these would hide what a module is about.
_MOST = 8
#: What Determined calls of every trial.
_CALLED = (
    "__init__",
    "build_training_data_loader",
    "build_validation_data_loader",
    "train_batch",
    "evaluate_batch",
    "evaluate_full_dataset",
)


def closed(
    found: Arguments,
    node: cst.ClassDef,
    symbols: Symbols,
    uses: Sequence[ConfigUse],
    configs: Sequence[ExperimentConfig],
) -> Arguments:
    """The arguments with each name that a config has, or the code reads, where that can be.

    Args:
        found: the parameters that all configs have, and whether it takes others.
        node: the trial.
        symbols: of its file.
        uses: what its class and the code around ask the config for.
        configs: those of the trial.
    """
    spaces = [config.hyperparameters.space for config in configs]
    read = distinct(name for use in uses for name in (*use.names, *use.read))
    lacking = [
        name
        for name in distinct((*read, *(name for space in spaces for name in space)))
        if name not in found.types
    ]
    init = syntax.methods(node).get("__init__")
    own = {each.name.value for each in syntax.find(init.params, cst.Param)} if init else set()
    is_free = own.isdisjoint(lacking) and all(map(_is_free, lacking))
    nulls = {name for space in spaces for name, item in space.items() if item == Const(None)}
    # The __init__ of another base, or a parameter for all hyperparameters, gets what it got.
    is_plain = len(node.bases) == 1 and "hparams" not in own
    # Two variables in __init__ have these names.
    is_free &= init is None or {"given", "absent"}.isdisjoint(syntax.names_in(init))
    is_asked = bool(read) or found.asks or bool(found.types)
    can_close = is_free and is_plain and nulls.isdisjoint(lacking) and len(lacking) <= _MOST
    if not (found.is_open and is_asked and can_close):
        return found
    sure = surely_read(node, symbols).difference(*spaces)
    none = _may_be_none(node)
    types, defaults, absent = dict(found.types), dict(found.defaults), set[str]()
    for name in lacking:
        types[name] = annotation_of(name, values_of(name, spaces))
        default = None if found.asks else _default(name, spaces)
        if name in sure:
            continue
        defaults[name] = default
        if default is None:
            types[name] += " | None" if types[name] != "Any" else ""
            absent |= {name} if (found.asks or name in read) and name not in none else set()
    return replace(found, types=types, defaults=defaults, is_open=False, absent=frozenset(absent))


def _may_be_none(node: cst.ClassDef) -> set[str]:
    """What a class compares with None as it looks it up, and never asks whether it is there."""
    found, asked = set[str](), set[str]()
    for compared in syntax.find(node, cst.Comparison):
        of = compared.left.slice[0] if isinstance(compared.left, cst.Subscript) else compared.left
        names = {str(text.evaluated_value) for text in syntax.find(of, cst.SimpleString)}
        if isinstance(of, cst.Attribute):
            names.add(of.attr.value)
        for target in compared.comparisons:
            if isinstance(target.operator, (cst.In, cst.NotIn)):
                asked |= names
            elif isinstance(target.comparator, cst.Name) and target.comparator.value == "None":
                found |= names
    return found - asked


def _is_free(name: str) -> bool:
    return can_be_parameter(name) and name not in ("self", DATA, "experiment_config")


def _default(name: str, spaces: Sequence[dict[str, Any]]) -> Any:
    """The value that the first config has which has one; None for what is no constant."""
    item = next((space[name] for space in spaces if name in space), None)
    value = item.value if isinstance(item, Const) else None
    is_secret = isinstance(value, str) and value != "" and is_secret_name(name)
    return value if isinstance(value, PLAIN) and not is_secret else None


def surely_read(node: cst.ClassDef, symbols: Symbols) -> set[str]:
    """The hyperparameters that a trial is sure to ask its context for, which must have them."""
    own, found, seen = syntax.methods(node), set[str](), [*_CALLED]
    for method in (own[name] for name in seen if name in own):
        for call in _surely_called(syntax.body_of(method)):
            name = syntax.argument(call, 0, "name")
            if symbols.method(call) == "get_hparam" and isinstance(name, cst.SimpleString):
                found.add(str(name.evaluated_value))
            owner, _, called = syntax.code(call.func).rpartition(".")
            if owner == syntax.self_name(method) and called not in seen:
                seen.append(called)
    return found


def _surely_called(lines: Sequence[cst.BaseStatement]) -> Iterator[cst.Call]:
    """The calls in statements, one after the other, that are made unless there is an error."""
    for line in lines:
        yield from _calls(line)
        if syntax.returns_in([line]):
            return


def _calls(node: cst.CSTNode) -> Iterator[cst.Call]:
    if isinstance(node, _PERHAPS):
        return
    if isinstance(node, cst.With):
        for item in node.items:
            yield from _calls(item)
        yield from _surely_called(syntax.body_of(node))
        return
    if isinstance(node, (cst.If, cst.IfExp, cst.While)):
        inner: Sequence[cst.CSTNode] = [node.test]
    elif isinstance(node, cst.For):
        inner = [node.iter]
    elif isinstance(node, cst.BooleanOperation):
        inner = [node.left]
    else:
        inner = [*children(node)]
    if isinstance(node, cst.Call):
        yield node
    for each in inner:
        yield from _calls(each)


#: What may not run, or where an error is caught.
_PERHAPS = (cst.FunctionDef, cst.ClassDef, cst.Lambda, cst.Try, cst.TryStar, cst.BaseComp)
