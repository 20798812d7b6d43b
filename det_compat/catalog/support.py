"""What becomes of a name of Determined: the table, looked up."""

from __future__ import annotations

from det_compat import alias
from det_compat.catalog.members import MEMBERS, OTHERS
from det_compat.catalog.methods import ARGUMENTS
from det_compat.catalog.names import ADVICE, EXPORTS, SAME, refused
from det_compat.check.findings import Status, Support

_CLUSTER = refused(
    "it talks to a Determined cluster, and there is none",
    "determinedcommon-determinedcli-determineddeploy",
)
_MODEL_HUB = refused(
    "model_hub is a package of its own that does not load any more: write out what the trial "
    "inherits from it",
    "model_hub",
)
#: Packages beside Determined that are not aliased.
_BESIDE = {"determined_cli": _CLUSTER, "determined_deploy": _CLUSTER, "model_hub": _MODEL_HUB}

ALIASED = ("determined", "determined_common", "pedl")
PACKAGES = (*ALIASED, *_BESIDE)

_MODULES = alias.modules()
_SINGLE = alias.single_names()


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
        return _MODULES.get(module) or (module if module in _MODULES else None)
    single = _SINGLE.get(f"{module}.{rest[0]}")
    target = _MODULES.get(module)
    if single is not None:
        start = single.replace(":", ".")
    elif target is not None and rest[0] in EXPORTS.get(target, {}):
        start = f"{target}.{rest[0]}"
    else:
        return None
    return ".".join([start, *rest[1:]])


def _split(name: str) -> tuple[str, list[str]]:
    """The longest module that a name begins with, and the rest."""
    parts = name.split(".")
    length = 0
    while length < len(parts) and ".".join(parts[: length + 1]) in _MODULES:
        length += 1
    return ".".join(parts[:length]), parts[length:]


def exports(module: str) -> list[str]:
    """The names that ``from MODULE import *`` brings, given a module of Determined's."""
    return [*EXPORTS.get(_MODULES.get(module) or "", {})]


def of_name(name: str) -> Support:
    """The support of a dotted name such as ``determined.pytorch.LRScheduler.StepMode``."""
    root = name.partition(".")[0]
    if root == "det_compat":
        return SAME
    if root in _BESIDE:
        return _BESIDE[root]
    where = home(name)
    if where is None:
        return _refusal(name)
    module, _, attribute = where.rpartition(".")
    if attribute in EXPORTS.get(module, {}):
        return EXPORTS[module][attribute]
    owner = _owner(where)
    return of_member(owner, where[len(owner) + 1 :]) if owner else SAME


def _owner(where: str) -> str | None:
    """The class or object whose member a name is."""
    parts = where.split(".")
    starts = (".".join(parts[:end]) for end in range(len(parts) - 1, 0, -1))
    return next((start for start in starts if start in MEMBERS or _is_export(start)), None)


def _is_export(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    return attribute in EXPORTS.get(module, {})


def _refusal(name: str) -> Support:
    known = name
    while known and known not in ADVICE:
        known = known.rpartition(".")[0]
    if known:
        return ADVICE[known]
    instead, link = alias.advice(name)
    return Support(Status.REFUSED, instead.rstrip("."), link)


def of_member(owner: str, name: str) -> Support:
    """The support of an attribute of an instance of ``owner``, a class's name in det_compat."""
    if is_determined(owner):
        return _refusal(owner)
    table = MEMBERS.get(owner, {})
    if name in table:
        return table[name]
    if owner in OTHERS:
        return OTHERS[owner]
    outer, dot, _ = name.rpartition(".")
    if dot and outer in table:
        # of an enum's member, for example: `StepMode.STEP_EVERY_EPOCH.value`
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
    if function not in ARGUMENTS or keyword in ARGUMENTS[function].split():
        return None
    return refused(f"{name}() takes no argument {keyword!r}", "determinedpytorch")
