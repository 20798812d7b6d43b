"""Hyperparameters and configs as options of jsonargparse, and so of LightningCLI: they are data.

jsonargparse 4.53 parses strings of a file once more, so that ``"1e-4"`` would become a number, and
imports what a ``class_path`` in a ``dict[str, Any]`` names. Here a string of a file stays what it
is, and nothing is imported. What is typed for a single key, ``--model.hparams.lr 0.1``, is read as
in an experiment config.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from det_compat.config.loading import resolve
from det_compat.shared.nested import map_nested


class Given(dict[str, Any]):
    """A mapping that a file or one option gives as a whole."""


class Value:
    """A value in such a mapping."""


class _Kept(str):
    """A string that is not parsed again, however often jsonargparse checks it."""

    __slots__ = ()


class _Quoted(str):
    """A string that is written in quotes, since it would be read as something else."""

    __slots__ = ()


def plain(value: Any) -> Any:
    """``value`` as the file or the user gave it."""
    return map_nested(value, lambda item, _: str(item) if isinstance(item, str) else item)


def _kept(value: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError("expected a mapping")
    return map_nested(value, lambda item, _: _Kept(item) if isinstance(item, str) else item)


def _typed(value: str) -> Any:
    found = resolve(value) if value else value
    return _Kept(found) if isinstance(found, str) else found


def to_write(value: Any) -> Any:
    """``value`` for PyYAML's safe dumper, such that jsonargparse reads the same from it."""
    return map_nested(value, lambda item, _: _text(item) if isinstance(item, str) else item)


def _text(item: str) -> str:
    text = str(item)
    return text if isinstance(resolve(text), str) else _Quoted(text)


def _represent(dumper: yaml.SafeDumper, item: _Quoted) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(item), style="'")


def _register() -> None:
    try:
        from jsonargparse.typing import register_type
    except ImportError:  # Without it there is no LightningCLI.
        return
    register_type(Given, to_write, _kept, type_check=lambda value, _: False)
    register_type(Value, to_write, _typed, type_check=lambda value, _: type(value) is not str)
    yaml.SafeDumper.add_representer(_Quoted, _represent)


_register()

if TYPE_CHECKING:
    Mapping = dict[str, Any]
else:
    # A file's mapping is Given. A single key comes as something else, for the second to take in.
    Mapping = Given | dict[str, Value]
