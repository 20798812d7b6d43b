"""The ``det-compat`` command; each subcommand is a module with an ``add_parser``."""

import argparse
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from det_compat import __version__
from det_compat.commands import (
    check,
    checkpoint,
    config,
    fit,
    init,
    migrate,
    runs,
    search,
    verify,
)
from det_compat.script import run
from det_compat.shared.own_process import claim_process
from det_compat.shared.spelling import did_you_mean

_COMMANDS = (run, fit, init, check, migrate, verify, checkpoint, config, search, runs)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv``, the process's own by default, and return the exit status."""
    if argv is None:
        claim_process()
    words = sys.argv[1:] if argv is None else list(argv)
    split = fit.split if words[:1] in (["fit"], ["validate"]) else run.split
    own, script_args = split(words)
    args = _parser().parse_args(own, argparse.Namespace(script_args=script_args))
    status: int = args.command(args)
    return status


class _Parser(argparse.ArgumentParser):
    """Says which word may have been meant; Python 3.14 does that by itself."""

    def error(self, message: str) -> NoReturn:
        found = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)
        if found is not None:
            known = [word.strip("'") for word in found[2].split(", ")]
            message += did_you_mean(found[1], known)
        super().error(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="det-compat",
        description="Run Determined AI's PyTorchTrial code on PyTorch Lightning.",
    )
    parser.add_argument("--version", action="version", version=f"det-compat {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(commands)
    return parser
