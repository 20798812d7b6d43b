"""``det-compat check``."""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from det_compat.check.report import Report

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_EPILOG = """\
exit status: 0 if everything works, be it differently; 1 if something is refused, unknown, decided
at run time or could not be read, or there was nothing to check; 2 if the command line is wrong
"""


def add_parser(commands: _Commands) -> None:
    """Add ``check`` to the subcommands of ``det-compat``."""
    parser = commands.add_parser(
        "check",
        help="list every reference to Determined, and whether it works",
        description="List every reference to Determined in Python files, notebooks and experiment "
        "configs, and whether it works under det_compat. Nothing is imported or run.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a directory or file")
    parser.add_argument("--format", choices=("text", "json", "github"), default="text")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="list what works as it is, too"
    )
    parser.set_defaults(command=_command)


def _command(args: argparse.Namespace) -> int:
    # The other subcommands do without this import.
    from det_compat.check.checker import check

    # The collector would visit millions of objects of syntax trees, which live until the end.
    gc.disable()
    report = check(args.paths)
    try:
        with _any_characters():
            _show(report, args)
    except ImportError as error:
        print(f"det-compat: {error}", file=sys.stderr)
        return 2
    return 0 if report.works else 1


@contextlib.contextmanager
def _any_characters() -> Iterator[None]:
    """Let names of files be printed where standard output has no such characters."""
    stream = sys.stdout
    if not isinstance(stream, io.TextIOWrapper):
        yield
        return
    errors = stream.errors
    stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        stream.reconfigure(errors=errors)


def _show(report: Report, args: argparse.Namespace) -> None:
    from det_compat.check.report import as_annotations, as_json, print_text

    if args.format == "text":
        print_text(report, args.verbose)
    elif shown := as_json(report) if args.format == "json" else as_annotations(report):
        print(shown)
