"""The public names of ``determined.pytorch``, read from the installed determined 0.38.1."""

from __future__ import annotations

import ast
import inspect
import operator
import textwrap
import typing
from types import ModuleType
from typing import Any

from determined import pytorch
from determined.pytorch import experimental as experimental  # It is a name of pytorch only then.
from determined.pytorch import samplers

#: What det_compat leaves out; MIGRATION.md says why.
REFUSED = {
    "PyTorchTrial.trial_controller_class",
}


def public_names(module: ModuleType) -> list[str]:
    """Names without an underscore, submodules included, other imported modules left out."""
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and _belongs_to(module, value)
    )


def _belongs_to(module: ModuleType, value: Any) -> bool:
    if inspect.ismodule(value):
        return value.__name__.startswith(module.__name__ + ".")
    if getattr(typing, getattr(value, "__name__", ""), None) is value:
        return False
    home = getattr(value, "__module__", module.__name__)
    return home.split(".")[0] in ("determined", "typing")


def members(cls: type) -> list[str]:
    """Public members that ``cls`` adds to its public bases.

    These are methods, class attributes and what its ``__init__`` puts on self.
    """
    public = [
        base
        for base in cls.__bases__
        if base.__module__.startswith("determined.pytorch") and not base.__name__.startswith("_")
    ]
    inherited = set[str]().union(*map(_all_members, public))
    return sorted(_all_members(cls) - inherited)


def _all_members(cls: type) -> set[str]:
    return {
        name
        for base in cls.__mro__
        if base.__module__.startswith("determined.")
        for name in (*vars(base), *_instance_attributes(base))
        if not name.startswith("_")
    }


def _instance_attributes(cls: type) -> set[str]:
    if not inspect.isfunction(vars(cls).get("__init__")):
        return set()
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls.__init__)))
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def all_names() -> list[str]:
    """``Trainer``, ``Trainer.fit``, ``samplers.SkipSampler``, ... without the samplers' insides."""
    names = []
    for name in public_names(pytorch):
        names.append(name)
        value = getattr(pytorch, name)
        if inspect.isclass(value):
            names += [f"{name}.{member}" for member in members(value)]
    names += [f"samplers.{name}" for name in public_names(samplers)]
    return names


def resolve(root: Any, dotted: str) -> Any:
    """``root.a.b`` for ``a.b``; raises AttributeError where there is none."""
    return operator.attrgetter(dotted)(root)


def find(root: Any, dotted: str) -> Any:
    """``root.a.b`` for ``a.b``; None for an attribute that only instances have."""
    try:
        return resolve(root, dotted)
    except AttributeError:
        return None
