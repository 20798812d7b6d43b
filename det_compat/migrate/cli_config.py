"""The LightningCLI config that an experiment config becomes."""

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from det_compat.config import ExperimentConfig, read_config
from det_compat.config.flat import flat_values
from det_compat.config.lengths import Period, Unit
from det_compat.config.shims import seeded
from det_compat.migrate.configs import BATCHES, aggregating
from det_compat.migrate.results import FileResult, Migration
from det_compat.migrate.review.arguments import accumulates, keywords, unnamed
from det_compat.migrate.review.process_counts import SIZE, takes_size
from det_compat.migrate.review.project import Code, Text, methods
from det_compat.migrate.to_lightning.data.shared_out import FLAG
from det_compat.migrate.to_lightning.plan import UNUSED
from det_compat.migrate.to_lightning.scripts.step_counts import is_manual, steps_of_module
from det_compat.migrate.tree.marks import comment

_SEED = 0
#: What is said where steps are not known to be batches, of modules with one optimizer and several.
_STEPS = {
    False: "max_steps counts steps of the optimizer, which are not the batches: give their number",
    True: "max_steps counts the steps of each optimizer: give their sum",
}


_OF_LOADERS = (
    "several devices have other batches than Determined's, unless what a comment on a loader in {} "
    "says is done"
)


def target_of(path: Path) -> Path:
    """The config for LightningCLI beside an experiment config."""
    return path.with_name(f"{path.stem}.lightning.yaml")


def lightning_config(path: Path, migration: Migration) -> FileResult:
    """``CONFIG.lightning.yaml`` beside an experiment config, as a new file.

    It is for ``LightningCLI(MyTrial)``, or says which. Hyperparameters that are searched have no
    value and are left out, below a comment.

    Raises:
        ConfigError: the config is not valid.
    """
    config = read_config(path)
    code = _code(migration)
    node = _module(config, migration)
    # What a class does not do itself, its bases may.
    family = [] if node is None else code.ancestors(node)[0]
    contents = _contents(config, migration, code, family)
    batches = contents["trainer"].get("max_steps", 0)
    steps, left = divmod(batches, _accumulated(config) if accumulates(family) else 1)
    if accumulates(family):
        contents["model"][BATCHES] = _accumulated(config)
    of_batch = _steps_of(family)
    if batches:
        contents["trainer"]["max_steps"] = steps * (of_batch or 1)
    epochs = contents["trainer"].get("max_epochs")
    whole = Period(Unit.EPOCHS, epochs) if epochs else Period(Unit.BATCHES, batches - left)
    contents["trainer"].update(_validations(config, whole))
    best = _best(config, family, migration)
    if saving := _saving(config, whole, best, of_batch or 1):
        contents["trainer"]["callbacks"] = saving
    cli = _for_open_module(contents, config, node, code, migration)
    text = yaml.safe_dump(contents, sort_keys=False)
    searched = sorted(config.hyperparameters.ranges())
    header = f"# made from {path.name}{cli}\n"
    if searched:
        header += f"# searched, so to be set: {', '.join(searched)}\n"
    if left:
        said = f"Determined trained {left} more, without another step: these are left out"
        header += f"{comment(said)}\n"
    if batches and of_batch is None:
        header += f"{comment(_STEPS[any(map(_has_several, family))])}\n"
    elif batches and of_batch != 1:
        header += f"# max_steps counts the steps of optimizers, {of_batch} a batch\n"
    if batches and not accumulates(family) and (every := _accumulated(config)) > 1:
        steps = batches // every
        header += (
            f"# {every} batches made one step: max_steps is {steps} for a module that does so\n"
        )
    header += _of_validations(config, whole)
    loading = [each.path.name for each in migration.files if FLAG.encode() in each.after]
    if contents["trainer"]["devices"] > 1 and loading:
        header += f"{comment(_OF_LOADERS.format(', '.join(loading)))}\n"
    if best is None:
        metric = config.raw["searcher"]["metric"]
        header += (
            f"# Determined kept the checkpoint of the best {metric}, too: as a ModelCheckpoint\n"
        )
        header += "# does that has the name by which it is logged for its monitor, and a mode\n"
    if config.seed is None and {"experiment_config", "experiment_seed"} & {*contents["model"]}:
        header += (
            f"# a cluster drew an experiment_seed, which {path.name} has not: 0 in its place\n"
        )
    return FileResult(target_of(path), b"", (header + text).encode())


def _for_open_module(
    contents: dict[str, Any],
    config: ExperimentConfig,
    node: ast.ClassDef | None,
    code: Code,
    migration: Migration,
) -> str:
    """Give a module that takes ``**hparams`` what LightningCLI has no options for; says how.

    Returns:
        which LightningCLI the config is for; ``""`` for the one with the class alone.
    """
    if node is None:
        return ""
    # What is searched is to be given, too.
    given = {**contents["model"], **config.hyperparameters.space}
    if not unnamed(code.constructor(node.name, node), given):
        return ""
    entrypoint = "" if config.entrypoint is None else config.entrypoint.trial or ""
    file = next(file.path.stem for file in migration.files if node.name in file.trials)
    module = entrypoint.rpartition(":")[0] or file
    contents["model"] = {
        "class_path": f"{module}.{node.name}",
        "dict_kwargs": contents["model"],
    }
    return f", for LightningCLI({node.name}, subclass_mode_model=True)"


def _code(migration: Migration) -> Code:
    """The files with modules, as they were rewritten."""
    files = [file for file in migration.files if file.trials]
    return Code({f.path: Text(f.path, f.after, ast.parse(f.after)) for f in files})


def _module(config: ExperimentConfig, migration: Migration) -> ast.ClassDef | None:
    """The module that a config trains, as it was rewritten."""
    started = "" if config.entrypoint is None else config.entrypoint.trial or ""
    wanted = started.rpartition(":")[2].rpartition(".")[2]
    nodes = [
        node
        for file in migration.files
        for node in (ast.walk(ast.parse(file.after)) if file.trials else ())
        if isinstance(node, ast.ClassDef) and node.name in file.trials
    ]
    # Where no class is said, it is none from which others derive.
    bases = {ast.unparse(base).rpartition(".")[2] for node in nodes for base in node.bases}
    named = [node for node in nodes if node.name == wanted or not (wanted or node.name in bases)]
    return named[0] if len(named) == 1 else None


def _accumulated(config: ExperimentConfig) -> int:
    return next((found.aggregation_frequency for found in aggregating([config])), 1)


def _steps_of(family: Sequence[ast.ClassDef]) -> int | None:
    """How many steps of optimizers a batch of a module makes; None where that is not known."""
    if not any("training_step" in methods(node) for node in family):
        return None if any(map(_has_several, family)) else 1
    return steps_of_module(family)


def _has_several(node: ast.ClassDef) -> bool:
    """Whether a module steps several optimizers by itself: Lightning counts each step."""
    if not is_manual(node):
        return False
    made = (each for each in node.body if getattr(each, "name", "") == "configure_optimizers")
    found = [r.value for m in made for r in ast.walk(m) if isinstance(r, ast.Return)]
    return any(map(_is_several, found))


def _is_several(made: ast.expr | None) -> bool:
    if isinstance(made, (ast.List, ast.Tuple)):
        first = made.elts[0] if made.elts else None
        is_pair = isinstance(first, (ast.List, ast.Tuple))
        is_open = isinstance(first, ast.Starred)
        return _is_several(first) if is_pair else is_open or len(made.elts) > 1
    # Made in a loop, or kept in a dict, there may be any number of them.
    is_list = isinstance(made, ast.Call) and ast.unparse(made.func) in ("list", "tuple")
    return is_list or isinstance(made, ast.ListComp)


def _contents(
    config: ExperimentConfig, migration: Migration, code: Code, family: Sequence[ast.ClassDef]
) -> dict[str, Any]:
    model = dict(config.hyperparameters.constants())
    source = b"".join(file.after for file in migration.files)
    whole = seeded(config.raw, _SEED)
    for name, value in (("data_config", config.data), ("experiment_config", whole)):
        asked = (f"{name}: dict[str, Any]", f"hparams.{name}", f'hparams["{name}"]')
        if any(text.encode() in source for text in asked):
            model[name] = value
    model = {**_settings(whole, code, family, migration), **model}
    seed = {} if config.seed is None else {"seed_everything": config.seed}
    trainer = _trainer(config)
    if trainer["devices"] > 1 and any(map(takes_size, family)):
        model[SIZE] = trainer["devices"]
    if trainer["devices"] > 1 and UNUSED.encode() in source:
        trainer["strategy"] = UNUSED
    return {**seed, "trainer": trainer, "model": model}


def _settings(
    config: dict[str, Any], code: Code, family: Sequence[ast.ClassDef], migration: Migration
) -> dict[str, Any]:
    """The values of a config that a module takes by names of their own."""
    asked = any(getter in file.before for file in migration.files for getter in _GETTERS)
    init = code.constructor(family[0].name, family[0]) if family and asked else None
    found = flat_values(config)
    return {name: found[name] for name in keywords(init) if name in found} if init else {}


_GETTERS = (b"get_experiment_config", b"get_trial_seed")


def _trainer(config: ExperimentConfig) -> dict[str, Any]:
    # Determined does not validate before it trains, so Lightning must not either.
    devices = max(config.slots_per_trial, 1)
    trainer = {"devices": devices, "num_sanity_val_steps": 0, **_length(config)}
    if config.optimizations.mixed_precision not in (None, "O0"):
        trainer["precision"] = "16-mixed"
    return trainer


def _validations(config: ExperimentConfig, whole: Period) -> dict[str, Any]:
    """When Lightning validates."""
    every = _validation(config, whole)
    if every == Period(Unit.EPOCHS, 1) or every.n < 1:
        return {}
    if every.unit is Unit.BATCHES:
        return {"val_check_interval": every.n, "check_val_every_n_epoch": None}
    return {"check_val_every_n_epoch": every.n}


_TRAINING = ("training_step", "train_batch")


def _best(
    config: ExperimentConfig, family: Sequence[ast.ClassDef], migration: Migration
) -> dict[str, Any] | None:
    """The callback that keeps the best checkpoints; None if the metric may have another name.

    It is empty where Determined kept none of them.
    """
    searcher, storage = config.raw["searcher"], config.raw.get("checkpoint_storage") or {}
    kept, metric = storage.get("save_trial_best", 1), searcher.get("metric")
    if kept < 1 or not metric or config.periods.checkpoint_policy == "none":
        return {}
    # What training alone logs is another metric, whatever it is called.
    lines = (line for node in family for line in node.body)
    others = (line for line in lines if getattr(line, "name", "") not in _TRAINING)
    nodes = [each for line in others for each in ast.walk(line)]
    names = {each.value for each in nodes if isinstance(each, ast.Constant)}
    was = any(f"val_{metric}".encode() in file.before for file in migration.files)
    monitor = f"val_{metric}" if f"val_{metric}" in names and not was else metric
    # A metric that training has, too, may get its name as the module runs.
    if monitor == metric and not was and any(map(_is_prefix, nodes)):
        calls = [each for each in nodes if isinstance(each, ast.Call)]
        found = {_has_prefix(call, metric) for call in calls if _logs(call, metric)}
        monitor = f"val_{metric}" if found == {True} else ""
    if monitor.removeprefix("val_") not in names and monitor not in names:
        return None
    mode = "min" if searcher.get("smaller_is_better", True) else "max"
    return _checkpoints(monitor=monitor, mode=mode, save_top_k=kept, filename="best-{epoch}-{step}")


def _logs(call: ast.Call, metric: str) -> bool:
    """Whether a call logs metrics among which this one may be."""
    name, given = getattr(call.func, "attr", ""), call.args[0] if call.args else None
    names = [given] if name == "log" else given.keys if isinstance(given, ast.Dict) else []
    are_known = names and all(isinstance(each, ast.Constant) for each in names)
    said = [getattr(each, "value", None) for each in names]
    return name in ("log", "log_dict") and (not are_known or metric in said)


def _has_prefix(call: ast.Call, metric: str) -> bool:
    """Whether a call logs this metric with ``val_`` before its name; False if that is not known."""
    nodes = [*ast.walk(call)]
    tests = [each.test for each in nodes if isinstance(each, ast.IfExp) and _is_prefix(each.body)]
    said = {each.value for t in tests for each in ast.walk(t) if isinstance(each, ast.Constant)}
    return any(map(_is_prefix, nodes)) and (not tests or metric in said)


def _is_prefix(node: ast.AST) -> bool:
    first = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else None
    return isinstance(first, ast.Constant) and first.value == "val_"


def _checkpoints(**given: Any) -> dict[str, Any]:
    return {"class_path": "ModelCheckpoint", **({"init_args": given} if given else {})}


def _saving(
    config: ExperimentConfig, whole: Period, best: dict[str, Any] | None, of_batch: int
) -> list[dict[str, Any]]:
    """The callbacks by which checkpoints are kept that Determined kept: the best and the latest.

    What a module has learnt by the end is saved, validated or not.
    """
    every, validated = config.periods.checkpoint, _validation(config, whole)
    period = every.period(config.global_batch_size)
    last = {} if validated == Period(Unit.EPOCHS, 1) else {"save_on_train_epoch_end": True}
    kept = (config.raw.get("checkpoint_storage") or {}).get("save_trial_latest", 1)
    # The latest are those with the most steps; without a monitor Lightning keeps one of them.
    latest = {"monitor": "step", "mode": "max", "save_top_k": kept} if kept > 1 else {}
    made = [best] if best else []
    is_validated = period.unit is validated.unit and not period.n % max(validated.n, 1)
    if best and is_validated and not period.is_never and not latest:
        # Behind each validation, and so with all that it changes.
        best["init_args"]["save_last"] = True
    elif not period.is_never and (latest or period != Period(Unit.EPOCHS, 1)):
        steps = of_batch * period.n // _accumulated(config) or 1
        is_steps = period.unit is Unit.BATCHES
        made.append(
            _checkpoints(every_n_train_steps=steps, **latest)
            if is_steps
            else _checkpoints(every_n_epochs=period.n, save_on_train_epoch_end=True, **latest)
        )
    # Without any, Lightning has one of these of itself.
    return [*made, _checkpoints(**last)] if made or last else []


def _validation(config: ExperimentConfig, whole: Period) -> Period:
    every = config.periods.validation.period(config.global_batch_size)
    return whole if every.is_never else every


def _of_validations(config: ExperimentConfig, whole: Period) -> str:
    """Comments on the validations that Determined made of itself."""
    every, said = _validation(config, whole), ""
    if _is_of_script(config):
        return f"{comment(_OF_SCRIPT)}\n"
    if config.periods.validation.value < 1:
        said += "# without min_validation_period Determined validated after the last batch alone\n"
    elif every.unit is not whole.unit or whole.n % every.n:
        said += "# Determined validated after the last batch, too: `main.py validate` does\n"
    if config.periods.initial_validation:
        said += f"{comment('Determined validated before the first batch, too')}\n"
    return said


_OF_SCRIPT = (
    "a script is started by this config, and says itself what its trial is given, how long it "
    "trains and when it validates: run that, or set these here"
)


def _is_of_script(config: ExperimentConfig) -> bool:
    """Whether a config starts a command that is no trial class."""
    found = config.entrypoint
    return found is not None and found.trial is None and bool(found.argv)


def _length(config: ExperimentConfig) -> dict[str, Any]:
    length = config.length
    if length is not None and length.unit is Unit.EPOCHS:
        return {"max_epochs": length.value}
    if length is not None and length.unit is Unit.BATCHES:
        return {"max_steps": length.value}
    if length is not None and config.global_batch_size:
        return {"max_steps": length.value // config.global_batch_size}
    return {}
