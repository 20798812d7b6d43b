"""What ``__init__`` makes by how many processes there are, made where a Trainer tells that."""

from collections.abc import Sequence

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.class_facts import asks_sizes
from det_compat.migrate.to_lightning.moving.commuting import Commuting
from det_compat.migrate.to_lightning.moving.lines import (
    Slice,
    asks_for,
    hands_on,
    targets,
)
from det_compat.migrate.to_lightning.moving.reading import Reader
from det_compat.migrate.to_lightning.optimization.kept import by_attributes
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import reachable


def made_in_setup(
    init: cst.FunctionDef, early: Sequence[cst.FunctionDef], reader: Reader
) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
    """The statements of ``__init__`` that need to know it, and what they are in ``setup``.

    None, unless all can run there: nothing of ``early``, or what that hands the trial to, may ask
    for what they keep, which is no module, whose weights a checkpoint has, and nothing is drawn.
    """
    body, me, symbols = syntax.body_of(init), syntax.self_name(init), reader.symbols
    late, lines = set[str](), list[cst.BaseStatement]()
    for line in body:
        if asks_sizes(line, symbols) or any(syntax.mentions(line, name) for name in late):
            lines.append(line)
            late |= {syntax.code(each) for each in targets(line)}
    seeds = [line for line in lines if _keeps(line, me)]
    if not seeds:
        return [], []
    moved, kept = Slice(init, symbols).whole(seeds)
    sets = {syntax.code(part) for line in moved for part in targets(line)}
    made = {name for name in sets if "." in name}
    rest = [*early, *(line for line in body if line not in moved)]
    local = syntax.local_names(init) - {me} - kept.keys()
    needed = {name for line in moved for name in syntax.names_in(line)} & local
    needed -= sets
    if (
        needed
        or not all(line in moved for line in lines)
        or any(syntax.names_in(line) & local & late for line in rest[len(early) :])
        or any(asks_for(node, name) for node in rest for name in made)
        or any(hands_on(node, me) for node in rest)
        or not all(_is_quiet(line, symbols, reader.around) for line in moved)
        or not Commuting(init, reader).may_move(moved, kept, may_draw=True)
    ):
        return [], []
    return moved, by_attributes(moved, kept)


def _keeps(line: cst.BaseStatement, me: str) -> bool:
    """Whether a statement does nothing but to set attributes of the trial."""
    small = syntax.simple(line)
    parts = [syntax.code(part).rpartition(".") for part in targets(line)]
    is_set = isinstance(small, (cst.Assign, cst.AnnAssign)) and bool(parts)
    return is_set and all(owner == me and name.isidentifier() for owner, _, name in parts)


#: What makes data, numbers or texts, and draws nothing.
_QUIET = words(
    """
    DataLoader TensorDataset Subset ConcatDataset DistributedSampler SequentialSampler BatchSampler
    RandomSampler WeightedRandomSampler int float bool str len min max abs round sum range list
    tuple dict set sorted partial ceil floor log sqrt prod join format tensor arange zeros ones
    from_numpy reshape view long float unsqueeze get Path
    """
)
_LIBRARIES = ("torchvision.", "datasets.", "transforms.", "os.path.")


def _is_quiet(line: cst.BaseStatement, symbols: Symbols, around: Elsewhere) -> bool:
    """Whether all that a statement calls draws no random number, and it keeps no module."""
    texts = around.texts
    for call in syntax.find(line, cst.Call):
        path = syntax.code(call.func)
        name = path.rpartition(".")[2]
        is_asked = symbols.called(call) is not None or symbols.path(call.func) is not None
        if is_asked or (name not in texts and (name in _QUIET or path.startswith(_LIBRARIES))):
            continue
        if syntax.lone_call(line) is call:
            # A method of what is made here.
            found = [made for text in texts.values() if (made := _run(text, name))]
        else:
            found = [_run(texts.get(name, ""), "__init__")]
            is_kept = syntax.call_of(line) is call and "." in (syntax.target_of(line) or "")
            text = texts.get(name, "")
            if text.startswith("def ") and (not is_kept or _makes_data(text, around)):
                found = [[text]]
        if len(found) != 1 or not found[0] or around.may_draw(found[0]):
            return False
    return True


def _makes_data(text: str, around: Elsewhere) -> bool:
    """Whether all that a function calls makes data, numbers or texts: it returns no module."""
    calls = [*syntax.find(syntax.statement(text), cst.Call)]
    paths = [syntax.code(call.func) for call in calls]
    return bool(calls) and all(
        path.rpartition(".")[2] not in around.texts
        and "models" not in path
        and (path.rpartition(".")[2] in _QUIET or path.startswith(_LIBRARIES))
        for path in paths
    )


def _run(text: str, name: str) -> list[str]:
    """A method of a class that is no module, and what this calls of it."""
    node = syntax.statement(text) if text.startswith(("class ", "@")) else None
    if not isinstance(node, cst.ClassDef):
        return []
    bases = {syntax.code(base.value).rpartition(".")[2] for base in node.bases}
    own = syntax.methods(node) if bases <= _PLAIN else {}
    return [syntax.code(own[each]) for each in reachable(own, name)]


_PLAIN = words("object Dataset IterableDataset LightningDataModule")
