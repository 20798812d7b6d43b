"""``train_batch`` becomes ``training_step``."""

from __future__ import annotations

import libcst as cst

from det_compat.migrate.to_lightning.automatic import place_of_step
from det_compat.migrate.to_lightning.logging_calls import Logged, parameters
from det_compat.migrate.to_lightning.stepping import clipping, with_optimizers
from det_compat.migrate.tree.file import TrialPlan
from det_compat.migrate.tree.marks import above, comments_of
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.syntax import (
    argument,
    body_of,
    call_of,
    code,
    find,
    names_in,
    replaced,
    self_name,
    statements,
    with_body,
)
from det_compat.migrate.tree.syntax import (
    method as made_method,
)

_TOTAL = "{0}.trainer.fit_loop.epoch_loop.total_batch_idx"


def training_step(
    method: cst.FunctionDef, plan: TrialPlan, symbols: Symbols
) -> list[cst.BaseStatement]:
    """The methods that take the place of a trial's train_batch."""
    if plan.is_automatic:
        return _automatic(method, symbols)
    return [_renamed(_manual(method, plan, symbols))]


def _automatic(method: cst.FunctionDef, symbols: Symbols) -> list[cst.BaseStatement]:
    place = place_of_step(method, symbols)
    assert place is not None
    body = [*body_of(method)]
    backward, step = call_of(body[place]), call_of(body[place + 1])
    assert backward is not None and step is not None
    given = backward.args[0].value
    comments = [*comments_of(body[place]), *comments_of(body[place + 1])]
    loss = given.value if isinstance(given, cst.Name) else "loss"
    if not isinstance(given, cst.Name):
        after = [_with_loss(line, code(given)) for line in body[place + 2 :]]
        body[place:] = [*body[place : place + 2], *after]
        body.insert(place, statements(f"loss = {code(given)}\n")[0])
        place += 1
    body[place : place + 2] = []
    if place < len(body):
        body[place] = above(body[place], comments)
    method = with_body(method, body)
    own = self_name(method)
    method = Logged(own, loss=loss).in_method(method, last=f"return {loss}")
    made: list[cst.BaseStatement] = [_renamed(method, "torch.Tensor")]
    clip = argument(step, 1, "clip_grads")
    if clip is not None and code(clip) != "None":
        made.append(_clipping_hook(clip, own))
    return made


def _with_loss(line: cst.BaseStatement, expression: str) -> cst.BaseStatement:
    """A statement with ``loss`` for the expression that it is, where that is in it."""
    for kind in (cst.Subscript, cst.Attribute, cst.Call):
        for found in find(line, kind):
            if code(found) == expression:
                changed = line.deep_replace(found, cst.Name("loss"))
                assert isinstance(changed, cst.BaseStatement)
                return _with_loss(changed, expression)
    return line


def _clipping_hook(clip: cst.BaseExpression, own: str) -> cst.BaseStatement:
    lines = "\n    ".join(clipping(clip, "optimizer"))
    return made_method(
        f"def configure_gradient_clipping(\n    {own}, optimizer, gradient_clip_val=None, "
        f"gradient_clip_algorithm=None\n):\n    {lines}\n"
    )


def _manual(method: cst.FunctionDef, plan: TrialPlan, symbols: Symbols) -> cst.FunctionDef:
    own = self_name(method)
    losses = [
        code(call.args[0].value)
        for call in find(method, cst.Call)
        if (found := symbols.called(call)) and found[1] == "backward" and call.args
    ]
    loss = losses[0] if len(set(losses)) == 1 and losses[0].isidentifier() else ""
    method = Logged(own, loss=loss).in_method(method)
    return with_optimizers(method, plan, symbols)


def _renamed(method: cst.FunctionDef, returns: str = "") -> cst.FunctionDef:
    given = [*method.params.posonly_params, *method.params.params]
    own, batch = given[0], given[1]
    names = [p.name.value for p in given[2:]]
    epoch = next((n for n in names if "epoch" in n), "epoch_idx")
    index = next((n for n in names if "batch" in n), "batch_idx")
    used = names_in(method.body)
    if epoch in used:
        method = replaced(method, epoch, f"{own.name.value}.current_epoch")
    if index in used:
        # Determined counts batches from the start, Lightning from the start of the epoch
        line = statements(f"{index} = {_TOTAL.format(own.name.value)}\n")
        method = with_body(method, [*line, *body_of(method)])
    annotated = any(p.annotation is not None for p in given[1:])
    last = cst.Param(cst.Name("batch_idx"), _annotation("int") if annotated else None)
    result = _annotation(returns or "None") if method.returns is not None else None
    return method.with_changes(
        name=cst.Name("training_step"),
        params=parameters([_plain(own), _plain(batch), last]),
        whitespace_before_params=cst.SimpleWhitespace(""),
        returns=result,
    )


def _plain(param: cst.Param) -> cst.Param:
    return cst.Param(param.name, param.annotation)


def _annotation(text: str) -> cst.Annotation:
    return cst.Annotation(cst.parse_expression(text))
