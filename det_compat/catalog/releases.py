"""What each module of Determined had, in any release from 0.12.0 to 0.38.1, and what it was.

The table stands in ``releases.json``, read from the sources of every release: 0.12.0 to 0.38.1 of
Determined and of ``model_hub``. For each module there are the classes, exceptions (with their base
classes), enumerations (with their members), functions, constants (with their values) and other
values that it made, and what it imported from Determined's other modules. ``open`` lists modules,
generated ones and those of command lines, of which the table holds no names: any may be there.

It is read when a name is asked for that det_compat does not have, and not before.
"""

import enum
import functools
from typing import Any, NamedTuple

from det_compat.shared.data_files import data_beside


class Kind(enum.Enum):
    """What a name of Determined stood for."""

    MODULE = "module"
    CLASS = "class"
    ERROR = "exception"
    ENUM = "enumeration"
    FUNCTION = "function"
    CONSTANT = "constant"
    VALUE = "value"


class Released(NamedTuple):
    """A name that a release of Determined had.

    Attributes:
        kind: what it stood for.
        origin: the full name where it was made; imports lead there.
        detail: the base of an exception, the members of an enumeration, the value of a constant.
    """

    kind: Kind
    origin: str
    detail: Any = None


def is_module(name: str) -> bool:
    """Whether a release of Determined had a module of that name."""
    return name in _table()["modules"] or _is_open(name)


def may_be_a_package(name: str) -> bool:
    """Whether the table does not tell what is below a module."""
    return _is_open(name)


def comes_with_determined(module: str) -> bool:
    """Whether ``import determined`` of 0.38.1 brings a module, so that it is an attribute."""
    return module in _table()["at_import"].split()


def released(name: str) -> Released | None:
    """What a full name such as ``determined.util.merge_dicts`` stood for; None if for nothing."""
    if is_module(name) and not _is_open(name.rpartition(".")[0]):
        return Released(Kind.MODULE, name)
    module, _, attribute = name.rpartition(".")
    if _is_open(module):
        return Released(_kind_by_spelling(attribute), name)
    names = _names(module)
    if attribute not in names:
        return None
    found = names[attribute]
    return released(found) if isinstance(found, str) else found


def submodules(name: str) -> list[str]:
    """The modules just below a package, by their last names."""
    start = f"{name}."
    below = (module[len(start) :] for module in _table()["modules"] if module.startswith(start))
    return sorted({module.partition(".")[0] for module in below})


@functools.cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = data_beside(__file__, "releases.json")
    return table


def _is_open(module: str) -> bool:
    return any(f"{module}.".startswith(f"{start}.") for start in _table()["open"])


@functools.cache
def _names(module: str) -> dict[str, Released | str]:
    """Each name of a module with what it is, or the full name that it was imported from."""
    entry = _table()["modules"].get(module, {})
    found: dict[str, Released | str] = dict(entry.get("renamed", {}))
    for origin, names in entry.get("same_as", {}).items():
        found.update({name: f"{origin}.{name}" for name in names.split()})
    for base, names in entry.get("errors", {}).items():
        found.update({n: Released(Kind.ERROR, f"{module}.{n}", base) for n in names.split()})
    for name, members in entry.get("enums", {}).items():
        found[name] = Released(Kind.ENUM, f"{module}.{name}", members.split())
    for name, value in entry.get("constants", {}).items():
        found[name] = Released(Kind.CONSTANT, f"{module}.{name}", value)
    kinds = {"classes": Kind.CLASS, "functions": Kind.FUNCTION, "values": Kind.VALUE}
    for key, kind in kinds.items():
        for name in entry.get(key, "").split():
            found[name] = Released(kind, f"{module}.{name}")
    return found


def _kind_by_spelling(name: str) -> Kind:
    if name.isupper():
        return Kind.VALUE
    return Kind.CLASS if any(map(str.isupper, name)) else Kind.FUNCTION
