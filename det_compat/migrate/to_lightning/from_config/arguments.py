"""The parameters of a constructor, those for values of the config among them."""

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import libcst as cst

from det_compat.config import ExperimentConfig
from det_compat.config.flat import KNOWN, PLAIN
from det_compat.migrate.to_lightning.from_config.closed import closed
from det_compat.migrate.to_lightning.from_config.lookups import Setting
from det_compat.migrate.tree.parameters import (
    Arguments,
    annotation_of,
    arguments,
    config_use,
    joined_use,
)
from det_compat.migrate.tree.symbols import Symbols


def with_default(found: Arguments, name: str, value: int) -> Arguments:
    """The arguments with one more, which is this number by default."""
    return replace(
        found,
        types={**found.types, name: "int"},
        defaults={**found.defaults, name: value},
    )


def parameters_of(
    node: cst.ClassDef,
    files: Sequence[tuple[cst.Module, Symbols]],
    functions: Mapping[str, cst.FunctionDef],
    configs: Sequence[ExperimentConfig],
    *,
    settings: Mapping[str, Setting],
    others: Collection[cst.ClassDef],
    is_whole: bool,
) -> Arguments:
    """The parameters of a trial's constructor.

    Args:
        node: the trial.
        files: its file, and those that it may hand its context to.
        functions: those of other files, by name.
        configs: those of the trial.
        settings: the values of the config that all files look up.
        others: the other trials of its file.
        is_whole: whether all of the trial is in one class.
    """
    own = config_use(node, files[0][1], functions)
    around = joined_use(
        config_use(line, symbols)
        for tree, symbols in files
        for line in tree.body
        # Another trial of the file has hyperparameters of its own.
        if not (is_whole and any(line is other for other in others))
    )
    asked = {n: found for n, found in settings.items() if n in (*own.names, *around.names)}
    own, around = (
        replace(use, names=tuple(name for name in use.names if name not in asked))
        for use in (own, around)
    )
    found = arguments(own, around, configs, is_whole, is_asked=bool(asked))
    if configs:
        found = closed(found, node, files[0][1], (own, around), configs)
    found = replace(found, settings={name: setting.of for name, setting in asked.items()})
    for name, setting in asked.items():
        values = [setting.value(config) for config in configs]
        fallback = (ast.literal_eval(setting.fallback),) if setting.fallback else ()
        given = [each for each in (*values, *fallback) if each is not ...]
        known = [KNOWN[name]()] if name in KNOWN and not given else given
        plain = [each for each in known if each is not None]
        of = annotation_of(name, plain)
        of += " | None" if len(plain) < len(known) and of != "Any" else ""
        default: dict[str, Any] = {}
        if values and values[0] is not ...:
            default = {name: values[0]}
        elif fallback and (fallback[0] is None or isinstance(fallback[0], PLAIN)):
            default = {name: fallback[0]}
        found = replace(
            found,
            types={**found.types, name: of},
            defaults={**found.defaults, **default},
        )
    return found
