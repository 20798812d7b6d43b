"""Attributes that nobody sets any more."""

import ast
from collections.abc import Iterator

from det_compat.analysis.expressions import decorators, walked
from det_compat.catalog.members import TELLTALE
from det_compat.migrate.review.project import (
    Code,
    Finding,
    Text,
    asked_by_name,
    imports,
    methods,
    written,
)
from det_compat.migrate.to_lightning.taken.reserved import RESERVED
from det_compat.migrate.tree.symbols import new_name, own_name

#: The bases of which every attribute is known.
_KNOWN = {
    "pl.LightningModule": RESERVED,
    "PyTorchTrial": frozenset({"context"}),
    "object": frozenset[str](),
    "ABC": frozenset[str](),
}
#: The class that the methods are of which a module does not have.
_CONTEXT = "det_compat.pytorch.PyTorchTrialContext"
#: Whatever these have, no callback has.
_NO_CALLBACKS = ("self", "super", "cls", "trainer", "pl_module", "logger")
_GONE = "a trial has no {} any more"
_OVERRIDDEN = "{0} calls this {1} now, since a LightningModule has another {2}: rename it"
_OPEN = ("__getattr__", "__getattribute__")


def not_set(before: Code, after: Code, text: Text) -> Iterator[Finding]:
    """The attributes of ``self`` that are read in the classes of a file, and that nobody sets."""
    old = before.files.get(text.path)
    for name, node in text.classes.items():
        was = old.classes.get(name) if old is not None else None
        there = {attribute for attribute, _ in _missing(before, was)} if was is not None else set()
        for attribute, line in _missing(after, node):
            if attribute not in there:
                yield Finding(line, f"nothing sets {attribute}")


def _missing(code: Code, node: ast.ClassDef) -> list[tuple[str, int]]:
    ancestors, others = code.ancestors(node)
    names = {base if base in _KNOWN else base.rpartition(".")[2] for base in others}
    if not names <= _KNOWN.keys() or any(each in methods(a) for a in ancestors for each in _OPEN):
        return []
    names |= {base for base in code.bases_of_heirs(node) if base in _KNOWN}
    known = set[str]().union(*(_KNOWN[name] for name in names))
    if any(_sets_by_name(ancestor) for ancestor in ancestors):
        return []
    reads = (found for found in _reads(node) if found[0] not in known)
    return [found for found in reads if found[0] not in code.set_names]


def _reads(node: ast.ClassDef) -> Iterator[tuple[str, int]]:
    for method in methods(node).values():
        yield from own_reads(method)


def own_reads(method: ast.FunctionDef) -> Iterator[tuple[str, int]]:
    """The attributes of its object that a method reads or sets, each with its line."""
    given = [*method.args.posonlyargs, *method.args.args]
    own = given[0].arg if given and "staticmethod" not in decorators(method) else None
    for each in walked(method) if own is not None else ():
        if isinstance(each, ast.Attribute) and getattr(each.value, "id", "") == own:
            yield from () if each.attr.startswith("__") else [(each.attr, each.lineno)]


def _sets_by_name(node: ast.ClassDef) -> bool:
    """Whether a class sets attributes whose names are only known when it runs."""
    names = {each.id for each in walked(node) if isinstance(each, ast.Name)}
    dicts = (each.attr for each in walked(node) if isinstance(each, ast.Attribute))
    return "setattr" in names or "__dict__" in dicts or "vars" in names


def gone(before: Code, after: Code, text: Text) -> Iterator[Finding]:
    """What other code still reads of a trial under a name that it does not have any more."""
    missing = before.set_names - after.set_names - RESERVED
    modules = {alias.asname or alias.name.partition(".")[0] for alias in _aliases(text)}
    # What rewriting has made, such as the step of an optimizer, means something else.
    missing &= before.asked_names
    renamed = {name for name in before.set_names if new_name(name) in after.set_names}
    own = {
        name for name in before.set_names if own_name(name) in after.set_names - before.set_names
    }
    # Something else may still have one, such as a callback.
    context = (before.set_names & {"context"}) - missing
    away = missing | renamed | context
    lost = {new_name(name) for name in before.set_names} - after.set_names - before.asked_names
    for node in text.nodes if away | own | lost else ():
        name = asked_by_name(node) if isinstance(node, ast.Call) else ""
        if name in away and isinstance(node, ast.Call):
            is_own = name in context and _last(node.args[0]) == "self"
            yield from [] if is_own else [Finding(node.lineno, _GONE.format(name))]
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
            continue
        if node.attr in lost:
            yield Finding(node.lineno, f"nothing sets {node.attr}")
        owner = _last(node.value)
        is_known = owner in _NO_CALLBACKS or {owner, _first(node)} & modules
        if node.attr in own and not is_known:
            yield Finding(node.lineno, f"{node.attr} of a callback is {own_name(node.attr)} now")
        if node.attr in renamed and "trial" in owner.lower() and node.attr not in missing:
            yield Finding(node.lineno, f"{node.attr} of a trial is {new_name(node.attr)} now")
        elif (node.attr in context and "trial" in owner.lower()) or (
            node.attr in missing and not {owner, _first(node)} & {"super", "self", *modules}
        ):
            yield Finding(node.lineno, f"nothing sets or defines {node.attr} any more")


def overridden(after: Code, text: Text) -> Iterator[Finding]:
    """The methods of what is no module that override what a base has renamed."""
    for node in text.classes.values():
        bases, others = after.ancestors(node)
        if "pl.LightningModule" in others:
            continue
        for name, method in methods(node).items():
            new = new_name(name)
            base = next((b for b in bases if b is not node and new in methods(b)), None)
            if base is not None and new not in methods(node):
                yield Finding(method.lineno, _OVERRIDDEN.format(base.name, new, name))


def of_context(after: Code, text: Text) -> Iterator[Finding]:
    """Calls of methods that only Determined's context has, where a module has come in its place.

    What they are called on was not known to be the context: it came out of a dict, for example.
    """
    nodes = (base for node in text.classes.values() for base in node.bases)
    bases = {written(base).rpartition(".")[2] for base in nodes}
    asked = {module.partition(".")[0] for _, module, _ in imports(text.nodes)}
    if "PyTorchTrial" in bases or ("determined" in asked and "LightningModule" not in bases):
        return  # It is Determined's still, and says why.
    for node in text.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            if TELLTALE.get(name) == _CONTEXT and name not in after.function_names:
                yield Finding(node.lineno, f"{name} is a method of Determined's context")


def _aliases(text: Text) -> Iterator[ast.alias]:
    for node in text.nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from node.names


def _first(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Call)):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return getattr(node, "id", "")


def _last(node: ast.expr) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
