"""The rooms of the code: their sizes, which may import which, and what stays private."""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_MODULES = 15
DEEPEST = 3

#: Each package may import those above it, function-level imports included, and none below.
LAYERS = (
    ("shared",),
    ("catalog", "common"),
    ("alias", "util"),
    ("script",),
    ("config",),
    ("core", "analysis", "launch"),
    ("checkpoint", "check"),
    ("pytorch", "experiment"),
    ("experimental", "pedl", "tensorboard", "transformers", "search", "first_config"),
    ("runs",),
    ("adapters",),
    ("tracking",),
    ("migrate", "api"),
    ("commands",),
)

#: The one module that touches what Lightning keeps private.
DOOR = "adapters/lightning/door.py"


def modules() -> dict[str, Path]:
    """Every module of the product, by the name that it is imported by."""
    found = {}
    for top, prefix in (("det_compat", ()), ("adapters", ("det_compat",))):
        for path in sorted((ROOT / top).rglob("*.py")):
            relative = path.relative_to(ROOT)
            if "adapters" not in relative.parts[1:]:  # the link to the other folder
                parts = (*prefix, *relative.with_suffix("").parts)
                found[".".join(part for part in parts if part != "__init__")] = path
    return found


MODULES = modules()


def package(module: str) -> str:
    """The room below det_compat that a module is in; '' for modules at the top."""
    parts = module.split(".")
    is_room = len(parts) > 2 or (len(parts) == 2 and MODULES[module].name == "__init__.py")
    return parts[1] if is_room else ""


@functools.cache
def imports(module: str) -> list[tuple[str, list[str]]]:
    """The modules that a module imports wherever in it, and what it takes from each."""
    return [*_imports(module)]


def _imports(module: str) -> Iterator[tuple[str, list[str]]]:
    tree = ast.parse(MODULES[module].read_text())
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield (whole if whole in MODULES else node.module), [*whole.split(".")]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, alias.name.split(".")


def test_no_room_is_crowded() -> None:
    rooms = Counter(
        path.parent.relative_to(ROOT) for path in MODULES.values() if path.name != "__init__.py"
    )
    assert {str(room): n for room, n in rooms.items() if n > MOST_MODULES} == {}
    assert [str(room) for room in rooms if len(room.parts) > DEEPEST + 1] == []


def test_every_room_has_its_floor() -> None:
    rooms = {package(module) for module in MODULES} - {""}
    assert rooms == {room for floor in LAYERS for room in floor}


@pytest.mark.parametrize("room", [room for floor in LAYERS for room in floor])
def test_imports_lead_down(room: str) -> None:
    floors = {name: number for number, floor in enumerate(LAYERS) for name in floor}
    up = [
        f"{module} -> {target}"
        for module in MODULES
        if package(module) == room
        for target, _ in imports(module)
        if target in MODULES
        and package(target) not in ("", room)
        and floors[package(target)] >= floors[room]
    ]
    assert up == []


def test_nothing_private_is_imported_from_another_room() -> None:
    found = [
        f"{module}: {'.'.join(parts)}"
        for module in MODULES
        for target, parts in imports(module)
        if target in MODULES
        and package(target) != package(module)
        and any(part.startswith("_") and not part.startswith("__") for part in parts[1:])
    ]
    assert found == []


def test_only_adapters_import_lightning() -> None:
    lightning = ("pytorch_lightning", "lightning", "lightning_fabric", "lightning_utilities")
    found = {
        package(module)
        for module in MODULES
        for target, _ in imports(module)
        if target.partition(".")[0] in lightning
    }
    assert found == {"adapters"}


def test_the_insides_of_lightning_are_touched_in_one_module() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for module, path in MODULES.items()
        if package(module) == "adapters" and path != ROOT / DOOR
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and ast.unparse(node.value) not in ("self", "cls", "super()", "os")
    ]
    assert found == []
