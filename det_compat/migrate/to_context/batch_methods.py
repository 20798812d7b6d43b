"""Batch methods of older trials: given the model, or losses and metrics in their place."""

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.metric_shapes import all_scalar, returned


def without_model(line: cst.FunctionDef, model: str = "model") -> cst.FunctionDef:
    """A method that is not given the model any more, nor the hyperparameters: it has them."""
    given = [*line.params.params]
    gone = [p for p in given if p.name.value in ("model", "hparams")]
    if not gone:
        return line
    own = syntax.self_name(line)
    kept = syntax.without_commas([p for p in given if p not in gone])
    for param in gone:
        name = param.name.value
        new = f"{own}.{model}" if name == "model" else f"{own}.context.get_hparams()"
        line = syntax.replaced(line, name, new)
    params = line.params.with_changes(params=kept)
    return line.with_changes(params=params, whitespace_before_params=cst.SimpleWhitespace(""))


def train_batch(line: cst.FunctionDef, optimizer: str, clip: str) -> cst.FunctionDef:
    """The method ``train_batch`` that calls backward and step before it returns its metrics."""
    line = without_model(line)
    after = steps(syntax.self_name(line), optimizer, clip)
    body: list[cst.BaseStatement] = []
    for inner in syntax.body_of(line):
        small = syntax.simple(inner)
        if isinstance(small, cst.Return) and small.value is not None:
            leading = ensure_type(inner, cst.SimpleStatementLine).leading_lines
            made = _stepped(inner.with_changes(leading_lines=[]), small.value, after)
            made[0] = made[0].with_changes(leading_lines=leading)
            body.extend(made)
        else:
            body.append(inner)
    return syntax.with_body(line, body)


def steps(own: str, optimizer: str, clip: str) -> str:
    """The lines that call backward and step for ``loss``."""
    clipping = f", clip_grads={clip}" if clip else ""
    step = f"{own}.context.step_optimizer({own}.{optimizer}{clipping})"
    return f"{own}.context.backward(loss)\n{step}\n"


def _stepped(
    line: cst.BaseStatement, value: cst.BaseExpression, after: str
) -> list[cst.BaseStatement]:
    """The statements that call backward and step before the metrics are returned."""
    elements = value.elements if isinstance(value, cst.Dict) else ()
    for element in elements:
        key = getattr(element, "key", None)
        if isinstance(key, cst.SimpleString) and key.evaluated_value == "loss":
            loss = syntax.code(element.value)
            if loss.isidentifier():
                return [*syntax.statements(after.replace("(loss)", f"({loss})")), line]
            changed = line.with_deep_changes(element, value=cst.Name("loss"))
            return [*syntax.statements(f"loss = {syntax.whole(loss)}\n{after}"), changed]
    if isinstance(value, cst.Name) and value.value in ("loss", "losses"):
        return [*syntax.statements(after.replace("(loss)", f"({value.value})")), line]
    lines = (
        [f"metrics = {syntax.whole(syntax.code(value))}\n"]
        if syntax.code(value) != "metrics"
        else []
    )
    body = f'{"".join(lines)}loss = metrics["loss"]\n{after}return metrics\n'
    return syntax.statements(body)


_FORWARD = """\
    inputs, labels = batch
    predictions = self.model(inputs)
"""
# PEDL took a tensor with one number for each row for a metric as well.
_AS_NUMBERS = (
    "    return {name: torch.as_tensor(value).float().mean() for name, value in metrics.items()}\n"
)


def batch_methods(
    own: dict[str, cst.FunctionDef], optimizer: str, clip: str
) -> list[cst.BaseStatement]:
    """``train_batch`` and ``evaluate_batch`` of a trial with these methods."""
    made = [syntax.method(_train_batch(own, optimizer, clip))]
    if "validation_metrics" in own:
        made.append(syntax.method(_evaluate_batch(own)))
    return [*made]


def _train_batch(own: dict[str, cst.FunctionDef], optimizer: str, clip: str) -> str:
    kind = _kind(own["losses"])
    name = "loss" if kind == "tensor" else "losses"
    lines = [f"{name} = self.losses(predictions, labels)"]
    metrics = ""
    if "training_metrics" in own:
        lines.append(f"metrics = self.training_metrics(predictions, labels, {name})")
        metrics = "**metrics, "
    if kind == "unknown":
        lines.append('losses = losses if isinstance(losses, dict) else {"loss": losses}')
    if kind != "tensor":
        lines.append('loss = losses["loss"]')
    lines += steps("self", optimizer, clip).splitlines()
    if kind == "tensor":
        lines.append(f'return {{{metrics}"loss": loss}}')
    else:
        lines.append(f"return {{{metrics}**losses}}" if metrics else "return losses")
    body = "".join(f"    {line}\n" for line in lines)
    return f"def train_batch(self, batch, epoch_idx, batch_idx):\n{_FORWARD}{body}"


def _evaluate_batch(own: dict[str, cst.FunctionDef]) -> str:
    name = "loss" if _kind(own["losses"]) == "tensor" else "losses"
    made = f"self.validation_metrics(predictions, labels, {name})"
    start = f"{_FORWARD}    {name} = self.losses(predictions, labels)\n"
    header = "def evaluate_batch(self, batch):\n"
    if all_scalar(own["validation_metrics"]):
        return f"{header}{start}    return {made}\n"
    return f"{header}{start}    metrics = {made}\n{_AS_NUMBERS}"


def _kind(losses: cst.FunctionDef) -> str:
    """What ``losses`` returns: a ``tensor``, a ``dict`` or ``unknown``."""
    values = returned(losses)
    if values and all(isinstance(value, cst.Dict) for value in values):
        return "dict"
    annotation = syntax.code(losses.returns.annotation) if losses.returns is not None else ""
    return "tensor" if annotation.endswith("Tensor") or _are_tensors(values) else "unknown"


def _are_tensors(values: list[cst.BaseExpression]) -> bool:
    """Whether all are calls of torch's functions, or sums of such."""
    return bool(values) and all(_is_tensor(value) for value in values)


def _is_tensor(value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.BinaryOperation):
        return _is_tensor(value.left) or _is_tensor(value.right)
    return isinstance(value, cst.Call) and syntax.code(value.func).startswith(
        ("torch.", "nn.", "F.", "functional.")
    )
