"""Files in which there is nothing to migrate, although they cannot be read or use Determined.

Scripts and notebooks that ask a master submit experiments to a cluster, or read what it has
trained: migrated code needs none of them, and who goes on using the cluster needs them as they are.
"""

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from det_compat.analysis.expressions import walked
from det_compat.analysis.source import MAX_BYTES, Source, code_cells
from det_compat.catalog.support import is_determined
from det_compat.check import scripts
from det_compat.migrate.review.project import imports, paths

#: What asks a master: names of Determined 0.12 to 0.38.1.
_ASKING = (
    "determined.cli.",
    "determined.common.",
    "determined.experimental.Checkpoint",
    "determined.experimental.Determined",
    "determined.experimental.Experiment",
    "determined.experimental.Model",
    "determined.experimental.Trial",
    "determined.experimental.checkpoint.",
    "determined.experimental.client.",
)
#: What reads a checkpoint that a cluster has made, with the code that lies in it.
_READING = (
    "determined.keras.load_model_from_checkpoint_path",
    "determined.pytorch.CheckpointLoadContext",
    "determined.pytorch.load_trial_from_checkpoint_path",
)
_PLAIN = ("determined.__version__", "determined.LOG_FORMAT")


#: What a file has that anything of Determined's is to be found in.
_WORD = re.compile(rb"determined|pedl|det_compat|model_hub")
_PEDL = re.compile(r"^\s*pedl\s", re.MULTILINE)
#: Files of Determined's package, which no project has of its own below a folder of its name.
_DETERMINEDS = ("_data.py", "_pytorch_context.py", "_pytorch_trial.py", "_reducer.py")
_COPY = "it is of a copy of Determined itself, which migrated code does not use"
_ASKS = "it asks a master of Determined or reads what one has trained, which migrated code does not"


def set_aside(sources: Mapping[Path, Source]) -> dict[Path, str]:
    """The files in which there is nothing to migrate, although they are not as others, and why."""
    roots = {
        path.parents[1]
        for path in sources
        if path.name in _DETERMINEDS and path.parent.parts[-2:] == ("determined", "pytorch")
    }
    copies = {path: _COPY for path in sources if not roots.isdisjoint(path.parents)}
    sources = {path: source for path, source in sources.items() if path not in copies}
    broken = {
        path: f"it {source.unreadable[0].reason}, and names nothing of Determined's"
        for path, source in sources.items()
        if source.unreadable and path.suffix == ".py" and not _names_determined(path)
    }
    return copies | broken | dict.fromkeys(sorted(_asking(sources)), _ASKS)


def _names_determined(path: Path) -> bool:
    """Whether a file may have something of Determined's; one that cannot be read may."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError:
        return True
    return len(text) > MAX_BYTES or bool(_WORD.search(text))


def _asking(sources: Mapping[Path, Source]) -> set[Path]:
    """The files that do nothing of Determined's but ask a master, or read what it has trained.

    No file that uses Determined otherwise needs them, or is needed by them.
    """
    found = {path for path, source in sources.items() if _only_asks(source)}
    others = [path for path in sources if path not in found and _uses(sources[path])]
    needed = [*others]
    for path in needed:
        needed += [p for _, p in _imported(sources[path], sources) if p not in needed]
    found -= {*needed}
    # What is no class of Determined's stays what it was for those who import it.
    changing = _with_classes(others, sources) if found else set()
    imported = {path: {of for _, of in _imported(sources[path], sources)} for path in found}
    return {path for path in found if changing.isdisjoint(imported[path])}


def _with_classes(using: Collection[Path], sources: Mapping[Path, Source]) -> set[Path]:
    """The files that may have a class that derives from one of Determined's, or from another's."""
    found = {path for path in using if sources[path].unreadable}
    given: dict[Path, list[Path]] = {}
    for path, source in sources.items():
        bases = {*_bases(source)}
        if any(not bases.isdisjoint(_bound(tree)) for tree in source.trees):
            found.add(path)
        given[path] = [of for name, of in _imported(source, sources) if name in bases]
    before = -1
    while before < len(found):
        before = len(found)
        found |= {path for path, files in given.items() if not found.isdisjoint(files)}
    return found


def _bases(source: Source) -> Iterator[str]:
    """What the dotted names begin with from which the classes of a file derive."""
    nodes = (node for tree in source.trees for node in ast.walk(tree))
    bases = (base for node in nodes if isinstance(node, ast.ClassDef) for base in node.bases)
    # A star may bring any of them.
    yield from (each for dotted in map(_dotted, bases) if dotted for each in ("*", dotted[0]))


def _only_asks(source: Source) -> bool:
    bound = {name: whole for tree in source.trees for name, whole in _bound(tree).items()}
    if source.unreadable and _may_use(source, bound):
        return False
    used = [name for tree in source.trees for name in _used(tree)]
    named = [*used, *bound.values()]
    commands = [
        text for _, text in source.shell if any(scripts.references(text)) or _PEDL.search(text)
    ]
    is_known = all(_is(name, (*_ASKING, *_READING, *_PLAIN)) for name in used)
    return is_known and (bool(commands) or any(_is(name, (*_ASKING, *_READING)) for name in named))


def _may_use(source: Source, bound: Mapping[str, str]) -> bool:
    """Whether what cannot be read may use more of Determined than a master that it asks.

    Cells for people to fill in (``<your id>``) are read for names; ``bound`` are Determined's.
    """
    cells = {problem.position.cell for problem in source.unreadable}
    if cells == {0}:
        return True
    others = [name for name, whole in bound.items() if not _is(whole, _ASKING)]
    text = source.path.read_text(encoding="utf-8-sig", errors="replace")
    texts = [cell.python for cell in code_cells(text) if cell.number in cells]
    names = {name for each in texts for name in re.findall(r"\w+", each)}
    return any(_WORD.search(each.encode()) for each in texts) or not names.isdisjoint(others)


def _is(name: str, names: Collection[str]) -> bool:
    return f"{name}.".startswith(tuple(names))


def _uses(source: Source) -> bool:
    return bool(source.unreadable) or any(
        is_determined(module)
        for tree in source.trees
        for _, module, level in imports(walked(tree))
        if not level
    )


def _imported(source: Source, known: Collection[Path]) -> Iterator[tuple[str, Path]]:
    """The files of the project that a file imports, each with a name by which it does."""
    for node, module, level in (each for t in source.trees for each in imports(walked(t))):
        of_file = isinstance(node, ast.ImportFrom)
        for alias in node.names:
            name = (alias.asname or alias.name).partition(".")[0]
            wholes = (module, f"{module}.{alias.name}".lstrip(".")) if of_file else (alias.name,)
            found = (path for whole in wholes for path in paths(source.path, whole, level))
            yield from ((name, path) for path in found if path in known)


def _bound(tree: ast.Module) -> dict[str, str]:
    """The names that a file has from Determined, each in full."""
    bound: dict[str, str] = {}
    for node, module, level in imports(walked(tree)):
        if level or not is_determined(module):
            continue
        for alias in node.names:
            if isinstance(node, ast.ImportFrom):
                bound[alias.asname or alias.name] = f"{module}.{alias.name}"
            elif alias.asname:
                bound[alias.asname] = alias.name
            elif is_determined(alias.name):
                bound[alias.name.partition(".")[0]] = alias.name.partition(".")[0]
    return bound


def _used(tree: ast.Module) -> Iterator[str]:
    """The names of Determined that code uses, in full; whatever a star brings counts as used."""
    bound = _bound(tree)
    if "*" in bound:
        yield bound["*"]
    nodes = walked(tree)
    owners = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for parts in (_dotted(node) for node in nodes if id(node) not in owners):
        if parts and parts[0] in bound:
            yield ".".join([bound[parts[0]], *parts[1:]])


def _dotted(node: ast.AST) -> list[str]:
    """The parts of a dotted name; none of anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else []
