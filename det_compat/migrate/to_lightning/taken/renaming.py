"""New names for what a LightningModule has for something else."""

import re
from collections.abc import Collection, Iterable, Iterator

import libcst as cst

from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.to_lightning.transformer import LightningTransformer
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import new_name
from det_compat.migrate.tree.walking import children


def with_new_names(
    tree: cst.Module, classes: Collection[str], renamed: Collection[str]
) -> cst.Module:
    """The file with the new names of what trial classes define, given all new names.

    Where these are used of an object or a class, they have their new names already.
    """

    def rewritten(node: cst.ClassDef) -> cst.ClassDef:
        if node.name.value not in classes:
            return node
        body, bound = [], set[str]()
        for line in syntax.body_of(node):
            defined = [name for name in _defined(line) if name.value in renamed]
            read = [name for name in _in_class(line) if name.value in bound]
            bound |= {name.value for name in defined}
            body.append(syntax.transformed(line, _Names({*defined, *read})))
        return syntax.with_body(node, body)

    return syntax.each(tree, cst.ClassDef, rewritten)


def _defined(line: cst.BaseStatement) -> list[cst.Name]:
    """The names of what a statement of a class defines."""
    if isinstance(line, (cst.FunctionDef, cst.ClassDef)):
        return [line.name]
    targets = [each.target for each in syntax.find(line, cst.AssignTarget)]
    targets += [each.target for each in syntax.find(line, cst.AnnAssign)]
    targets += [each.target for each in syntax.find(line, cst.For)]
    parts = [part for target in targets for part in syntax.parts(target)]
    inner = [each.name for each in syntax.find(line, cst.FunctionDef)]
    return [*inner, *(part for part in parts if isinstance(part, cst.Name))]


def _in_class(node: cst.CSTNode) -> Iterator[cst.Name]:
    """The variables that a statement of a class reads or sets, not those of its functions."""
    inside = [*children(node)]
    if isinstance(node, cst.FunctionDef):
        params = node.params
        every = (*params.posonly_params, *params.params, *params.kwonly_params)
        given = [part for param in every for part in (param.default, param.annotation)]
        inside = [each for each in (*node.decorators, *given, node.returns) if each is not None]
    elif isinstance(node, (cst.Attribute, cst.Arg)):
        inside = [node.value]
    elif isinstance(node, (cst.Lambda, cst.ClassDef)):
        inside = []
    elif isinstance(node, cst.Name):
        yield node
    for each in inside:
        yield from _in_class(each)


class _Names(cst.CSTTransformer):
    """Gives some names, which LibCST tells by identity, their new ones."""

    def __init__(self, names: Collection[cst.CSTNode]) -> None:
        super().__init__()
        self._names = names

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        is_one = original_node in self._names
        name = new_name(original_node.value) if is_one else original_node.value
        return updated_node.with_changes(value=name)


def rename_reserved(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Rename attributes of trials that a LightningModule has for something else.

    Where other code reads them of what is known to be a trial, they have their new names already.
    """
    return syntax.transformed(tree, _Renaming(file)) if file.renamed else tree


#: A trial in its own class, that class, and what it has from its bases.
_TRIAL = re.compile(r"(self|cls)(\.__class__)?|type\((self|cls)\)|super\([^()]*\)")


class _Renaming(LightningTransformer):
    def _renamed(self, name: cst.Name) -> cst.Name:
        is_taken = self.plan is not None and name.value in self.file.renamed
        return cst.Name(new_name(name.value)) if is_taken else name

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.Attribute:
        if not _TRIAL.fullmatch(syntax.code(original.value)):
            return updated
        return updated.with_changes(attr=self._renamed(updated.attr))


def left_to_base(own: Iterable[str], renamed: Collection[str]) -> list[str]:
    """What to say of methods with new names, where a base is known by its name alone."""
    names = {new_name(name): name for name in sorted(renamed)}
    known = [f"{names[name]} ({name} now)" for name in own if name in names]
    return [_OF_BASE.format(", ".join(known))] if known else []


_OF_BASE = (
    "a base that is in none of these files may call {}, which Lightning calls for its own ends"
)
