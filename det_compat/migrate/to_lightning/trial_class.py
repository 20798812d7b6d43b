"""A trial class becomes a LightningModule."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from det_compat.migrate.to_lightning.batch_transfer import hooks as transfer_hooks
from det_compat.migrate.to_lightning.init_method import with_arguments
from det_compat.migrate.to_lightning.late_values import late_values
from det_compat.migrate.to_lightning.optimizers import configure_optimizers, moved_lines
from det_compat.migrate.to_lightning.stepping import with_optimizers
from det_compat.migrate.to_lightning.training_step import training_step
from det_compat.migrate.to_lightning.validation_step import (
    BATCH_SIZE,
    ReducerNames,
    by_name,
    reducer_hooks,
    reduction,
    validation_step,
)
from det_compat.migrate.tree.file import File, TrialPlan
from det_compat.migrate.tree.marks import marked
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.syntax import (
    argument,
    body_of,
    call_of,
    code,
    expression,
    find,
    has_docstring,
    method,
    methods,
    simple,
    with_body,
)
from det_compat.migrate.tree.wrapping import wrappings


def apply(tree: cst.Module, file: File) -> cst.Module:
    """Rewrite the trial classes of a file."""
    return tree.visit(_TrialClasses(file))


class _TrialClasses(cst.CSTTransformer):
    def __init__(self, file: File) -> None:
        self._file = file
        self._classes: list[cst.ClassDef] = []

    def visit_Module(self, node: cst.Module) -> None:
        self._classes = [*find(node, cst.ClassDef)]

    def leave_ClassDef(
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.BaseStatement:
        plan = self._file.plans.get(updated_node.name.value)
        if plan is None:
            return updated_node
        self._file.imports.update(("import torch", "import pytorch_lightning as pl"))
        others = [node for node in self._classes if node.name.value != plan.name]
        return _Rewriting(updated_node, plan, self._file, others).result()


class _Rewriting:
    """One class, method by method, in the order of the file."""

    def __init__(
        self, node: cst.ClassDef, plan: TrialPlan, file: File, others: Sequence[cst.CSTNode]
    ) -> None:
        self._node = node
        self._plan = plan
        self._file = file
        self._others = others
        self._own = methods(node)

    def result(self) -> cst.BaseStatement:
        """The class."""
        plan, init = self._plan, self._own.get("__init__")
        moved: list[cst.BaseStatement] = []
        late: list[cst.BaseStatement] = []
        if init is not None and plan.is_whole:
            gone, late = late_values(init, self._own, plan, self._file.symbols)
            init = with_body(init, [s for i, s in enumerate(body_of(init)) if i not in gone])
            indices = moved_lines(init, plan, self._file.symbols, self._own)
            plan.is_moved = bool(indices)
            moved = [body_of(init)[i] for i in indices]
            init = with_body(init, [s for i, s in enumerate(body_of(init)) if i not in indices])
        body = self._methods()
        made: list[cst.BaseStatement] = []
        needs_init = plan.is_root and (self._defines_trial() or init is not None)
        if init is not None or needs_init:
            made += [with_arguments(init, plan, self._file), *late]
        if plan.optimizers or plan.schedulers or (plan.is_root and plan.all_optimizers):
            used = self._used_attributes(body, init)
            made.extend(configure_optimizers(plan, moved, used))
        at = self._place_of_init(body)
        body = [*body[:at], *made, *body[at:], *self._hooks()]
        node = with_body(self._node, _spaced(body))
        return self._checked(node)

    def _defines_trial(self) -> bool:
        return "train_batch" in self._own

    def _place_of_init(self, body: list[cst.BaseStatement]) -> int:
        original = body_of(self._node)
        for index, line in enumerate(original):
            if isinstance(line, cst.FunctionDef) and line.name.value == "__init__":
                before = {id(line) for line in original[:index]}
                return sum(id(line) in before for line in body) or index
        at = 1 if has_docstring(body) else 0
        while at < len(body) and simple(body[at]) is not None:
            at += 1
        return at

    def _methods(self) -> list[cst.BaseStatement]:
        body: list[cst.BaseStatement] = []
        for line in body_of(self._node):
            if not isinstance(line, cst.FunctionDef):
                body.append(line)
            elif line.name.value != "__init__":
                body.extend(self._method(line))
        return body

    def _method(self, line: cst.FunctionDef) -> list[cst.BaseStatement]:
        name, plan, symbols = line.name.value, self._plan, self._file.symbols
        if name == "build_callbacks":
            return [_configure_callbacks(line)]
        if name == "evaluation_reducer":
            is_one = plan.is_whole and reduction(line, symbols) is not None
            named = line.visit(ReducerNames(symbols))
            return [] if is_one else [named]  # type: ignore[list-item]
        if name == "get_batch_length" and not self._is_called(name):
            # Lightning does not count records
            return []
        if plan.is_whole:
            if name == "train_batch":
                return training_step(line, plan, symbols)
            if name == self._evaluation() and not self._decides_late():
                reducer = self._own.get("evaluation_reducer")
                return [validation_step(line, plan, reducer, symbols)]
        return [with_optimizers(line, plan, symbols)]

    def _is_called(self, name: str) -> bool:
        nodes = [self._node, *self._others]
        return any(a.attr.value == name for node in nodes for a in find(node, cst.Attribute))

    def _evaluation(self) -> str:
        return "evaluate_full_dataset" if self._plan.evaluates_whole else "evaluate_batch"

    def _decides_late(self) -> bool:
        return reduction(self._own.get("evaluation_reducer"), self._file.symbols) is None

    def _used_attributes(
        self, body: list[cst.BaseStatement], init: cst.FunctionDef | None
    ) -> set[str]:
        nodes = [*body, *self._others, *([init] if init is not None else [])]
        attributes = [n for node in nodes for n in find(node, cst.Attribute)]
        # torch.optim has an lr_scheduler, too
        used = {n.attr.value for n in attributes if not code(n.value).endswith("optim")}
        if not self._plan.is_automatic:
            used |= {s.attribute for s in self._plan.schedulers if s.interval}
        return used

    def _hooks(self) -> list[cst.BaseStatement]:
        plan = self._plan
        made: list[cst.BaseStatement] = []
        if not plan.is_whole:
            made.extend(self._calling_hooks())
        elif self._decides_late() and self._evaluation() in self._own:
            made.append(self._calling_validation())
        if self._keeps_gradients():
            made.append(method(_KEEPING))
        made.extend(reducer_hooks(plan.reducers))
        made.extend(transfer_hooks(plan.stays, plan.arrays))
        return made

    def _keeps_gradients(self) -> bool:
        """Whether gradients may be there when a validation starts, which Lightning clears."""
        symbols, every, plain = self._file.symbols, 0, 0
        for name, found in self._own.items():
            every += sum(_is_step(call, symbols) for call in find(found, cst.Call))
            lines = body_of(found) if name != "__init__" else ()
            plain += sum(_is_step(call_of(line), symbols, zeroes=True) for line in lines)
        return every > plain

    def _calling_hooks(self) -> list[cst.BaseStatement]:
        plan = self._plan
        made: list[cst.BaseStatement] = []
        if plan.is_root and plan.parameters("train_batch") is not None:
            made.append(method(_TRAINING))
        if plan.is_root and not plan.evaluates_whole and not plan.parameters("evaluate_batch"):
            return made
        differs = "evaluate_batch" in plan.methods or "evaluate_full_dataset" in plan.methods
        if plan.is_root or (differs and self._evaluates_otherwise()):
            made.append(self._calling_validation())
        return made

    def _evaluates_otherwise(self) -> bool:
        return any(
            self._plan.parameters(self._evaluation()) != parent.parameters(self._evaluation())
            for parent in self._plan.parents
        )

    def _calling_validation(self) -> cst.FunctionDef:
        plan, name = self._plan, self._evaluation()
        given = plan.parameters(name) or []
        batch = given[1] if len(given) > 1 else "batch"
        index = ", batch_idx=batch_idx" if "batch_idx" in given else ""
        lines = [f"metrics = self.{name}({batch}{index})"]
        if plan.parameters("evaluation_reducer") is None:
            lines.append(f"self.log_dict(metrics{BATCH_SIZE})")
        else:
            lines.extend(by_name("self", "metrics").split("\n"))
        text = "\n    ".join(lines)
        return method(f"def validation_step(self, {batch}, batch_idx):\n    {text}\n")

    def _checked(self, node: cst.ClassDef) -> cst.BaseStatement:
        symbols, plan = self._file.symbols, self._plan
        wraps = [
            found
            for call in find(self._node, cst.Call)
            if (found := symbols.called(call)) and found[1] == "wrap_optimizer"
        ]
        kept = [w for m in self._own.values() for w in wrappings(m, symbols)]
        if len(wraps) > sum(w.member == "wrap_optimizer" for w in kept):
            return marked(node, "configure_optimizers must return every optimizer of the trial")
        if any(s.mode == "" for s in plan.schedulers):
            return marked(
                node, "an LR scheduler whose step mode is known at run time must be stepped"
            )
        return node


def _is_step(call: cst.Call | None, symbols: Symbols, zeroes: bool = False) -> bool:
    found = symbols.called(call)
    if call is None or found is None or found[1] != "step_optimizer":
        return False
    zero = argument(call, 2, "auto_zero_grads")
    return not zeroes or zero is None or code(zero) == "True"


_KEEPING = """\
def on_validation_model_zero_grad(self):
    # gradients that wait for a later step stay
    pass
"""
_TRAINING = """\
def training_step(self, batch, batch_idx):
    metrics = self.train_batch(
        batch=batch,
        epoch_idx=self.current_epoch,
        batch_idx=self.trainer.fit_loop.epoch_loop.total_batch_idx,
    )
    self.log_dict(metrics if isinstance(metrics, dict) else {"loss": metrics})
"""


class _ListReturns(cst.CSTTransformer):
    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        return False

    def leave_Return(self, original_node: cst.Return, updated_node: cst.Return) -> cst.Return:
        value = updated_node.value
        if value is None:
            return updated_node
        elements = value.elements if isinstance(value, cst.Dict) else ()
        if isinstance(value, cst.Dict) and all(isinstance(e, cst.DictElement) for e in elements):
            listed = [cst.Element(e.value, comma=e.comma) for e in elements]
            new: cst.BaseExpression = cst.List(
                listed,
                lbracket=cst.LeftSquareBracket(value.lbrace.whitespace_after),
                rbracket=cst.RightSquareBracket(value.rbrace.whitespace_before),
            )
        else:
            new = expression(f"list({code(value)}.values())")
        return updated_node.with_changes(value=new)


def _configure_callbacks(line: cst.FunctionDef) -> cst.FunctionDef:
    body = line.body.visit(_ListReturns())
    returns = None if line.returns is None else cst.Annotation(expression("list[pl.Callback]"))
    return line.with_changes(name=cst.Name("configure_callbacks"), body=body, returns=returns)


def _spaced(body: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
    """The statements of a class, each method below a blank line, but for the first."""
    spaced: list[cst.BaseStatement] = []
    for index, line in enumerate(body):
        if isinstance(line, cst.FunctionDef):
            leading = [*line.leading_lines]
            if index and not (leading and leading[0].comment is None):
                leading.insert(0, cst.EmptyLine(indent=False))
            elif not index:
                while leading and leading[0].comment is None:
                    leading.pop(0)
            line = line.with_changes(leading_lines=leading)
        spaced.append(line)
    return spaced
