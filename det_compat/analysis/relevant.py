"""Which files can refer to Determined at all."""

import ast
import re
from collections.abc import Iterable, Iterator

from det_compat.analysis.expressions import walked
from det_compat.analysis.source import Source
from det_compat.catalog.members import MEMBERS, TELLTALE
from det_compat.catalog.names import EXPORTS

# Words that say nothing of where they come from.
_EVERYDAY = {"value", "step", "rank", "size", "close", "reset", "state_dict", "load_state_dict"}
_BASES = ("PyTorchTrial", "PyTorchCallback", "MetricReducer")
_CLASSES = ("PyTorchTrial", "PyTorchCallback", "PyTorchTrialContext")


def _words() -> set[str]:
    """One of these is in every reference: a package, a way to import, a member, a context's name.

    What a star import may bring is among them, too.
    """
    words = {"determined", "pedl", "model_hub", "det_compat", "ctx", "context", *TELLTALE}
    words.update(("import_module", "__import__", "exec", "eval", r"import \*"))
    words.update(name for names in EXPORTS.values() for name in names)
    members = (name for cls in _CLASSES for name in MEMBERS[f"det_compat.pytorch.{cls}"])
    words.update(name for name in members if len(name) > 8)
    return words - _EVERYDAY


_WORDS = re.compile("|".join(sorted(_words())))


def relevant(sources: Iterable[Source]) -> list[Source]:
    """The files that may refer to Determined, with those whose classes derive from theirs.

    What a trial has from a base that names nothing of Determined's is a trial's, too, and so may
    be what others have from it. The bases of a class that takes a context are read as well.
    """
    every = [*sources]
    kept = {id(source) for source in every if is_relevant(source)}
    found = [each for source in every for each in _derived(source)]
    heirs = [each[:3] for each in found]
    names = {*_BASES, *(name for _, name, _, takes_context in found if takes_context)}
    while True:
        below = [(source, name) for source, name, bases in heirs if not names.isdisjoint(bases)]
        if names >= {name for _, name in below}:
            break
        names.update(name for _, name in below)
    kept.update(id(source) for source, _ in below)
    above = {name for _, own, bases in heirs if own in names for name in bases}
    while more := {n for _, own, bases in heirs if own in above for n in bases} - above:
        above |= more
    above &= {name for _, name, _ in heirs}
    while more := {own for _, own, bases in heirs if not above.isdisjoint(bases)} - above:
        above |= more
    kept.update(id(source) for source, name, _ in heirs if name in above)
    return [source for source in every if id(source) in kept]


def _derived(source: Source) -> Iterator[tuple[Source, str, set[str], bool]]:
    """The classes of a file with what they derive from, by the last parts of the names.

    The last tells whether objects of it are made with a trial's context.
    """
    nodes = [node for tree in source.trees for node in walked(tree)]
    imports = (node for node in nodes if isinstance(node, ast.ImportFrom))
    named = {alias.asname: alias.name for node in imports for alias in node.names if alias.asname}
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            last = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
            bases = {named.get(name, name) for name in last}
            yield source, node.name, bases, bool(bases) and takes_context(node)


def takes_context(node: ast.ClassDef) -> bool:
    """Whether objects of a class are made with what is annotated as a trial's context."""
    inits = (n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__")
    given = (each.annotation for init in inits for each in init.args.args)
    return any("TrialContext" in ast.unparse(each) for each in given if each is not None)


def is_relevant(source: Source) -> bool:
    """Whether a file has a word that a reference would have, or may hand one on."""
    return source.path.name == "__init__.py" or any(_WORDS.search(line) for line in source.lines)
