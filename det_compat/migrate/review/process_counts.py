"""How many processes train, told to modules that have to know it when they are made."""

import ast
import re
from collections.abc import Collection, Iterable
from pathlib import Path

import libcst as cst

from det_compat.migrate.review.project import methods
from det_compat.migrate.target import Problems, Target
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.facts import Analysis

#: The parameter of a module whose ``__init__`` divides batches.
SIZE = "world_size"
#: A Trainer that is told of more devices than one, or of as many as there are at run time.
SEVERAL = re.compile(rb"\.Trainer\(\s*devices=(?!1\b)")
_OF_TORCHRUN = 'int(os.environ.get("WORLD_SIZE", "1"))'


class ProcessCounts(Target):
    """Has scripts tell modules, which ask for it, on how many processes they train them."""

    def __init__(self, analysis: Analysis, sources: dict[Path, bytes], problems: Problems) -> None:
        super().__init__(analysis, sources, problems)
        texts = (text for text in sources.values() if SIZE.encode() in text)
        nodes = (node for text in texts for node in ast.walk(ast.parse(text)))
        self._taking = {n.name for n in nodes if isinstance(n, ast.ClassDef) and takes_size(n)}

    @classmethod
    def is_needed(cls, texts: Iterable[bytes]) -> bool:
        """Whether a script trains on several processes, and something asks how many these are."""
        found = [*texts]
        return any(map(SEVERAL.search, found)) and any(SIZE.encode() in text for text in found)

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a script; None of any other file."""
        text = self.sources[path]
        return _told(text, self._taking) if SEVERAL.search(text) and self._taking else None


def takes_size(node: ast.ClassDef) -> bool:
    """Whether a module is told how many processes there are when it is made."""
    init = methods(node).get("__init__")
    return init is not None and SIZE in {arg.arg for arg in init.args.kwonlyargs}


def _told(text: bytes, taking: Collection[str]) -> bytes | None:
    tree = cst.parse_module(text)
    sizes = {size for call in syntax.find(tree, cst.Call) for size in _sizes(call)}
    if len(sizes) != 1:
        # Which Trainer a module is for is not known, and it says at once what it needs.
        return None
    arg = cst.Arg(syntax.expression(sizes.pop()), keyword=cst.Name(SIZE), equal=_EQUAL)

    def told(call: cst.Call) -> cst.Call:
        given = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        is_made = syntax.code(call.func).rpartition(".")[2] in taking and SIZE not in given
        return call.with_changes(args=syntax.without_commas([*call.args, arg])) if is_made else call

    return syntax.each(tree, cst.Call, told).bytes


_EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def _sizes(call: cst.Call) -> Iterable[str]:
    if not syntax.code(call.func).endswith(".Trainer"):
        return
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == "devices":
            devices = syntax.code(arg.value)
            yield _OF_TORCHRUN if "LOCAL_WORLD_SIZE" in devices else devices
