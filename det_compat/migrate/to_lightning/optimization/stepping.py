"""Steps of optimizers: whether they are Lightning's, and if not, the lines that they stand for."""

import itertools

import libcst as cst
from libcst import matchers as m
from libcst.helpers import ensure_type

from det_compat.migrate.to_lightning.class_facts import ClassFacts
from det_compat.migrate.to_lightning.plan import LightningFile, TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import FileTransformer, Line, Lines
from det_compat.migrate.tree.symbols import Symbols


def is_automatic(node: cst.ClassDef, symbols: Symbols, facts: ClassFacts) -> bool:
    """Whether one optimizer is stepped right after one backward, in straight-line code."""
    own = syntax.methods(node)
    method = own.get("train_batch")
    if method is None or len(facts.optimizers) != 1:
        return False
    if any(_uses(node, symbols, name) != 1 for name in ("wrap_optimizer", *_ONCE)):
        return False
    if not all(s.interval and s.is_torchs and not s.may_lack for s in facts.schedulers):
        return False
    attributes = [*facts.optimizers, *(scheduler.attribute for scheduler in facts.schedulers)]
    if any(name.startswith("*") for name in attributes):
        return False
    attribute = f"{syntax.self_name(method)}.{facts.optimizers[0]}"
    if _is_used_elsewhere(own, attribute):
        return False
    return _is_simple(own, symbols, facts)


_ONCE = ("backward", "step_optimizer")


def backward_and_step(
    method: cst.FunctionDef, symbols: Symbols
) -> tuple[int, cst.Call, cst.Call] | None:
    """The calls of backward and, in the next statement, of a step; the index of the first."""
    calls = [syntax.lone_call(line) for line in syntax.body_of(method)]
    for index, (backward, step) in enumerate(itertools.pairwise(calls)):
        is_pair = (symbols.method(backward), symbols.method(step)) == _ONCE
        if is_pair and backward is not None and step is not None:
            return index, backward, step
    return None


def _uses(node: cst.CSTNode, symbols: Symbols, member: str) -> int:
    found = (symbols.member(attribute) for attribute in syntax.find(node, cst.Attribute))
    return sum(pair is not None and pair[1] == member for pair in found)


def _is_used_elsewhere(own: dict[str, cst.FunctionDef], attribute: str) -> bool:
    others = (m for name, m in own.items() if name not in ("__init__", "train_batch"))
    if any(syntax.mentions(method, attribute) for method in others):
        return True
    used = map(syntax.code, syntax.find(own["train_batch"], cst.Attribute))
    return [*used].count(attribute) != 1


def _is_simple(own: dict[str, cst.FunctionDef], symbols: Symbols, facts: ClassFacts) -> bool:
    method = own["train_batch"]
    attribute = f"{syntax.self_name(method)}.{facts.optimizers[0]}"
    found = backward_and_step(method, symbols)
    if found is None:
        return False
    index, backward, step = found
    optimizer, clip = syntax.argument(step, 0, "optimizer"), syntax.argument(step, 1, "clip_grads")
    if len(backward.args) != 1:
        return False
    loss = backward.args[0].value
    if not isinstance(loss, cst.Name) and "loss" in syntax.names_in(method.body):
        return False
    if optimizer is None or syntax.code(optimizer) != attribute:
        return False
    if syntax.argument(step, 3, "scaler") or not zeroes_gradients(step):
        return False
    if clip is not None and syntax.names_in(clip) & syntax.local_names(method):
        return False
    return _ends_plainly(own, index, symbols, facts)


def _ends_plainly(
    own: dict[str, cst.FunctionDef], index: int, symbols: Symbols, facts: ClassFacts
) -> bool:
    method = own["train_batch"]
    after = syntax.body_of(method)[index + 2 :]
    returns = [found for line in after for found in syntax.find(line, cst.Return)]
    if len(returns) != 1 or not after or not isinstance(syntax.simple(after[-1]), cst.Return):
        return False
    # Lightning steps after the method returns, which what comes after the step must not see.
    me = syntax.self_name(method)
    known = {f"{me}.{name}" for name, other in own.items() if _is_function(other)}
    # Schedulers are stepped after the method has returned, in both.
    known |= {f"{me}.{scheduler.attribute}.get_last_lr" for scheduler in facts.schedulers}
    return not any(
        _uses_self(line, me, known) or any(map(symbols.is_context, syntax.find(line, cst.Name)))
        for line in after
    )


def _is_function(method: cst.FunctionDef) -> bool:
    """Whether a method depends on nothing but what else it is given."""
    is_plain = not method.decorators and bool(method.params.params)
    return is_plain and syntax.self_name(method) not in syntax.names_in(method.body)


def _uses_self(line: cst.BaseStatement, own_name: str, known: set[str]) -> bool:
    every = sum(name.value == own_name for name in syntax.find(line, cst.Name))
    targets = [each.target for each in syntax.find(line, cst.AssignTarget)]
    stored = sum(m.matches(each, m.Attribute(value=m.Name(own_name))) for each in targets)
    called = sum(syntax.code(call.func) in known for call in syntax.find(line, cst.Call))
    return every > called + stored


def zeroes_gradients(step: cst.Call) -> bool:
    """Whether a call of ``step_optimizer`` is sure to zero the gradients."""
    zero = syntax.argument(step, 2, "auto_zero_grads")
    return zero is None or syntax.code(zero) == "True"


def clipping(clip: cst.BaseExpression | None, optimizer: str) -> list[str]:
    """The lines that clip gradients as ``clip_grads`` did."""
    if clip is None or syntax.code(clip) == "None":
        return []
    lines = [f'params = [p for group in {optimizer}.param_groups for p in group["params"]]']
    if isinstance(clip, cst.Lambda) and len(clip.params.params) == 1:
        lines.append(
            syntax.code(syntax.replaced(clip.body, clip.params.params[0].name.value, "params"))
        )
    elif isinstance(clip, cst.Attribute):
        lines.append(f"{syntax.code(clip)}(params)")
    else:
        lines.append(f"clip_grads = {syntax.code(clip)}")
        lines += ["if clip_grads is not None:", "    clip_grads(params)"]
    return lines


def _written_out(call: cst.Call) -> list[cst.BaseStatement] | None:
    """What ``step_optimizer`` does, step by step; None if it is called in an unknown way."""
    optimizer, scaler = syntax.argument(call, 0, "optimizer"), syntax.argument(call, 3, "scaler")
    zero = syntax.argument(call, 2, "auto_zero_grads")
    if optimizer is None or any(given.star for given in call.args):
        return None
    name = syntax.code(optimizer)
    lines = clipping(syntax.argument(call, 1, "clip_grads"), name)
    lines.append(f"{name}.step()" if scaler is None else f"{syntax.code(scaler)}.step({name})")
    if zeroes_gradients(call):
        lines.append(f"{name}.zero_grad()")
    elif zero is not None and syntax.code(zero) != "False":
        lines += [f"if {syntax.code(zero)}:", f"    {name}.zero_grad()"]
    return syntax.statements("\n".join(lines) + "\n")


def write_out_steps(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Write out the steps outside of trial classes, in callbacks for example."""
    return tree.visit(_Stepping(file))


class _Stepping(FileTransformer[LightningFile]):
    """Writes out every ``step_optimizer`` that is a statement."""

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        call = syntax.lone_call(updated)
        if call is None or self.symbols.method(call) != "step_optimizer":
            return updated
        lines = _written_out(call)
        if lines is None:
            return updated
        first, last = lines[0], lines[-1]
        lines[0] = first.with_changes(leading_lines=updated.leading_lines)
        if last is not first and isinstance(last, cst.SimpleStatementLine):
            lines[-1] = last.with_changes(trailing_whitespace=updated.trailing_whitespace)
        return cst.FlattenSentinel(lines)


def with_optimizers(
    method: cst.FunctionDef, plan: TrialPlan, file: LightningFile, are_moved: bool
) -> cst.FunctionDef:
    """A method with its steps written out.

    It asks Lightning for the optimizers it steps if ``are_moved``: ``configure_optimizers`` makes
    them then, and no attribute keeps them.
    """
    own, optimizers = syntax.self_name(method), plan.own.optimizers
    steps = file.symbols.calls(method, "step_optimizer")
    stepped = [name for name in optimizers if steps and syntax.mentions(method, f"{own}.{name}")]
    changed = ensure_type(method.visit(_Stepping(file)), cst.FunctionDef)
    if not are_moved or not stepped or syntax.names_in(method.body) & {*optimizers}:
        return changed
    for attribute in stepped:
        changed = syntax.replaced(changed, f"{own}.{attribute}", attribute)
    names = [name if name in stepped else "_" for name in optimizers]
    first = syntax.statements(f"{', '.join(names)} = {own}.optimizers()\n")
    return syntax.with_body(changed, [*first, *syntax.body_of(changed)])
