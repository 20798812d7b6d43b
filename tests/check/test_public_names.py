"""Every public name of determined 0.38.1 has a verdict, and what is said to work is there.

The names are read from its source, since half of its modules cannot be imported without
TensorFlow, DeepSpeed or transformers.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import inspect
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from det_compat.catalog.releases import Kind, released
from det_compat.catalog.status import Status
from det_compat.catalog.support import home, of_name
from tests.check.guide import anchors

MADE = (Kind.CONSTANT, Kind.ERROR)
GOOD = (Status.SAME, Status.DIFFERENT)


def root() -> Path:
    spec = importlib.util.find_spec("determined")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


def dotted(path: Path) -> str:
    parts = path.relative_to(root().parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def trees() -> dict[str, ast.Module]:
    with warnings.catch_warnings():
        # about escapes in Determined's strings
        warnings.simplefilter("ignore")
        return {dotted(path): ast.parse(path.read_bytes()) for path in root().rglob("*.py")}


def is_public(name: str) -> bool:
    return not any(part.startswith("_") for part in name.split("."))


def public_names() -> list[str]:
    """Modules, what they define or have from elsewhere in Determined, and members of classes."""
    names = set()
    for module in filter(is_public, trees()):
        names.add(module)
        for name, cls in in_module(module):
            names.add(f"{module}.{name}")
            names.update(f"{module}.{name}.{member}" for member in members(cls))
    return sorted(filter(is_public, names))


def in_module(module: str) -> Iterator[tuple[str, ast.ClassDef | None]]:
    for node in trees()[module].body:
        if isinstance(node, ast.ClassDef):
            yield node.name, node
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, None
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((t.id, None) for t in targets if isinstance(t, ast.Name))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("determined"):
            for alias in node.names:
                yield alias.asname or alias.name, defined(node.module or "", alias.name)


def defined(module: str, name: str) -> ast.ClassDef | None:
    body = trees()[module].body if module in trees() else []
    return next((n for n in body if isinstance(n, ast.ClassDef) and n.name == name), None)


def members(cls: ast.ClassDef | None) -> Iterator[str]:
    for node in cls.body if cls else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def exists(name: str) -> bool:
    """Whether det_compat has a name: a module, in one, or on a class or its instances."""
    parts = name.split(".")
    end = len(parts)
    while end and not is_module(".".join(parts[:end])):
        end -= 1
    if not end:
        return False
    value: Any = importlib.import_module(".".join(parts[:end]))
    for part in parts[end:]:
        bases = inspect.getmro(value) if inspect.isclass(value) else ()
        if part in {n for base in bases for n in getattr(base, "__annotations__", {})}:
            return True
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True


@pytest.fixture(scope="module")
def names() -> list[str]:
    return public_names()


def test_there_are_names_of_every_part(names: list[str]) -> None:
    parts = {name.split(".")[1] for name in names if "." in name}
    expected = {"cli", "common", "core", "deploy", "errors", "exec", "experimental", "keras"}
    expected |= {"horovod", "launch", "lightning", "pytorch", "tensorboard", "transformers", "util"}
    assert expected <= parts
    assert len(names) > 4000


def test_none_is_unknown(names: list[str]) -> None:
    assert [name for name in names if of_name(name).status is Status.UNKNOWN] == []


def test_a_verdict_says_why_and_where(names: list[str]) -> None:
    supports = [of_name(name) for name in names]
    assert all(support.note for support in supports if support.status is not Status.SAME)
    links = {s.link.partition("#")[2] for s in supports if s.status is not Status.SAME}
    assert links <= anchors()


def test_what_works_is_there(names: list[str]) -> None:
    # In determined.tensorboard, a function hides the module of its name.
    hidden = "determined.tensorboard.build."
    works = [n for n in names if of_name(n).status in GOOD and not n.startswith(hidden)]
    # packages of Determined that are there as such, and empty
    homes = {name: home(name) or "" for name in works if home(name) != name}
    assert len(homes) > 150
    # Constants and exceptions of Determined's are made by the alias.
    made = {name for name in homes if (found := released(name)) and found.kind in MADE}
    assert {n: h for n, h in homes.items() if not (exists(h) if h else n in made)} == {}


def test_what_is_refused_is_not_there_after_all(names: list[str]) -> None:
    refused = [name for name in names if of_name(name).status is Status.REFUSED]
    homes = {name: home(name) for name in refused}
    # there to raise an error that says what to do
    raising = {f"determined.core.DistributedContext.from_{n}" for n in ("horovod", "tf_config")}
    there = {name for name, h in homes.items() if h and exists(h)}
    assert there == raising
