"""What keeps a run from starting, told before anything is imported."""

import importlib.util
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from det_compat.config.experiment import ExperimentConfig, parse_document
from det_compat.config.loading import load
from det_compat.experiment import startup_hook
from det_compat.experiment.environment import ATTEMPT
from det_compat.experiment.errors import FitError
from det_compat.experiment.request import Request
from det_compat.script.machines import is_chief, launched
from det_compat.shared.extras import how_to_install
from det_compat.shared.importing import has_entry
from det_compat.shared.masking import MASK
from det_compat.shared.nested import map_nested

#: What the extra ``cli`` brings, and a run needs.
NEEDED = ("jsonargparse", "rich", "tensorboard")
_SCRIPTS = (".py", ".sh")
_TAKEN = {"checkpoint_storage", "entrypoint", "environment", "hyperparameters"}


def check_installed(modules: Sequence[str]) -> None:
    """Raise FitError if one of ``modules`` is missing, which the extra ``cli`` brings."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise FitError(f"{', '.join(missing)} is not installed: {how_to_install('cli')}")


def check_config(request: Request) -> ExperimentConfig:
    """The experiment config that is asked for, if it can be run here.

    What is ignored is printed, by one process of the run only.

    Raises:
        ConfigError: it is not valid.
        FitError: it asks for what cannot be done here.
    """
    assert request.config is not None
    config = as_here(parse_document(load(request.config)))
    check_asked(request, config)
    return config


def as_here(config: ExperimentConfig) -> ExperimentConfig:
    """``config``, whose run is started again only if it says so itself.

    Determined's default of 5 is for machines that fail, and not for code that does.
    """
    return config if "max_restarts" in config.given else replace(config, max_restarts=0)


def check_asked(request: Request, config: ExperimentConfig) -> None:
    """See that ``config`` can be run as ``request`` asks, and print what is ignored.

    Raises:
        FitError: it asks for what cannot be done here.
    """
    _check_search(request, config)
    check_runnable(config, request.model_dir)
    if is_chief() and ATTEMPT not in os.environ and not request.only_shows:
        _announce(config, request.model_dir)


def check_runnable(config: ExperimentConfig, model_dir: Path) -> None:
    """Raise FitError if ``config`` asks for what cannot be done here, or says not what to run.

    So does a copy of a config that has masks in place of what the run would take. Without an
    entrypoint the ``__init__.py`` of ``model_dir`` says what to run, as in PEDL.
    """
    name = config.file or "the config"
    if config.refused:
        reasons = "\n".join(f"  {key}: {why}" for key, why in config.refused.items())
        raise FitError(f"{name} asks for what cannot be done here:\n{reasons}")
    masked: list[str] = []

    def note(value: Any, where: str) -> None:
        if isinstance(value, str) and MASK in value:
            masked.append(where)

    map_nested({key: config.given[key] for key in _TAKEN & config.given.keys()}, note)
    if masked:
        raise FitError(
            f"{name} is a copy without secrets: {', '.join(masked)} has {MASK}; put the value there"
        )
    entrypoint = config.entrypoint
    if (entrypoint is None or entrypoint.is_in_package) and not has_entry(model_dir):
        raise FitError(
            f"{name} has no entrypoint: write `entrypoint: module:TrialClass`, or a command; or "
            f"import the trial class in {model_dir / '__init__.py'}, as PEDL had it"
        )
    if entrypoint is not None and entrypoint.launcher in ("deepspeed", "autodeepspeed"):
        raise FitError("entrypoint: DeepSpeed trials are not supported; use torch_distributed")
    words = () if entrypoint is None else entrypoint.argv
    script = next((word for word in words if word.endswith(_SCRIPTS)), "")
    if script and not (model_dir / script).exists() and Path(script).exists():
        raise FitError(
            f"entrypoint: there is no {script} in {model_dir}, and there is one in this folder: "
            f"name the folder of the code after the config: {config.file or 'CONFIG.yaml'} ."
        )


def _check_search(request: Request, config: ExperimentConfig) -> None:
    searched = config.hyperparameters.ranges()
    if not searched and config.searcher.name == "single":
        return
    what = (
        f"the hyperparameters {', '.join(searched)} are to be searched"
        if searched
        else f"searcher.name is {config.searcher.name}"
    )
    raise FitError(
        f"{what}: run `det-compat search {request.config or 'CONFIG.yaml'}`, or give every "
        "hyperparameter a value and set searcher.name to single"
    )


def cluster_only_notes(config: ExperimentConfig, model_dir: Path) -> list[str]:
    """What of ``config`` and its folder a cluster did before a trial, and nobody does here."""
    hook = startup_hook.note(model_dir)
    return [*([] if hook is None else [hook]), *_missing_mounts(config, model_dir)]


def _announce(config: ExperimentConfig, model_dir: Path) -> None:
    for note in (*config.notes, *cluster_only_notes(config, model_dir)):
        print(f"note: {note}", file=sys.stderr)
    if config.ignored:
        listed = "; ".join(f"{key} ({why})" for key, why in config.ignored.items())
        print(f"ignored on this machine: {listed}", file=sys.stderr)
    launcher = launched() or ("whoever has set NODE_RANK" if "NODE_RANK" in os.environ else None)
    if config.max_restarts and launcher is not None:
        print(f"max_restarts: restarts are up to {launcher}", file=sys.stderr)


def _missing_mounts(config: ExperimentConfig, model_dir: Path) -> Iterator[str]:
    """The paths that a container had, this machine has not, and a link would make."""
    for mount in config.raw.get("bind_mounts") or ():
        host, container = Path(mount["host_path"]), Path(mount["container_path"])
        # A relative path was one in the folder of the code.
        inside = model_dir.resolve() / container
        if inside.exists():
            continue
        what = f"bind_mounts: the trial expects {container}, which is not there"
        link = shlex.join(["ln", "-s", str(host), str(inside)])
        there = "" if host.exists() else f", once {host} is there"
        yield f"{what}: `{link}` would do{there}"
