"""What Lightning may step though it does not stand in one class, or is stepped by hand there."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import libcst as cst

from det_compat.migrate.to_lightning.automatic.deciding import is_automatic
from det_compat.migrate.to_lightning.class_facts import ClassFacts
from det_compat.migrate.to_lightning.data.loader_order import Project
from det_compat.migrate.to_lightning.optimization.step_modes import chosen_interval
from det_compat.migrate.to_lightning.optimization.wrapping import KEPT
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols


def as_automatic(
    node: cst.ClassDef,
    symbols: Symbols,
    facts: ClassFacts,
    project: Project,
    asked: Collection[str],
    relatives: Sequence[tuple[Symbols, cst.ClassDef, ClassFacts]],
) -> ClassFacts | None:
    """The facts of a class whose optimizer Lightning may step; None for any other class.

    Its scheduler may be one that Lightning steps then, too, where the class did it by hand. The
    arguments are those of ``is_automatic``, and the bases and heirs of the class.
    """
    if any(_optimizes(*each) for each in relatives):
        return None
    node = _among(node, symbols, relatives) if relatives else node
    facts = _with_interval(facts, project)
    if is_automatic(node, symbols, facts, project, asked):
        return facts
    node, facts = _left_to_lightning(node, symbols, facts, asked) or (node, facts)
    return facts if is_automatic(node, symbols, facts, project, asked) else None


def _with_interval(facts: ClassFacts, project: Project) -> ClassFacts:
    """The facts of a class whose only scheduler may step after batches, or after epochs."""
    if len(facts.schedulers) != 1 or facts.schedulers[0].frequency != "1":
        return facts
    [scheduler] = facts.schedulers
    chosen = chosen_interval(scheduler.choices, are_known=project.knows_modes)
    return replace(facts, schedulers=(replace(scheduler, chosen=chosen),))


def _optimizes(symbols: Symbols, node: cst.ClassDef, facts: ClassFacts) -> bool:
    """Whether a class takes part in what its relative optimizes."""
    members = map(symbols.member, syntax.find(node, cst.Attribute))
    asked = {member[1] for member in members if member is not None}
    return bool(facts.optimizers or facts.schedulers or asked & _OPTIMIZING)


_OPTIMIZING = {*KEPT, "backward", "step_optimizer", "optimizers", "lr_schedulers", "models"}


def _among(
    node: cst.ClassDef,
    symbols: Symbols,
    relatives: Sequence[tuple[Symbols, cst.ClassDef, ClassFacts]],
) -> cst.ClassDef:
    """A class in which each method does what it does in any of its bases and heirs, too."""
    parts = {name: [method] for name, method in syntax.methods(node).items()}
    theirs, stored = {_STORED}, [syntax.statement("pass")]
    for others, each, facts in relatives:
        for name, method in syntax.methods(each).items():
            # The constructor of the class itself stays one.
            name = f"{_STORED}init__" if name == "__init__" else name
            theirs.add(name)
            parts.setdefault(name, []).append(method if others is symbols else _foreign(method))
        # What is in a model that one of them wraps, a step may change.
        wraps = facts.models or "wrap_model" in facts.unkept
        stored += [syntax.statement(f"self.{n} = self") for n in facts.stores if wraps]
    storing = syntax.with_body(syntax.method(f"def {_STORED}(self): ..."), stored)
    made = [_merged(name, found) for name, found in parts.items() if name in theirs]
    own = [line for line in syntax.body_of(node) if not _is_method(line, theirs)]
    return syntax.with_body(node, [*own, *made, storing])


_STORED = "__relatives__"


def _is_method(line: cst.BaseStatement, names: Collection[str]) -> bool:
    return isinstance(line, cst.FunctionDef) and line.name.value in names


def _foreign(method: cst.FunctionDef) -> cst.FunctionDef:
    """A method of another file, whose placeholders may be anything of the module here."""

    def known(name: cst.Name) -> cst.Name:
        return cst.Name("self") if name.value.startswith("__det_") else name

    return syntax.each(method, cst.Name, known)


def _merged(name: str, methods: Sequence[cst.FunctionDef]) -> cst.FunctionDef:
    """A method that does what all of these do; one of an odd kind may return the module."""
    made = syntax.method(f"def {name}(self):\n    return self\n")
    if any(each.decorators or syntax.self_name(each) != "self" for each in methods):
        return made
    return syntax.with_body(made, [line for each in methods for line in syntax.body_of(each)])


def _left_to_lightning(
    node: cst.ClassDef, symbols: Symbols, facts: ClassFacts, asked: Collection[str]
) -> tuple[cst.ClassDef, ClassFacts] | None:
    """The class without the call that steps its only scheduler, and its facts then.

    None if there is no such call, or something would see the difference: Lightning steps it after
    the method has returned.
    """
    own = syntax.methods(node)
    method = own.get("train_batch")
    if method is None or len(facts.schedulers) != 1 or len(facts.optimizers) != 1:
        return None
    [scheduler], [optimizer] = facts.schedulers, facts.optimizers
    is_plain = scheduler.mode == "MANUAL_STEP" and not scheduler.may_lack
    if not is_plain or scheduler.attribute in asked or _uses(own, scheduler.attribute) != 2:
        return None
    me, body = syntax.self_name(method), syntax.body_of(method)
    step = next((i for i, line in enumerate(body) if _is_step(line, symbols)), len(body))
    text = f"{me}.{scheduler.attribute}.step()"
    at = [i for i, line in enumerate(body) if _code(syntax.lone_call(line)) == text]
    if len(at) != 1 or at[0] < step:
        return None
    before, after = body[: at[0]], body[at[0] + 1 :]
    if syntax.returns_in(before):
        # A batch that ends early goes without the step, and with Lightning's.
        return None
    if any(syntax.mentions(line, f"{me}.{optimizer}") for line in after):
        return None
    method = syntax.with_body(method, [*before, *after])
    without = syntax.with_node(node, own["train_batch"], method)
    return without, replace(facts, schedulers=(replace(scheduler, mode="STEP_EVERY_BATCH"),))


def without_stepping(method: cst.FunctionDef, schedulers: Collection[str]) -> cst.FunctionDef:
    """A method without the calls that step these schedulers, which Lightning does."""
    texts = {f"{syntax.self_name(method)}.{attribute}.step()" for attribute in schedulers}
    body = syntax.body_of(method)
    kept = [line for line in body if _code(syntax.lone_call(line)) not in texts]
    return syntax.with_body(method, kept) if len(kept) < len(body) else method


def _is_step(line: cst.BaseStatement, symbols: Symbols) -> bool:
    return symbols.method(syntax.lone_call(line)) == "step_optimizer"


def _code(call: cst.Call | None) -> str:
    return "" if call is None else syntax.code(call)


def _uses(own: Mapping[str, cst.FunctionDef], attribute: str) -> int:
    nodes = (node for method in own.values() for node in syntax.find(method, cst.Attribute))
    return sum(node.attr.value == attribute for node in nodes)
