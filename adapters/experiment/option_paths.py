"""Relative paths in Lightning's options, which mean the folder that the command was started in."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import Any

from jsonargparse import Namespace

_PATHS = ("ckpt_path", "default_root_dir", "dirpath", "root_dir", "save_dir")


def make_paths_absolute(options: Any) -> None:
    """Make the directories and checkpoints that ``options`` name independent of where we are.

    Checkpoints that are no file or directory here, such as ``last``, and URLs stay as they are.
    """
    if isinstance(options, list):
        for item in options:
            make_paths_absolute(item)
    if not isinstance(options, (Namespace, MutableMapping)):
        return
    names = vars(options) if isinstance(options, Namespace) else options
    for name, value in names.items():
        if name in _PATHS and isinstance(value, str) and _is_relative(name, value):
            names[name] = os.path.abspath(value)
        else:
            make_paths_absolute(value)


def _is_relative(name: str, path: str) -> bool:
    is_path = os.path.exists(path) if name == "ckpt_path" else "://" not in path
    return is_path and not os.path.isabs(path)
