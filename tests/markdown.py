"""What is in the project's documents: code blocks, shell commands, headings, links."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SHELL = ("sh", "bash", "shell", "console")

_FENCE = re.compile(r"^ *(```+|~~~+) *(\w*)")
_INDENTED = re.compile(r"(?:^|\n)\n((?:(?: {4}|\t).*\n)+)")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$")
_COMMENT = re.compile(r"(?:^|\s)#.*$")


class Block(NamedTuple):
    """A block of code; ``language`` is empty where the document does not name one."""

    language: str
    line: int
    code: str


def read(document: str) -> str:
    """A document of the project, by its path from the root."""
    return (ROOT / document).read_text()


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a document."""
    found, fence, lines, start, language = [], "", [], 0, ""
    for number, line in enumerate(text.splitlines(), start=1):
        match = _FENCE.match(line)
        if fence and line.strip() == fence:
            code = textwrap.dedent("\n".join(lines)) + "\n"
            found.append(Block(language, start, code))
            fence = ""
        elif fence:
            lines.append(line)
        elif match:
            fence, language, lines, start = match[1], match[2], [], number + 1
    assert not fence, f"line {start}: a block has no end"
    return found


def prose(text: str) -> str:
    """A document without its fenced blocks."""
    kept, fence = [], ""
    for line in text.splitlines(keepends=True):
        match = _FENCE.match(line)
        if fence:
            fence = "" if line.strip() == fence else fence
        elif match:
            fence = match[1]
        else:
            kept.append(line)
    return "".join(kept)


def shell_commands(text: str) -> list[str]:
    """The command lines of a document, in its order and without comments.

    They are in fenced blocks of a shell's and, in documents that have no fences, in indented ones.
    """
    code = [block.code for block in blocks(text) if block.language in SHELL]
    if not blocks(text):
        code += [textwrap.dedent(block) for block in _INDENTED.findall(text)]
    joined = re.sub(r"\\\n\s*", "", "".join(code))
    lines = (_COMMENT.sub("", line).removeprefix("$ ").strip() for line in joined.splitlines())
    return [line for line in lines if line]


def anchors(text: str) -> list[str]:
    """The anchors that GitHub makes of the headings."""
    titles = [m[1] for line in prose(text).splitlines() if (m := _HEADING.match(line))]
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]


def links(text: str) -> list[str]:
    """Where the links of a document lead."""
    return _LINK.findall(prose(text))
