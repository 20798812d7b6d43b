"""Checks a config against the table of keys."""

from __future__ import annotations

import difflib
from typing import Any

from det_compat.config.document import Document, KeyPath, Problems, dotted
from det_compat.config.keys.kinds import SECTION, Kind
from det_compat.config.keys.table import SECTIONS, Key, keys


def validate(document: Document, problems: Problems) -> dict[str, Any]:
    """Note unknown keys and values of the wrong type; the config without them is returned."""
    return _section(document.value, (), problems)


def _section(section: dict[str, Any], path: KeyPath, problems: Problems) -> dict[str, Any]:
    known = SECTIONS[dotted(path)]
    valid = {}
    for name, value in section.items():
        key = known.get(name)
        if key is None:
            advice = _advice(name, path, known)
            problems.add_key((*path, name), advice, "a key that no version knows")
        elif value is not None and _fits(value, (*path, name), key.kind, problems):
            is_section = key.kind is SECTION
            valid[name] = _section(value, (*path, name), problems) if is_section else value
    return valid


def _fits(value: Any, path: KeyPath, kind: Kind, problems: Problems) -> bool:
    if not kind.accepts(value):
        problems.add(path, kind.name)
        return False
    chosen = next((other for other in kind.alternatives if other.accepts(value)), kind)
    if chosen.item is None:
        return True
    wrong = [i for i, item in enumerate(value) if not chosen.item.accepts(item)]
    for i in wrong:
        problems.add((*path, i), chosen.item.name)
    return not wrong


def _advice(name: str, path: KeyPath, known: dict[str, Key]) -> str:
    elsewhere = [other for other in keys() if other.split(".")[-1] == name]
    if elsewhere:
        where = [other.rpartition(".")[0] or "the top level" for other in elsewhere]
        return f"it under {' or '.join(where)}"
    similar = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    if similar:
        return f"another (did you mean {similar[0]}?)"
    section = dotted(path) or "a config"
    return f"one of those of {section}: {', '.join(sorted(known))}"
