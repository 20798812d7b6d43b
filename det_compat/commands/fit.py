"""``det-compat fit`` and ``det-compat validate``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from det_compat.experiment.request import ABOUT, Request, parse_request, short_help
from det_compat.script.ending import INTERRUPTED, TO_MEND
from det_compat.script.meeting import until_met
from det_compat.shared.importing import large_imports
from det_compat.shared.verbosity import verbosity

if TYPE_CHECKING:
    from det_compat.config.experiment import ExperimentConfig

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(commands: _Commands) -> None:
    """Add ``fit`` and ``validate`` to the subcommands of ``det-compat``."""
    helps = {"fit": "train as an experiment config says", "validate": "validate a checkpoint"}
    for name, text in helps.items():
        # The help of these two is Lightning's, with all its options.
        parser = commands.add_parser(
            name, help=text, description=ABOUT[name], add_help=False, prefix_chars="\0"
        )
        parser.set_defaults(command=_command, name=name)


def split(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """A command line of ``det-compat``, and what of it ``fit`` or ``validate`` read themselves."""
    return (argv[:1], argv[1:]) if argv[:1] in (["fit"], ["validate"]) else (argv, [])


def _command(args: argparse.Namespace) -> int:
    from det_compat.config.document import ConfigError
    from det_compat.experiment.errors import FitError

    try:
        request = parse_request(args.name, args.script_args)
        with verbosity(quiet=request.quiet, level=request.log_level):
            return run(request) if request.only_shows else until_met(lambda: run(request))
    except ConfigError as error:
        print(error, file=sys.stderr)
    except FitError as error:
        print(f"det-compat: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        # It came before training, or after it: what is trained ends by itself.
        print("det-compat: interrupted", file=sys.stderr)
        return INTERRUPTED
    return TO_MEND


def run(request: Request) -> int:
    """Do what is asked for; the exit status.

    Raises:
        ConfigError: the experiment config is not valid.
        FitError: there is something else for the user to mend.
    """
    if request.asks_for_help:
        print(short_help(request.command))
        return 0
    from det_compat.experiment.checks import NEEDED, check_config, check_installed
    from det_compat.experiment.processes.supervisor import run_supervised, wants_supervisor
    from det_compat.experiment.processes.tracker import check_tracking
    from det_compat.experiment.script import run_script
    from det_compat.experiment.startup_hook import run_first

    check_installed(NEEDED)
    check_tracking(request.tracking)
    if request.startup_hook and not request.only_shows:
        run_first(request)
    if request.config is None:
        return _run_cli(request, None)
    config = check_config(request)
    if config.entrypoint is not None and config.entrypoint.is_command:
        return run_script(request, config)
    if wants_supervisor(request, config):
        return run_supervised(request, config)
    return _run_cli(request, config)


def _run_cli(request: Request, config: ExperimentConfig | None) -> int:
    from det_compat.alias import alias_determined
    from det_compat.experiment.environment import set_environment
    from det_compat.experiment.processes.launched_ranks import follow_chief
    from det_compat.script.machines import tell_tasks_per_node

    follow_chief()
    tell_tasks_per_node()
    if config is not None:
        # This comes before the import of torch, which reads some of the variables.
        set_environment(config)
    sys.path.insert(0, str(request.model_dir.resolve()))
    alias_determined()
    with large_imports("det_compat.adapters.experiment.cli", before_users=True):
        from det_compat.adapters.experiment.cli import run_cli

    run_cli(request, config)
    return 0


__all__ = ["add_parser", "run", "split"]
