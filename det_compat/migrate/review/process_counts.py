"""What scripts on several devices do before they make modules.

They tell those how many processes there are which have to know it, and seed all processes alike
where one splits its data by random numbers.
"""

import ast
import re
from collections.abc import Collection, Iterable
from pathlib import Path

import libcst as cst

from det_compat.migrate.review.project import methods
from det_compat.migrate.target import Problems, Target
from det_compat.migrate.to_lightning.data.seeds import SAID
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.facts import Analysis
from det_compat.migrate.tree.transformers import with_more

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
        drawing = (text for text in sources.values() if SAID.encode() in text)
        self._drawing = {name for text in drawing for name in _with_comment(text.decode())}

    @classmethod
    def is_needed(cls, texts: Iterable[bytes]) -> bool:
        """Whether a script trains on several processes, and something asks how many these are."""
        found = [*texts]
        asks = any(SIZE.encode() in text or SAID.encode() in text for text in found)
        return asks and any(map(SEVERAL.search, found))

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a script; None of any other file."""
        text = self.sources[path]
        if not SEVERAL.search(text) or not self._taking | self._drawing:
            return None
        told = _told(text, self._taking) if self._taking else None
        return _seeded(told or text, self._drawing) or told


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
    arg = cst.Arg(syntax.expression(sizes.pop()), keyword=cst.Name(SIZE), equal=syntax.EQUAL)

    def told(call: cst.Call) -> cst.Call:
        given = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        is_made = syntax.code(call.func).rpartition(".")[2] in taking and SIZE not in given
        return with_more(call, [arg]) if is_made else call

    return syntax.each(tree, cst.Call, told).bytes


def _with_comment(text: str) -> Iterable[str]:
    """The classes in which a comment says that what they draw depends on a seed."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            own = lines[node.lineno : node.end_lineno]
            yield from [node.name] if any(SAID in line for line in own) else []


def _seeded(text: bytes, drawing: Collection[str]) -> bytes | None:
    """The script that seeds all processes alike before it makes the first of some modules."""
    tree = cst.parse_module(text)
    owners = [
        syntax.code(call.func.value)
        for call in syntax.find(tree, cst.Call)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "Trainer"
    ]
    for line in syntax.find(tree, cst.SimpleStatementLine):
        calls = syntax.find(line, cst.Call)
        made = {syntax.code(call.func).rpartition(".")[2] for call in calls}
        if b"seed_everything" not in text and made & {*drawing}:
            seed = syntax.statement(f"{owners[0]}.seed_everything(0)\n")
            assert isinstance(seed, cst.SimpleStatementLine)
            first = seed.with_changes(leading_lines=line.leading_lines)
            lines = cst.FlattenSentinel([first, line.with_changes(leading_lines=[])])
            return syntax.with_node(tree, line, lines).bytes
    return None


def _sizes(call: cst.Call) -> Iterable[str]:
    if not syntax.code(call.func).endswith(".Trainer"):
        return
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == "devices":
            devices = syntax.code(arg.value)
            yield _OF_TORCHRUN if "LOCAL_WORLD_SIZE" in devices else devices
