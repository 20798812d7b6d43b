"""Batch methods become steps: ``train_batch``, ``evaluate_batch``, ``evaluate_full_dataset``.

What they returned is logged instead.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.to_lightning.automatic.by_hand import without_stepping
from det_compat.migrate.to_lightning.automatic.deciding import (
    backward_and_step,
    loss_of,
    without_zeroing,
)
from det_compat.migrate.to_lightning.data.batch_numbers import with_batch_number
from det_compat.migrate.to_lightning.metrics.names import (
    numbers_of,
    renamed_in,
    renamed_key,
    renamed_where_made,
    said_of,
)
from det_compat.migrate.to_lightning.metrics.reductions import reduction
from det_compat.migrate.to_lightning.optimization.stepping import clipping, with_optimizers
from det_compat.migrate.to_lightning.plan import LightningFile, TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line, Lines
from det_compat.migrate.tree.marks import above, comments_of, marked
from det_compat.migrate.tree.metric_shapes import (
    Shapes,
    is_array,
    is_list,
    is_many,
    is_no_number,
    is_part,
    may_be_none,
    nones,
    numbers,
    without_numpy,
)
from det_compat.migrate.tree.symbols import Symbols

#: Each batch counts the same, as in Determined, whatever its size, and those of all processes do;
#: so does a validation as a whole, which each process does by itself.
EACH_BATCH = ", batch_size=1, sync_dist=True"
_SAID = cst.EmptyLine(comment=cst.Comment("# each batch counts the same, whatever its size"))
#: The lines that log each of ``metrics`` with the reduction that evaluation_reducer names.
_BY_NAME = f"""\
    reductions = self.evaluation_reducer()
    for name, value in metrics.items():
        reduction = reductions[name] if isinstance(reductions, dict) else reductions
        self.log(name, value, reduce_fx=reduction{EACH_BATCH})
"""
#: The same where a metric may be none, or several.
_IF_NUMBER = _BY_NAME.replace("log(name, value", "log_dict(numbers_of({name: value}, reduction)")


def by_name(renamed: Collection[str], *, is_odd: bool) -> str:
    """The lines that log each metric by itself, some of them as ``val_...``."""
    lines = _IF_NUMBER if is_odd else _BY_NAME
    key = renamed_key(renamed)
    said = f"        {said_of(renamed)}\n        self.log" if renamed else "        self.log"
    return (
        lines.replace("log(name,", f"log({key},")
        .replace("{name:", f"{{{key}:")
        .replace("        self.log", said)
    )


def training_step(
    method: cst.FunctionDef,
    plan: TrialPlan,
    file: LightningFile,
    *,
    are_moved: bool,
    shapes: Shapes,
) -> list[cst.BaseStatement]:
    """The methods that take the place of a trial's train_batch.

    Args:
        method: train_batch.
        plan: of the trial.
        file: that it is in.
        are_moved: whether ``configure_optimizers`` makes the optimizers.
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
    losses = frozenset(loss for call in calls if call.args for loss in _terms(call.args[0].value))
    logged = Logged(syntax.self_name(method), losses=losses, reduction="", shapes=shapes)
    method = with_optimizers(logged.in_method(method), plan, file, are_moved)
    return [_training(method, is_automatic=False)]


def _terms(loss: cst.BaseExpression) -> Iterator[str]:
    """A loss, and what it is computed from by arithmetic, which knows no dicts."""
    yield syntax.code(loss)
    if isinstance(loss, cst.BinaryOperation):
        yield from (*_terms(loss.left), *_terms(loss.right))


def _automatic(
    method: cst.FunctionDef, file: LightningFile, *, shapes: Shapes
) -> list[cst.BaseStatement]:
    found = backward_and_step(method, file.symbols)
    assert found is not None
    index, end = found.index, found.end
    body = [*syntax.body_of(method)]
    given = loss_of(method, index, found.backward)
    comments = [c for n in (index, end - 1) for c in _lasting(comments_of(body[n]))]
    after = body[end:]
    made_before: list[cst.BaseStatement] = []
    loss = syntax.code(given)
    if not isinstance(given, cst.Name):
        after = [_with_loss(line, loss) for line in after]
        made_before = syntax.statements(f"loss = {syntax.whole(loss)}\n")
        loss = "loss"
    after[:1] = [above(line, comments) for line in after[:1]]
    method = syntax.with_body(method, [*body[:index], *made_before, *after])
    own = syntax.self_name(method)
    logged = Logged(own, losses=frozenset((loss,)), reduction="", shapes=shapes)
    method = logged.in_method(method, last=f"return {loss}")
    made: list[cst.BaseStatement] = [_training(method, is_automatic=True)]
    clip = syntax.argument(found.step, 1, "clip_grads")
    lines = syntax.statements("\n".join(clipping(clip, "optimizer", file.functions)) + "\n")
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


def _training(method: cst.FunctionDef, *, is_automatic: bool) -> cst.FunctionDef:
    index = _parameter(method, "batch")
    method = with_batch_number(_with_epoch(method), index, is_automatic=is_automatic)
    return _as_step(method, "training_step", "torch.Tensor" if is_automatic else "None")


def validation_step(
    method: cst.FunctionDef,
    plan: TrialPlan,
    reducer: cst.FunctionDef | None,
    symbols: Symbols,
    *,
    shapes: Shapes,
) -> cst.FunctionDef:
    """The validation_step of a trial's evaluate_batch or evaluate_full_dataset.

    Args:
        method: one of these.
        plan: of the trial.
        reducer: its evaluation_reducer.
        symbols: of the file.
        shapes: what is known of its metrics.
    """
    fx = reduction(reducer, symbols)
    options = EACH_BATCH
    if fx not in (None, "mean") and not plan.evaluates_whole:
        options = f', reduce_fx="{fx}"{options}'
    by = "" if plan.evaluates_whole else fx or "mean"
    own, renamed, are_all = syntax.self_name(method), plan.renamed, plan.renames_all
    method, done = renamed_where_made(method, renamed)
    said = said_of(renamed, is_open=plan.is_open)
    logged = Logged(own, options, None, renamed, are_all, done, said, reduction=by, shapes=shapes)
    method = logged.in_method(method)
    index = _parameter(method, "batch")
    if index != "batch_idx":
        method = syntax.replaced(method, index, "batch_idx")
    return _as_step(_with_epoch(method), "validation_step", "None")


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


@dataclass
class Logged:
    """Turns the metrics that a method returns into calls of ``self.log``.

    Attributes:
        own: the method's name for its object.
        options: the keyword arguments of every call, as text that begins with a comma.
        losses: those that there is a backward pass of: a loss may be returned in place of a dict;
            None for a method that returns none.
        renamed: metrics that are logged under another name.
        are_all_renamed: whether there are no others.
        done: the variables in which they have that name already.
        said: a comment on their names.
        reduction: what the metrics of a batch that are several numbers are reduced by, as their
            batches are; ``""`` if they are not reduced, and each number is logged under its index.
        shapes: what is known of the metrics.
    """

    own: str
    options: str = ""
    losses: frozenset[str] | None = None
    renamed: dict[str, str] = field(default_factory=dict)
    are_all_renamed: bool = False
    done: frozenset[str] = frozenset()
    said: str = ""
    reduction: str = "mean"
    shapes: Shapes = field(default_factory=Shapes)
    _known: dict[str, cst.BaseExpression | None] = field(default_factory=dict, init=False)
    _left_out: list[str] = field(default_factory=list, init=False)
    _odd: frozenset[str] = field(default=frozenset(), init=False)
    _nones: set[str] = field(default_factory=set, init=False)
    _numbers: frozenset[str] = field(default=frozenset(), init=False)
    _is_known: bool = field(default=True, init=False)

    def in_method(self, method: cst.FunctionDef, last: str = "") -> cst.FunctionDef:
        """The method; ``last`` is a statement to end with."""
        self._known, self._odd = self.shapes.known(method), self.shapes.odd_kinds(method)
        self._is_known = not self.shapes.are_unknown(method)
        self._nones = nones(method)
        self._numbers = numbers(method, self._known)
        body = [*syntax.body_of(method)]
        end = syntax.statements(f"{last}\n") if last else []
        if body and isinstance(syntax.simple(body[-1]), cst.Return):
            given = body.pop()
            end = [*self._lines(given), *end]
            if self.options and self.reduction:
                end[:1] = [above(line, [_SAID]) for line in end[:1]]
            if self.said:
                said = cst.EmptyLine(comment=cst.Comment(self.said))
                end[:1] = [above(line, [said]) for line in end[:1]]
            end[:1] = [above(line, getattr(given, "leading_lines", ())) for line in end[:1]]
        rest = syntax.transformed(cst.IndentedBlock(body), _Returns(self))
        return syntax.with_body(method, [*rest.body, *end])

    def _lines(self, line: cst.BaseStatement) -> list[cst.BaseStatement]:
        self._left_out = []
        text = self.text(ensure_type(syntax.simple(line), cst.Return).value)
        lines = syntax.statements(f"{text}\n") if text else []
        if self._left_out and lines:
            names = ", ".join(self._left_out)
            lines[0] = marked(lines[0], f"Lightning logs numbers, and {names} is none")
        return lines

    def early(self, line: Line) -> list[cst.BaseStatement]:
        """What takes the place of a return before the end."""
        lines = self._lines(line)
        first, *rest = [*lines, syntax.statement("return")]
        return [above(first, comments_of(line)), *rest]

    def text(self, metrics: cst.BaseExpression | None) -> str:
        """The call that logs ``metrics``; empty if there are none."""
        if metrics is None or syntax.code(metrics) in ("None", "{}", "dict()"):
            return ""
        if self.losses is not None and syntax.code(metrics) in self.losses | self._numbers:
            return f'{self.own}.log("loss", {syntax.code(metrics)}{self.options})'
        if not isinstance(metrics, cst.Dict):
            if "none" in self._odd:
                self._left_out.append("a text, a dict or None among these")
            odd = self._odd if self._is_known else {*self._odd, "unknown"}
            found = numbers_of(syntax.code(metrics), self.reduction, odd)
            if syntax.code(metrics) not in self.done:
                found = renamed_in(found, self.renamed, is_every=self.are_all_renamed)
            return f"{self.own}.log_dict({found}{self.options})"
        named = [made for found in metrics.elements for made in self._elements(found)]
        if not named:
            return ""
        if len(named) != len(metrics.elements):
            named[-1] = named[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        is_open = not self._is_known and any(isinstance(e, cst.StarredDictElement) for e in named)
        if is_open or any(self._is_sorted_out(element.value) for element in named):
            logged = syntax.code(metrics.with_changes(elements=named))
            found = numbers_of(logged, self.reduction, {"none"})
            return f"{self.own}.log_dict({found}{self.options})"
        if len(named) == 1 and isinstance(named[0], cst.DictElement):
            key, value = syntax.code(named[0].key), syntax.code(named[0].value)
            return f"{self.own}.log({key}, {value}{self.options})"
        logged = syntax.code(metrics.with_changes(elements=named))
        return f"{self.own}.log_dict({logged}{self.options})"

    def _is_sorted_out(self, value: cst.BaseExpression) -> bool:
        """Whether only a run tells how many numbers a metric is."""
        is_listed = not self.reduction and is_many(value, self._known)
        is_open = is_array(value, self._known) or is_part(value, self._known)
        return may_be_none(value, self._nones) or is_listed or is_open

    def _elements(self, element: cst.BaseDictElement) -> list[cst.BaseDictElement]:
        """An entry of the metrics as it is logged: none if it cannot be, or one for each number."""
        value, key = element.value, getattr(element, "key", None)
        if key is None and isinstance(value, cst.Dict):
            return [made for each in value.elements for made in self._elements(each)]
        inner = value.value if key is None and isinstance(value, cst.DictComp) else None
        if inner is not None and not is_no_number(inner) and not is_many(inner, self._known):
            return [element]
        if is_no_number(value):
            self._left_out.append(syntax.code(key) if key is not None else syntax.code(value))
            return []
        if not self.reduction and key is not None and is_list(value, self._known):
            return _indexed(key, value, element)
        value = without_numpy(value, self._known)
        element = element.with_changes(value=value)
        if self._is_sorted_out(value):
            pass
        elif is_many(value, self._known):
            made = f"torch.as_tensor({syntax.code(value)}).float().{self.reduction or 'mean'}()"
            element = element.with_changes(value=syntax.expression(made))
        if not isinstance(key, cst.SimpleString) or key.evaluated_value not in self.renamed:
            return [element]
        name = self.renamed[str(key.evaluated_value)]
        return [element.with_changes(key=cst.SimpleString(f'"{name}"'))]


def _indexed(
    key: cst.BaseExpression, value: cst.BaseExpression, element: cst.BaseDictElement
) -> list[cst.BaseDictElement]:
    """The numbers of a list or vector, each under the name with its index."""
    name = (
        str(key.evaluated_value) if isinstance(key, cst.SimpleString) else f"{{{syntax.code(key)}}}"
    )
    parts = value.elements if isinstance(value, (cst.List, cst.Tuple)) else []
    is_open = any(isinstance(part, cst.StarredElement) for part in parts)
    if parts and isinstance(key, cst.SimpleString) and not is_open:
        listed = [
            cst.DictElement(cst.SimpleString(f'"{name}_{index}"'), part.value)
            for index, part in enumerate(parts)
        ]
        return [*listed[:-1], listed[-1].with_changes(comma=element.comma)]
    made = f'{{f"{name}_{{i}}": value for i, value in enumerate({syntax.code(value)})}}'
    return [cst.StarredDictElement(syntax.expression(made), comma=element.comma)]


class _Returns(cst.CSTTransformer):
    def __init__(self, logged: Logged) -> None:
        self._logged = logged

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def visit_Lambda(self, node: cst.Lambda) -> bool:
        return False

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        small = syntax.simple(updated)
        if not isinstance(small, cst.Return) or small.value is None:
            return updated
        return cst.FlattenSentinel(self._logged.early(updated))
