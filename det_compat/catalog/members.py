"""What becomes of the attributes, arguments and results of Determined's classes.

The tables stand in ``members.yaml``, which says what its entries mean; the keys are names in
det_compat.
"""

from det_compat.catalog.status import Support, refused, verdicts
from det_compat.shared.data_files import data_beside

_TABLES = data_beside(__file__, "members.yaml")
_CLASSES = _TABLES["classes"].items()
_FUNCTIONS = _TABLES["functions"].items()

MEMBERS: dict[str, dict[str, Support]] = {name: verdicts(entry) for name, entry in _CLASSES}

#: Objects of which every other name is refused, whatever it is, for one reason.
OTHERS: dict[str, Support] = {
    name: refused(entry["others"]["note"], entry["others"]["see"])
    for name, entry in _CLASSES
    if "others" in entry
}

#: The support of what only trials of Determined 0.12 have: a context of the context API does not
#: have it, and a trial of the context API may use the name for a method of its own.
OLD_ONLY = MEMBERS["det_compat.pytorch.PyTorchTrialContext"]["model"]

#: The support of an attribute that no release has, of what is certainly a context or the like.
NOWHERE = refused(
    "neither det_compat nor any release of Determined that was read has it, and this code does not "
    "set it",
    "names-that-are-not-there",
)

#: Classes that users derive from: an object of one may have any other attribute, too.
SUBCLASSED = frozenset(name for name, entry in _CLASSES if entry.get("subclassed"))

#: Attributes that are objects with members of their own.
TYPES: dict[tuple[str, str], str] = {
    (owner, name): kind
    for owner, entry in _CLASSES
    for name, kind in entry.get("holds", {}).items()
}

#: What calls return, where it is not an object of the class that is called.
RESULTS: dict[str, str] = {
    name: entry["returns"] for name, entry in _FUNCTIONS if "returns" in entry
}

#: The arguments that functions take by keyword; others raise a TypeError, as in Determined 0.38.1.
ARGUMENTS: dict[str, list[str]] = {
    name: entry["arguments"].split() for name, entry in _FUNCTIONS if "arguments" in entry
}

#: Methods that only one class has, with the class: what has one of them called on it is of it.
TELLTALE: dict[str, str] = {
    method: name for name, entry in _CLASSES for method in entry.get("telltale", "").split()
}
