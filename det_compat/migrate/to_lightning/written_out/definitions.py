"""Classes and functions that a file gets in the place of Determined's, one above the other."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import libcst as cst

from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.tree import syntax


@dataclass(frozen=True)
class Definition:
    """A class or function, and what it needs.

    Attributes:
        text: the definition.
        imports: the statements that it needs.
        needs: the names of others that it uses.
    """

    text: str
    imports: tuple[str, ...] = ("import torch",)
    needs: tuple[str, ...] = ()


def with_definitions(
    tree: cst.Module, file: LightningFile, names: Iterable[str], known: Mapping[str, Definition]
) -> cst.Module:
    """The file with what ``known`` has under these names, unless it has something there already."""
    there = {node.name.value for node in syntax.find(tree, cst.ClassDef)}
    there |= {node.name.value for node in syntax.find(tree, cst.FunctionDef)}
    wanted = list[str]()

    def want(name: str) -> None:
        # Each is put above the one before, so what others need comes last.
        for need in known[name].needs:
            want(need)
        wanted.extend(() if name in wanted else (name,))

    for name in reversed([*names]):
        want(name)
    for name in reversed(wanted):
        if name not in there:
            file.imports.new.update(known[name].imports)
            tree = syntax.with_definition(tree, known[name].text)
    return tree


def renamed(
    tree: cst.Module, file: LightningFile, paths: Mapping[str, str]
) -> tuple[cst.Module, set[str]]:
    """The file with placeholders of these names of Determined's as the names that they get.

    Returns:
        The file, and the names that it uses now.
    """
    used: set[str] = set()
    if not file.symbols.has(*paths):
        return tree, used

    def name(node: cst.Name) -> cst.BaseExpression:
        found = paths.get(file.symbols.path(node) or "")
        used.update([found] if found else [])
        return cst.Name(found) if found else node

    return syntax.each(tree, cst.Name, name), used
