"""What a context was asked for, as Lightning has it."""

from __future__ import annotations

from typing import TypeVar

import libcst as cst

from det_compat.migrate.tree.file import File
from det_compat.migrate.tree.marks import marked
from det_compat.migrate.tree.syntax import argument, code, expression, find

_Valued = TypeVar("_Valued", cst.Arg, cst.Assign, cst.Return)

_BATCH = "{0}.trainer.fit_loop.epoch_loop.total_batch_idx"
_RANKS = {
    "distributed.get_rank": "{0}.global_rank",
    "distributed.get_local_rank": "{0}.local_rank",
    "distributed.get_size": "{0}.trainer.world_size",
}
_CALLED = {
    "distributed.get_num_agents": "{0}.trainer.num_nodes",
    **_RANKS,
    "current_train_batch": _BATCH,
    "current_train_epoch": "{0}.current_epoch",
    "is_epoch_start": "({0}.trainer.fit_loop.epoch_loop.batch_idx == 0)",
    "is_epoch_end": "{0}.trainer.is_last_batch",
    "get_per_slot_batch_size": "({0}.hparams.global_batch_size // {0}.trainer.world_size)",
    "get_global_batch_size": "{0}.hparams.global_batch_size",
    "get_hparams": "{0}.hparams",
    "get_data_config": "{0}.hparams.data_config",
    "get_experiment_config": "{0}.hparams.experiment_config",
    "get_trial_seed": '{0}.hparams.experiment_config["reproducibility"]["experiment_seed"]',
    # Lightning skips what a run has trained by itself
    "get_initial_batch": "0",
    "get_stop_requested": "{0}.trainer.should_stop",
    "get_tensorboard_writer": "{0}.logger.experiment",
}
_READ = {
    "device": "{0}.device",
    "backward": "{0}.manual_backward",
    "distributed.rank": "{0}.global_rank",
    "distributed.local_rank": "{0}.local_rank",
    "distributed.size": "{0}.trainer.world_size",
    "_current_batch_idx": _BATCH,
    "_epoch_len": "{0}.trainer.num_training_batches",
}
# before there is a Trainer, on one device
_EARLY = {
    "distributed.get_rank": "rank_zero_only.rank",
    "distributed.rank": "rank_zero_only.rank",
    "distributed.get_local_rank": 'int(os.environ.get("LOCAL_RANK", 0))',
    "distributed.local_rank": 'int(os.environ.get("LOCAL_RANK", 0))',
    "get_per_slot_batch_size": "{0}.hparams.global_batch_size",
    "distributed.get_size": "1",
    "distributed.size": "1",
}
_IMPORTS = {
    "rank_zero_only": "from pytorch_lightning.utilities import rank_zero_only",
    "os.": "import os",
}
_EARLY_IS_DIFFERENT = {
    "get_per_slot_batch_size",
    "distributed.get_size",
    "distributed.size",
    "device",
    "to_device",
    "get_tensorboard_writer",
}


_MOVE = "from pytorch_lightning.utilities import move_data_to_device"
_STEPS = ("training_step", "validation_step", "train_batch", "evaluate_batch")


def _is_batch(data: cst.BaseExpression, function: cst.FunctionDef | None) -> bool:
    """Whether this is the batch that a step has been given."""
    if function is None or function.name.value not in _STEPS:
        return False
    names = [param.name.value for param in function.params.params]
    return len(names) > 1 and code(data) == names[1]


def _is_tensor(data: cst.BaseExpression, function: cst.FunctionDef | None) -> bool:
    """Whether this is what a function of torch's has returned."""
    if isinstance(data, cst.Name) and function is not None:
        values = [
            a.value for a in find(function, cst.Assign) if code(a.targets[0].target) == data.value
        ]
        return any(isinstance(v, cst.Call) and _is_tensor(v, None) for v in values)
    return isinstance(data, cst.Call) and code(data.func).startswith("torch.")


def apply(tree: cst.Module, file: File) -> cst.Module:
    """Ask the LightningModule instead of the context, where it knows as well."""
    return tree.visit(_Members(file))


class _Members(cst.CSTTransformer):
    def __init__(self, file: File) -> None:
        self._file = file
        self._early: list[bool] = [False]
        self._classes: list[str] = []
        self._marks: list[list[str]] = [[]]
        self._functions: list[cst.FunctionDef] = []

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._classes.append(node.name.value)
        self._early.append(False)

    def leave_ClassDef(
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.ClassDef:
        self._classes.pop()
        self._early.pop()
        return updated_node

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        plan = self._file.plans.get(self._classes[-1]) if self._classes else None
        is_early = plan is not None and node.name.value in plan.early
        self._early.append(is_early or self._early[-1])
        self._functions.append(node)

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        self._early.pop()
        self._functions.pop()
        return updated_node

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        self._marks.append([])

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement:
        statement: cst.BaseStatement = self._with_stop(updated_node)
        for member in dict.fromkeys(self._marks.pop()):
            message = f"{member} is that of one device here, before there is a Trainer"
            statement = marked(statement, message)
        return statement

    def _with_stop(self, line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
        small = line.body[0] if len(line.body) == 1 else None
        value = small.value if isinstance(small, cst.Expr) else None
        found = self._file.symbols.called(value)
        if found is None or found[1] != "set_stop_requested" or not isinstance(value, cst.Call):
            return line
        given = argument(value, 0, "stop_requested")
        text = f"{self._module(found[0])}.trainer.should_stop = {code(given) if given else True}"
        new = cst.parse_statement(text)
        assert isinstance(new, cst.SimpleStatementLine)
        return line.with_changes(body=new.body)

    def _module(self, context: cst.Name) -> str:
        symbol = self._file.symbols.get(context)
        assert symbol is not None
        return code(symbol.module)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        found = self._file.symbols.called(updated_node)
        if found is None:
            return updated_node
        context, member = found
        if member == "get_hparam":
            return self._hparam(context, updated_node)
        if member == "to_device":
            return self._moved(context, updated_node)
        text = self._text(member, _CALLED)
        return expression(text.format(self._module(context))) if text else updated_node

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return self._bare(original_node, updated_node)

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        return self._bare(original_node, updated_node)

    def leave_Return(self, original_node: cst.Return, updated_node: cst.Return) -> cst.Return:
        return self._bare(original_node, updated_node)

    def _bare(self, original: _Valued, updated: _Valued) -> _Valued:
        """Without the parentheses that a new expression needs only inside of another one."""
        if updated.value is None or self._file.symbols.called(original.value) is None:
            return updated
        return updated.with_changes(value=updated.value.with_changes(lpar=[], rpar=[]))

    def _text(self, member: str, table: dict[str, str]) -> str | None:
        is_early = self._early[-1]
        if is_early and member in _EARLY_IS_DIFFERENT:
            self._marks[-1].append(member)
        text = _EARLY.get(member) if is_early else None
        if text is None:
            return table.get(member)
        self._file.imports |= {line for start, line in _IMPORTS.items() if start in text}
        return text

    def _hparam(self, context: cst.Name, call: cst.Call) -> cst.BaseExpression:
        name = argument(call, 0, "name")
        if name is None:
            return call
        if isinstance(name, cst.SimpleString) and str(name.evaluated_value).isidentifier():
            return expression(f"{self._module(context)}.hparams.{name.evaluated_value!s}")
        return expression(f"{self._module(context)}.hparams[{code(name)}]")

    def _moved(self, context: cst.Name, call: cst.Call) -> cst.BaseExpression:
        data = argument(call, 0, "data")
        if data is None:
            return call
        self._text("to_device", {})
        module, function = self._module(context), self._functions[-1] if self._functions else None
        plan = self._file.plans.get(self._classes[-1]) if self._classes else None
        if plan is not None and any(found.stays for found in plan.ancestors):
            self._file.imports.add(_MOVE)
            return expression(f"move_data_to_device({code(data)}, {module}.device)")
        if _is_batch(data, function):
            # Lightning has moved it
            return data
        if _is_tensor(data, function):
            return expression(f"{code(data)}.to({module}.device)")
        return expression(f"{module}.transfer_batch_to_device({code(data)}, {module}.device, 0)")

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        found = self._file.symbols.member(updated_node)
        if found is None or found[1] not in _READ:
            return updated_node
        text = self._text(found[1], _READ)
        return expression(text.format(self._module(found[0]))) if text else updated_node
