"""Batch methods of older trials: given the model, or losses and metrics in their place."""

from collections.abc import Mapping, Sequence
from typing import TypeGuard

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.shapes.returned import all_scalar, returned
from det_compat.migrate.shapes.values import assigned, is_scalar
from det_compat.migrate.tree import syntax


def without_model(line: cst.FunctionDef, model: str = "model") -> cst.FunctionDef:
    """A method that is not given the model any more, nor the hyperparameters: it has them."""
    given = [*line.params.params]
    gone = [p for p in given if p.name.value in ("model", "hparams")]
    if not gone:
        return line
    own = syntax.self_name(line)
    line = syntax.each(line, cst.Call, _of_base)
    kept = syntax.without_commas([p for p in given if p not in gone])
    for param in gone:
        name = param.name.value
        new = f"{own}.{model}" if name == "model" else f"{own}.context.get_hparams()"
        line = syntax.replaced(line, name, new)
    params = line.params.with_changes(params=kept)
    return line.with_changes(params=params, whitespace_before_params=cst.SimpleWhitespace(""))


def _of_base(call: cst.Call) -> cst.Call:
    """A call of a base's method without the model, which that is not given any more either."""
    owner, _, name = syntax.code(call.func).rpartition(".")
    if not owner.startswith("super(") or not name.startswith(("evaluate_", "train_batch")):
        return call
    args = [arg for arg in call.args if syntax.code(arg.value) not in ("model", "hparams")]
    return call.with_changes(args=syntax.without_commas(args))


def train_batch(
    line: cst.FunctionDef, own: dict[str, cst.FunctionDef], *, model: str, optimizer: str, clip: str
) -> list[cst.BaseStatement]:
    """The method ``train_batch`` that calls backward and step before it returns its metrics.

    One that returns in several places, or from within a branch, stays what it is under another
    name, and the new one calls it.
    """
    line = without_model(line, model)
    me, body = syntax.self_name(line), syntax.body_of(line)
    after = steps(me, optimizer, clip)
    last = syntax.simple(body[-1]) if body else None
    if len(syntax.returns(line)) != 1 or not isinstance(last, cst.Return) or last.value is None:
        values = [found.value for found in syntax.returns(line) if found.value is not None]
        kinds = {_kind_of(value, line, own) for value in values}
        kind = kinds.pop() if len(kinds) == 1 else "unknown"
        return _called(line, _name_beside(own), kind, after)
    inner = ensure_type(body[-1], cst.SimpleStatementLine)
    kind = _kind_of(last.value, line, own)
    made = _stepped(inner.with_changes(leading_lines=[]), last.value, after, kind, _models(line))
    made[0] = made[0].with_changes(leading_lines=inner.leading_lines)
    return [syntax.with_body(line, [*body[:-1], *made])]


def extended(
    line: cst.FunctionDef,
    classes: Sequence[Mapping[str, cst.FunctionDef]],
    *,
    is_first: bool,
    model: str,
    optimizer: str,
    clip: str,
) -> list[cst.BaseStatement]:
    """The methods of a class in the place of a ``train_batch`` that heirs add to.

    Args:
        line: the method.
        classes: the methods of each class of the family.
        is_first: whether no base has one, so that this class gets the one that trains.
        model: the attribute that is the model.
        optimizer: the attribute that is the optimizer.
        clip: what clips gradients; ``""`` if nothing does.
    """
    line = without_model(line, model)
    name = _name_beside({each: method for own in classes for each, method in own.items()})

    def renamed(call: cst.Call) -> cst.Call:
        owner, _, asked = syntax.code(call.func).rpartition(".")
        is_it = asked == "train_batch" and owner.startswith("super(")
        return call.with_deep_changes(call.func, attr=cst.Name(name)) if is_it else call

    line = syntax.each(line, cst.Call, renamed)
    if not is_first:
        return [line.with_changes(name=cst.Name(name))]
    every = [each["train_batch"] for each in classes if "train_batch" in each]
    values = [(each.value, method) for method in every for each in syntax.returns(method)]
    kinds = {_kind_of(value, method, {}) for value, method in values if value is not None}
    kind = "dict" if kinds == {"dict"} else "unknown"
    return _called(line, name, kind, steps(syntax.self_name(line), optimizer, clip))


def _name_beside(own: Mapping[str, cst.FunctionDef]) -> str:
    """What the ``train_batch`` of a trial with these methods is called where another calls it."""
    return next(n for n in ("metrics_of_batch", "training_metrics_of_batch") if n not in own)


def _models(method: cst.FunctionDef) -> set[str]:
    """The trial, and the variables of a method that may have what is changed by a step."""
    found = {syntax.self_name(method)}
    for line in syntax.find(method.body, cst.Assign):
        for target, value in syntax.pairs(line):
            is_result = isinstance(value, cst.Call) and _reads(value.func, found)
            if isinstance(target, cst.Name) and _reads(value, found) and not is_result:
                found.add(target.value)
    return found


def _reads(value: cst.BaseExpression, names: set[str]) -> bool:
    return any(name.value in names for name in syntax.find(value, cst.Name))


def _called(line: cst.FunctionDef, name: str, kind: str, after: str) -> list[cst.BaseStatement]:
    """A batch method under another name, and one that trains by what it returns."""
    me, *given = [param.name.value for param in line.params.params]
    result = "loss" if kind == "tensor" else "metrics"
    body = [f"{result} = {me}.{name}({', '.join(given)})", *_loss(kind), *after.splitlines()]
    text = "".join(f"    {each}\n" for each in [*body, f"return {result}"])
    made = syntax.method(f"def train_batch({', '.join([me, *given])}):\n{text}")
    return [line.with_changes(name=cst.Name(name)), made]


def _loss(kind: str) -> list[str]:
    """The lines that take the loss out of metrics of a kind."""
    if kind == "tensor":
        return []
    is_dict = "" if kind == "dict" else " if isinstance(metrics, dict) else metrics"
    return [f'loss = metrics["loss"]{is_dict}']


def steps(own: str, optimizer: str, clip: str) -> str:
    """The lines that call backward and step for ``loss``."""
    clipping = f", clip_grads={clip}" if clip else ""
    step = f"{own}.context.step_optimizer({own}.{optimizer}{clipping})"
    return f"{own}.context.backward(loss)\n{step}\n"


def _stepped(
    line: cst.BaseStatement, value: cst.BaseExpression, after: str, kind: str, models: set[str]
) -> list[cst.BaseStatement]:
    """The statements that call backward and step before the metrics are returned.

    The step makes other ``models`` of them: metrics that read one are computed before it.
    """
    elements = value.elements if isinstance(value, cst.Dict) else ()
    for element in elements:
        if any(_reads(other.value, models) for other in elements if other is not element):
            continue
        key = getattr(element, "key", None)
        if isinstance(key, cst.SimpleString) and key.evaluated_value == "loss":
            loss = syntax.code(element.value)
            if loss.isidentifier():
                return [*syntax.statements(after.replace("(loss)", f"({loss})")), line]
            # Other metrics may read a variable of that name.
            read = {name for other in elements for name in syntax.names_in(other.value)}
            name = next(n for n in ("loss", "total_loss", "loss_of_batch") if n not in read)
            changed = line.with_deep_changes(element, value=cst.Name(name))
            after = after.replace("(loss)", f"({name})")
            return [*syntax.statements(f"{name} = {syntax.whole(loss)}\n{after}"), changed]
    if kind == "tensor" and isinstance(value, cst.Name):
        return [*syntax.statements(after.replace("(loss)", f"({value.value})")), line]
    result = "loss" if kind == "tensor" else "metrics"
    text = syntax.whole(syntax.code(value))
    lines = [f"{result} = {text}"] if text != result else []
    keys = {syntax.code(each.key).strip("\"'"): each.value for each in elements if _has_key(each)}
    if isinstance(loss_given := keys.get("loss"), cst.Name):
        after = after.replace("(loss)", f"({loss_given.value})")
    else:
        lines += _loss(kind)
    return syntax.statements("\n".join([*lines, f"{after}return {result}\n"]))


def _has_key(element: cst.BaseDictElement) -> TypeGuard[cst.DictElement]:
    return isinstance(element, cst.DictElement)


def _kind_of(
    value: cst.BaseExpression, method: cst.FunctionDef, own: dict[str, cst.FunctionDef]
) -> str:
    """What a value that a method returns is: a ``tensor``, a ``dict`` or ``unknown``."""
    if isinstance(value, cst.Name):
        lines = syntax.find(method.body, cst.Assign)
        pairs = [pair for line in lines for pair in syntax.pairs(line)]
        name = value.value
        set_to = [given for target, given in pairs if syntax.code(target) == name]
        if any(syntax.code(target).startswith(f"{name}[") for target, _ in pairs):
            return "dict"
        kinds = {_kind_of(given, method, own) for given in set_to if syntax.code(given) != name}
        kind = kinds.pop() if len(kinds) == 1 else "unknown"
        return "tensor" if kind == "unknown" and name == "loss" else kind
    if isinstance(value, (cst.Dict, cst.DictComp)):
        return "dict"
    if isinstance(value, cst.Call):
        owner, _, name = syntax.code(value.func).rpartition(".")
        if owner == syntax.self_name(method) and name in own and own[name] is not method:
            others = {each: found for each, found in own.items() if each != name}
            values = [found.value for found in syntax.returns(own[name])]
            kinds = {_kind_of(v, own[name], others) if v is not None else "" for v in values}
            return "dict" if kinds == {"dict"} else _kind(own[name])
        if name == "dict" and not owner:
            return "dict"
    return "tensor" if _is_tensor(value) else "unknown"


_FORWARD = """\
    inputs, labels = batch
    predictions = self.{0}(inputs)
"""
# PEDL took a tensor with one number for each row for a metric as well.
_AS_NUMBERS = (
    "    return {name: torch.as_tensor(value).float().mean() for name, value in metrics.items()}\n"
)


def batch_methods(
    own: Mapping[str, cst.FunctionDef], *, model: str, optimizer: str, clip: str
) -> list[cst.BaseStatement]:
    """``train_batch`` and ``evaluate_batch`` of a trial with these methods."""
    forward = _FORWARD.format(model)
    made = [syntax.method(_train_batch(own, forward, steps("self", optimizer, clip)))]
    if "validation_metrics" in own:
        made.append(syntax.method(_evaluate_batch(own, forward)))
    return [*made]


def _train_batch(own: Mapping[str, cst.FunctionDef], forward: str, after: str) -> str:
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
    lines += after.splitlines()
    if kind == "tensor":
        lines.append(f'return {{{metrics}"loss": loss}}')
    else:
        lines.append(f"return {{{metrics}**losses}}" if metrics else "return losses")
    body = "".join(f"    {line}\n" for line in lines)
    return f"def train_batch(self, batch, epoch_idx, batch_idx):\n{forward}{body}"


def _evaluate_batch(own: Mapping[str, cst.FunctionDef], forward: str) -> str:
    name = "loss" if _kind(own["losses"]) == "tensor" else "losses"
    made = f"self.validation_metrics(predictions, labels, {name})"
    start = f"{forward}    {name} = self.losses(predictions, labels)\n"
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
    known = assigned(losses)
    are_tensors = values and all(_is_tensor(v) or is_scalar(v, known) for v in values)
    return "tensor" if annotation.endswith("Tensor") or are_tensors else "unknown"


def _is_tensor(value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.BinaryOperation):
        return _is_tensor(value.left) or _is_tensor(value.right)
    return isinstance(value, cst.Call) and syntax.code(value.func).startswith(
        ("torch.", "nn.", "F.", "functional.")
    )
