"""What a mistyped name may have been meant for, and what cannot be spelled here."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean NAME?``, if one of ``known`` is near; else nothing.

    Upper and lower case count for little: ``mytrial`` is near ``MyTrial``.
    """
    by_lower = {one.lower(): one for one in known if one != name}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f"; did you mean {by_lower[near[0]]}?" if near else ""


def foreign_letters(path: object) -> str:
    """Why ``path`` cannot be written as text here, and what to do; empty where it can."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return (
            f"{str(path)!a}: this locale has no such letters, in which other programs would have "
            "to write it; set LC_ALL=C.UTF-8, or PYTHONUTF8=1"
        )
    return ""
