"""The page of the site that has every name of Determined, with what becomes of it."""

from collections.abc import Iterator, Mapping

from det_compat.catalog.members import MEMBERS
from det_compat.catalog.names import COMMANDS, MODULES, REFUSED
from det_compat.catalog.status import Status, Support
from det_compat.catalog.support import exports, of_name

_INTRODUCTION = """# Every name of Determined

What `det-compat check` looks up: the public names of `determined` 0.38.1, of 0.12 and of PEDL, the
members of the classes that trials use, and what is refused. A name that works differently links to
what is different.
"""
_WORDS = {
    Status.SAME: "works",
    Status.DIFFERENT: "works differently",
    Status.REFUSED: "refused",
    Status.UNKNOWN: "unknown",
}


def names_page() -> str:
    """The page, in Markdown."""
    return "\n".join([_INTRODUCTION, *_modules(), *_refused()])


def _modules() -> Iterator[str]:
    for module in sorted(module for module in MODULES if exports(module)):
        yield f"## `{module}`\n"
        yield from _table({name: of_name(f"{module}.{name}") for name in sorted(exports(module))})
        place = MODULES[module]
        for name in sorted(exports(module)):
            members = MEMBERS.get(f"{place}.{name}", {})
            if members and _is_at_home(module, f"{place}.{name}"):
                yield f"### `{module}.{name}`\n"
                yield from _table(members)


def _is_at_home(module: str, owner: str) -> bool:
    """Whether a class is told of under ``module``: several have the names of some modules."""
    place = owner.rpartition(".")[0]
    return module == min(name for name, home in MODULES.items() if home == place)


def _refused() -> Iterator[str]:
    yield "## Refused, with all that is below\n"
    yield from _table(REFUSED)
    yield "## Subcommands of `det`\n"
    yield from _table(COMMANDS)


def _table(found: Mapping[str, Support]) -> Iterator[str]:
    yield "| Name | | |\n|---|---|---|"
    for name, support in found.items():
        note = support.note.replace("|", "\\|").replace("\n", " ")
        link = f"[{note or 'more'}]({support.link})" if support.link and not note else note
        more = f" ([more]({support.link}))" if support.link and note else ""
        yield f"| `{name}` | {_WORDS[support.status]} | {link}{more} |"
    yield ""
