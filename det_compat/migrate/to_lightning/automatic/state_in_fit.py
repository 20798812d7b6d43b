"""Trials and callbacks, with bases and heirs, whose validations move what training goes by."""

from collections.abc import Mapping, Sequence

import libcst as cst

from det_compat.migrate.to_lightning.automatic.moved import TRAINING, Moving, read_by, smalls
from det_compat.migrate.to_lightning.automatic.moved_in_fit import (
    asked_without,
    condition_of,
    is_static,
    moved_in_fit,
)
from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.trial_attributes import (
    VALIDATING,
    attributes_set,
    reachable,
    values_set,
)

HOOK = "on_validation_"
_CALLED = (HOOK, "validation_step")
#: The hooks of a module that a validation of Lightning's calls.
HOOKS = (
    "validation_step",
    *(f"{HOOK}{when}" for when in ("epoch_start", "epoch_end", "batch_start", "batch_end")),
)


def with_state_in_fit(tree: cst.Module, file: LightningFile) -> cst.Module:
    """The file, whose validations move what training goes by only in training."""
    classes = {n.name.value: n for n in syntax.find(tree, cst.ClassDef)}
    named = {name: _class(name, classes, file) for name in sorted(file.callbacks)}
    callbacks = [node for node in named.values() if node is not None]
    helping = [method for node in callbacks for method in syntax.methods(node).values()]
    read = {a for m in helping if m.name.value in TRAINING for a in read_by(m)}
    emptied = {
        target.attr.value
        for m in helping
        if m.name.value.startswith(HOOK)
        for small, around in smalls(m)
        for target, _ in (values_set(small) if not around else ())
        if isinstance(target, cst.Attribute) and not syntax.is_name(target.value, "self")
    }
    families: dict[str, Moving] = {}
    # Callbacks of a file may be those of any trial.
    plans = {**file.trials, **file.plans} if callbacks else file.plans
    for name, plan in plans.items():
        family = [p for p in (*file.every, *file.trials.values(), plan) if plan in p.ancestors]
        own: dict[str, cst.FunctionDef] = {}
        for each in dict.fromkeys(a for p in family for a in reversed(p.ancestors)):
            made = _class(each.own.name, classes, file)
            own |= {} if made is None else syntax.methods(made)
        own |= syntax.methods(classes[name]) if name in classes else {}
        reached = {each for p in family for each in p.reached(*VALIDATING)}
        starts = [each for each in own if each in reached or each in HOOKS]
        alone = {*reachable(own, "__init__"), *(n for n, m in own.items() if is_static(m))}
        families[name] = Moving(own, starts, file, read, emptied, alone)
    every = {a for each in families.values() for a in each.trained} if callbacks else set[str]()
    summed = {a for each in families.values() for a in each.summed} if callbacks else set[str]()

    def kept(node: cst.ClassDef) -> cst.ClassDef:
        name, own = node.name.value, syntax.methods(node)
        moving = families.get(name)
        owner = "{0}."
        if moving is None and name in file.callbacks:
            every_own = _with_heirs(node, callbacks)
            starts = [each for each in every_own if each.startswith(HOOK)]
            alone = {each for each, method in every_own.items() if not condition_of(method, "")}
            own_names = {n for m in every_own.values() for n, *_ in attributes_set(m)}
            theirs = summed - own_names
            moving, owner = Moving(every_own, starts, file, every, theirs, alone), ""
        if moving is None or not moving.starts:
            return node
        changed: dict[cst.BaseStatement, cst.FunctionDef] = {}
        called = {each for each in moving.starts if each in VALIDATING or each.startswith(_CALLED)}
        for each in reachable(own, *moving.starts):
            if each not in called:
                continue
            condition = "" if each in moving.alone else condition_of(own[each], owner)
            changed[own[each]] = moved_in_fit(own[each], own, moving, condition)
            called |= asked_without(changed[own[each]].body, condition)
        body = [changed.get(line, line) for line in syntax.body_of(node)]
        return syntax.with_body(node, body)

    return syntax.each(tree, cst.ClassDef, kept)


def _class(
    name: str, classes: Mapping[str, cst.ClassDef], file: LightningFile
) -> cst.ClassDef | None:
    text = file.elsewhere.texts.get(name, "")
    return classes.get(name) or next(syntax.find(syntax.looked_at(text), cst.ClassDef), None)


def _with_heirs(
    node: cst.ClassDef, callbacks: Sequence[cst.ClassDef]
) -> dict[str, cst.FunctionDef]:
    """The methods of a callback, with those of its bases and heirs."""
    known = {each.name.value: each for each in callbacks}

    def line(name: str) -> list[str]:
        found = [name]
        for each in found:
            bases = (syntax.code(b.value).rpartition(".")[2] for b in known[each].bases)
            found += [base for base in bases if base in known and base not in found]
        return found

    lines = [found for found in map(line, known) if node.name.value in found]
    names = dict.fromkeys(each for found in lines for each in reversed(found))
    every = {k: m for each in names for k, m in syntax.methods(known[each]).items()}
    # Heirs fill in what does nothing yet.
    doing = {k: m for k, m in syntax.methods(node).items() if any(syntax.find(m, cst.Attribute))}
    return syntax.methods(node) | every | doing
