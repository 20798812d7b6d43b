"""``det-compat checkpoint``: show, convert and export checkpoints."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from det_compat.errors import InvalidCheckpointException

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_EXPORT_EPILOG = """\
With one model the file is OUT. With several, OUT gets the number of the model before its suffix:
weights.pt becomes weights.0.pt, weights.1.pt, in the order in which the trial wrapped them.
Models without weights, such as losses, have no file."""


def add_parser(commands: _Commands) -> None:
    """Add ``checkpoint`` to the subcommands of ``det-compat``."""
    parser = commands.add_parser(
        "checkpoint",
        help="show, convert or export a checkpoint",
        description="Read checkpoints of Determined 0.12 to 0.38.1, of PEDL and of det_compat. No "
        "code from them is run without --trust.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    _add_show(actions)
    _add_convert(actions)
    _add_export(actions)


def _add_show(actions: _Commands) -> None:
    parser = actions.add_parser(
        "show",
        help="say what is in a checkpoint, and whether it is safe to load",
        description="Say what is in a checkpoint, and whether it is safe to load. Nothing of it is "
        "run. Secrets of the experiment config are not shown.",
    )
    _add_source(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.set_defaults(command=_reporting(_show))


def _add_convert(actions: _Commands) -> None:
    parser = actions.add_parser(
        "convert",
        help="write a Lightning checkpoint, without the trial's code",
        description="Write a Lightning checkpoint from a Determined checkpoint directory; the "
        "trial's code is not needed. Secrets of the experiment config are left out.",
    )
    parser.add_argument("source", metavar="DIR", type=Path, help="a Determined checkpoint")
    parser.add_argument("target", metavar="OUT.ckpt", type=Path, help="the file to write")
    parser.add_argument(
        "--for",
        dest="module",
        metavar="FILE.py:Module",
        help="a migrated LightningModule that is to load it, of which one is made; without this, "
        "the checkpoint is for the module that to_lightning() makes of the trial",
    )
    parser.add_argument(
        "--hparams", help="for --for: hyperparameters that the checkpoint lacks, a JSON object"
    )
    _add_switches(parser)
    parser.set_defaults(command=_reporting(_convert))


def _add_export(actions: _Commands) -> None:
    parser = actions.add_parser(
        "export",
        help="write one plain state dict per model, for torch or safetensors",
        description="Write the weights of each model as a plain state dict, which torch or "
        "safetensors load without any framework.",
        epilog=_EXPORT_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_source(parser)
    parser.add_argument(
        "target", metavar="OUT", type=Path, help="a file ending in .pt or .safetensors"
    )
    _add_switches(parser)
    parser.set_defaults(command=_reporting(_export))


def _add_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="DIR_OR_CKPT",
        type=Path,
        help="a Determined checkpoint directory, or a Lightning checkpoint file",
    )


def _add_switches(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trust", action="store_true", help="load the checkpoint even if that runs code from it"
    )
    parser.add_argument("--force", action="store_true", help="replace files that are there")


def _reporting(
    action: Callable[[argparse.Namespace], None],
) -> Callable[[argparse.Namespace], int]:
    """``action`` with its errors told on standard error and in the exit status 1."""

    def command(args: argparse.Namespace) -> int:
        try:
            action(args)
        except (
            InvalidCheckpointException,
            OSError,
            ImportError,
            TypeError,
            ValueError,
        ) as error:
            print(f"det-compat: {_told(error)}", file=sys.stderr)
            return 1
        return 0

    return command


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _show(args: argparse.Namespace) -> None:
    from det_compat.checkpoint.show import describe
    from det_compat.checkpoint.text import as_text

    description = describe(args.source)
    if args.format == "json":
        print(json.dumps(description, indent=2))
    else:
        print(as_text(description))


def _convert(args: argparse.Namespace) -> None:
    from det_compat.adapters.checkpoints.convert import convert
    from det_compat.commands.verify import class_in_file, parsed_hparams

    convert(
        args.source,
        args.target,
        module=class_in_file(args.module) if args.module else None,
        hparams=parsed_hparams(args.hparams),
        trust=args.trust,
        force=args.force,
    )
    print(args.target)


def _export(args: argparse.Namespace) -> None:
    from det_compat.checkpoint.export import export

    for file in export(args.source, args.target, trust=args.trust, force=args.force):
        print(file)
