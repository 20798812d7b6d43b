"""``det-compat completion``: a script by which a shell completes the command's words."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from det_compat.script.ending import TO_MEND
from det_compat.shared.extras import how_to_install

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_SHELLS = ("bash", "zsh")
# What arguments are called that name a file or a folder.
_FILES = {"CONFIG.yaml", "FILE", "OUT", "OLD.py:Trial", "NEW.py:Module", "PATH", "SCRIPT"}
_FOLDERS = {"DIR", "FOLDER", "MODEL_DIR"}


def add_parser(commands: _Commands) -> None:
    """Add ``completion`` to the subcommands of ``det-compat``."""
    parser = commands.add_parser(
        "completion",
        help="print a script for completion by TAB",
        description="Print a script by which a shell completes commands, options and files. For "
        "bash: det-compat completion bash > ~/.local/share/bash-completion/completions/det-compat. "
        "For zsh, a file _det-compat in a folder of $fpath.",
    )
    parser.add_argument("shell", choices=_SHELLS)
    parser.set_defaults(command=_command)


def _command(args: argparse.Namespace) -> int:
    if importlib.util.find_spec("shtab") is None:
        print(
            f"det-compat: completion needs shtab: {how_to_install('completion')}", file=sys.stderr
        )
        return TO_MEND
    parser: argparse.ArgumentParser = args.parser
    shtab = importlib.import_module("shtab")
    _describe(
        parser, {**dict.fromkeys(_FILES, shtab.FILE), **dict.fromkeys(_FOLDERS, shtab.DIRECTORY)}
    )
    print(shtab.complete(parser, shell=args.shell))
    return 0


def _describe(parser: argparse.ArgumentParser, kinds: Mapping[str, Any]) -> None:
    """Say of every argument below ``parser`` whether it is a file, and add what ``fit`` takes."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                if name in ("fit", "validate"):
                    inner = action.choices[name] = _of_fit(name)
                _describe(inner, kinds)
        elif not action.choices and (kind := kinds.get(str(action.metavar or action.dest))):
            action.complete = kind  # type: ignore[attr-defined]  # which shtab reads


def _of_fit(name: str) -> argparse.ArgumentParser:
    """The options of ``fit`` that its short help has, as a parser of argparse."""
    from det_compat.experiment.request import OWN_OPTIONS, USUAL

    parser = argparse.ArgumentParser(prog=f"det-compat {name}", add_help=True)
    parser.add_argument("config", metavar="CONFIG.yaml")
    parser.add_argument("model_dir", metavar="MODEL_DIR")
    for words, about in {**OWN_OPTIONS, **USUAL}.items():
        option, _, value = words.partition(" ")
        if option.endswith("NAME"):
            continue
        if value:
            parser.add_argument(option, metavar=value, help=about)
        else:
            parser.add_argument(option, action="store_true", help=about)
    return parser
