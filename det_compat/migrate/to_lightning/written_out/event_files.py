"""Files for TensorBoard in the directory where Determined looked for a run's."""

import re

import libcst as cst

from det_compat.migrate.review.files import EVENTS
from det_compat.migrate.to_lightning.context.names import has_trainer
from det_compat.migrate.to_lightning.plan import LightningFile, TrialPlan
from det_compat.migrate.to_lightning.transformer import LightningTransformer
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.trial_attributes import values_set

_MEMBER = "get_tensorboard_path"
_EACH_PROCESS = "trainer.log_dir has to be asked for in each process"
_OF_PROCESS = re.compile(r"rank|is_chief|is_main|is_master")


def write_to_log_dir(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Let what trials write for TensorBoard go where their logger writes."""
    texts = (text.raw_value for text in syntax.find(tree, cst.SimpleString))
    attributes = (node.attr.value for node in syntax.find(tree, cst.Attribute))
    if not any(text.startswith(EVENTS) for text in texts) and _MEMBER not in attributes:
        return tree
    return syntax.transformed(syntax.each(tree, cst.ClassDef, _Kept(file).later), _Paths(file))


class _Kept:
    """Writers that ``__init__`` keeps, which are made when there is a Trainer."""

    def __init__(self, file: LightningFile) -> None:
        self._file = file

    def later(self, node: cst.ClassDef) -> cst.ClassDef:
        """A trial that makes such writers in ``setup``."""
        plan, own = self._file.plans.get(node.name.value), syntax.methods(node)
        if plan is None or plan.is_mixin or not plan.is_single or "__init__" not in own:
            return node
        init = own["__init__"]
        lines = [line for line in syntax.body_of(init) if self._is_late(line, plan, node)]
        if not lines:
            return node
        left = [line for line in syntax.body_of(init) if line not in lines]
        node = syntax.with_node(node, init, syntax.with_body(init, left))
        if (there := own.get("setup")) is not None:
            new = syntax.with_body(there, [*syntax.body_of(there), *lines])
            return syntax.with_node(node, there, new)
        hook = syntax.with_body(syntax.method("def setup(self, stage):\n    pass\n"), lines)
        return syntax.with_body(node, [*syntax.body_of(node), hook])

    def _is_late(self, line: cst.BaseStatement, plan: TrialPlan, node: cst.ClassDef) -> bool:
        """Whether a statement keeps a writer that nothing needs before there is a Trainer."""
        own, (target, call) = syntax.methods(node), (syntax.target_of(line), syntax.call_of(line))
        me = syntax.self_name(own["__init__"])
        if not target or not target.startswith(f"{me}.") or call is None or me != "self":
            return False
        is_writer = syntax.code(call.func).rpartition(".")[2] == "SummaryWriter"
        asked = [_is_path(each, self._file) for each in (a.value for a in call.args)]
        # What else it is given may be known in __init__ alone.
        names = {n for arg in call.args for n in syntax.names_in(arg.value)} - {"str", me}
        names = {n for n in names if self._file.symbols.get(cst.Name(n)) is None}
        early = [own[n] for n in self._file.early.get(plan.own.name, ()) if n in own]
        uses = sum(syntax.code(n) == target for m in early for n in syntax.find(m, cst.Attribute))
        sets = sum(syntax.code(to) == target for to, _ in values_set(node))
        return is_writer and any(asked) and not names and uses == sets == 1


def _is_path(value: cst.BaseExpression, file: LightningFile) -> bool:
    """Whether this is Determined's directory, as a text or a path."""
    if isinstance(value, cst.Call) and syntax.code(value.func) in ("str", "os.fspath"):
        return len(value.args) == 1 and _is_path(value.args[0].value, file)
    if isinstance(value, cst.Call):
        return (file.symbols.called(value) or ("", ""))[1] == _MEMBER
    return isinstance(value, cst.SimpleString) and _below(value) is not None


def _below(text: cst.SimpleString) -> str | None:
    """What comes behind Determined's directory in a text; None if it is no part of that."""
    value = text.evaluated_value
    if not isinstance(value, str) or not f"{value}/".startswith(f"{EVENTS}/"):
        return None
    return value.removeprefix(EVENTS).rstrip("/")


class _Paths(LightningTransformer):
    def __init__(self, file: LightningFile) -> None:
        super().__init__(file)
        self._conditions: list[bool] = []

    def visit_If(self, node: cst.If) -> None:
        self._conditions.append(bool(_OF_PROCESS.search(syntax.code(node.test))))

    def leave_If(self, original: cst.If, updated: cst.If) -> cst.If:
        self._conditions.pop()
        return updated

    def leave_SimpleString(
        self, original: cst.SimpleString, updated: cst.SimpleString
    ) -> cst.BaseExpression:
        below = _below(updated)
        if below is None or (directory := self._directory()) is None:
            return updated
        return syntax.expression(f'f"{{{directory}}}{below}"' if below else directory)

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        if isinstance(original.func, cst.Name) and original.func.value == "str":
            inner = original.args[0].value if len(original.args) == 1 else None
            if isinstance(inner, cst.Call) and _is_path(inner, self.file):
                directory = self._directory()
                return updated if directory is None else syntax.expression(directory)
        if not _is_path(original, self.file) or (directory := self._directory()) is None:
            return updated
        self.file.imports.new.add("import pathlib")
        return syntax.expression(f"pathlib.Path({directory})")

    def _directory(self) -> str | None:
        """The directory of the run's logger; None where it cannot be asked for."""
        if self.plan is None or not has_trainer(self) or self.plan.is_mixin:
            return None
        if any(self._conditions):
            self.mark(_EACH_PROCESS)
            return None
        return f"{syntax.self_name(self.functions[0])}.trainer.log_dir"
