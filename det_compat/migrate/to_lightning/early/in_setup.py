"""What ``__init__`` makes by how many processes there are, made where a Trainer tells that."""

import re
from collections.abc import Mapping, Sequence

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.class_facts import asks_sizes
from det_compat.migrate.to_lightning.optimization.kept import by_attributes
from det_compat.migrate.to_lightning.optimization.moving import (
    DRAWS,
    Slice,
    asks_for,
    is_changed_later,
)
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import reachable


def made_in_setup(
    init: cst.FunctionDef, early: Sequence[cst.FunctionDef], symbols: Symbols, around: Elsewhere
) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
    """The statements of ``__init__`` that need to know it, and what they are in ``setup``.

    None, unless all can run there: nothing of ``early`` asks for what they keep, which is no
    module, whose weights a checkpoint has, and they draw no random numbers.
    """
    body, me = syntax.body_of(init), syntax.self_name(init)
    late, lines = set[str](), list[cst.BaseStatement]()
    for line in body:
        if asks_sizes(line, symbols) or any(syntax.mentions(line, name) for name in late):
            lines.append(line)
            late |= {syntax.target_of(line) or me}
    seeds = [line for line in lines if _keeps(line, me)]
    if not seeds:
        return [], []
    moved, kept = Slice(init, symbols).whole(seeds)
    made = {name for line in moved if "." in (name := syntax.target_of(line) or "")}
    rest = [*early, *(line for line in body if line not in moved)]
    local = syntax.local_names(init) - {me} - kept.keys()
    needed = {name for line in moved for name in syntax.names_in(line)} & local
    needed -= {syntax.target_of(line) for line in moved}
    if (
        needed
        or not all(line in moved for line in lines)
        or any(syntax.names_in(line) & local & late for line in rest[len(early) :])
        or any(asks_for(node, name) for node in rest for name in made)
        or any(name.rpartition(".")[2] in around.asked for name in made)
        or not all(_is_quiet(line, symbols, around.texts) for line in moved)
        or is_changed_later(body, moved, early, kept, symbols)
    ):
        return [], []
    return moved, by_attributes(moved, kept)


def _keeps(line: cst.BaseStatement, me: str) -> bool:
    """Whether a statement sets an attribute of the trial."""
    owner, _, attribute = (syntax.target_of(line) or "").rpartition(".")
    return owner == me and attribute.isidentifier()


#: What makes data, numbers or texts, and draws nothing.
_QUIET = words(
    """
    DataLoader TensorDataset Subset ConcatDataset DistributedSampler SequentialSampler BatchSampler
    RandomSampler WeightedRandomSampler int float bool str len min max abs round sum range list
    tuple dict set sorted partial ceil floor log sqrt prod join format tensor arange zeros ones
    from_numpy
    """
)


def _is_quiet(line: cst.BaseStatement, symbols: Symbols, texts: Mapping[str, str]) -> bool:
    """Whether all that a statement calls draws no random number, and makes no module."""
    for call in syntax.find(line, cst.Call):
        name = syntax.code(call.func).rpartition(".")[2]
        is_asked = symbols.called(call) is not None or symbols.path(call.func) is not None
        if is_asked or name in _QUIET:
            continue
        if syntax.lone_call(line) is call:
            # A method of what is made here.
            found = [own for text in texts.values() if name in (own := _methods(text))]
        else:
            found = [own] if (own := _methods(texts.get(name, ""))) else []
            name = "__init__"
        if len(found) != 1 or _may_draw(found[0], name, texts):
            return False
    return True


def _methods(text: str) -> dict[str, cst.FunctionDef]:
    """The methods of a class that is no module."""
    node = syntax.statement(text) if text.startswith(("class ", "@")) else None
    if not isinstance(node, cst.ClassDef):
        return {}
    bases = {syntax.code(base.value).rpartition(".")[2] for base in node.bases}
    return syntax.methods(node) if bases <= _PLAIN else {}


_PLAIN = words("object Dataset IterableDataset LightningDataModule")


def _may_draw(own: Mapping[str, cst.FunctionDef], name: str, texts: Mapping[str, str]) -> bool:
    """Whether a method, or what it calls in the project, may draw random numbers."""
    found = [syntax.code(own[each]) for each in reachable(own, name)]
    known = set[str]()
    for text in found:
        calls = {match.group() for match in _CALLED.finditer(text)} & texts.keys() - known
        known |= calls
        found += [texts[each] for each in calls]
    return any(map(DRAWS.search, found))


_CALLED = re.compile(r"\w+(?=\()")
