"""``det-compat checkpoint``: show, convert and export checkpoints."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from det_compat.errors import InvalidCheckpointException
from det_compat.shared.importing import class_in_file

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
    parser.set_defaults(command=_command)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    source = argparse.ArgumentParser(add_help=False)
    source.add_argument(
        "source",
        metavar="DIR_OR_CKPT",
        type=Path,
        help="a Determined checkpoint directory, or a Lightning checkpoint file",
    )
    switches = argparse.ArgumentParser(add_help=False)
    switches.add_argument(
        "--trust", action="store_true", help="load the checkpoint even if that runs code from it"
    )
    switches.add_argument("--force", action="store_true", help="replace files that are there")

    show = actions.add_parser(
        "show",
        parents=[source],
        help="say what is in a checkpoint, and whether it is safe to load",
        description="Say what is in a checkpoint, and whether it is safe to load. Nothing of it is "
        "run. Secrets of the experiment config are not shown.",
    )
    show.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    show.set_defaults(action=_show)

    convert = actions.add_parser(
        "convert",
        parents=[switches],
        help="write a Lightning checkpoint, without the trial's code",
        description="Write a Lightning checkpoint from a Determined checkpoint directory; the "
        "trial's code is not needed. Secrets of the experiment config are left out.",
    )
    convert.add_argument("source", metavar="DIR", type=Path, help="a Determined checkpoint")
    convert.add_argument("target", metavar="OUT.ckpt", type=Path, help="the file to write")
    convert.add_argument(
        "--for",
        dest="module",
        metavar="FILE.py:Module",
        help="a migrated LightningModule that is to load it, of which one is made; without this, "
        "the checkpoint is for the module that to_lightning() makes of the trial",
    )
    convert.add_argument(
        "--hparams",
        help="for --for: hyperparameters that the checkpoint lacks, a mapping in YAML or its file",
    )
    convert.set_defaults(action=_convert)

    export = actions.add_parser(
        "export",
        parents=[source, switches],
        help="write one plain state dict per model, for torch or safetensors",
        description="Write the weights of each model as a plain state dict, which torch or "
        "safetensors load without any framework.",
        epilog=_EXPORT_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    export.add_argument(
        "target", metavar="OUT", type=Path, help="a file ending in .pt or .safetensors"
    )
    export.set_defaults(action=_export)
    _add_register(actions, source)


def _add_register(actions: _Commands, source: argparse.ArgumentParser) -> None:
    about = "add its weights to MLflow's model registry"
    register = actions.add_parser(
        "register",
        parents=[source],
        help=about,
        description=f"{about.capitalize()}, as a new version, from which "
        "mlflow.pytorch.load_state_dict gets them without det_compat.",
    )
    register.add_argument("--name", required=True, help="of the model in the registry")
    about = "by default where the run was sent, MLFLOW_TRACKING_URI, or runs/mlflow.db"
    register.add_argument("--tracking", metavar="mlflow[:URI]", help=f"where to; {about}")
    about = "add the model itself, to be served; this runs the code in the checkpoint"
    register.add_argument("--with-code", action="store_true", help=about)
    about = "with --with-code: of one sample, such as 3,32,32; a server takes float32 of it then"
    register.add_argument("--input-shape", metavar="N,N", type=_shape, help=about)
    about = "load the checkpoint even if that runs code from it"
    register.add_argument("--trust", action="store_true", help=about)
    register.set_defaults(action=_register)


def _command(args: argparse.Namespace) -> int:
    try:
        args.action(args)
    except (InvalidCheckpointException, OSError, ImportError, TypeError, ValueError) as error:
        told = str(error)
        if isinstance(error, OSError) and error.filename is not None:
            told = f"{error.filename}: {error.strerror}"
        print(f"det-compat: {told}", file=sys.stderr)
        return 1
    return 0


def _show(args: argparse.Namespace) -> None:
    from det_compat.checkpoint.show import as_text, describe

    description = describe(args.source)
    if args.format == "json":
        print(json.dumps(description, indent=2))
    else:
        print(as_text(description))


def _convert(args: argparse.Namespace) -> None:
    from det_compat.adapters.checkpoints.convert import convert
    from det_compat.commands.verify import parsed_hparams

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


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split(",") if size)


def _register(args: argparse.Namespace) -> None:
    from det_compat.tracking.registry import register

    where, version, models = register(
        args.source,
        args.name,
        args.tracking,
        trust=args.trust,
        with_code=args.with_code,
        input_shape=args.input_shape,
    )
    print(f"registered {version} at {where}")
    if models == 1:
        print(f'load it: mlflow.pytorch.load_state_dict("{version}")')
    else:
        print(f'load them: mlflow.artifacts.download_artifacts("{version}"), and torch.load')
