"""The ``det-compat`` command; each subcommand is a module with an ``add_parser``."""

from __future__ import annotations

import argparse
import logging
import re
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn

from det_compat import LOG_FORMAT, __version__
from det_compat.commands import (
    check,
    checkpoint,
    completion,
    config,
    fit,
    init,
    migrate,
    run,
    runs,
    search,
    verify,
)
from det_compat.script.run import split as split_run
from det_compat.shared.own_process import claim_process, outlive_readers
from det_compat.shared.spelling import did_you_mean
from det_compat.shared.verbosity import LEVELS, verbosity

#: Scripts have options of their own; ``fit`` and ``validate`` read theirs.
_WITH_THEIR_OWN = ("run", "fit", "validate")
#: A script does as under ``python``, and who follows the log of a run has nothing else to do.
_END_WITH_READERS = ("run", "runs")
_COMMANDS = (run, fit, init, check, migrate, verify, checkpoint, config, search, runs, completion)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv``, the process's own by default, and return the exit status."""
    words = sys.argv[1:] if argv is None else list(argv)
    if argv is None:
        claim_process()
        if words[:1] not in ([name] for name in _END_WITH_READERS):
            outlive_readers()
    split = fit.split if words[:1] in (["fit"], ["validate"]) else split_run
    own, script_args = split(words)
    parser = whole_parser()
    args = parser.parse_args(own, argparse.Namespace(script_args=script_args, parser=parser))
    quiet, level = getattr(args, "quiet", False), getattr(args, "log_level", None)
    if level is not None:
        logging.basicConfig(format=LOG_FORMAT)
    with verbosity(quiet=quiet, level=level):
        status: int = args.command(args)
    return status


class _Parser(argparse.ArgumentParser):
    """Says which word may have been meant; Python 3.14 does that by itself for choices."""

    def error(self, message: str) -> NoReturn:
        found = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)
        if found is not None and "did you mean" not in message:
            known = [word.strip("'") for word in found[2].split(", ")]
            message += did_you_mean(found[1], known)
        unknown = re.search(r"unrecognized arguments: (--[\w-]+)", message)
        if unknown is not None:
            options = {option for leaf in _leaves(self) for option in leaf.options()}
            message += did_you_mean(unknown[1], options)
        super().error(message)

    def options(self) -> list[str]:
        """Its long options."""
        return [word for action in self._actions for word in action.option_strings if len(word) > 2]

    def inner(self) -> list[_Parser]:
        """The parsers of its own subcommands."""
        groups = (one for one in self._actions if isinstance(one, argparse._SubParsersAction))
        return [parser for group in groups for parser in group.choices.values()]


def _leaves(parser: _Parser) -> Iterator[_Parser]:
    """A parser and all below it."""
    yield parser
    for inner in parser.inner():
        yield from _leaves(inner)


def whole_parser() -> _Parser:
    """The parser of all commands."""
    parser = _Parser(
        prog="det-compat",
        description="Run Determined AI's PyTorchTrial code on PyTorch Lightning.",
    )
    parser.add_argument("--version", action="version", version=f"det-compat {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(commands)
    for name, whole in commands.choices.items():
        if name not in _WITH_THEIR_OWN:
            for leaf in _leaves(whole):
                _add_verbosity(leaf)
    return parser


def _add_verbosity(parser: argparse.ArgumentParser) -> None:
    about = "print nothing but warnings and errors"
    parser.add_argument("--quiet", action="store_true", default=argparse.SUPPRESS, help=about)
    about = "of what is logged on standard error"
    parser.add_argument("--log-level", choices=LEVELS, default=argparse.SUPPRESS, help=about)
