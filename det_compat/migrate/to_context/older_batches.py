"""Methods that were given the model, and whose loss the library trained on."""

from __future__ import annotations

import libcst as cst

from det_compat.migrate.tree.syntax import (
    body_of,
    code,
    find,
    replaced,
    self_name,
    simple,
    statements,
    with_body,
)


def without_model(line: cst.FunctionDef, model: str = "model") -> cst.FunctionDef:
    """A method that is not given the model any more, nor the hyperparameters: it has them."""
    given = [*line.params.params]
    gone = [p for p in given if p.name.value in ("model", "hparams")]
    if not gone:
        return line
    own = self_name(line)
    kept = [p.with_changes(comma=cst.MaybeSentinel.DEFAULT) for p in given if p not in gone]
    for param in gone:
        name = param.name.value
        new = f"{own}.{model}" if name == "model" else f"{own}.context.get_hparams()"
        line = replaced(line, name, new)
    params = line.params.with_changes(params=kept)
    return line.with_changes(params=params, whitespace_before_params=cst.SimpleWhitespace(""))


def train_batch(line: cst.FunctionDef, optimizer: str, clip: str) -> cst.FunctionDef:
    """``train_batch`` that calls backward and step before it returns its metrics."""
    line = without_model(line)
    after = steps(self_name(line), optimizer, clip)
    body: list[cst.BaseStatement] = []
    for inner in body_of(line):
        small = simple(inner)
        if isinstance(small, cst.Return) and small.value is not None:
            leading = inner.leading_lines  # type: ignore[attr-defined]
            made = _stepped(inner.with_changes(leading_lines=[]), small.value, after)
            made[0] = made[0].with_changes(leading_lines=leading)
            body.extend(made)
        else:
            body.append(inner)
    return with_body(line, body)


def steps(own: str, optimizer: str, clip: str) -> str:
    """Backward and step of ``loss``, as text."""
    clipping = f", clip_grads={clip}" if clip else ""
    step = f"{own}.context.step_optimizer({own}.{optimizer}{clipping})"
    return f"{own}.context.backward(loss)\n{step}\n"


def _stepped(
    line: cst.BaseStatement, value: cst.BaseExpression, after: str
) -> list[cst.BaseStatement]:
    """Backward and step before the metrics are returned."""
    elements = value.elements if isinstance(value, cst.Dict) else ()
    for element in elements:
        key = getattr(element, "key", None)
        if isinstance(key, cst.SimpleString) and key.evaluated_value == "loss":
            loss = code(element.value)
            if loss.isidentifier():
                return [*statements(after.replace("(loss)", f"({loss})")), line]
            changed = line.with_deep_changes(element, value=cst.Name("loss"))
            return [*statements(f"loss = {loss}\n{after}"), changed]
    if isinstance(value, cst.Name) and value.value in ("loss", "losses"):
        return [*statements(after.replace("(loss)", f"({value.value})")), line]
    lines = [f"metrics = {code(value)}\n"] if code(value) != "metrics" else []
    body = f'{"".join(lines)}loss = metrics["loss"]\n{after}return metrics\n'
    return statements(body)


def returns_only_at_the_end(line: cst.FunctionDef) -> bool:
    """Whether a method has one return, which is its last statement."""
    body = body_of(line)
    returns = [found for inner in body for found in find(inner, cst.Return)]
    return len(returns) == 1 and bool(body) and isinstance(simple(body[-1]), cst.Return)
