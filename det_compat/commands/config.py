"""``det-compat config``: what an experiment config means on this machine."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from typing import TYPE_CHECKING, Any, TextIO

from det_compat.shared.extras import how_to_install

if TYPE_CHECKING:
    from det_compat.config.document import ConfigError
    from det_compat.config.keys.explain import Row

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_STYLES = {"mapped": "green", "ignored": "yellow", "refused": "red"}


def add_parser(commands: _Commands) -> None:
    """Add ``config`` to the subcommands of ``det-compat``."""
    parser = commands.add_parser(
        "config",
        help="explain an experiment config",
        description="Explain an experiment config of PEDL or Determined 0.12 to 0.38.",
    )
    actions = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    explain = actions.add_parser(
        "explain",
        help="what every key becomes, what is ignored or refused, and why",
        description="Show what every key of an experiment config becomes on this machine, and what "
        "is ignored or refused, and why. Secrets are not shown. The exit status is 1 if the config "
        "is not valid: every error is listed with its line and column.",
    )
    explain.add_argument("config", metavar="CONFIG.yaml", help="an experiment config")
    explain.add_argument(
        "--format", choices=("table", "json"), default="table", help="table by default"
    )
    explain.set_defaults(command=_explain)


def _explain(args: argparse.Namespace) -> int:
    from det_compat.config.document import ConfigError
    from det_compat.config.keys.explain import explain
    from det_compat.config.loading import load

    is_json = args.format == "json"
    if not is_json and importlib.util.find_spec("rich") is None:
        message = f"the table needs Rich: {how_to_install('cli')}, or ask for --format json"
        print(f"det-compat: {message}", file=sys.stderr)
        return 2
    try:
        rows = explain(load(args.config))
    except ConfigError as error:
        _show_errors(error, is_json)
        return 1
    if is_json:
        _print_json(args.config, rows, [])
    else:
        _print_table(rows)
    return 0


def _show_errors(error: ConfigError, is_json: bool) -> None:
    if is_json:
        _print_json(error.file, [], [vars(problem) for problem in error.problems])
        return
    for problem in error.problems:
        print(_printable(str(problem), sys.stderr), file=sys.stderr)


def _print_json(file: str | None, rows: list[Row], errors: list[dict[str, Any]]) -> None:
    keys = [{**vars(row), "fate": row.fate.value} for row in rows]
    print(json.dumps({"file": file, "keys": keys, "errors": errors}, indent=2))


def _print_table(rows: list[Row]) -> None:
    from rich.table import Table
    from rich.text import Text

    from det_compat.config.keys.explain import value_text
    from det_compat.shared.terminal import print_table

    table = Table("line", "key", "value", "", "what it becomes, or why it does not")
    for row in rows:
        cells = (str(row.line), row.key, value_text(row.value), row.fate.value, row.becomes)
        texts = [Text(_printable(cell, sys.stdout), overflow="fold") for cell in cells]
        texts[3].stylize(_STYLES[row.fate.value])
        table.add_row(*texts)
    print_table(table)


def _printable(text: str, stream: TextIO) -> str:
    """``text`` without control characters and what the stream cannot encode."""
    visible = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    encoding = stream.encoding or "utf-8"
    return visible.encode(encoding, "backslashreplace").decode(encoding)
