"""Batch methods become steps: ``train_batch``, ``evaluate_batch``, ``evaluate_full_dataset``.

What they returned is logged instead.
"""

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from det_compat.migrate.shapes.known import Shapes
from det_compat.migrate.to_lightning.automatic.by_hand import without_stepping
from det_compat.migrate.to_lightning.automatic.deciding import (
    backward_and_step,
    without_zeroing,
)
from det_compat.migrate.to_lightning.automatic.loss import copied, is_entry, loss_of, with_copies
from det_compat.migrate.to_lightning.data.batch_numbers import with_batch_number
from det_compat.migrate.to_lightning.metrics.logged import EACH_BATCH, Logged
from det_compat.migrate.to_lightning.metrics.renamed import ALL_RENAMED, renamed_where_made, said_of
from det_compat.migrate.to_lightning.optimization.stepping import clipping, with_optimizers
from det_compat.migrate.to_lightning.plan import LightningFile, TrialPlan
from det_compat.migrate.to_lightning.reducers.reductions import reduction
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above, comments_of
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.walking import below


def training_step(
    method: cst.FunctionDef,
    plan: TrialPlan,
    file: LightningFile,
    *,
    asks: bool,
    shapes: Shapes,
) -> list[cst.BaseStatement]:
    """The methods that take the place of a trial's train_batch.

    Args:
        method: train_batch.
        plan: of the trial.
        file: that it is in.
        asks: whether it asks Lightning for the optimizers.
        shapes: what is known of its metrics.
    """
    if plan.is_automatic:
        attribute = f"{syntax.self_name(method)}.{plan.own.optimizers[0]}"
        optimizer = f"{syntax.self_name(method)}.optimizers()"
        method = without_zeroing(method, attribute)
        method = without_stepping(method, [s.attribute for s in plan.own.schedulers])
        groups = f"{attribute}.param_groups"
        method = syntax.replaced(method, groups, f"{optimizer}.param_groups")
        return _automatic(method, file, shapes=shapes)
    calls = file.symbols.calls(method, "backward")
    terms = {loss for call in calls if call.args for loss in _terms(call.args[0].value)}
    losses = frozenset(terms - _made_anew(method, file.symbols))
    logged = Logged(syntax.self_name(method), losses=losses, reduction="", shapes=shapes)
    method = with_optimizers(logged.in_method(method), plan, file, asks)
    # Lightning counts no step that a scaler leaves out.
    has_scaler = "scaler" in syntax.code(method)
    is_counted = plan.is_whole and plan.steps == 1 and not plan.accumulation and not has_scaler
    return [_training(method, is_automatic=False, is_counted=is_counted)]


def _terms(loss: cst.BaseExpression) -> Iterator[str]:
    """A loss, and what it is computed from by arithmetic, which knows no dicts."""
    yield syntax.code(loss)
    if isinstance(loss, cst.BinaryOperation):
        yield from (*_terms(loss.left), *_terms(loss.right))


def _made_anew(method: cst.FunctionDef, symbols: Symbols) -> set[str]:
    """The variables that may be dicts behind the first backward pass, as what this had was not."""
    nodes = below(method.body)
    first = next((i for i, n in enumerate(nodes) if symbols.method(n) == "backward"), len(nodes))
    lines = (node for node in nodes[first:] if isinstance(node, cst.Assign))
    return {
        syntax.code(to)
        for line in lines
        for to, value in syntax.pairs(line)
        if any(syntax.find(value, cst.Dict))
        or (isinstance(value, cst.Call) and not _NUMBERS.match(syntax.code(value)))
    }


#: Calls of methods of a tensor, and of functions that return no dicts.
_NUMBERS = re.compile(r"(float|torch\.\w+)\(|[\w.]+\.(item|detach|cpu|mean|sum|clone)\(")


def _automatic(
    method: cst.FunctionDef, file: LightningFile, *, shapes: Shapes
) -> list[cst.BaseStatement]:
    found = backward_and_step(method, file.symbols)
    assert found is not None
    index, end = found.index, found.end
    body = [*syntax.body_of(method)]
    given = loss_of(method, index, found.backward)
    comments = [c for n in (index, end - 1) for c in _lasting(comments_of(body[n]))]
    copies = copied(method, index, end, syntax.code(given))
    after = with_copies(body[end:], copies)
    made_before: list[cst.BaseStatement] = []
    loss = syntax.code(given)
    is_taken = "loss" in syntax.names_in(method.body)
    if not isinstance(given, cst.Name) and not (is_taken and is_entry(given, method, end)):
        after = [_with_loss(line, loss) for line in after]
        made_before = syntax.statements(f"loss = {syntax.whole(loss)}\n")
        loss = "loss"
    after[:1] = [above(line, comments) for line in after[:1]]
    method = syntax.with_body(method, [*body[:index], *made_before, *after])
    own = syntax.self_name(method)
    logged = Logged(own, losses=frozenset((loss,)), reduction="", shapes=shapes)
    method = logged.in_method(method, last=f"return {loss}")
    made: list[cst.BaseStatement] = [_training(method, is_automatic=True, is_counted=True)]
    clip = syntax.argument(found.step, 1, "clip_grads")
    lines = syntax.statements("\n".join(clipping(clip, "optimizer", file)) + "\n")
    if found.between or lines:
        made.append(_clipping_hook(found.between or lines, own))
    return made


def _lasting(comments: list[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """The comments above a call that goes; none if they speak of it."""
    texts = (line.comment.value for line in comments if line.comment is not None)
    return [] if any(map(_BACKWARD.search, texts)) else comments


_BACKWARD = re.compile(r"\bbackward|\bback.?prop|\bstep the optimizer", re.IGNORECASE)


def _with_loss(line: cst.BaseStatement, text: str) -> cst.BaseStatement:
    """A statement with ``loss`` for the expression that it is, where that is in it."""
    for kind in (cst.Subscript, cst.Attribute, cst.Call):
        for found in syntax.find(line, kind):
            if syntax.code(found) == text:
                return _with_loss(syntax.with_node(line, found, cst.Name("loss")), text)
    return line


def _clipping_hook(lines: Sequence[cst.BaseStatement], own: str) -> cst.BaseStatement:
    hook = syntax.method(
        f"def configure_gradient_clipping(\n    {own}, optimizer, gradient_clip_val=None, "
        f"gradient_clip_algorithm=None\n):\n    pass\n"
    )
    return syntax.with_body(hook, lines)


def _training(method: cst.FunctionDef, *, is_automatic: bool, is_counted: bool) -> cst.FunctionDef:
    index = _parameter(method, "batch")
    method = with_batch_number(
        _with_epoch(method), index, is_counted=is_counted, is_automatic=is_automatic
    )
    return _as_step(method, "training_step", "torch.Tensor" if is_automatic else "None")


def validation_step(
    method: cst.FunctionDef,
    plan: TrialPlan,
    reducer: cst.FunctionDef | None,
    symbols: Symbols,
    *,
    shapes: Shapes,
    returns: bool,
) -> cst.FunctionDef:
    """The validation_step of a trial's evaluate_batch or evaluate_full_dataset.

    Args:
        method: one of these.
        plan: of the trial.
        reducer: its evaluation_reducer.
        symbols: of the file.
        shapes: what is known of its metrics.
        returns: whether callbacks are told what it returned.
    """
    fx = reduction(reducer, symbols)
    options = EACH_BATCH
    if fx not in (None, "mean") and not plan.evaluates_whole:
        options = f', reduce_fx="{fx}"{options}'
    by = "" if plan.evaluates_whole else fx or "mean"
    own, renamed = syntax.self_name(method), plan.renamed
    said = said_of(renamed, is_open=plan.is_open)
    if plan.renames_unknown:
        renamed, said = {}, ALL_RENAMED
    done: frozenset[str] = frozenset()
    if not returns:
        method, done = renamed_where_made(method, renamed)
    logged = Logged(
        own, options, None, renamed, plan.key, done, said, returns, reduction=by, shapes=shapes
    )
    annotation, method = method.returns, logged.in_method(method)
    index = _parameter(method, "batch")
    if index != "batch_idx":
        method = syntax.replaced(method, index, "batch_idx")
    made = _as_step(_with_epoch(method), "validation_step", "None")
    return made.with_changes(returns=annotation) if returns else made


def _parameter(method: cst.FunctionDef, part: str) -> str:
    """The name of the parameter after the batch that counts epochs, or batches."""
    given = [*method.params.posonly_params, *method.params.params][2:]
    return next((p.name.value for p in given if part in p.name.value), f"{part}_idx")


def _with_epoch(method: cst.FunctionDef) -> cst.FunctionDef:
    """A method that asks Lightning for the epoch if it uses the one that it was given."""
    epoch = _parameter(method, "epoch")
    if epoch not in syntax.names_in(method.body):
        return method
    return syntax.replaced(method, epoch, f"{syntax.self_name(method)}.current_epoch")


def _as_step(method: cst.FunctionDef, name: str, returns: str) -> cst.FunctionDef:
    """A method with a step's name and parameters, annotated if it was."""
    own, batch, *rest = [*method.params.posonly_params, *method.params.params]
    is_annotated = any(param.annotation is not None for param in (batch, *rest))
    index = cst.Param(cst.Name("batch_idx"), syntax.annotation("int") if is_annotated else None)
    plain = [cst.Param(param.name, param.annotation) for param in (own, batch)]
    return method.with_changes(
        name=cst.Name(name),
        params=cst.Parameters([*plain, index]),
        whitespace_before_params=cst.SimpleWhitespace(""),
        returns=syntax.annotation(returns) if method.returns is not None else None,
    )
