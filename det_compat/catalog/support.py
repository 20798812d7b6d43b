"""Looks up in the tables of the catalog what becomes of a name of Determined."""

from collections.abc import Collection

from det_compat.catalog.members import ARGUMENTS, MEMBERS, OTHERS
from det_compat.catalog.names import EXPORTS, MODULES, PACKAGES, SINGLE_NAMES, refusal
from det_compat.catalog.releases import Kind, released
from det_compat.catalog.status import SAME, Status, Support, different, refused


def is_determined(name: str) -> bool:
    """Whether a dotted name is one of Determined's, or of what came with it."""
    return name.partition(".")[0] in PACKAGES


def home(name: str) -> str | None:
    """Where det_compat has a name of Determined; None if it is refused or has no place.

    Names of det_compat are their own home, so that code which uses it already is understood.
    """
    if name.partition(".")[0] == "det_compat":
        return name
    module, rest = _split(name)
    if not rest:
        return MODULES.get(module) or (module if module in MODULES else None)
    start = SINGLE_NAMES.get(f"{module}.{rest[0]}")
    if start is None and rest[0] in exports(module):
        start = f"{MODULES[module]}.{rest[0]}"
    return None if start is None else ".".join([start, *rest[1:]])


def _split(name: str) -> tuple[str, list[str]]:
    """The longest module that a name begins with, and the rest."""
    parts = name.split(".")
    length = 0
    while length < len(parts) and ".".join(parts[: length + 1]) in MODULES:
        length += 1
    return ".".join(parts[:length]), parts[length:]


def exports(module: str) -> Collection[str]:
    """The names that ``from MODULE import *`` brings, given a module of Determined's."""
    return EXPORTS.get(MODULES.get(module) or "", {}).keys()


def of_name(name: str) -> Support:
    """The support of a dotted name such as ``determined.pytorch.LRScheduler.StepMode``."""
    if name.partition(".")[0] == "det_compat":
        return SAME
    where = home(name)
    if where is None:
        return _of_what_was_there(name)
    module, _, attribute = where.rpartition(".")
    if attribute in EXPORTS.get(module, {}):
        return EXPORTS[module][attribute]
    owner = _owner(where)
    return of_member(owner, where[len(owner) + 1 :]) if owner else SAME


def _of_what_was_there(name: str) -> Support:
    """The support of a name that det_compat has nowhere: constants and exceptions are kept."""
    found = released(name)
    if found is not None and found.kind is Kind.CONSTANT:
        return SAME
    if found is not None and found.kind is Kind.ERROR:
        return different("there to be caught; nothing here raises it", "exceptions")
    return refusal(name)


def _owner(where: str) -> str | None:
    """The class or object whose member a name is."""
    parts = where.split(".")
    starts = (".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))
    return next((start for start in starts if start in MEMBERS or _is_export(start)), None)


def _is_export(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    return attribute in EXPORTS.get(module, {})


def of_member(owner: str, name: str) -> Support:
    """The support of an attribute of an instance of ``owner``, a class's name in det_compat."""
    if is_determined(owner):
        return refusal(owner)
    table = MEMBERS.get(owner, {})
    if name in table:
        return table[name]
    if owner in OTHERS:
        return OTHERS[owner]
    outer, dot, _ = name.rpartition(".")
    if dot and outer in table:
        # The name may go on after a member, as in `StepMode.STEP_EVERY_EPOCH.value`.
        return table[outer]
    if name.startswith("__") or owner not in MEMBERS:
        return SAME
    if name.startswith("_"):
        return refused("private to Determined, and not there", "private-names")
    return Support(
        Status.UNKNOWN, f"no release of Determined that was read has it on {owner.split('.')[-1]}"
    )


def has_member(owner: str, name: str) -> bool:
    """Whether the table says anything of a member."""
    return name in MEMBERS.get(owner, {})


def of_argument(function: str, keyword: str) -> Support | None:
    """The support of a keyword argument, given a function's name in det_compat.

    None if there is nothing to say.
    """
    owner, _, name = function.rpartition(".")
    known = MEMBERS.get(owner, {}).get(f"{name}({keyword})")
    if known is not None:
        return known
    if function not in ARGUMENTS or keyword in ARGUMENTS[function]:
        return None
    return refused(f"{name}() takes no argument {keyword!r}", "determinedpytorch")
