"""Whether a module takes what each config of its class has, and what a Trainer must be told."""

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from det_compat.config import ExperimentConfig
from det_compat.config.flat import flat_values
from det_compat.migrate.configs import BATCHES, aggregating, configs_of
from det_compat.migrate.review.project import Code, Finding, Text, imports, methods, written
from det_compat.migrate.tree.marks import PRECISION_FLAG

_SECTIONS = {"data_config", "experiment_config"}


def refused(after: Code, text: Text, trials: tuple[str, ...]) -> Iterator[Finding]:
    """The configs whose hyperparameters the constructor of a trial of the file does not take."""
    for name in trials:
        node = text.classes.get(name)
        # A trial that could not be rewritten has a context yet, and a comment that says why.
        if node is None or any(base.endswith("PyTorchTrial") for base in after.ancestors(node)[1]):
            continue
        init = after.constructor(name, node)
        configs = configs_of(text.path, name)
        known = {each for config in configs for each in config.hyperparameters.space}
        # What no config has, the trial needed as much: who starts it has to say it.
        untold = {*keywords(init)} - known if init is not None else set()
        for config in configs:
            for problem in _problems(init, config, untold):
                file = Path(config.file or "").name
                line = init.lineno if init in methods(node).values() and init else node.lineno
                yield Finding(line, f"{file} {problem}")


def _problems(
    init: ast.FunctionDef | None, config: ExperimentConfig, untold: Collection[str]
) -> Iterator[str]:
    given = config.hyperparameters.space.keys()
    if init is None:
        # LightningModule's own takes nothing, which is what a trial of no hyperparameters wants.
        return
    _, known, required = _parameters(init)
    if "hparams" in known:
        # A script gives all of them as one dict.
        return
    lacking = sorted(required - given - _SECTIONS - flat_values(config.raw).keys() - {*untold})
    # A script gives its trial what it likes, whatever its config has.
    if lacking and config.entrypoint is not None and config.entrypoint.trial is None:
        return
    if init.args.kwarg is None and (extra := sorted(given - known)):
        yield f"has {', '.join(extra)}, which __init__ does not take"
    if lacking:
        yield f"has no {', '.join(lacking)}, which __init__ needs"


def _parameters(init: ast.FunctionDef) -> tuple[list[str], set[str], set[str]]:
    """The parameters of a constructor: those by position, all, and those that are required."""
    arguments = init.args
    named = [each.arg for each in (*arguments.posonlyargs, *arguments.args)][1:]
    required = {*named[: len(named) - len(arguments.defaults)]}
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    required |= {a.arg for a, default in keywords if default is None}
    return named, {*named, *(a.arg for a in arguments.kwonlyargs)}, required


def keywords(init: ast.FunctionDef) -> list[str]:
    """The parameters that a constructor takes by keyword alone, which ``migrate`` has written."""
    return [each.arg for each in init.args.kwonlyargs]


def misfits(after: Code, text: Text, trials: Collection[str]) -> Iterator[Finding]:
    """The calls of a class that was a trial, or of its ``__init__``, with what it does not take.

    A test gives it a context, for example.
    """
    inits = {name: init for name in trials if (init := after.constructor(name)) is not None}
    for call in text.nodes:
        func = written(call.func) if isinstance(call, ast.Call) else ""
        cls = func.removesuffix(".__init__")
        name = cls.rpartition(".")[2]
        if not isinstance(call, ast.Call) or name not in inits or _is_foreign(func, after, text):
            continue
        # A class that names its base gives it the object, too.
        if not _takes(inits[name], call, call.args[cls != func :]):
            any_name = ["hyperparameters by name"] if inits[name].args.kwarg is not None else []
            takes = ", ".join([*sorted(_parameters(inits[name])[1]), *any_name]) or "nothing"
            yield Finding(
                call.lineno, f"{name} is a LightningModule, which takes {takes} and no context"
            )
    for name in trials:
        yield from _misfits_of_bases(after, text.classes.get(name))


def _misfits_of_bases(after: Code, node: ast.ClassDef | None) -> Iterator[Finding]:
    """The calls of ``super().__init__()`` with what the base that is next does not take."""
    own = None if node is None else methods(node).get("__init__")
    bases = [written(base).rpartition(".")[2] for base in node.bases] if node is not None else []
    # A base that nobody has read may take anything, and is asked before those behind it.
    known = [*takewhile(lambda base: after.bases_of(base), bases)]
    inits = ((base, init) for base in known if (init := after.constructor(base)) is not None)
    base, init = next(inits, ("", None))
    calls = [each for each in ast.walk(own) if isinstance(each, ast.Call)] if own else []
    for call in calls:
        is_super = ast.unparse(call.func) == "super().__init__"
        if init is not None and is_super and not _takes(init, call, call.args):
            takes = ", ".join(sorted(_parameters(init)[1])) or "nothing"
            yield Finding(call.lineno, f"this calls the __init__ of {base}, which takes {takes}")


def _takes(init: ast.FunctionDef, call: ast.Call, args: Sequence[ast.expr]) -> bool:
    """Whether a constructor takes what a call gives it by position and by name, and no less."""
    named, known, required = _parameters(init)
    words = {word.arg for word in call.keywords}
    is_open = None in words or any(isinstance(each, ast.Starred) for each in args)
    is_extra = len(args) > len(named) and init.args.vararg is None
    is_unknown = init.args.kwarg is None and bool(words - known - {None})
    lacks = required - words - {*named[: len(args)]}
    return not (is_extra or is_unknown or (lacks and not is_open))


def _is_foreign(name: str, after: Code, text: Text) -> bool:
    """Whether an import brings a name from a package of which no file was read."""
    for node, module, level in imports(text.nodes):
        for alias in node.names:
            top = (module or alias.name).partition(".")[0]
            bound = alias.asname or alias.name.partition(".")[0]
            if bound == name.partition(".")[0] and not level:
                return not any(top in (*path.parts, path.stem) for path in after.files)
    return False


def needed_flags(
    before: Code, after: Code, text: Text, trials: tuple[str, ...]
) -> Iterator[Finding]:
    """What the configs of a trial say of training that its module does not do.

    Its file may be as it was: what a trial of several files does stands in its base.
    """
    # What an optimizer was wrapped with counts before the config.
    says = any(b"average_aggregated_gradients" in old.source for old in before.files.values())
    for name in trials:
        node = text.classes.get(name)
        if node is None or "pl.LightningModule" not in after.ancestors(node)[1]:
            continue
        is_done = accumulates(after.ancestors(node)[0])
        for config in configs_of(text.path, name):
            file = Path(config.file or "").name
            for flag in _flags(config, is_done, says=says):
                yield Finding(node.lineno, f"{file} asks for {flag}")


def _flags(config: ExperimentConfig, is_done: bool, *, says: bool) -> Iterator[str]:
    for asked in [] if is_done else aggregating([config]):
        how = "mean" if asked.average_aggregated_gradients and not says else "sum"
        yield (
            f"steps with the {how} of the gradients of {asked.aggregation_frequency} batches, and "
            "this steps after each"
        )
    if config.optimizations.mixed_precision not in (None, "O0"):
        yield PRECISION_FLAG
    if config.optimizations.gradient_compression and config.slots_per_trial > 1:
        yield "pl.Trainer(strategy=DDPStrategy(ddp_comm_hook=fp16_compress_hook))"


def unnamed(init: ast.FunctionDef | None, given: Collection[str]) -> set[str]:
    """Those of ``given`` names that a constructor takes, and has no parameters for."""
    is_open = init is not None and init.args.kwarg is not None
    return {*given} - _parameters(init)[1] if init is not None and is_open else set()


def accumulates(family: Iterable[ast.ClassDef]) -> bool:
    """Whether a module itself steps once in several batches, given its class and the bases."""
    inits = (methods(node).get("__init__") for node in family)
    return any(init is not None and BATCHES in _parameters(init)[1] for init in inits)
