"""What a trial wraps as a reducer: an object of a reducer's class, a function, or either."""

import builtins
import functools
from collections.abc import Mapping, Sequence

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.shapes.returned import odd_kinds
from det_compat.migrate.shapes.values import is_many
from det_compat.migrate.to_lightning.class_facts import ClassFacts
from det_compat.migrate.to_lightning.early.moved_devices import is_class
from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.to_lightning.reducers.metrics import FUNCTION_METRIC, METRIC_OF
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere


def metric_class(
    node: cst.BaseExpression, file: LightningFile, values: Mapping[str, Sequence[cst.CSTNode]]
) -> str:
    """What makes a metric of something that is wrapped as a reducer; ``""`` if it is one itself.

    Args:
        node: what is wrapped.
        file: where that is.
        values: what the variables of the file are set to.
    """
    if _is_function(node, file):
        return FUNCTION_METRIC
    makers = _makers(node, values)
    is_reducer = bool(makers) and all(_is_reducers(maker, file) for maker in makers)
    return "" if is_reducer else METRIC_OF


def unread_classes(
    node: cst.BaseExpression, file: LightningFile, values: Mapping[str, Sequence[cst.CSTNode]]
) -> list[str]:
    """The classes of what is wrapped as a reducer, if it has no others and nobody has read these.

    The arguments are those of ``metric_class``.
    """
    found = [syntax.code(maker) for maker in _makers(node, values)]
    are_unread = all(is_class(name) and file.elsewhere.is_unread(name) for name in found)
    return [*dict.fromkeys(found)] if are_unread else []


def _makers(
    node: cst.BaseExpression, values: Mapping[str, Sequence[cst.CSTNode]]
) -> list[cst.BaseExpression]:
    """What is called to make what is wrapped; empty if something else may be."""
    made = [node] if isinstance(node, cst.Call) else values.get(syntax.code(node), [])
    calls = [call.func for call in made if isinstance(call, cst.Call)]
    return calls if len(calls) == len(made) else []


def _is_function(node: cst.BaseExpression, file: LightningFile) -> bool:
    name = syntax.code(node.func if isinstance(node, cst.Call) else node)
    if isinstance(node, cst.Call):
        return name.rpartition(".")[2] == "partial"
    if _is_imported(node, file):
        return not file.elsewhere.holds(name)
    # A method of the trial reduces as a function does.
    methods = {method for plan in file.plans.values() for method in plan.own.methods}
    is_method = isinstance(node, cst.Attribute) and node.attr.value in methods
    return name in file.functions or is_method or isinstance(node, cst.Lambda)


def _is_reducers(node: cst.BaseExpression, file: LightningFile) -> bool:
    """Whether a name is that of a class of reducers, in this file or another."""
    name = syntax.code(node)
    text = file.elsewhere.texts.get(name.rpartition(".")[2], "")
    is_one = text.startswith("class ") and "def per_slot_reduce(" in text
    return is_one or name in file.reducers


def _is_imported(node: cst.BaseExpression, file: LightningFile) -> bool:
    """Whether another module may have it under a name in lower case, which no class has."""
    owner, _, name = syntax.code(node).rpartition(".")
    is_name = isinstance(node, (cst.Name, cst.Attribute)) and "(" not in owner
    return is_name and name.islower() and (owner or name).partition(".")[0] in file.names


def odd_makers(
    facts: ClassFacts, own: Mapping[str, cst.FunctionDef], around: Elsewhere
) -> set[str]:
    """What reducers of a trial are made by of which not every result may be a number."""
    makers = {reducer.made_by for reducer in (*facts.reducers, *facts.training_reducers)}
    return {maker for maker in makers if _may_reduce_to_many(maker, own, around)}


def _may_reduce_to_many(
    made_by: str, own: Mapping[str, cst.FunctionDef], around: Elsewhere
) -> bool:
    """Whether a reducer may make of its values what is no single number.

    It may if that is seen, or if nobody knows what it is.

    Args:
        made_by: it, or what it is made by.
        own: the methods of the trial.
        around: the code that it may be of.
    """
    root, name = made_by.partition(".")[0], made_by.rpartition(".")[2].removesuffix("()")
    text = around.texts.get(name, "")
    if made_by.startswith("lambda"):
        return is_many(ensure_type(syntax.expression(made_by), cst.Lambda).body, {})
    if not text and (name not in own or root != "self"):
        is_librarys = root in around.imported and root not in around.texts
        return not is_librarys and name not in (*dir(builtins), "partial")
    if text.startswith("class "):
        return _has_odd_results(text)
    found = [*syntax.find(syntax.looked_at(text) if text else own[name], cst.FunctionDef)]
    is_made = made_by.endswith("()")
    inner = [*syntax.find(found[0].body, cst.FunctionDef)] if is_made else found
    return not inner or any(map(odd_kinds, inner))


@functools.lru_cache(64)  # Each file of a folder may have a class of that name: the text is of all.
def _has_odd_results(text: str) -> bool:
    found = syntax.find(syntax.looked_at(text), cst.FunctionDef)
    return any(odd_kinds(each) for each in found if each.name.value in _RESULTS)


#: What reducers, and objects that are called, answer with.
_RESULTS = ("cross_slot_reduce", "__call__")
