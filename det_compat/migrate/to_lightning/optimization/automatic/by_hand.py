"""Schedulers that a trial steps by hand after every step of its optimizer, as Lightning would."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import libcst as cst

from det_compat.migrate.to_lightning.class_facts import ClassFacts
from det_compat.migrate.to_lightning.data.loader_order import Project
from det_compat.migrate.to_lightning.optimization.automatic.deciding import is_automatic
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols


def as_automatic(
    node: cst.ClassDef,
    symbols: Symbols,
    facts: ClassFacts,
    project: Project,
    asked: Collection[str],
) -> ClassFacts | None:
    """The facts of a class whose optimizer Lightning may step; None for any other class.

    Its scheduler may be one that Lightning steps then, too, where the class did it by hand. The
    arguments are those of ``is_automatic``.
    """
    if is_automatic(node, symbols, facts, project, asked):
        return facts
    node, facts = _left_to_lightning(node, symbols, facts, asked) or (node, facts)
    return facts if is_automatic(node, symbols, facts, project, asked) else None


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
    if any(True for line in before for _ in syntax.find(line, cst.Return)):
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
