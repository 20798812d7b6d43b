"""What code of Lightning 1 asks for and Lightning 2 has not: its counterpart, or a mark.

Only files that a trial of ``LightningAdapter`` imports are looked at: theirs is the Lightning that
Determined had.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.from_adapter.modules import find_class
from det_compat.migrate.review.project import Code, methods, written
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import marked

#: Flags of the Trainer that are gone, with what says the same of a value; nothing does of others.
_FLAGS: dict[str, Callable[[str], str]] = {
    "gpus": lambda value: (
        f'accelerator="gpu", devices={value}' if value.isdigit() and value != "0" else ""
    ),
    "progress_bar_refresh_rate": lambda value: (
        f"callbacks=[TQDMProgressBar(refresh_rate={value})]"
        if value.isdigit() and value != "0"
        else ""
    ),
    "checkpoint_callback": lambda value: (
        f"enable_checkpointing={value}" if value in ("True", "False") else ""
    ),
    "weights_summary": lambda value: "enable_model_summary=False" if value == "None" else "",
}
_GONE_FLAGS = {
    "amp_backend",
    "amp_level",
    "auto_lr_find",
    "auto_scale_batch_size",
    "auto_select_gpus",
    "distributed_backend",
    "flush_logs_every_n_steps",
    "log_gpu_memory",
    "move_metrics_to_cpu",
    "multiple_trainloader_mode",
    "num_processes",
    "prepare_data_per_node",
    "process_position",
    "reload_dataloaders_every_epoch",
    "replace_sampler_ddp",
    "resume_from_checkpoint",
    "stochastic_weight_avg",
    "terminate_on_nan",
    "tpu_cores",
    "track_grad_norm",
    "truncated_bptt_steps",
}
_PROGRESS = "from pytorch_lightning.callbacks import TQDMProgressBar"
#: The places of a function or class that says how many predictions are right.
_ACCURACY = (
    "pytorch_lightning.metrics.functional.accuracy",
    "torchmetrics.functional.accuracy",
    "pytorch_lightning.metrics.Accuracy",
    "torchmetrics.Accuracy",
    "pl.metrics.Accuracy",
)
_METRICS = "pytorch_lightning.metrics"
_TRAINERS = ("pytorch_lightning.Trainer", "pytorch_lightning.trainer.Trainer")


def rewritten(tree: cst.Module, path: Path, code: Code) -> cst.Module:
    """A file in the API of today, with a mark where that has nothing in the place of something."""
    sized = _data_modules(tree, path, code)
    tree = _with_flags(_with_equality(_with_dims(tree, sized)))
    known = _imported(tree)

    def told(line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
        for call in syntax.find(line, cst.Call):
            for reason in _gone(call, sized, known):
                line = marked(line, reason)
        return line

    tree = syntax.each(tree, cst.SimpleStatementLine, told)
    lines = [
        marked(line, f"{_METRICS} is gone: torchmetrics has them")
        if _is_import(line, _METRICS) and _is_used(line, tree)
        else line
        for line in tree.body
    ]
    return tree.with_changes(body=lines)


def _gone(call: cst.Call, sized: Mapping[str, bool], known: dict[str, str]) -> Iterator[str]:
    """What a call asks for that is not there, as marks say it."""
    path, text = _path(call.func, known), syntax.code(call.func)
    names = [arg.keyword.value for arg in call.args if arg.keyword is not None]
    if path in _TRAINERS:
        gone = (name for name in names if name in _GONE_FLAGS or name in _FLAGS)
        yield from (f"Lightning's Trainer has no {name} any more" for name in gone)
    if path in _ACCURACY and path.startswith("torchmetrics") and "task" not in names:
        yield f"{text} needs a task, and how many classes there are"
    if text.endswith(".size") and text.removesuffix(".size") in sized:
        yield "LightningDataModule has no size() any more"


def _is_import(line: cst.BaseStatement, module: str) -> bool:
    small = syntax.simple(line)
    text = syntax.code(small) if isinstance(small, (cst.Import, cst.ImportFrom)) else ""
    return module in text


def _is_used(line: cst.BaseStatement, tree: cst.Module) -> bool:
    aliases = syntax.find(line, cst.ImportAlias)
    names = {a.evaluated_alias or a.evaluated_name.partition(".")[0] for a in aliases}
    others = (each for each in tree.body if each is not line)
    return any(names & syntax.names_in(each) for each in others)


def _with_dims(tree: cst.Module, sized: Mapping[str, bool]) -> cst.Module:
    """``data.size()`` of a LightningDataModule, which gave its dims, as these."""

    def asking(call: cst.Call) -> cst.BaseExpression:
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "size" or call.args:
            return call
        has_dims = sized.get(syntax.code(func.value), False)
        return func.with_changes(attr=cst.Name("dims")) if has_dims else call

    return syntax.each(tree, cst.Call, asking) if sized else tree


def _data_modules(tree: cst.Module, path: Path, code: Code) -> dict[str, bool]:
    """The variables that are a LightningDataModule without size(), and whether all have dims."""
    found: dict[str, list[bool | None]] = {}
    for line in syntax.find(tree, cst.Assign):
        for target, value in syntax.pairs(line):
            func = getattr(value, "func", None)
            made = None if func is None else _has_dims(syntax.code(func), path, code)
            found.setdefault(syntax.code(target), []).append(made)
    return {name: all(each) for name, each in found.items() if {*each} != {None}}


def _has_dims(name: str, path: Path, code: Code) -> bool | None:
    """Whether a LightningDataModule says its dims where it is made; None of other classes."""
    found = find_class(code, path, name)
    node = code.files[found[0]].classes[found[1]] if found is not None else None
    bases = [written(base).rpartition(".")[2] for base in node.bases] if node is not None else []
    if node is None or bases != ["LightningDataModule"] or "size" in methods(node):
        return None
    lines = methods(node)["__init__"].body if "__init__" in methods(node) else []
    targets = {ast.unparse(t) for li in lines if isinstance(li, ast.Assign) for t in li.targets}
    return "self.dims" in targets


def _with_equality(tree: cst.Module) -> cst.Module:
    """Accuracies of predictions that are an argmax as the share of those that are right.

    torchmetrics wants to be told of classes today, which the code did not say.
    """
    known = _imported(tree)

    def in_class(node: cst.ClassDef) -> cst.ClassDef:
        own = syntax.methods(node)
        made = (
            {
                target: line
                for line in syntax.find(own["__init__"].body, cst.SimpleStatementLine)
                if (target := syntax.target_of(line) or "").startswith("self.")
                and (call := syntax.call_of(line)) is not None
                and _path(call.func, known) in _ACCURACY
                and not call.args
            }
            if "__init__" in own
            else {}
        )
        node = syntax.each(node, cst.FunctionDef, lambda m: _counting(m, {*made}, known))
        for target in made:
            if sum(syntax.code(a) == target for a in syntax.find(node, cst.Attribute)) == 1:
                node = syntax.transformed(node, _Without(target))
        return node

    return syntax.each(tree, cst.ClassDef, in_class)


class _Without(cst.CSTTransformer):
    """Drops the statement that sets an attribute, and what is said of it."""

    def __init__(self, target: str) -> None:
        self._target = target

    def leave_SimpleStatementLine(
        self, original: cst.SimpleStatementLine, updated: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        is_it = syntax.target_of(original) == self._target
        return cst.RemovalSentinel.REMOVE if is_it else updated


def _counting(method: cst.FunctionDef, metrics: set[str], known: dict[str, str]) -> cst.FunctionDef:
    assigned = {
        syntax.code(target): value
        for line in syntax.find(method.body, cst.Assign)
        for target, value in syntax.pairs(line)
    }

    def counted(call: cst.Call) -> cst.BaseExpression:
        is_metric = syntax.code(call.func) in metrics or (
            isinstance(call.func, cst.Name) and _path(call.func, known) in _ACCURACY
        )
        if not is_metric or len(call.args) != 2 or any(a.keyword or a.star for a in call.args):
            return call
        predicted, labels = (arg.value for arg in call.args)
        value = assigned.get(syntax.code(predicted))
        is_argmax = isinstance(value, cst.Call) and syntax.code(value.func).endswith(".argmax")
        if not is_argmax or not isinstance(labels, (cst.Name, cst.Attribute)):
            return call
        text = f"({syntax.code(predicted)} == {syntax.code(labels)}).float().mean()"
        return syntax.expression(text)

    return syntax.each(method, cst.Call, counted)


def _imported(tree: cst.Module) -> dict[str, str]:
    """What each name that a file imports is called where it is from."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(tree.bytes)):
        if isinstance(node, ast.ImportFrom):
            found |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.asname: a.name for a in node.names if a.asname}
    return found


def _path(node: cst.BaseExpression, known: dict[str, str]) -> str:
    head, dot, rest = syntax.code(node).partition(".")
    return f"{known.get(head, head)}{dot}{rest}"


def _with_flags(tree: cst.Module) -> cst.Module:
    """Trainers with the flags of today; one that has none of the same meaning is marked."""
    known, new = _imported(tree), set[str]()

    def flagged(call: cst.Call) -> cst.Call:
        if _path(call.func, known) not in _TRAINERS:
            return call
        names = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        args: list[cst.Arg] = []
        for arg in call.args:
            name = arg.keyword.value if arg.keyword is not None else ""
            text = _FLAGS[name](syntax.code(arg.value)) if name in _FLAGS else ""
            made = ensure_type(syntax.expression(f"f({text})"), cst.Call).args if text else ()
            if not made or names & {a.keyword.value for a in made if a.keyword is not None}:
                args.append(arg)
                continue
            new.update({_PROGRESS} if "TQDM" in text else ())
            args += [a.with_changes(comma=arg.comma) for a in made[-1:]]
            args[-1:-1] = [
                a.with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
                for a in made[:-1]
            ]
        return call.with_changes(args=args)

    tree = syntax.each(tree, cst.Call, flagged)
    for text in new:
        at = next(i for i, line in enumerate(tree.body) if _is_import(line, "pytorch_lightning"))
        body = [*tree.body[: at + 1], syntax.statement(text), *tree.body[at + 1 :]]
        tree = tree.with_changes(body=body)
    return tree
