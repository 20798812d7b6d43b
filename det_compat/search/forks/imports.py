"""What a request has imported of installed packages, and its import before the next one.

Modules of users, which may be others the next time, are never among them.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import site
import sys
import sysconfig
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from det_compat.search.forks import fork_safety
from det_compat.shared.variables import preserved_variables

_KINDS = ("stdlib", "platstdlib", "purelib", "platlib")
_OURS = ("det_compat", "determined")


@dataclass(frozen=True)
class Imports:
    """What every request imports, in this order, before code of users runs.

    Attributes:
        preload: modules, before anything else.
        variables: the environment variables that it sets then.
        first: installed modules after that.
    """

    preload: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    first: Sequence[str] = ()

    def learned_first(self) -> dict[str, Any]:
        """What ``learn`` is to be given before any request."""
        # In the process that asks, `determined` is not what it is in a trial.
        return {
            **{"modules": list(self.first), "of_users": ["determined"]},
            **{"variables": {}, "given": dict(self.variables)},
        }


def first_imports(file: Path) -> list[str]:
    """The installed modules that a module of a user imports before it does anything else.

    What is not installed ends them, as it may do anything, and so do names of its own folder.
    """
    try:
        statements = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return []  # The trial's own process says what is wrong.
    found: list[str] = []
    for statement in statements:
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and statement.level == 0:
            names = [statement.module or ""]
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        else:
            break
        roots = {name.partition(".")[0] for name in names} - {*_OURS}
        if any(_is_beside(file, root) or not _can_be_installed(root) for root in roots):
            break
        found += [name for name in names if name.partition(".")[0] in roots]
    return found


def _is_beside(file: Path, name: str) -> bool:
    return any([*file.parent.glob(f"{name}.*"), *file.parent.glob(name)])


def _can_be_installed(name: str) -> bool:
    """Whether a package of that name, which nobody may have imported, is no user's own."""
    spec = importlib.util.find_spec(name)
    is_below = spec is not None and _is_below_root(spec.origin or "")
    return is_below or name in sys.stdlib_module_names


def learned(known: Set[str], before: Mapping[str, str]) -> dict[str, Any]:
    """What ``learn`` is to be given, after a request that began with these modules and variables.

    Installed modules are in the order in which they were imported. Those that use Determined are
    of users, installed or not, and their packages with them.
    """
    new = [name for name in list(sys.modules) if name not in known and _file(name)]
    of_users = {name.partition(".")[0] for name in new if _uses_determined(name)} - {*_OURS}
    installed = [n for n in new if _is_installed(n) and n.partition(".")[0] not in of_users]
    variables = {name: os.environ.get(name) for name in {*before, *os.environ}}
    return {
        "modules": installed,
        "of_users": [name for name in new if name not in installed],
        "variables": {name: it for name, it in variables.items() if it != before.get(name)},
    }


def _file(name: str) -> str:
    """Where a module was read from; "" for what some packages put under a name in its place."""
    spec = getattr(sys.modules[name], "__spec__", None)
    origin = getattr(spec, "origin", None)
    is_itself = getattr(spec, "name", None) == name
    return origin if is_itself and isinstance(origin, str) and os.sep in origin else ""


def _is_installed(name: str) -> bool:
    # `determined` is a name that det_compat has in a trial, and not before.
    if name.partition(".")[0] in _OURS:
        return name.startswith("det_compat")
    return _is_below_root(_file(name))


def _is_below_root(file: str) -> bool:
    roots = {sysconfig.get_path(kind) for kind in _KINDS} | {*site.getsitepackages()}
    return any(file.startswith(root + os.sep) for root in roots)


def _uses_determined(name: str) -> bool:
    kinds = (ModuleType, FunctionType, type)
    used = [value for value in vars(sys.modules[name]).values() if isinstance(value, kinds)]
    homes = [it.__name__ if isinstance(it, ModuleType) else it.__module__ for it in used]
    return any(str(home).partition(".")[0] in _OURS for home in homes)


def learn(
    modules: Sequence[str],
    of_users: Sequence[str],
    variables: Mapping[str, str | None],
    given: Mapping[str, str],
) -> str:
    """Import ``modules``; says why forks would not be as before, "" if they are.

    Args:
        modules: by name.
        of_users: those that must not be imported.
        variables: environment variables that a request has left, None for those that it deleted.
        given: those of them that every request sets before it imports anything.
    """
    before = fork_safety.traces()
    with preserved_variables(*given):
        os.environ.update(given)
        for name in modules:
            try:
                importlib.import_module(name)
            except Exception as error:
                return f"{name} cannot be imported: {error!r}"
        unlike = sorted(name for name, value in variables.items() if os.environ.get(name) != value)
    if brought := sorted({*of_users} & {*sys.modules}):
        return f"installed packages import {brought[0]}"
    if unlike:
        return f"a trial has changed {', '.join(unlike)}, which imports may look at"
    after = fork_safety.traces()
    if changed := [name for name, value in before.items() if after[name] != value]:
        return f"imports have changed {', '.join(changed)}"
    return fork_safety.why_not_to_fork()
