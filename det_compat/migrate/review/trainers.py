"""What is asked of a module before a Trainer has it."""

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import libcst as cst

from det_compat.analysis.expressions import walked
from det_compat.migrate.results import FileResult
from det_compat.migrate.review.attributes import own_reads
from det_compat.migrate.review.project import Code, Finding, Text, methods, written
from det_compat.migrate.tree.imports import added

#: A module has these once its Trainer runs.
_OF_TRAINER = frozenset({"trainer", "logger"})


def too_early(after: Code, text: Text) -> Iterator[Finding]:
    """What ``__init__`` of a module asks of a Trainer, itself or by a method that it calls.

    A callback is made before there is one, too, and may ask for the loaders of a module.
    """
    for node in text.classes.values():
        ancestors, others = after.ancestors(node)
        init = methods(node).get("__init__")
        if init is None or "pl.LightningModule" not in others:
            for each in _asked_for(_LOADERS, init) if "pl.Callback" in others else ():
                yield Finding(each.lineno, f"{each.attr} needs a Trainer, and there is none yet")
            continue
        own = {
            n: found for ancestor in reversed(ancestors) for n, found in methods(ancestor).items()
        }
        for name, line in own_reads(init):
            if name in _OF_TRAINER or (name in own and _asks_trainer(name, own, init)):
                yield Finding(line, f"{name} needs a Trainer, and there is none yet")


_IMPORT = "import pytorch_lightning as pl"
_LOADERS = ("train_dataloader", "val_dataloader")
_STEPS = ("train_batch", "evaluate_batch", "training_step", "validation_step")
_NONE_YET = "{} needs a Trainer, and there is none yet: {}"
#: What a module has for these asks its Trainer.
_BY_TRAINER = frozenset({"manual_backward", "optimizers", "lr_schedulers"})


def _asked_for(names: Collection[str], init: ast.AST | None) -> Iterator[ast.Attribute]:
    for each in walked(init) if init is not None else ():
        if isinstance(each, ast.Attribute) and each.attr in names:
            yield each


def never_fitted(after: Code, text: Text) -> Iterator[Finding]:
    """The loaders and steps that a script or a test asks a module for before a Trainer has it."""
    for each in _unfitted(after, text):
        way = "set that of the module to pl.Trainer(devices=1)"
        way = way if each.attr in _LOADERS else "only fit() calls it"
        yield Finding(each.lineno, _NONE_YET.format(each.attr, way))


def with_trainers(
    files: Sequence[FileResult], but: Collection[Path], after: Code
) -> list[FileResult]:
    """The files with a Trainer for each module that a script or a test asks for its loaders.

    Args:
        files: the results.
        but: the files that stay as they are.
        after: what is in them by now.
    """
    made = []
    for file in files:
        text = after.files.get(file.path)
        if text is not None and not (file.problem or file.path in but or _has_other_pl(text)):
            lines = file.after.decode(errors="replace").splitlines(keepends=True)
            asked = _asked_without(after, text)
            for start, given in sorted(asked, reverse=True):
                indent = lines[start - 1][: -len(lines[start - 1].lstrip())]
                ending = "\r\n" if lines[start - 1].endswith("\r\n") else "\n"
                lines.insert(start - 1, f"{indent}{given}.trainer = pl.Trainer(devices=1){ending}")
            if asked:
                tree = cst.parse_module("".join(lines).encode())
                file = replace(file, after=added(tree, [_IMPORT]).bytes)
        made.append(file)
    return made


def _has_other_pl(text: Text) -> bool:
    """Whether a file imports something else under the name by which Lightning is known."""
    aliases = (node for node in text.nodes if isinstance(node, ast.alias))
    return any(each.asname == "pl" and each.name != "pytorch_lightning" for each in aliases)


def _asked_without(after: Code, text: Text) -> set[tuple[int, str]]:
    """The modules that are asked for a loader without a Trainer, and the lines to give it above."""
    called = {id(each.func) for each in text.nodes if isinstance(each, ast.Call)}
    found = set[tuple[int, str]]()
    everywhere = set[tuple[ast.FunctionDef | None, str]]()
    for each in sorted(_unfitted(after, text), key=lambda asked: asked.lineno):
        given = written(each.value)
        is_loader = each.attr in _LOADERS and id(each) in called
        home = _around(each, text)
        is_new = is_loader and (home, given) not in everywhere
        if is_new and given == ast.unparse(each.value) and _is_outermost(home, after, text):
            block = home or text.tree
            start = _above(each.lineno, given.partition(".")[0], block)
            is_else = text.source.splitlines()[start - 1].lstrip().startswith(b"elif")
            found |= {(start, given)} if start and not is_else else set()
            # All that comes below it in the function has one then.
            if start in [line.lineno for line in block.body]:
                everywhere.add((home, given))
    return found


def _is_outermost(home: ast.FunctionDef | None, after: Code, text: Text) -> bool:
    """Whether no code of the project calls a function that a Trainer may be running.

    That one would be replaced, which the module has then.
    """
    if home is None or any("fixture" in ast.unparse(each) for each in home.decorator_list):
        return True
    found = [
        (other, node)
        for other in after.files.values()
        for node in other.nodes
        if home.name in (getattr(node, "id", ""), getattr(node, "attr", ""))
    ]
    return all(other is text and _around(node, text) is None for other, node in found)


def _above(line: int, name: str, block: ast.AST) -> int:
    """The line of the outermost statement in a block that has this one in it, and not the name.

    It is 0 where the innermost one makes what is named itself.
    """
    for each in _blocks(block):
        for statement in each:
            if statement.lineno <= line <= (statement.end_lineno or 0):
                is_made = any(_is_made(node, name) for node in ast.walk(statement))
                return _above(line, name, statement) if is_made else statement.lineno
    return 0


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The statements one below another that something has, if any."""
    for each in ("body", "orelse", "finalbody"):
        block = getattr(node, each, ())
        if isinstance(block, list):
            yield block
    for handler in getattr(node, "handlers", ()):
        yield handler.body


def _is_made(node: ast.AST, name: str) -> bool:
    is_stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name
    return is_stored or (isinstance(node, ast.arg) and node.arg == name)


def _unfitted(after: Code, text: Text) -> Iterator[ast.Attribute]:
    """The loaders and steps that are asked for before there is a Trainer.

    Determined's context knew the size of batches, and stepped, without a Trainer.
    """
    classes = [node for each in after.files.values() for node in each.classes.values()]
    needs = {
        name
        for node in classes
        for name in (*_LOADERS, *_STEPS)
        if name in methods(node) and _is_of_trainer(name, after, node)
    }
    inside = {id(each) for node in text.classes.values() for each in _in_lightning(after, node)}
    fitted = [*_given_trainers(text)] if needs else []
    for each in _asked_for(needs, text.tree) if needs else ():
        given, home = ast.unparse(each.value), _around(each, text)
        is_fitted = any(
            first < each.lineno <= last and given in names and around is home
            for first, last, names, around in fitted
        )
        if given not in ("self", "super()") and id(each) not in inside and not is_fitted:
            yield each


def _given_trainers(text: Text) -> Iterator[tuple[int, int, list[str], ast.FunctionDef | None]]:
    """Where modules get a Trainer: the lines behind which and up to which they have it.

    With the modules, and the function around it.
    """
    end = len(text.source.splitlines())
    for node in text.nodes:
        if isinstance(node, ast.Call) and _is_fit(node):
            yield node.lineno, end, [*map(ast.unparse, node.args)], _around(node, text)
    for block in (each for node in text.nodes for each in _blocks(node)):
        for line in block:
            for target in line.targets if isinstance(line, ast.Assign) else ():
                if isinstance(target, ast.Attribute) and target.attr == "trainer":
                    names, last = [ast.unparse(target.value)], block[-1].end_lineno or end
                    yield line.lineno, last, names, _around(target, text)


def _around(node: ast.AST, text: Text) -> ast.FunctionDef | None:
    """The innermost function around something; None at the top of a file."""
    functions = (each for each in text.nodes if isinstance(each, ast.FunctionDef))
    line = getattr(node, "lineno", 0)
    around = [f for f in functions if f.lineno <= line <= (f.end_lineno or 0)]
    return around[-1] if around else None


def _is_of_trainer(start: str, after: Code, node: ast.ClassDef) -> bool:
    """Whether a method of a module asks its Trainer, by itself or by others."""
    ancestors, _ = after.ancestors(node)
    own = {name: found for each in reversed(ancestors) for name, found in methods(each).items()}
    names = [start]
    for name in names:
        reads = {attribute for attribute, _ in own_reads(own[name])} if name in own else set()
        if reads & (_OF_TRAINER | _BY_TRAINER):
            return True
        names += [each for each in reads & own.keys() if each not in names]
    return False


def _in_lightning(after: Code, node: ast.ClassDef) -> Iterator[ast.AST]:
    """What is in a class that Lightning calls."""
    if after.ancestors(node)[1] & {"pl.LightningModule", "pl.Callback"}:
        yield from walked(node)


def _is_fit(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("fit", "validate", "test")


def _asks_trainer(start: str, own: dict[str, ast.FunctionDef], init: ast.FunctionDef) -> bool:
    """Whether a method or property that ``__init__`` uses needs a Trainer, by itself or not."""
    is_property = any(written(each) == "property" for each in own[start].decorator_list)
    calls = (each.func for each in ast.walk(init) if isinstance(each, ast.Call))
    called = {func.attr for func in calls if isinstance(func, ast.Attribute)}
    if not is_property and start not in called:
        return False
    found = [start]
    for name in found:
        reads = {attribute for attribute, _ in own_reads(own[name])}
        if reads & _OF_TRAINER:
            return True
        found += [each for each in reads & own.keys() if each not in found]
    return False
