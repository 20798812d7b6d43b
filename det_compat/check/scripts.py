"""Commands of Determined's in shell scripts, Dockerfiles, Makefiles, CI configs and notebooks."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from det_compat.catalog.names import COMMANDS
from det_compat.catalog.status import Support, different, refused
from det_compat.catalog.support import of_name

_CLUSTER = refused(
    "the det command talks to a Determined cluster, and there is none",
    "determinedcommon-determinedcli-determineddeploy",
)
_SHORT = {"e": "experiment", "exp": "experiment", "c": "checkpoint", "t": "trial", "cmd": "command"}
_OTHERS = "a|agent|auth|config-policies|cp|d|deploy|dev|j|job|m|master|model|oauth|p|project|rbac"
_OTHERS += "|preview-search|res|resource-pool|resources|rp|s|slot|task|template|tkn|token|tpl|u"
_OTHERS += "|user|user-group|version|w|workspace"
_PACKAGE = different(
    "needed for nothing any more: install det_compat from its checkout instead", "1-assess"
)
_IMAGE = different(
    "any image with torch and pytorch-lightning will do: install det_compat in it", "1-assess"
)

_GAP = r"(?:[ \t]|\\\r?\n)+"
_START = r"(?:^|[\s;&|(!`'\"@])"
# Elsewhere in a line, `det` is a word of Norwegian, or a determinant.
_FIRST = (
    r"(?:^[ \t]*|[;&|(`'\"@!][ \t]*"
    # Where a word begins is looked at once, and not once for each of its letters.
    r"|(?:RUN|CMD|(?<![\w-])[\w-]+:|-|sudo|then|do|else|exec|time|(?<!\w)\w+=\S{0,1000})[ \t]+)"
)
_WORDS = "|".join([*(f"{noun}s?" for noun in COMMANDS), *_SHORT, _OTHERS])
_DET = rf"det{_GAP}(?:--?[a-z][-\w]*(?:=|{_GAP})[^\s-]\S*{_GAP})*(?P<noun>{_WORDS})(?![-\w=:])"
_MODULE = rf"python[\d.]*{_GAP}(?:-[a-zA-Z]+{_GAP})*?-m{_GAP}(?P<module>(?:determined|pedl)[\w.]*)"
_NAMED = r"[^\n;&|]{0,2000}?['\" \t](?P<package>determined(?:-cli)?)(?![-\w./])"
_INSTALL = rf"pip[\d.]*{_GAP}install\b{_NAMED}"
_FROM = r"(?P<image>determinedai/[\w.-]+)"
_COMMENT = re.compile(r"\s*#")
_COMMAND = re.compile(rf"{_FIRST}{_DET}|{_START}(?:{_MODULE}|{_INSTALL}|{_FROM})", re.MULTILINE)


class Reference(NamedTuple):
    """A command, and the line and column where it begins, both from 1."""

    line: int
    column: int
    name: str
    support: Support


def references(text: str) -> Iterator[Reference]:
    """The commands of Determined's in a text, but for those in comments."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    for match in _COMMAND.finditer(text):
        kind = str(match.lastgroup)
        begin = text.rindex("det", 0, match.start(kind)) if kind == "noun" else match.start(kind)
        line = bisect_right(starts, begin)
        start = starts[line - 1]
        if not _COMMENT.match(text, start):
            yield Reference(line, begin - start + 1, *_described(kind, match[kind]))


def _described(kind: str, word: str) -> tuple[str, Support]:
    if kind == "noun":
        noun = _SHORT.get(word, word)
        return f"det {noun}", COMMANDS.get(noun) or COMMANDS.get(noun.removesuffix("s"), _CLUSTER)
    if kind == "module":
        return f"python -m {word}", of_name(word)
    return (f"pip install {word}", _PACKAGE) if kind == "package" else (word, _IMAGE)
