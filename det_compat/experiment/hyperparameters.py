"""Hyperparameters that are typed on the command line of ``det-compat fit``."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from det_compat.config.loading import load, value_of
from det_compat.experiment.errors import FitError

OPTION = "--model.hparams"

#: The names above a hyperparameter and its own, none for all of them; and its value.
Typed = tuple[tuple[str, ...], Any]


def take_out(options: Sequence[str]) -> tuple[list[str], list[Typed]]:
    """``options`` without those for hyperparameters, and what these say, in their order.

    ``--model.hparams.NAME VALUE`` is read as ``NAME: VALUE`` in an experiment config;
    ``--model.hparams`` takes a mapping in YAML, or a file with one.

    Raises:
        ConfigError: a value is no YAML.
        FitError: there is no value, or no mapping.
    """
    rest: list[str] = []
    typed: list[Typed] = []
    words = iter(options)
    for word in words:
        option, has_value, text = word.partition("=")
        if option != OPTION and not option.startswith(f"{OPTION}."):
            rest.append(word)
            continue
        if not has_value:
            text = next(words, "--")
            if text.startswith("--"):
                raise FitError(f"{option} has no value: write {option}=VALUE")
        path = tuple(option.removeprefix(OPTION).split(".")[1:])
        typed.append((path, value_of(text, option) if path else mapping_of(text, option)))
    return rest, typed


def mapping_of(text: str, option: str) -> dict[str, Any]:
    """The hyperparameters that ``option`` was given: a mapping in YAML, or a file with one.

    Raises:
        ConfigError: it is no YAML, or there is no such file.
        FitError: it is no mapping.
    """
    found = value_of(text, option) if text.startswith(("{", "[", '"', "'")) else load(text).value
    if not isinstance(found, dict):
        raise FitError(f"{option} must be a mapping, such as '{{lr: 0.1}}', got {text}")
    return found


def with_typed(hparams: Mapping[str, Any], typed: Sequence[Typed]) -> dict[str, Any]:
    """``hparams`` with what was typed over them.

    Raises:
        FitError: a name is of something in a hyperparameter that is no mapping.
    """
    found = copy.deepcopy(dict(hparams))
    for path, value in typed:
        if not path:
            found = merged(found, value)
            continue
        within = found
        for depth, name in enumerate(path[:-1], 1):
            within = within.setdefault(name, {})
            if not isinstance(within, dict):
                above = ".".join(path[:depth])
                raise FitError(
                    f"{OPTION}.{'.'.join(path)}: the hyperparameter {above} is {within!r}, and no "
                    f"mapping: give {OPTION}.{above} as a whole"
                )
        within[path[-1]] = value
    return found


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``under`` with the values of ``over``, mappings in mappings likewise."""
    found = dict(under)
    for name, value in over.items():
        below = found.get(name)
        if isinstance(below, dict) and isinstance(value, dict):
            value = merged(below, value)
        found[name] = value
    return found
