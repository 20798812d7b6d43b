"""What a trial gets from experiment configs: the one that is given, or those beside it."""

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from det_compat.analysis.tree import list_files
from det_compat.config import ConfigError, ExperimentConfig, read_config
from det_compat.config.entrypoint import Entrypoint
from det_compat.config.hyperparameters import Categorical, Const, Double, Int, Log
from det_compat.config.lengths import Unit
from det_compat.config.periods import batches_per_step
from det_compat.config.settings import Optimizations

#: The parameter of a module that says how many batches go into one step of its optimizers.
BATCHES = "accumulate_grad_batches"
_SUFFIXES = (".yaml", ".yml")
_MOST_CONFIGS = 500
_DEEPEST = 3


def config_of(path: Path, name: str) -> ExperimentConfig | None:
    """The config of the trial class ``name`` in the file ``path``; ``const.yaml`` wins."""
    return next(iter(configs_of(path, name)), None)


def configs_of(path: Path, name: str) -> list[ExperimentConfig]:
    """Every config of the trial class ``name`` in the file ``path``, ``const.yaml`` first.

    That is one whose entrypoint is the class, the file as a script, or a script that imports the
    class; it lies beside the file, in a folder beside it, or in the folder above, or says the class
    and lies elsewhere in the repository. Where there is none, it is one beside the file that has no
    entrypoint: PEDL and Determined 0.12 started the class that the folder had.
    """
    return [config for _, config in _found(path, name)]


def _found(path: Path, name: str) -> list[tuple[Path, ExperimentConfig]]:
    path = path.absolute()
    without, named = [], []
    near = [*_yaml_files(path)]
    for file in (*near, *_farther(path, name, {*near})):
        config = _read(file, file.stat().st_mtime_ns)
        if config is None:
            continue
        if config.entrypoint is None:
            without += [(file, config)] if file.parent == path.parent else []
        elif _starts(config.entrypoint, file, path, name):
            named.append((file, config))
    return sorted(named or without, key=lambda pair: _order(pair[0]))


def refused_configs(trials: Iterable[tuple[Path, str]]) -> Iterator[str]:
    """What is said of the configs of some trials that cannot be read, so that none went by them.

    Args:
        trials: the file of each, and its name.
    """
    found: dict[Path, None] = {}
    for path, name in trials:
        near = [*_yaml_files(path.absolute())]
        found |= dict.fromkeys([*near, *_farther(path.absolute(), name, {*near})])
    for file in found:
        is_read = _read(file, file.stat().st_mtime_ns) is not None
        text = _text(file)
        # A config of LightningCLI may have a whole experiment config among its hyperparameters.
        is_other = re.search(r"^(trainer|seed_everything)\s*:", text, re.M)
        if not is_read and not is_other and re.search(r"^\s*searcher\s*:", text, re.M):
            try:
                read_config(file)
            except ConfigError as error:
                yield f"{error.problems[0]}: nothing is taken from this config"


def hparams_of_clusters(files: Iterable[tuple[Path, bytes, bytes]]) -> Iterator[str]:
    """What is said of scripts that had the hyperparameters of their config on a cluster alone.

    Off one, a branch of theirs had others, which are those that stay.

    Args:
        files: each with its text before and after.
    """
    for path, before, after in files:
        if b".trial.hparams" not in before or b".trial.hparams" in after:
            continue
        started = (file.name for file, each in _found(path, "") if each.entrypoint is not None)
        names = [name for name in started if name.encode() not in after]
        if names:
            length = ", and the length," if _NO_LENGTH.search(before) else ""
            yield (
                f"{path}: on a cluster it had the hyperparameters{length} of "
                f"{' or '.join(names)}, which nothing gives it now; it has what it had off one"
            )


#: What a script says that has its length from its config.
_NO_LENGTH = re.compile(rb"max_length\s*=[^,\n]*\bNone\b")


def nested_hparams(trials: Mapping[ast.ClassDef, Path]) -> frozenset[str] | None:
    """The hyperparameters of these trials with others in them; None where there is no config."""
    configs = [each for node, path in trials.items() for each in configs_of(path, node.name)]
    found = (pair for config in configs for pair in config.hyperparameters.space.items())
    names = (n for n, value in found if isinstance(getattr(value, "value", value), Mapping))
    return frozenset(names) if configs else None


def step_of(path: Path, names: Iterable[str]) -> int:
    """How many batches Determined 0.12 called a step, for trials of a file."""
    configs = (config.given for name in names for config in configs_of(path, name))
    return max(map(batches_per_step, configs), default=batches_per_step(None))


def of_script(path: Path, others: Iterable[Path]) -> dict[str, Any]:
    """What configs say of a script: ``length``, ``devices``, ``seeds``, which ``config`` it has.

    ``others`` are scripts that are run in its place.
    """
    return {
        "length": length_of(path),
        "devices": devices_of([path, *others]),
        # A script that sets one itself has it also where no config is.
        "seeds": {} if "seed" in _text(path) else seeds_of([path, *others]),
        "config": script_config(path),
    }


def length_of(path: Path) -> str:
    """How long the configs of a script have it train, as the argument of Lightning's Trainer.

    ``fit()`` of Determined asked the config where the script did not say. It is ``""`` where there
    is no config, and where one says something else than another.
    """
    configs = [found for found in configs_of(path, "") if found.entrypoint is not None]
    found = {_argument(config) for config in configs}
    return found.pop() if len(found) == 1 else ""


def devices_of(paths: Iterable[Path]) -> dict[str, int]:
    """On how many devices the configs of the first of these files that is a script of some train.

    They are called by their names. Determined 0.38.1 refused several slots to a script that
    nothing launched once for each of them.
    """
    for path in paths:
        every = ((file, each) for file, each in _found(path, "") if each.entrypoint is not None)
        if found := {file.name: max(each.slots_per_trial, 1) for file, each in every}:
            return found
    return {}


def seeds_of(paths: Iterable[Path]) -> dict[str, int]:
    """The seeds that the configs of these scripts say, by their names."""
    every = (pair for path in paths for pair in _found(path, "") if pair[1].entrypoint is not None)
    return {file.name: each.seed for file, each in every if each.seed is not None}


def script_config(path: Path) -> str:
    """The config whose hyperparameters a script has off a cluster, as seen from its folder.

    It is ``""`` where no config starts the script, where the first one searches, and where it has
    numbers that ``yaml.safe_load`` takes for text, such as ``1e-3``.
    """
    started = ((f, each) for f, each in _found(path, "") if each.entrypoint is not None)
    file, config = next(started, (None, None))
    if file is None or config is None:
        return ""
    given = yaml.safe_load(file.read_text())
    is_plain = given.get("hyperparameters") == _first_values(config.hyperparameters.space)
    return Path(os.path.relpath(file, path.absolute().parent)).as_posix() if is_plain else ""


def _argument(config: ExperimentConfig) -> str:
    length = config.length
    try:
        period = length.period(config.global_batch_size) if length is not None else None
    except ValueError:
        period = None
    if period is None or period.is_never:
        return ""
    return f"{'max_epochs' if period.unit is Unit.EPOCHS else 'max_steps'}={period.n}"


def _order(file: Path) -> tuple[bool, bool, str]:
    return file.stem != "const", not file.stem.startswith("const"), str(file)


def _yaml_files(path: Path) -> Iterator[Path]:
    """The YAML files that may be configs of what a file has: not more than are read quickly."""
    folder = path.absolute().parent
    found = (
        each / name
        for each in (folder, *_folders(folder), folder.parent)
        for name in _yaml_names(each)
        if (each / name).is_file()
    )
    yield from islice(found, _MOST_CONFIGS)


def _farther(path: Path, name: str, near: Set[Path]) -> Iterator[Path]:
    """The other configs of a repository whose entrypoint is class ``name`` in the file ``path``.

    Which folder was that of the experiment, nobody knows; of several files that an entrypoint may
    mean, it is those that are nearest to the config.
    """
    # Of what is no repository, all that is known to belong together is below the file.
    root = next((each for each in path.parents if (each / ".git").exists()), path.parent)
    files, started = _repository(root, root.stat().st_mtime_ns)
    for file, module in started.get(name, ()):
        if file in near or not _is_meant(path, name, module):
            continue
        meant = (each for each in files if _is_meant(each, name, module))
        shared = {
            each: len(os.path.commonpath((each, file)))
            for each in meant
            if f"class {name}" in _text(each)
        }
        if shared.get(path) == max(shared.values(), default=0):
            yield file


def _is_meant(path: Path, name: str, module: str) -> bool:
    """Whether a file is the module of an entrypoint, or part of a package that gives the class."""
    package = f"{module.removesuffix('.py')}{os.sep}"
    before, is_inside, _ = f"{path}".rpartition(package)
    is_given = bool(is_inside) and name in _text(Path(f"{before}{package}__init__.py"))
    return is_given or f"{path}".endswith(module)


@lru_cache(maxsize=8)
def _repository(
    root: Path, changed: int
) -> tuple[tuple[Path, ...], dict[str, list[tuple[Path, str]]]]:
    """The files of a repository, and each class that an entrypoint names: where, and its file.

    It is read once, unless the folder has changed.
    """
    is_one = (root / ".git").exists()
    files = tuple(path for path, _ in list_files([str(root)]).files) if is_one else _below(root)
    started: dict[str, list[tuple[Path, str]]] = {}
    for file in files:
        found = _ENTRYPOINT.search(_text(file)) if file.suffix in _SUFFIXES else None
        if found is not None:
            module = f"{os.sep}{found[1].replace('.', os.sep)}.py"
            started.setdefault(found[2], []).append((file, module))
    return files, started


def _below(root: Path) -> tuple[Path, ...]:
    """The files of a project that is no repository; none of a folder with all kinds of things."""
    found: list[Path] = []
    for folder, folders, names in os.walk(root):
        is_deep = len(Path(folder).relative_to(root).parts) >= _DEEPEST
        folders[:] = [] if is_deep else [n for n in sorted(folders) if not n.startswith(".")]
        suffixes = (*_SUFFIXES, ".py")
        found += (Path(folder, name) for name in sorted(names) if name.endswith(suffixes))
        if len(found) + len(folders) > _MOST_CONFIGS:
            return ()
    return tuple(found)


_ENTRYPOINT = re.compile(r"^entrypoint:\s*(?:[^\n#]*[\s=])?[\"']?([\w.]+):(?:\w+\.)*(\w+)", re.M)


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def _folders(folder: Path) -> list[Path]:
    """The folders in a folder, in order; nothing if it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return sorted(folder / each.name for each in entries if each.is_dir())
    except OSError:
        return []


def _yaml_names(folder: Path) -> list[str]:
    """The names in a folder that YAML files have, in order; nothing if it cannot be listed."""
    try:
        return _listed(folder, folder.stat().st_mtime_ns)
    except OSError:
        return []


@lru_cache(maxsize=_MOST_CONFIGS)
def _listed(folder: Path, changed: int) -> list[str]:
    """The same, listed once, unless the folder has changed: one around it may have much in it."""
    return sorted(name for name in os.listdir(folder) if name.endswith(_SUFFIXES))


@lru_cache(maxsize=_MOST_CONFIGS)
def _read(file: Path, changed: int) -> ExperimentConfig | None:
    """The config in a file, None if it holds none; read once, unless the file has changed."""
    try:
        # Other YAML files are most often large, and are not worth to be understood.
        text = file.read_text(errors="replace")
        return read_config(file) if "searcher" in text else None
    except (ConfigError, OSError):
        return None


def _starts(entrypoint: Entrypoint, config: Path, path: Path, name: str) -> bool:
    """Whether an entrypoint is the trial, or a script in its file."""
    if entrypoint.trial is None:
        words = [each for word in entrypoint.argv for each in word.split()]
        if name and path.name not in words:
            return any(_brings(word, config, path, name) for word in words)
        return path.name in words or any(_is_in(path, word) for word in words)
    module, _, cls = entrypoint.trial.rpartition(":")
    if cls.rpartition(".")[2] != name:
        return False
    started = config.parent.joinpath(*module.split(".")).with_suffix(".py")
    if not started.is_file() and config.parent != path.absolute().parent.parent:
        # A folder below may hold configs for the files above it.
        started = path.absolute().parent.joinpath(*module.split(".")).with_suffix(".py")
    if not started.is_file():
        # A package may give a class of one of its modules.
        started = started.with_suffix("") / "__init__.py"
    if not started.is_file():
        # Which folder the experiment had, nobody knows: it is told by the name.
        is_below = config.parent != path.absolute().parent.parent
        file = f"{os.sep}{module.replace('.', os.sep)}.py"
        is_it = module.rpartition(".")[2] == path.stem or _is_meant(path.absolute(), name, file)
        return is_below and is_it
    # A file may import the class that it starts; one that has such a class means its own.
    return started.samefile(path) or f"class {name}" not in started.read_text(errors="replace")


def _brings(word: str, config: Path, path: Path, name: str) -> bool:
    """Whether a word of a command is a script that imports the class ``name`` of a file."""
    for folder in dict.fromkeys((config.parent, path.parent)):
        module = folder.joinpath(*word.split(".")).with_suffix(".py")
        for script in (folder / word, module):
            if script.suffix == ".py" and script.is_file():
                imported = _imported(script, script.stat().st_mtime_ns)
                return any(n == name and _is_meant(path, name, of) for of, n in imported)
    return False


@lru_cache(maxsize=_MOST_CONFIGS)
def _imported(script: Path, changed: int) -> frozenset[tuple[str, str]]:
    """The names that a script imports, each with the file of its module; read once."""
    try:
        tree = ast.parse(_text(script))
    except (SyntaxError, ValueError):
        return frozenset()
    found = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module)
    return frozenset(
        (f"{os.sep}{(node.module or '').replace('.', os.sep)}.py", alias.name)
        for node in found
        for alias in node.names
    )


def _is_in(path: Path, word: str) -> bool:
    """Whether a word of a command is the file in some folder, or its module."""
    module = f"{word.replace('.', '/')}.py"
    return any(f"{path}".endswith(f"/{each}") for each in (word.removeprefix("./"), module))


def aggregating(configs: Iterable[ExperimentConfig]) -> list[Optimizations]:
    """What those of some configs say that have the gradients of several batches aggregated.

    A script does not hear of it: it says so itself, in ``pytorch.init()``.
    """
    return [found for found in optimizations(configs) if found.aggregation_frequency != 1]


def optimizations(configs: Iterable[ExperimentConfig]) -> list[Optimizations]:
    """What those of some configs say of gradients that a trial, and not a script, hears of."""
    started = (c for c in configs if c.entrypoint is None or c.entrypoint.trial is not None)
    return [c.optimizations for c in started]


def trial_arguments(
    hparams: dict[str, Any] | None, config: str | None
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The hyperparameters and the experiment config that a trial gets; ``hparams`` win.

    A hyperparameter that is searched gets the first or lowest of its values.

    Raises:
        ConfigError: the config is not valid.
    """
    if config is None:
        return hparams or {}, None
    found = read_config(config)
    return {**_first_values(found.hyperparameters.space), **(hparams or {})}, found.raw


def _first_values(space: dict[str, Any]) -> dict[str, Any]:
    return {name: _first_value(item) for name, item in space.items()}


def _first_value(item: Any) -> Any:
    if isinstance(item, Categorical):
        return item.vals[0]
    if isinstance(item, Log):
        return float(item.base**item.minval)
    if isinstance(item, (Int, Double)):
        return item.minval
    return item.value if isinstance(item, Const) else _first_values(item)
