"""The modules of Determined and their names: where det_compat has them, and what it refuses.

The tables stand in ``names.json``. ``det_compat.alias`` answers imports by them, and ``support``
looks names up in them for ``check`` and ``migrate``; ``members`` has what is in the classes. Tests
hold them against the code of det_compat and against Determined 0.38.1; names of other releases are
those that were read in the sources of Determined 0.12.3 to 0.38.1 and of PEDL. Spaces separate
names; ``see`` is the heading of MIGRATION.md that says more.

This module is imported whenever ``det_compat.alias`` is, so it imports little itself: no YAML.
"""

from det_compat.catalog.status import Support, refused, verdicts
from det_compat.shared.data_files import data_beside

#: Packages that the alias answers for.
ALIASED = ("determined", "determined_common", "pedl")
#: Those, and packages that came with Determined and are not aliased.
PACKAGES = (*ALIASED, "determined_cli", "determined_deploy", "model_hub")

_TABLES = data_beside(__file__, "names.json")

#: The modules that are aliased, each with the module of det_compat that has its names. A module
#: with None has the names of SINGLE_NAMES and nothing else. The underscored modules are those of
#: Determined 0.38.1 that trials import from, and that pickles made under Determined name.
MODULES: dict[str, str | None] = _TABLES["modules"]

#: Names that det_compat has in another module than the one that MODULES names.
SINGLE_NAMES: dict[str, str] = _TABLES["single_names"]

#: What each module of det_compat has, under the names of Determined 0.38.1; names that only
#: 0.12 or PEDL had say so.
EXPORTS = {module: verdicts(entry) for module, entry in _TABLES["exports"].items()}

#: What there is none of, with what to do instead; an entry holds for all that is below its name.
REFUSED = verdicts(_TABLES)

#: The subcommands of ``det``.
COMMANDS = verdicts(_TABLES["commands"])

_PRIVATE = refused(
    "it is private to Determined: leave it out, or write its few lines into your code",
    "private-names",
)
_LEFT_OUT = refused(
    "it is a part of Determined's own that trials have no use for: leave it out",
    "names-that-are-not-there",
)
_NEVER = refused(
    "no release of Determined from 0.12 to 0.38.1 had it there: look at its spelling",
    "names-that-are-not-there",
)


def refusal(name: str) -> Support:
    """What to do without ``name``: the word of REFUSED on it, or on the nearest of its parents.

    An import of another module's name is that name.
    """
    from det_compat.catalog.releases import released

    found = released(name)
    for start in (name, found.origin if found else ""):
        parent = start
        while parent and parent not in REFUSED:
            parent = parent.rpartition(".")[0]
        if parent:
            return REFUSED[parent]
    if found is None:
        return _NEVER
    return _PRIVATE if name.rpartition(".")[2].startswith("_") else _LEFT_OUT


def refusal_text(name: str) -> str:
    """What is said to code that asks for ``name``."""
    found = refusal(name)
    return f"det_compat has no {name}: {found.note}. See {found.link}."
