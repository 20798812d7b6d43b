"""The LightningModule that a ``LightningAdapter`` trained: where it is, and what it asks for.

The adapter called a few of the methods of a module by itself, and refused or overlooked the others,
which Lightning calls. So a module that has one of those would train otherwise, and is refused.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import libcst as cst

from det_compat.migrate.review.project import Code, written
from det_compat.migrate.shapes.known import Shapes
from det_compat.migrate.shapes.values import is_scalar
from det_compat.migrate.to_lightning.taken.reserved import HOOKS, KEPT, RESERVED
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.transformers import CannotRewriteError

#: What Lightning does with these is what the adapter did; the trial's loaders hide the module's.
_KEPT = {
    "forward",
    "training_step",
    "validation_step",
    "configure_optimizers",
    "train_dataloader",
    "val_dataloader",
    "on_train_epoch_start",
    "on_validation_epoch_start",
    "on_validation_epoch_end",
    "on_after_backward",
}
#: What modules had in Lightning 1 and have no more.
_GONE = {
    "get_progress_bar_dict",
    "on_epoch_end",
    "on_epoch_start",
    "on_pretrain_routine_end",
    "on_pretrain_routine_start",
    "tbptt_split_batch",
    "test_epoch_end",
    "test_step_end",
    "training_epoch_end",
    "training_step_end",
    "validation_epoch_end",
    "validation_step_end",
}
_OTHERS = ((HOOKS | RESERVED) - _KEPT) | _GONE
#: What the adapter set to something else than Lightning does, or did not have.
_ASKED = {
    "automatic_optimization",
    "current_epoch",
    "global_rank",
    "global_step",
    "local_rank",
    "logger",
    "lr_schedulers",
    "manual_backward",
    "optimizers",
    "precision",
    "train_dataloader",
    "trainer",
    "use_amp",
    "use_ddp",
    "use_ddp2",
    "use_dp",
    "use_tpu",
    "val_dataloader",
}
_MOST_IMPORTS = 10
#: The parameter of a training_step that is called once for each optimizer.
OPTIMIZER = "optimizer_idx"
#: What that is called in a module whose training_step calls it.
OF_OPTIMIZER = "step_of_optimizer"


@dataclass(frozen=True)
class Module:
    """A LightningModule.

    Attributes:
        path: the file that it is in.
        node: the class.
    """

    path: Path
    node: cst.ClassDef

    @property
    def name(self) -> str:
        """The name of the class."""
        return self.node.name.value

    @property
    def own(self) -> dict[str, cst.FunctionDef]:
        """Its methods."""
        return syntax.methods(self.node)

    @property
    def has_several_optimizers(self) -> bool:
        """Whether its training_step is called for each optimizer."""
        return OPTIMIZER in {p.name.value for p in self.own["training_step"].params.params}

    @property
    def kept(self) -> set[str]:
        """What it defines, and sets of itself."""
        stored = (target.target for target in syntax.find(self.node, cst.AssignTarget))
        texts = {syntax.code(each) for target in stored for each in syntax.parts(target)}
        return {*self.own, *(t.removeprefix("self.") for t in texts if t.startswith("self."))}


def find_class(code: Code, path: Path, name: str, deep: int = 0) -> tuple[Path, str] | None:
    """The file of a class and its name there, given what a file calls it; None if unknown."""
    text = code.files.get(path)
    if text is None or deep > _MOST_IMPORTS:
        return None
    if name in text.classes:
        return path, name
    head, _, rest = name.rpartition(".")
    for node in text.tree.body:
        for bound, module, level, taken in _bindings(node):
            there = code.lookup(path, module, level)
            if bound == name and taken and there is not None:
                return find_class(code, there, taken, deep + 1)
            if bound == head and rest:
                submodule = f"{module}.{taken}".strip(".") if taken else module
                there = code.lookup(path, submodule, level)
                if there is not None:
                    return find_class(code, there, rest, deep + 1)
    return None


def _bindings(node: ast.stmt) -> Iterator[tuple[str, str, int, str]]:
    """What an import binds: the name, the module with its dots, and what is taken from that."""
    if isinstance(node, ast.Import):
        yield from ((alias.asname or alias.name, alias.name, 0, "") for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name, node.module or "", node.level, alias.name


def imported(code: Code, path: Path) -> list[Path]:
    """A file and those of ``code`` that it imports, directly or through others."""
    found = [path]
    for each in found:
        for node in ast.walk(code.files[each].tree):
            if not isinstance(node, (ast.Import, ast.ImportFrom)):
                continue
            for _, module, level, taken in _bindings(node):
                names = [module, f"{module}.{taken}".strip(".")] if taken else [module]
                there = (code.lookup(each, name, level) for name in names)
                found += [file for file in there if file is not None and file not in found]
    return found


def checked(code: Code, path: Path, name: str) -> Module:
    """The LightningModule that is called ``name`` in a file.

    Raises:
        CannotRewriteError: it is not known, or Lightning would train it otherwise.
    """
    module = module_of(code, path, name)
    for reason in _differences(module):
        raise CannotRewriteError(f"{name} {reason}, which the adapter did not as Lightning does")
    return module


def module_of(code: Code, path: Path, name: str) -> Module:
    """As ``checked``, whatever it does.

    Raises:
        CannotRewriteError: it is not known.
    """
    found = find_class(code, path, name)
    if found is None:
        raise CannotRewriteError(f"the class {name} is not in these files")
    tree = cst.parse_module(code.files[found[0]].source)
    named = [each for each in syntax.find(tree, cst.ClassDef) if each.name.value == found[1]]
    module = Module(found[0], named[0])
    if len(named) > 1 or not _is_plain(code.files[module.path].classes[module.name]):
        raise CannotRewriteError(f"{name} has other bases than LightningModule")
    return module


def _is_plain(node: ast.ClassDef) -> bool:
    bases = [written(base).rpartition(".")[2] for base in node.bases]
    return bases == ["LightningModule"] and not node.decorator_list


def _differences(module: Module) -> Iterator[str]:
    """What a module has that would make Lightning's training another one."""
    own = module.own
    lacking = {"training_step", "validation_step", "configure_optimizers"} - own.keys()
    yield from (f"has no {name} of its own" for name in sorted(lacking))
    yield from (f"has {name}" for name in sorted(own.keys() & _OTHERS))
    settable = {"example_input_array", "automatic_optimization"}
    stored = (module.kept - own.keys()) & ((RESERVED | KEPT) - settable)
    yield from (f"sets self.{name}" for name in sorted(stored))
    asked = {syntax.code(found) for found in syntax.find(module.node, cst.Attribute)}
    yield from (f"asks for self.{name}" for name in sorted(_ASKED) if f"self.{name}" in asked)
    for name in ("training_step", "validation_step"):
        if name in own and may_be_none(own[name]):
            yield f"may return nothing in {name}"
    if lacking:
        return
    if module.has_several_optimizers:
        yield from _of_several(module)
    text = re.sub(r"""['"]frequency['"]: 1\b""", "", syntax.code(own["configure_optimizers"]))
    if "frequency" in text and "step" in text:
        # Determined counted all batches, and Lightning counts those of the epoch.
        yield "has a scheduler that steps every few batches"
    names, reported = logged(own["validation_step"]), metrics_of(own["validation_step"], own)
    if names & reported or "" in reported or (names and "" in names):
        yield "logs a metric in validation_step that it returns, or one whose name is not known"


def _of_several(module: Module) -> Iterator[str]:
    given = [p.name.value for p in module.own["training_step"].params.params]
    if len(given) != 4 or given[3] != OPTIMIZER:
        yield f"has other parameters of training_step than batch, batch_idx and {OPTIMIZER}"
    if _optimizers(module.own["configure_optimizers"]) < 2:
        yield "has several optimizers with schedulers, or in a form that is not known"


def _optimizers(method: cst.FunctionDef) -> int:
    """How many optimizers, all without schedulers, are returned; 0 if that is not known."""
    values = [found.value for found in syntax.find(method.body, cst.Return)]
    value = values[0] if len(values) == 1 else None
    if isinstance(value, cst.Tuple) and [syntax.code(e.value) for e in value.elements[1:]] == [
        "[]"
    ]:
        value = value.elements[0].value
    if not isinstance(value, (cst.List, cst.Tuple)):
        return 0
    is_plain = all(isinstance(each.value, cst.Name) for each in value.elements)
    return len(value.elements) if is_plain else 0


def may_be_none(method: cst.FunctionDef) -> bool:
    """Whether a method says that it returns nothing; one that has no return does."""
    found = [*syntax.find(method.body, cst.Return)]
    return not found or any(r.value is None or syntax.code(r.value) == "None" for r in found)


def logged(method: cst.FunctionDef) -> set[str]:
    """The names that a method logs by itself; ``""`` for one that is not known."""
    calls = [(syntax.code(call.func), call) for call in syntax.find(method.body, cst.Call)]
    named = [c.args[0].value for name, c in calls if name == "self.log" and c.args]
    dicts = [c.args[0].value for name, c in calls if name == "self.log_dict" and c.args]
    return {*map(_text, named), *(key for each in dicts for key in _keys(each))}


def metrics_of(method: cst.FunctionDef, own: Mapping[str, cst.FunctionDef]) -> set[str]:
    """The names of the metrics that a step returns; ``""`` for one that is not known.

    ``own`` are the methods of its class.
    """
    if not is_dict(method):
        return {"loss"} if is_number(method, own) else {""}
    names = {syntax.code(found.value) for found, _ in _returned(method) if found.value is not None}
    found = {key for _, value in _returned(method) for key in _keys(value)}
    for line in syntax.find(method.body, cst.Assign):
        for target in (each.target for each in line.targets):
            if isinstance(target, cst.Subscript) and syntax.code(target.value) in names:
                part = target.slice[0].slice
                found.add(_text(part.value if isinstance(part, cst.Index) else target))
    calls = (syntax.code(call.func) for call in syntax.find(method.body, cst.Call))
    return found | ({""} if any(call.rpartition(".")[0] in names for call in calls) else set())


def is_number(method: cst.FunctionDef, own: Mapping[str, cst.FunctionDef]) -> bool:
    """Whether a step returns a loss alone, given the methods of its class."""
    known = Shapes(own).known(method)
    return all(is_scalar(value, known) for _, value in _returned(method))


def is_dict(method: cst.FunctionDef) -> bool:
    """Whether a step returns dicts, each of which it makes itself."""
    return all(_makes_dict(value) for _, value in _returned(method))


def _returned(method: cst.FunctionDef) -> Iterator[tuple[cst.Return, cst.BaseExpression]]:
    """Each value that is returned, a variable as each of the values that it is set to."""
    lines = [*syntax.find(method.body, cst.Assign)]
    for found in syntax.find(method.body, cst.Return):
        value = found.value
        if value is None:
            continue
        set_to = [
            line.value
            for line in lines
            for target in line.targets
            if syntax.code(target.target) == syntax.code(value)
        ]
        yield from ((found, each) for each in set_to or [value])


def _makes_dict(value: cst.BaseExpression) -> bool:
    is_call = isinstance(value, cst.Call) and syntax.code(value.func).rpartition(".")[2] in _DICTS
    return isinstance(value, cst.Dict) or is_call


_DICTS = ("dict", "OrderedDict")


def _keys(value: cst.BaseExpression) -> set[str]:
    """The keys of a dict where it is made; ``""`` for one that is no text."""
    if isinstance(value, cst.Dict):
        return {_text(getattr(element, "key", element)) for element in value.elements}
    if not isinstance(value, cst.Call) or not _makes_dict(value):
        return {""}
    names = {arg.keyword.value for arg in value.args if arg.keyword is not None}
    return names.union(*(_keys(arg.value) for arg in value.args if arg.keyword is None))


def _text(node: cst.CSTNode) -> str:
    return str(node.evaluated_value) if isinstance(node, cst.SimpleString) else ""
