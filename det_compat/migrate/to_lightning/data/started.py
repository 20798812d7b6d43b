"""Loaders whose data are made by processes that they start themselves."""

import re

import libcst as cst

from det_compat.migrate.to_lightning.data.loaders import NAMES
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.trial_attributes import reachable

#: The comment on such data: Lightning asks for loaders when it has set a handler of SIGTERM, which
#: a pool's processes have from it, and which waits for the other devices.
SAID = "# several devices need this in setup(): the pool that it starts would not end here"
#: What starts a pool: multiprocessing's, and a function of the library transformers.
_STARTING = re.compile(r"\bsquad_convert_examples_to_features\(|\b(?:multiprocessing|mp)\.Pool\(")
_POOL = re.compile(r"(?<![\w.])Pool\(")


def with_word_of_pools(node: cst.ClassDef, around: Elsewhere) -> cst.ClassDef:
    """A trial with comments where making a loader starts a pool of processes.

    The code is that of the trial, and what is ``around`` it.
    """
    own = syntax.methods(node)
    is_imported = any("multiprocessing" in path for path in around.imported.get("Pool", ()))

    def starts(line: cst.BaseStatement) -> bool:
        texts = around.reached(map(syntax.code, _first(line)))
        kinds = (_STARTING, _POOL) if is_imported else (_STARTING,)
        return any(kind.search(text) for text in texts for kind in kinds)

    def said(line: cst.BaseStatement) -> cst.BaseStatement:
        return above(line, [cst.EmptyLine(comment=cst.Comment(SAID))]) if starts(line) else line

    # What ``__init__`` has made is there before Lightning comes.
    late = {*reachable(own, *NAMES)} - {*reachable(own, "__init__")}
    for name in sorted(late):
        made = own[name]
        for kind in (cst.SimpleStatementLine, cst.With, cst.For):
            if any(map(starts, syntax.find(made, kind))):
                made = syntax.each(made, kind, said)
        node = syntax.with_node(node, own[name], made) if made is not own[name] else node
    return node


def _first(line: cst.BaseStatement) -> list[cst.CSTNode]:
    """What of a statement runs as it begins, before the lines in it."""
    if isinstance(line, cst.With):
        return [*line.items]
    return [line.iter if isinstance(line, cst.For) else line]
