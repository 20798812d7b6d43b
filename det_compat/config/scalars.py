"""Plain YAML scalars, as Determined's master read them.

The master parsed configs with go-yaml 2 (through ghodss/yaml) in all versions from 0.12 to 0.38.
Against PyYAML: ``1e-4`` and ``1E4`` are floats, ``0o17`` is 15 as ``017`` is, ``y`` and ``n`` are
booleans as ``yes``, ``no``, ``on`` and ``off`` are, ``1:30`` is text, and so is a date.
"""

from __future__ import annotations

import math
import re

_WORDS: dict[str, bool | float | None] = {
    **{word: True for word in ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE")},
    **{word: False for word in ("n", "N", "no", "No", "NO", "false", "False", "FALSE")},
    **{word: True for word in ("on", "On", "ON")},
    **{word: False for word in ("off", "Off", "OFF")},
    **{word: None for word in ("", "~", "null", "Null", "NULL")},
    **{word: math.nan for word in (".nan", ".NaN", ".NAN")},
    **{sign + word: math.inf for sign in ("", "+") for word in (".inf", ".Inf", ".INF")},
    **{"-" + word: -math.inf for word in (".inf", ".Inf", ".INF")},
}
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([0-9]+))")
_BASES = (16, 2, 8, 10)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# an int64 or a uint64 has no more digits in any base
_MOST_DIGITS = 66


def resolve(text: str) -> bool | int | float | str | None:
    """The value of a plain scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    plain = text if text[0] == "." else text.replace("_", "")
    integer = _integer(plain)
    if integer is not None:
        return integer
    if _FLOAT.fullmatch(plain) and not math.isinf(float(plain)):
        return float(plain)
    return text


def _integer(plain: str) -> int | None:
    match = _INTEGER.fullmatch(plain)
    if match is None or len(plain) > _MOST_DIGITS:
        return None
    sign, *digits = match.groups()
    base, found = next((base, d) for base, d in zip(_BASES, digits, strict=True) if d is not None)
    if base == 10 and len(found) > 1 and found[0] == "0":
        return None
    value = int(sign + found, base)
    return value if -(2**63) <= value < 2**64 else None
