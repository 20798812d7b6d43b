"""``det-compat fit`` and ``validate``: LightningCLI, with the experiment config as defaults."""

from __future__ import annotations

import logging
import signal
import traceback
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import yaml
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning.cli import ArgsType, LightningArgumentParser, LightningCLI

from det_compat import LOG_FORMAT
from det_compat.adapters.experiment.module import ExperimentModule
from det_compat.adapters.experiment.option_paths import make_paths_absolute
from det_compat.adapters.experiment.report import ExperimentReport
from det_compat.adapters.experiment.run import experiment_module, with_changes
from det_compat.adapters.experiment.trainer import (
    check_devices,
    default_logger,
    profiler_of,
    trainer_flags,
)
from det_compat.adapters.lightning.strategy import callbacks_of
from det_compat.adapters.module import TrialModule
from det_compat.config.experiment import ExperimentConfig
from det_compat.errors import (
    CheckpointWriteError,
    InvalidCheckpointException,
    InvalidExperimentException,
    InvalidHP,
)
from det_compat.fit.checkpoints import checkpoints_of
from det_compat.fit.environment import is_chief
from det_compat.fit.errors import FitError
from det_compat.fit.request import ABOUT, OWN, USAGE, Request
from det_compat.fit.run_start import RunStart, begin, run_to_validate
from det_compat.shared.masking import without_secrets

_COMMANDS = ("fit", "validate")


def run_cli(request: Request, experiment: ExperimentConfig | None) -> None:
    """Parse Lightning's options, and fit or validate.

    Raises:
        FitError: there is something for the user to mend.
        SystemExit: options are wrong, help was asked for, or the run was told to end.
    """
    try:
        if experiment is None:
            TrialCLI(request)
        else:
            ExperimentCLI(request, experiment)
    except (InvalidExperimentException, InvalidCheckpointException) as error:
        if _is_from(request.model_dir, error):
            raise
        raise FitError(str(error)) from error
    except CheckpointWriteError as error:
        raise FitError(str(error)) from error
    except InvalidHP as error:
        raise FitError(f"the trial refuses its hyperparameters: InvalidHP({error})") from error


def _is_from(folder: Path, error: BaseException) -> bool:
    """Whether code in ``folder`` has a part in ``error``."""
    frames = traceback.extract_tb(error.__traceback__)
    return any(folder.resolve() in Path(frame.filename).resolve().parents for frame in frames)


class TrialCLI(LightningCLI):
    """LightningCLI for a trial class, without an experiment config."""

    def __init__(self, request: Request, model_class: Any = TrialModule) -> None:
        self.request = request
        name = request.command
        about = {
            "usage": USAGE.format(command=name),
            "description": f"{ABOUT[name]}\n\n{OWN}",
        }
        super().__init__(
            model_class,
            save_config_callback=None,
            seed_everything_default=False,
            parser_kwargs={"prog": "det-compat", name: about},
            auto_configure_optimizers=False,
            load_from_checkpoint_support=False,
        )

    @staticmethod
    def subcommands() -> dict[str, set[str]]:
        return {name: LightningCLI.subcommands()[name] for name in _COMMANDS}

    def parse_arguments(self, parser: LightningArgumentParser, args: ArgsType) -> None:
        # the process's own arguments, which Lightning would warn of, are the same
        self.config = parser.parse_args([self.request.command, *self.request.options])


class ExperimentOptions(pl.LightningModule):
    """What of an experiment config can be given as an option.

    Args:
        trial_cls: the trial class, ``module:Class``.
        hparams: the trial's hyperparameters.
        aggregation_frequency: batches over which gradients are accumulated.
    """

    def __init__(
        self,
        trial_cls: str,
        hparams: dict[str, Any] | None = None,
        aggregation_frequency: int = 1,
    ) -> None:
        super().__init__()


class ExperimentCLI(TrialCLI):
    """LightningCLI whose defaults are those of an experiment config."""

    def __init__(self, request: Request, experiment: ExperimentConfig) -> None:
        self.experiment = experiment
        self.place: RunStart | None = None
        super().__init__(request, ExperimentOptions)

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        config = self.experiment
        assert config.entrypoint is not None
        flags = trainer_flags(config)
        parser.set_defaults(
            {
                "model.trial_cls": config.entrypoint.trial,
                "model.hparams": config.hyperparameters.constants(),
                "model.aggregation_frequency": config.optimizations.aggregation_frequency,
                "seed_everything": False if config.seed is None else config.seed,
                **{f"trainer.{name}": value for name, value in flags.items()},
            }
        )

    def _set_seed(self) -> None:
        """Nothing: the trial is seeded when it is built."""

    def before_instantiate_classes(self) -> None:
        options = self.config[self.request.command]
        make_paths_absolute(options)
        seed = options.seed_everything
        self.experiment = with_changes(
            self.experiment,
            trial=options.model.trial_cls,
            hparams=options.model.hparams,
            aggregation_frequency=options.model.aggregation_frequency,
            seed=None if isinstance(seed, bool) else seed,
        )
        check_devices(self.experiment, options.trainer.devices, self.request.again())
        _set_up_logging(self.experiment)
        self._module = experiment_module(self.experiment, self.request.model_dir, None)
        if self.request.command == "validate":
            self.place = run_to_validate(self.request, self.experiment)
        elif is_chief():
            self.place = begin(self.request, self.experiment)
            self._save_options()
        self._module.place = self.place

    def _save_options(self) -> None:
        assert self.place is not None
        options = self._parser("fit").dump(self.config["fit"], skip_none=False)
        shown = yaml.safe_dump(without_secrets(yaml.safe_load(options)), sort_keys=False)
        (self.place.folder.path / "lightning.yaml").write_text(shown, "utf-8")

    def instantiate_classes(self) -> None:
        super().instantiate_classes()
        self.model = self._module

    def instantiate_trainer(self, **kwargs: Any) -> pl.Trainer:
        given = self._get(self.config_init, "trainer")
        folder = None if self.place is None else self.place.folder
        if given.logger is None or given.logger is True:
            kwargs["logger"] = default_logger(folder) if self.request.command == "fit" else False
        if given.profiler is None:
            kwargs["profiler"] = profiler_of(self.experiment.profiling, folder)
        try:
            return super().instantiate_trainer(**kwargs)
        except (MisconfigurationException, TypeError, ValueError) as error:
            raise FitError(f"the Trainer does not take its options: {error}") from error

    def fit(self, model: ExperimentModule, **kwargs: Any) -> None:
        """Train, and report."""
        resuming = None if self.place is None else self.request.resuming(self.place.folder.path)
        report = ExperimentReport(model, resuming)
        callbacks_of(self.trainer).append(report)
        try:
            self.trainer.fit(model, **kwargs)
        except SystemExit as error:
            if resuming:
                print(f"resume it by: {resuming}", flush=True)
            if isinstance(error.__context__, KeyboardInterrupt):
                raise SystemExit(128 + signal.SIGINT) from None
            raise
        if self.trainer.is_global_zero:
            report.print_result()

    def validate(self, model: ExperimentModule, **kwargs: Any) -> None:
        """Validate; Lightning prints the metrics."""
        assert self.place is not None
        latest = self.place.latest_checkpoint
        if latest is not None and kwargs.get("ckpt_path") is None:
            found = checkpoints_of(self.experiment.checkpoint_storage, self.place.folder).find(
                latest
            )
            print(f"validating checkpoint {latest}, after batch {self.place.steps_completed}")
            kwargs["ckpt_path"] = str(found)
        self.trainer.validate(model, **kwargs)


def _set_up_logging(config: ExperimentConfig) -> None:
    """As on a cluster, but for the reports of metrics, which the progress bar shows."""
    logging.basicConfig(format=LOG_FORMAT, level=logging.DEBUG if config.debug else logging.INFO)
    if not config.debug:
        logging.getLogger("determined").setLevel(logging.WARNING)
