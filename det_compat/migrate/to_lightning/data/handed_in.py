"""Data, models and other objects that a trial is handed as it is made: no hyperparameters.

Lightning would write them into each checkpoint, and ``load_from_checkpoint`` refuses to unpickle
them.
"""

import re
from collections.abc import Collection, Sequence

import libcst as cst

from det_compat.analysis.given.again import given_again
from det_compat.analysis.given.values import Given
from det_compat.analysis.given.written import objects_given
from det_compat.migrate.to_lightning.data.loaders import NAMES
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import reachable, values_set

_WRAPPING = ("wrap_model", "wrap_optimizer", "wrap_lr_scheduler", "wrap_reducer")
#: What is given to a loader besides numbers.
_OBJECTS = ("dataset", "sampler", "batch_sampler", "collate_fn", "worker_init_fn")
_SPLITTING = ("random_split", "Subset")
#: What numbers, texts, and lists and dicts of these have.
_PLAIN = frozenset(name for of in (str, int, float, list, dict, tuple, set) for name in dir(of))
#: Annotations of what is no plain value.
_ANNOTATED = re.compile(r"\b(Module|DataModule|Dataset|DataLoader|Callable|[Tt]ype\[)|^[Tt]ype$")
#: How a list is filled with which a script goes on.
_FILLING = ("append", "extend", "insert")
#: What models alone are asked for.
_OF_MODELS = ("parameters", "named_parameters", "state_dict")


def handed_in(
    node: cst.ClassDef,
    symbols: Symbols,
    given: Given,
    family: Sequence[cst.FunctionDef],
) -> frozenset[str]:
    """The parameters of a trial's ``__init__`` that it uses as data, models or what trains these.

    So are those that get objects of other kinds where it is made, or are asked for what only such
    have, or called. Its bases may take what it is given. What the classes that derive from it give
    it by themselves, they give it again when they are made from a checkpoint.

    Args:
        node: its class.
        symbols: what placeholders in it stand for.
        given: what is made in all files.
        family: the ``__init__`` that it has or inherits, and those of the bases behind that.
    """
    parameters = _in_place(family)
    name = node.name.value
    objects = objects_given(given, name, parameters) | given_again(given, name, parameters)
    objects -= {*parameters[:1]}
    own = syntax.methods(node)
    if "__init__" not in own:
        return objects
    _, *params = syntax.find(own["__init__"].params, cst.Param)
    taken = {param.name.value: param.name.value for param in params}
    kept = ((syntax.code(to), syntax.code(value)) for to, value in values_set(own["__init__"]))
    names = taken | {to: value for to, value in kept if value in taken and "." in to}
    used: list[cst.BaseExpression | None] = []
    # What is filled as the trial is made may be a setting.
    made = {c for n in reachable(own, "__init__") for c in syntax.find(own[n], cst.Call)}
    for call in syntax.find(node, cst.Call):
        owner, _, name = syntax.code(call.func).rpartition(".")
        if (symbols.path(call.func) or name).endswith("DataLoader"):
            used += [arg.value for arg in call.args if _is_object(arg)]
            used += [] if not call.args or call.args[0].keyword else [call.args[0].value]
        elif symbols.method(call) in _WRAPPING or name in _SPLITTING:
            used += [arg.value for arg in call.args[:1]]
        elif name in _OF_MODELS or (name in _FILLING and call not in made):
            used.append(syntax.expression(owner) if owner else None)
    for method in NAMES:
        lines = syntax.returns(own[method]) if method in own else []
        used += [line.value for line in lines]
    found = {syntax.code(each) for each in used if each is not None}
    found |= _asked(own["__init__"], taken) | _asked(node, names.keys() - taken.keys())
    called = {syntax.code(call.func) for call in syntax.find(own["__init__"].body, cst.Call)}
    noted = {
        p.name.value
        for p in params
        if p.annotation and _ANNOTATED.search(syntax.code(p.annotation.annotation))
    }
    used_so = {names[text] for text in found & names.keys()}
    return frozenset(used_so | (called & taken.keys()) | noted) | objects


def _in_place(family: Sequence[cst.FunctionDef]) -> list[str]:
    """What a class is given by place, from the context on; ``*args`` are those of its base."""
    if not family:
        return []
    params = family[0].params
    _, *names = (each.name.value for each in (*params.posonly_params, *params.params))
    # The context is in front there, too.
    rest = _in_place(family[1:])[1:] if isinstance(params.star_arg, cst.Param) else []
    return [*names, *rest]


def _asked(node: cst.CSTNode, names: Collection[str]) -> set[str]:
    """Those of the names that are asked for an attribute which no plain value has."""
    asked = syntax.find(node, cst.Attribute)
    found = {syntax.code(each.value) for each in asked if each.attr.value not in _PLAIN}
    set_again = {syntax.code(each.target) for each in syntax.find(node, cst.AssignTarget)}
    return found.intersection(names) - {name for name in set_again if "." not in name}


def _is_object(arg: cst.Arg) -> bool:
    return arg.keyword is not None and arg.keyword.value in _OBJECTS
