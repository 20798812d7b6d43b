"""Determined's names that torch or Lightning have others for: types, functions, adapters."""

import libcst as cst

from det_compat import LOG_FORMAT
from det_compat.migrate.configs import BATCHES
from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.to_lightning.transformer import LightningTransformer
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line, Lines
from det_compat.migrate.tree.marks import above, comments_of
from det_compat.migrate.tree.symbols import WRITER, Symbol, Symbols, new_name

_WRAPPER = "det_compat.pytorch.LRScheduler"
_LIGHTNING = "import pytorch_lightning as pl"
_INVALID = "InvalidHP"
_GOING_ON = cst.EmptyLine(
    comment=cst.Comment("# a search should go on with other hyperparameters where this is raised")
)
_TYPES = {
    "det_compat.pytorch.DataLoader": ("DataLoader", "from torch.utils.data import DataLoader"),
    "det_compat.pytorch.TorchData": ("Any", "from typing import Any"),
    "det_compat.pytorch.PyTorchTrial": ("pl.LightningModule", _LIGHTNING),
    "det_compat.pytorch.PyTorchTrialContext": ("pl.LightningModule", _LIGHTNING),
    "det_compat.pytorch.PyTorchCallback": ("pl.Callback", _LIGHTNING),
    "det_compat.pytorch.MetricReducer": ("torchmetrics.Metric", "import torchmetrics"),
    "det_compat.pytorch.reducer.FunctionReducer": ("torchmetrics.Metric", "import torchmetrics"),
    _WRAPPER: ("torch.optim.lr_scheduler.LRScheduler", "import torch"),
    _INVALID: ("ValueError", ""),
    "TrialContext": ("pl.LightningModule", _LIGHTNING),
}
_LOG_FORMAT = "det_compat.LOG_FORMAT"
_DOWNLOAD = "det_compat.util.download_gcs_blob_with_backoff"
#: Determined tried 32 times, whatever the error.
_TRIED = cst.EmptyLine(
    comment=cst.Comment("# Google's client tries again by itself, where the error may pass")
)
_RESET = "det_compat.pytorch.reset_parameters"
_ALIASING = "det_compat.alias_determined"
_ADAPTING = ("det_compat.to_lightning", "det_compat.adapters.to_lightning")
_ARGUMENTS = {"hparams", "exp_conf"}


def rename_types(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Rename types wherever they are named: bases, annotations, calls.

    A wrapper of a scheduler that is still made, or derived from, is no torch's, and is left.
    """
    used = [call.func for call in syntax.find(tree, cst.Call)]
    used += [base.value for node in syntax.find(tree, cst.ClassDef) for base in node.bases]
    made = {syntax.code(each) for each in used if file.symbols.path(each) == _WRAPPER}

    def renamed(node: cst.Name) -> cst.BaseExpression:
        path = file.symbols.path(node) or ""
        if node.value in made:
            return node
        # Some types can be imported from several modules: their last name tells them.
        name, statement = _TYPES.get(path) or _TYPES.get(path.rpartition(".")[2]) or ("", "")
        file.imports.new.update([statement] if statement else [])
        return syntax.expression(name) if name else node

    return syntax.each(_with_invalid(tree, file.symbols), cst.Name, renamed)


def _with_invalid(tree: cst.Module, symbols: Symbols) -> cst.Module:
    """The file that says what hyperparameters which it refuses were for a search."""
    if not any(path.endswith(f".{_INVALID}") for path in symbols.paths):
        return tree

    def told(line: Line) -> Line:
        is_raised = isinstance(syntax.simple(line), cst.Raise)
        paths = (symbols.path(name) or "" for name in syntax.find(line, cst.Name))
        if not is_raised or not any(path.endswith(f".{_INVALID}") for path in paths):
            return line
        return line.with_changes(leading_lines=[*line.leading_lines, _GOING_ON])

    return syntax.each(tree, cst.SimpleStatementLine, told)


def write_out_functions(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Write out functions of Determined's, and its log format.

    These are ``reset_parameters(model)`` where it is a statement, and the download of a blob, which
    Google's client tries again by itself.
    """
    has_some = file.symbols.has(_RESET, _LOG_FORMAT, _DOWNLOAD)
    return syntax.transformed(tree, _Functions(file)) if has_some else tree


class _Functions(LightningTransformer):
    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        calls = syntax.find(original, cst.Call)
        if any(self.symbols.path(call.func) == _DOWNLOAD for call in calls):
            return above(updated, [_TRIED])
        call = syntax.lone_call(updated)
        if call is None or self.symbols.path(call.func) != _RESET:
            return updated
        model = syntax.argument(call, 0, "model")
        if model is None:
            return updated
        made = syntax.statement(
            f"for module in {syntax.code(model)}.modules():\n"
            '    if hasattr(module, "reset_parameters"):\n'
            "        module.reset_parameters()\n"
        )
        return above(made, comments_of(updated))

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> syntax.Expression:
        blob = syntax.argument(updated, 0, "blob")
        if blob is None or self.symbols.path(updated.func) != _DOWNLOAD:
            return updated
        return syntax.expression(f"{syntax.code(blob)}.download_as_bytes()")

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> syntax.Expression:
        if self.symbols.path(original) != _LOG_FORMAT:
            return updated
        return cst.SimpleString(repr(LOG_FORMAT).replace("'", '"'))


def use_loggers(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Let trials write to the writer of their logger, and others to a SummaryWriter of torch's.

    That is ``self.logger.experiment`` for ``self.logger.writer`` of a trial whose
    ``self.logger = TorchWriter()`` goes. A writer that is needed before there is a Trainer stays.
    """
    return syntax.transformed(tree, _Writers(file)) if file.symbols.has(WRITER) else tree


def with_word_of_writers(tree: cst.Module, before: cst.Module) -> cst.Module:
    """Say in each class that began to write to the writer of its logger which logger has one."""
    if not any(map(_is_writer, syntax.find(tree, cst.Attribute))) or any(
        map(_is_writer, syntax.find(before, cst.Attribute))
    ):
        return tree

    def said(node: cst.ClassDef) -> cst.ClassDef:
        for line in syntax.find(node, cst.SimpleStatementLine):
            if any(map(_is_writer, syntax.find(line, cst.Attribute))):
                comment = cst.EmptyLine(comment=cst.Comment(_NEEDS_WRITER))
                return syntax.with_node(node, line, above(line, [comment]))
        return node

    return syntax.each(tree, cst.ClassDef, said)


#: Trainers have another logger where TensorBoard is not installed, or when they are told so.
_NEEDS_WRITER = "# pl.Trainer needs a TensorBoardLogger for this"


def _is_writer(node: cst.Attribute) -> bool:
    return node.attr.value == "experiment" and syntax.code(node.value).endswith(".logger")


class _Writers(LightningTransformer):
    def visit_Module(self, node: cst.Module) -> None:
        finder = _WritersThatStay(self.file)
        syntax.transformed(node, finder)
        self._stay = finder.found

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        target = _kept_writer(original, self.symbols)
        goes = bool(target) and self.plan is not None and target not in self._stay
        return cst.RemoveFromParent() if goes else updated

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> syntax.Expression:
        if self.symbols.path(original.func) != WRITER:
            return updated
        return updated.with_changes(func=summary_writer(self.file))

    def leave_Annotation(self, original: cst.Annotation, updated: cst.Annotation) -> cst.Annotation:
        is_writer = self.symbols.path(original.annotation) == WRITER
        return cst.Annotation(summary_writer(self.file)) if is_writer else updated

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> syntax.Expression:
        if self.symbols.is_new_writer(original):
            is_module = self.plan is not None and has_trainer(self)
            me = syntax.self_name(self.functions[0]) if is_module else ""
            return syntax.expression(f"{me}.logger.experiment") if me else updated.value
        is_writer = self.symbols.is_writer(original.value) and original.attr.value == "writer"
        return updated.value if is_writer else updated

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> syntax.Expression:
        symbol = self.symbols.get(original)
        if symbol is None or not self.symbols.is_writer(original):
            return updated
        name = _name(symbol, self.file)
        is_of_trial = not symbol.module.deep_equals(symbol.original)
        kept = f"self.{name.rpartition('.')[2]}" if self.plan is None else name
        if not is_of_trial or {name, kept} & self._stay:
            return syntax.expression(name)
        return syntax.expression(f"{syntax.code(symbol.module)}.logger.experiment")


class _WritersThatStay(LightningTransformer):
    """Finds the writers of trials that something needs before there is a Trainer."""

    def __init__(self, file: LightningFile) -> None:
        super().__init__(file)
        self.found = set[str]()

    def visit_Module(self, node: cst.Module) -> None:
        # One that is there at times, or of another file, is not known to be the logger's.
        self._kept, others = set[str](), set[str]()
        for line in syntax.find(node, cst.SimpleStatementLine):
            target = syntax.target_of(line) or ""
            (self._kept if _kept_writer(line, self.symbols) else others).add(target)
        self._kept -= others
        self.found |= others

    def visit_SimpleStatementLine(self, node: Line) -> bool:
        target = _kept_writer(node, self.symbols)
        if target and self.plan is None:
            self.found.add(target)
        return not target

    def visit_Name(self, node: cst.Name) -> None:
        symbol = self.symbols.get(node)
        if symbol is None or not self.symbols.is_writer(node):
            return
        name = _name(symbol, self.file)
        # What is read of a trial elsewhere is what that keeps.
        kept = f"self.{name.rpartition('.')[2]}"
        is_elsewhere = self.plan is None and not symbol.module.deep_equals(symbol.original)
        if not has_trainer(self) or (is_elsewhere and kept not in self._kept):
            self.found |= {name, kept} if is_elsewhere else {name}


def _kept_writer(line: Line, symbols: Symbols) -> str:
    """What a statement does nothing with but keep a new TorchWriter in it."""
    small = syntax.simple(line)
    call = syntax.call_of(small) if isinstance(small, cst.Assign | cst.AnnAssign) else None
    is_new = call is not None and symbols.path(call.func) == WRITER
    return syntax.target_of(line) or "" if is_new else ""


def _name(symbol: Symbol, file: LightningFile) -> str:
    """What holds a writer, by the name that it has by now."""
    owner, _, name = syntax.code(symbol.original).rpartition(".")
    is_renamed = name in file.renamed and owner == syntax.code(symbol.module)
    return f"{owner}.{new_name(name)}" if is_renamed else syntax.code(symbol.original)


def has_trainer(within: LightningTransformer) -> bool:
    """Whether a method of a trial, or a hook of a callback, runs when there is a logger."""
    names = [function.name.value for function in within.functions]
    if within.plan is None:
        in_callback = any(node.name.value in within.file.callbacks for node in within.classes)
        return in_callback and bool(names) and names[0].startswith("on_")
    early = within.file.early.get(within.plan.own.name)
    return early is not None and bool(names) and names[0] not in early


def summary_writer(file: LightningFile) -> cst.BaseExpression:
    """The class that writes for TensorBoard, which a TorchWriter had one of."""
    if "SummaryWriter" not in file.names:
        file.imports.new.add("from torch.utils.tensorboard import SummaryWriter")
    return cst.Name("SummaryWriter")


def make_modules(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Make ``MyTrial(**hparams)`` of ``to_lightning(MyTrial)(hparams, exp_conf)``."""
    return (
        syntax.transformed(tree, _Scripts(file))
        if file.symbols.has(_ALIASING, *_ADAPTING)
        else tree
    )


class _Scripts(LightningTransformer):
    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        call = syntax.lone_call(updated)
        is_aliasing = call is not None and self.symbols.path(call.func) == _ALIASING
        return cst.RemoveFromParent() if is_aliasing else updated

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> syntax.Expression:
        adapting = updated.func
        if not isinstance(adapting, cst.Call) or len(adapting.args) != 1:
            return updated
        if self.symbols.path(adapting.func) not in _ADAPTING:
            return updated
        trial = syntax.code(adapting.args[0].value)
        plan = self.file.trials.get(trial.rpartition(".")[2])
        if plan is None or any(arg.star for arg in updated.args):
            return updated
        if any(arg.keyword and arg.keyword.value not in _ARGUMENTS for arg in updated.args):
            return updated
        hparams = syntax.argument(updated, 0, "hparams")
        config = syntax.argument(updated, 1, "exp_conf")
        given = [f"**{syntax.code(hparams)}"] if hparams is not None else []
        if config is not None and "experiment_config" in plan.arguments.sections:
            given.append(f"experiment_config={syntax.code(config)}")
        if config is not None and "data_config" in plan.arguments.sections:
            given.append(f'data_config={syntax.code(config)}["data"]')
        if config is not None:
            text = syntax.code(config)
            given += [f"{name}={of(text)}" for name, of in plan.arguments.settings.items()]
        if plan.accumulation is not None:
            section = '.get("optimizations", {}).get("aggregation_frequency", 1)'
            batches = f"{syntax.code(config)}{section}" if config is not None else "1"
            given.append(f"{BATCHES}={batches}")
        return syntax.expression(f"{trial}({', '.join(given)})")
