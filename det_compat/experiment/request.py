"""The command line of ``det-compat fit`` and ``validate``: what is theirs, what Lightning's."""

import argparse
import itertools
import shlex
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from det_compat.experiment.errors import FitError
from det_compat.shared.verbosity import LEVELS

USAGE = """det-compat {command} CONFIG.yaml [MODEL_DIR] [--run_dir DIR] [--resume] [--startup-hook]
                      [--tracking mlflow[:URI]] [OPTIONS...]
       det-compat {command} --model.trial_cls MODULE:CLASS [OPTIONS...]"""

ABOUT = {
    "fit": "Train as an experiment config of Determined says, with every option of Lightning on "
    "top; or train a trial class without a config.",
    "validate": "Validate a checkpoint of a run (--resume: the latest one), or the one at "
    "--ckpt_path.",
}

OWN = """CONFIG.yaml: an experiment config of PEDL or Determined 0.12 to 0.38.
MODEL_DIR: where its entrypoint is imported from; by default the config's folder.
--run_dir DIR: where results go; by default runs/NAME/NNN, the next number.
--resume: go on from the latest checkpoint of the run directory, by default the latest of that name.
--tracking mlflow[:URI]: send what is reported to MLflow; by default to MLFLOW_TRACKING_URI, else
to runs/mlflow.db. A run that goes on is sent on; --tracking none sends nothing.
--startup-hook: first source startup-hook.sh of MODEL_DIR, as a cluster did before each trial.
--quiet: print nothing but warnings and errors; --log-level debug, info, warning or error.
All else goes to Lightning, relative paths from here: --trainer.devices 2 --trainer.strategy ddp
--model.hparams.lr 0.1 --config lightning.yaml --print_config. See also `det-compat config explain`.
"""

#: The options that are not Lightning's, as in OWN.
OWN_OPTIONS = {
    "--run_dir DIR": "where results go",
    "--resume": "go on from the latest checkpoint",
    "--startup-hook": "first source startup-hook.sh",
    "--quiet": "print nothing but warnings and errors",
    "--log-level LEVEL": "debug, info, warning or error",
    "--help-all": "all options",
}

#: What people give of Lightning's options, each with what it says.
USUAL = {
    "--model.hparams.NAME VALUE": "a hyperparameter, over the config's",
    "--trainer.max_epochs N": "how long to train, in place of the config's length",
    "--trainer.devices N": "processes that train; by default the config's slots",
    "--trainer.accelerator cpu": "or gpu, and others; by default what is there",
    "--trainer.strategy ddp": "how several devices work together",
    "--trainer.num_nodes N": "machines",
    "--trainer.precision 16-mixed": "or bf16-mixed, and others",
    "--trainer.limit_train_batches N": "of an epoch: an int, or a share such as 0.1",
    "--trainer.logger CLASS": "such as CSVLogger; by default TensorBoardLogger",
    "--trainer.callbacks+ CLASS": "a callback of Lightning's or your own",
    "--trainer.enable_progress_bar false": "print no bar",
    "--seed_everything N": "the seed of the run",
    "--ckpt_path DIR": "a checkpoint to begin with",
    "--config FILE": "options in YAML",
    "--print_config": "print all options, and run nothing",
}

#: The option for the help of all options.
HELP_ALL = "--help-all"
_SILENT = ("-h", "--help", HELP_ALL, "--print_config", "--print_shtab")


@dataclass(frozen=True)
class Request:
    """What was asked for; ``options`` are Lightning's.

    ``beside`` are the arguments of ``det_compat.fit`` that no option can say.
    """

    command: str
    config: str | None
    model_dir: Path
    run_dir: Path | None
    resume: bool
    options: tuple[str, ...]
    startup_hook: bool = False
    beside: tuple[str, ...] = ()
    quiet: bool = False
    log_level: str | None = None
    tracking: str | None = None

    @property
    def only_shows(self) -> bool:
        """Whether nothing is to be run."""
        return any(option.partition("=")[0] in _SILENT for option in self.options)

    @property
    def asks_for_help(self) -> bool:
        """Whether the short help is asked for; ``--help-all`` is Lightning's."""
        return any(option in ("-h", "--help") for option in self.options)

    def words(self) -> list[str]:
        """This command's words, from its name on, without the startup hook."""
        words = [self.command, *self.own_words()]
        if self.config is not None:
            words += [self.config, str(self.model_dir)]
        if self.run_dir is not None:
            words += ["--run_dir", str(self.run_dir)]
        resume = ["--resume"] if self.resume else []
        return [*words, *resume, *self._tracking_words(), *self.options]

    def own_words(self) -> list[str]:
        """The words that say how much is printed."""
        level = ["--log-level", self.log_level] if self.log_level else []
        return [*(["--quiet"] if self.quiet else []), *level]

    def again(self, *own: str) -> str:
        """This command, with options of its own."""
        words = ["det-compat", self.command, *filter(None, [self.config])]
        if self.config is not None and self.model_dir != Path(self.config).parent:
            words.append(str(self.model_dir))
        return shlex.join([*words, *own, *self._tracking_words(), *self.options])

    def _tracking_words(self) -> list[str]:
        return [] if self.tracking is None else ["--tracking", self.tracking]

    def resuming(self, run_dir: Path) -> str:
        """The command that goes on with the run in ``run_dir``, which has a copy of its config."""
        config = self.config or str(run_dir / "config.yaml")
        command = replace(self, config=config).again("--run_dir", str(run_dir), "--resume")
        more = f"  # and {', '.join(self.beside)} of det_compat.fit()" if self.beside else ""
        return f"{command}{more}"


def parse_request(command: str, argv: Sequence[str]) -> Request:
    """What ``argv``, without the name of the command, asks for.

    Raises:
        FitError: it contradicts itself, or MODEL_DIR is no directory.
    """
    own, rest = _own_options(argv)
    paths = list(itertools.takewhile(lambda word: not word.startswith("-"), rest))
    options = rest[len(paths) :]
    if len(paths) > 2:
        raise FitError(f"expected CONFIG.yaml [MODEL_DIR], got {shlex.join(paths)}")
    config = paths[0] if paths else None
    if config is None and (own.resume or own.run_dir):
        raise FitError("--resume and --run_dir go with an experiment config: give CONFIG.yaml")
    if own.tracking is not None and (config is None or command != "fit"):
        raise FitError("--tracking goes with `fit` and an experiment config: give CONFIG.yaml")
    model_dir = Path(paths[1] if len(paths) > 1 else Path(config or "").parent)
    if len(paths) > 1 and not model_dir.is_dir():
        raise FitError(
            f"MODEL_DIR {paths[1]!r} is no directory: the entrypoint is imported from it"
        )
    run_dir = Path(own.run_dir) if own.run_dir else None
    return Request(
        command,
        config,
        model_dir,
        run_dir,
        own.resume,
        tuple(options),
        own.startup_hook,
        quiet=own.quiet,
        log_level=own.log_level,
        tracking=own.tracking,
    )


def short_help(command: str) -> str:
    """What ``--help`` prints: what is this command's own, and what is used most of Lightning's."""
    width = min(shutil.get_terminal_size((100, 24)).columns, 100)
    own = "\n".join(_filled(line, width) for line in OWN.splitlines())
    usual = "\n".join(_entry(option, about, width) for option, about in USUAL.items())
    return (
        f"usage: {USAGE.format(command=command)}\n\n{_filled(ABOUT[command], width)}\n\n{own}\n\n"
        f"What is used most:\n{usual}\n\n`det-compat {command} --help-all` has all options."
    )


def _filled(text: str, width: int) -> str:
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def _entry(option: str, about: str, width: int) -> str:
    line = f"  {option:<38}{about}"
    return line if len(line) <= width else f"  {option}\n      {about}"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise FitError(message)


def _own_options(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--run_dir", "--run-dir", metavar="DIR")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--tracking", metavar="mlflow[:URI]")
    parser.add_argument("--startup-hook", "--startup_hook", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--log-level", "--log_level", choices=LEVELS)
    return parser.parse_known_args(list(argv))
