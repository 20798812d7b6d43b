"""Notebooks, none of which is rewritten: those that somebody has to look at."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from det_compat.analysis.source import Source
from det_compat.catalog.support import is_determined
from det_compat.check import scripts
from det_compat.migrate.results import FileResult
from det_compat.migrate.review.project import imports, methods, written

_WORD = re.compile(rb"\b(determined|pedl|det_compat)\b")


def using(notebooks: Iterable[Source], results: Iterable[FileResult]) -> list[Path]:
    """The notebooks that use Determined, or a trial that is rewritten otherwise than it is now.

    One of which a cell cannot be read is among them as soon as it names Determined at all. What
    is said does not depend on whether the files have been rewritten now or before.
    """
    notebooks, results = [*notebooks], [*results] if notebooks else []
    classes = {result.path.stem: _classes(result) for result in results}
    known = _lightning_modules([node for found in classes.values() for node in found])
    modules = {
        stem: {node.name: node for node in found if node.name in known}
        for stem, found in classes.items()
    }
    # Trials of the context API take what they took.
    others = {r.path.stem for r in results if not known.issuperset(r.trials)}
    return [notebook.path for notebook in notebooks if _uses(notebook, modules, others)]


def _classes(result: FileResult) -> list[ast.ClassDef]:
    try:
        tree = ast.parse(result.after)
    except (SyntaxError, ValueError):
        return []
    return [node for node in tree.body if isinstance(node, ast.ClassDef)]


def _lightning_modules(nodes: Sequence[ast.ClassDef]) -> set[str]:
    """The names of the classes that derive from Lightning's, by way of one another."""
    found = {"LightningModule"}
    bases = {node.name: {written(b).rpartition(".")[2] for b in node.bases} for node in nodes}
    while more := {name for name, own in bases.items() if own & found} - found:
        found |= more
    return found - {"LightningModule"}


def _uses(
    notebook: Source, modules: Mapping[str, Mapping[str, ast.ClassDef]], others: set[str]
) -> bool:
    if notebook.unreadable and _WORD.search(notebook.path.read_bytes()):
        return True
    if any(any(scripts.references(text)) for _, text in notebook.shell):
        return True
    names = {name for tree in notebook.trees for name in _imported(tree)}
    if any(is_determined(name) or not others.isdisjoint(name.split(".")) for name in names):
        return True
    return _uses_trials(notebook.trees, modules)


def _imported(tree: ast.Module) -> Iterator[str]:
    """What a cell imports, with the names that it takes from modules."""
    for node, module, _ in imports(ast.walk(tree)):
        yield from (f"{module}.{a.name}" for a in node.names if isinstance(node, ast.ImportFrom))
        yield module


#: What a trial had, and a module of Lightning's has not.
_DETERMINEDS = {
    "build_training_data_loader",
    "build_validation_data_loader",
    "train_batch",
    "evaluate_batch",
    "evaluate_full_dataset",
    "context",
}


def _uses_trials(
    trees: Sequence[ast.Module], modules: Mapping[str, Mapping[str, ast.ClassDef]]
) -> bool:
    """Whether code does more with modules of Lightning's than to make or load them as they are."""
    classes, files = _bound(trees, modules)
    if not classes and not files:
        return False
    nodes = [node for tree in trees for node in ast.walk(tree)]
    parents = {id(child): node for node in nodes for child in ast.iter_child_nodes(node)}
    is_used = False
    for node in nodes:
        name, parent = written(node), parents.get(id(node))
        if name in files and not isinstance(parent, ast.Attribute):
            return True
        owner, _, last = name.rpartition(".")
        found = classes.get(name) or files.get(owner, {}).get(last)
        if found is None:
            continue
        is_used = True
        is_loaded = isinstance(parent, ast.Attribute) and parent.attr == "load_from_checkpoint"
        is_made = isinstance(parent, ast.Call) and parent.func is node and _takes(found, parent)
        if not is_loaded and not is_made:
            return True
    return is_used and any(getattr(node, "attr", "") in _DETERMINEDS for node in nodes)


def _bound(
    trees: Iterable[ast.Module], modules: Mapping[str, Mapping[str, ast.ClassDef]]
) -> tuple[dict[str, ast.ClassDef], dict[str, Mapping[str, ast.ClassDef]]]:
    """The names of modules of Lightning's, and those of files with some of them."""
    classes: dict[str, ast.ClassDef] = {}
    files: dict[str, Mapping[str, ast.ClassDef]] = {}
    for node, module, _ in (found for tree in trees for found in imports(ast.walk(tree))):
        own = modules.get(module.rpartition(".")[2], {})
        for alias in node.names:
            name = alias.asname or alias.name
            if isinstance(node, ast.Import):
                inner = modules.get(alias.name.rpartition(".")[2], {})
            elif alias.name == "*":
                classes.update(own)
                continue
            else:
                inner = modules.get(alias.name, {})
                classes.update({name: own[alias.name]} if alias.name in own else {})
            files.update({name: inner} if inner else {})
    return classes, files


def _takes(node: ast.ClassDef, call: ast.Call) -> bool:
    """Whether the constructor of a class takes what it is given, as far as its names tell."""
    init = methods(node).get("__init__")
    if init is None:
        # It is that of a base, which takes hyperparameters by name.
        return not call.args
    named = [*init.args.posonlyargs, *init.args.args][1:]
    known = {each.arg for each in (*named, *init.args.kwonlyargs)}
    is_known = all(each.arg is None or each.arg in known for each in call.keywords)
    return len(call.args) <= len(named) and (is_known or init.args.kwarg is not None)
