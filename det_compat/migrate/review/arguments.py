"""Whether a module takes what each config of its class has, and what a Trainer must be told."""

import ast
from collections.abc import Iterator
from pathlib import Path

from det_compat.config import ExperimentConfig
from det_compat.config.settings import Optimizations
from det_compat.migrate.configs import configs_of
from det_compat.migrate.review.project import Code, Finding, Text, methods

_SECTIONS = {"data_config", "experiment_config"}


def refused(after: Code, text: Text, trials: tuple[str, ...]) -> Iterator[Finding]:
    """The configs whose hyperparameters the constructor of a trial of the file does not take."""
    for name in trials:
        node = text.classes.get(name)
        if node is None:
            continue
        ancestors, _ = after.ancestors(node)
        init = next((methods(a)["__init__"] for a in ancestors if "__init__" in methods(a)), None)
        for config in configs_of(text.path, name):
            for problem in _problems(init, config):
                file = Path(config.file or "").name
                line = init.lineno if init in methods(node).values() and init else node.lineno
                yield Finding(line, f"{file} {problem}")


def _problems(init: ast.FunctionDef | None, config: ExperimentConfig) -> Iterator[str]:
    given = config.hyperparameters.space.keys()
    arguments = init.args if init is not None else None
    if arguments is None:
        # LightningModule's own takes nothing, which is what a trial of no hyperparameters wants.
        return
    named = [*arguments.posonlyargs, *arguments.args][1:]
    required = {a.arg for a in named[: len(named) - len(arguments.defaults)]}
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    required |= {a.arg for a, default in keywords if default is None}
    known = {a.arg for a in (*named, *arguments.kwonlyargs)}
    if "hparams" in known:
        # A script gives all of them as one dict.
        return
    if arguments.kwarg is None and (extra := sorted(given - known)):
        yield f"has {', '.join(extra)}, which __init__ does not take"
    if lacking := sorted(required - given - _SECTIONS):
        yield f"has no {', '.join(lacking)}, which __init__ needs"


def needed_flags(text: Text, trials: tuple[str, ...]) -> Iterator[Finding]:
    """What the configs of a trial say of training that no module can say for its Trainer."""
    for name in trials:
        node = text.classes.get(name)
        for config in configs_of(text.path, name) if node is not None else ():
            file = Path(config.file or "").name
            for flag in _flags(config.optimizations, _is_manual(node)):
                yield Finding(node.lineno if node is not None else 1, f"{file} asks for {flag}")


def _flags(optimizations: Optimizations, is_manual: bool) -> Iterator[str]:
    frequency = optimizations.aggregation_frequency
    if frequency != 1 and is_manual:
        yield f"gradients of {frequency} batches a step, and training_step steps after each"
    elif frequency != 1:
        yield f"pl.Trainer(accumulate_grad_batches={frequency})"
    if optimizations.mixed_precision not in (None, "O0"):
        yield 'pl.Trainer(precision="16-mixed")'


def _is_manual(node: ast.ClassDef | None) -> bool:
    nodes = ast.walk(node) if node is not None else ()
    return any(getattr(each, "attr", "") == "automatic_optimization" for each in nodes)
