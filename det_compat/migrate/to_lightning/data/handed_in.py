"""Data, models and other objects that a trial is handed as it is made: no hyperparameters.

Lightning would write them into each checkpoint, and ``load_from_checkpoint`` refuses to unpickle
them.
"""

import ast
from collections.abc import Collection, Sequence

import libcst as cst

from det_compat.analysis.written import objects_given
from det_compat.migrate.to_lightning.data.loaders import NAMES
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import values_set

_WRAPPING = ("wrap_model", "wrap_optimizer", "wrap_lr_scheduler", "wrap_reducer")
#: What is given to a loader besides numbers.
_OBJECTS = ("dataset", "sampler", "batch_sampler", "collate_fn", "worker_init_fn")
_SPLITTING = ("random_split", "Subset")
#: What numbers, texts, and lists and dicts of these have.
_PLAIN = frozenset(name for of in (str, int, float, list, dict, tuple, set) for name in dir(of))
#: What models alone are asked for.
_OF_MODELS = ("parameters", "named_parameters", "state_dict")


def handed_in(node: cst.ClassDef, symbols: Symbols, trees: Sequence[ast.Module]) -> frozenset[str]:
    """The parameters of a trial's ``__init__`` that it uses as data, models or what trains these.

    So are those that get objects of other kinds where it is made, or are asked for what only such
    have.

    Args:
        node: its class.
        symbols: what placeholders in it stand for.
        trees: all files.
    """
    own = syntax.methods(node)
    if "__init__" not in own:
        return frozenset()
    given = {p.name.value: p.name.value for p in syntax.find(own["__init__"].params, cst.Param)}
    kept = ((syntax.code(to), syntax.code(value)) for to, value in values_set(own["__init__"]))
    names = given | {to: value for to, value in kept if value in given and "." in to}
    used: list[cst.BaseExpression | None] = []
    for call in syntax.find(node, cst.Call):
        owner, _, name = syntax.code(call.func).rpartition(".")
        if (symbols.path(call.func) or name).endswith("DataLoader"):
            used += [arg.value for arg in call.args if _is_object(arg)]
            used += [] if not call.args or call.args[0].keyword else [call.args[0].value]
        elif symbols.method(call) in _WRAPPING or name in _SPLITTING:
            used += [arg.value for arg in call.args[:1]]
        elif name in _OF_MODELS:
            used.append(syntax.expression(owner) if owner else None)
    for method in NAMES:
        lines = syntax.returns(own[method]) if method in own else []
        used += [line.value for line in lines]
    found = {syntax.code(each) for each in used if each is not None}
    found |= _asked(own["__init__"], given) | _asked(node, names.keys() - given.keys())
    _, *parameters = (param.name.value for param in own["__init__"].params.params)
    taken = {*parameters[1:], *(p.name.value for p in own["__init__"].params.kwonly_params)}
    objects = objects_given(trees, node.name.value, parameters) if taken else frozenset()
    return frozenset(names[text] for text in found & names.keys()) | (objects & taken)


def _asked(node: cst.CSTNode, names: Collection[str]) -> set[str]:
    """Those of the names that are asked for an attribute which no plain value has."""
    asked = syntax.find(node, cst.Attribute)
    found = {syntax.code(each.value) for each in asked if each.attr.value not in _PLAIN}
    set_again = {syntax.code(each.target) for each in syntax.find(node, cst.AssignTarget)}
    return found.intersection(names) - {name for name in set_again if "." not in name}


def _is_object(arg: cst.Arg) -> bool:
    return arg.keyword is not None and arg.keyword.value in _OBJECTS
