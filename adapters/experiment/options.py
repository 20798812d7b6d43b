"""What ``det-compat fit`` and ``validate`` can be told: Lightning's options over the config's.

The options are those of LightningCLI (of Lightning 2.6.6) without optimizers and schedulers, which
are the trial's own. LightningCLI itself seeds, builds the module and chooses the Trainer's logger
before an experiment has its run directory, so it is jsonargparse that parses here.
"""

import logging
import math
import os
import re
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import yaml
from jsonargparse import (  # type: ignore[attr-defined]  # it fills __all__ while it is imported
    ActionConfigFile,
    Namespace,
)
from jsonargparse.typing import register_type

from det_compat.adapters.experiment.trainer import trainer_flags
from det_compat.adapters.jsonargparse_types import plain, to_write
from det_compat.adapters.lightning.package import MODULE, PACKAGE, VERSION, pl
from det_compat.adapters.module import TrialModule
from det_compat.config.experiment import ExperimentConfig, parse_config
from det_compat.experiment import hyperparameters
from det_compat.experiment.request import ABOUT, HELP_ALL, OWN, OWN_OPTIONS, USAGE, Request
from det_compat.script.machines import is_chief
from det_compat.shared.spelling import did_you_mean

if TYPE_CHECKING:
    from pytorch_lightning.cli import LightningArgumentParser
else:
    LightningArgumentParser = import_module(f"{MODULE}.cli").LightningArgumentParser

logger = logging.getLogger("det_compat")

_DATA = {"train_dataloaders", "val_dataloaders", "dataloaders", "datamodule"}
_PRINT = "--print_config"
_PATHS = ("ckpt_path", "default_root_dir", "dirpath", "root_dir", "save_dir")


class OptionsParser(LightningArgumentParser):
    """LightningCLI's parser, which says what an unknown option may have been meant for."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        # Versions of jsonargparse write its first letter in either way.
        if unknown := re.search(r"nrecognized arguments: (--[^\s=]+)", message):
            own = [words.partition(" ")[0] for words in OWN_OPTIONS]
            message += did_you_mean(unknown[1], [*own, *self._option_string_actions])
        super().error(message, ex)


def options_parser(request: Request, experiment: ExperimentConfig | None) -> OptionsParser:
    """The options of Trainer, module and data, and of the Trainer's method, without defaults."""
    command = request.command
    parser = OptionsParser(
        prog=f"det-compat {command}",
        usage=USAGE.format(command=command),
        description=f"{ABOUT[command]}\n\n{OWN}",
        dump_header=[f"{PACKAGE}=={VERSION}"],
    )
    about = "Path to a configuration file in json or yaml format."
    parser.add_argument("-c", "--config", action=ActionConfigFile, help=about)
    about = (
        "Set to an int to seed everything with it before classes are instantiated; True draws one."
    )
    parser.add_argument("--seed_everything", type=bool | int, default=False, help=about)
    parser.add_lightning_class_args(pl.Trainer, "trainer")
    if experiment is None:
        parser.add_lightning_class_args(TrialModule, "model")
    else:
        parser.add_function_arguments(
            with_changes, "model", skip={"config", "hparams", "seed"}, fail_untyped=False
        )
        about = "The trial's hyperparameters, over those of the config."
        parser.add_argument("--model.hparams", type=Hyperparameters, enable_path=True, help=about)
    data = pl.LightningDataModule
    parser.add_lightning_class_args(data, "data", subclass_mode=True, required=False)
    parser.add_method_arguments(pl.Trainer, command, skip={"model", *_DATA})
    return parser


def config_defaults(experiment: ExperimentConfig) -> dict[str, Any]:
    """What the options of ``options_parser`` are where nobody gives them."""
    entrypoint = experiment.entrypoint
    return {
        "model.trial_cls": None if entrypoint is None else entrypoint.trial,
        "model.hparams": Hyperparameters(experiment.hyperparameters.constants()),
        "model.aggregation_frequency": experiment.optimizations.aggregation_frequency,
        "seed_everything": False if experiment.seed is None else experiment.seed,
        **{f"trainer.{name}": value for name, value in trainer_flags(experiment).items()},
    }


class Hyperparameters:
    """Hyperparameters that jsonargparse passes on and does not look into."""

    def __init__(self, values: Any) -> None:
        if not isinstance(values, dict):
            raise ValueError("expected a mapping")
        self.values: dict[str, Any] = values


register_type(Hyperparameters, lambda hparams: to_write(hparams.values))


def parsed_options(
    parser: OptionsParser, request: Request, constants: dict[str, Any] | None = None
) -> Namespace:
    """The options. Typed hyperparameters go over those of files, and these over the config's.

    Args:
        parser: the parser.
        request: what was asked for.
        constants: the hyperparameters of the config; None without one.

    Raises:
        FitError: a typed hyperparameter is none.
        SystemExit: options are wrong, or they were to be shown.
    """
    words, typed = hyperparameters.take_out(request.options)
    words = ["--help" if word == HELP_ALL else word for word in words]
    parsed = [word for word in words if word.partition("=")[0] != _PRINT]
    options = parser.parse_args(parsed)
    given = options.model.hparams
    values = given.values if isinstance(given, Hyperparameters) else plain(given)
    if typed or constants or values:
        values = hyperparameters.merged(constants or {}, values or {})
        values = hyperparameters.with_typed(values, typed)
    if parsed != words:
        flow = yaml.safe_dump(to_write(values), default_flow_style=True, width=math.inf)
        parser.parse_args([*words, hyperparameters.OPTION, flow])
    options.model.hparams = values if constants is None else Hyperparameters(values)
    return options


def with_changes(
    config: ExperimentConfig,
    trial_cls: str | None = None,
    hparams: dict[str, Any] | None = None,
    aggregation_frequency: int | None = None,
    seed: int | None = None,
) -> ExperimentConfig:
    """What of an experiment config can be given as an option.

    Args:
        config: the config, which stays as it is.
        trial_cls: the trial class, ``module:Class``.
        hparams: the trial's hyperparameters.
        aggregation_frequency: batches over which gradients are accumulated.
        seed: the seed of the experiment.

    Returns:
        The config with what was given in place of its own.

    Raises:
        ConfigError: it would not be valid.
    """
    given = dict(config.given)
    own = None if config.entrypoint is None else config.entrypoint.trial
    if trial_cls is not None and trial_cls != own:
        given["entrypoint"] = trial_cls
        given.pop("entrypoints", None)
    if hparams is not None and hparams != config.hyperparameters.constants():
        _name_mistyped(hparams, config)
        given["hyperparameters"] = {name: _constant(value) for name, value in hparams.items()}
    if aggregation_frequency not in (None, config.optimizations.aggregation_frequency):
        optimizations = given.get("optimizations", {})
        given["optimizations"] = {**optimizations, "aggregation_frequency": aggregation_frequency}
    if seed not in (None, config.seed):
        given["reproducibility"] = {"experiment_seed": seed}
    if given == config.given:
        return config
    changed = parse_config(given)
    return replace(changed, file=config.file, max_restarts=config.max_restarts)


def _name_mistyped(hparams: dict[str, Any], config: ExperimentConfig) -> None:
    """Warn of hyperparameters that are new, and have nearly the name of one of the config.

    Trials may read hyperparameters that the config does not have.
    """
    known = config.hyperparameters.constants()
    for name in hparams.keys() - known.keys() if is_chief() else ():
        if meant := did_you_mean(name, known):
            logger.warning(f"the config has no hyperparameter {name}, which is set{meant}")


def _constant(value: Any) -> Any:
    if isinstance(value, dict) and value:
        return {name: _constant(item) for name, item in value.items()}
    return {"type": "const", "val": value}


def make_paths_absolute(options: Any) -> None:
    """Make the directories and checkpoints that ``options`` name independent of where we are.

    The trial is trained in its MODEL_DIR, and relative paths mean the folder that the command was
    started in. Checkpoints that are no file or directory here, such as ``last``, and URLs stay as
    they are.
    """
    if isinstance(options, list):
        for item in options:
            make_paths_absolute(item)
    elif isinstance(options, (Namespace, dict)):
        names = vars(options) if isinstance(options, Namespace) else options
        for name, value in names.items():
            if name in _PATHS and isinstance(value, str):
                names[name] = os.path.abspath(value) if _is_path(name, value) else value
            else:
                make_paths_absolute(value)


def _is_path(name: str, value: str) -> bool:
    return os.path.exists(value) if name == "ckpt_path" else "://" not in value
