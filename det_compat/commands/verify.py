"""``det-compat verify``."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from det_compat.shared.importing import class_in_file

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_EPILOG = """\
exit status: 0 only if both trained and everything is the same; 1 if something is not, or one of
them failed; 2 if the command line is wrong
"""


def add_parser(commands: _Commands) -> None:
    """Add ``verify`` to the subcommands of ``det-compat``."""
    parser = commands.add_parser(
        "verify",
        help="compare a migrated trial with the original, bit for bit",
        description="Train the original on det_compat and the migrated LightningModule on "
        "Lightning, with the same seed, and compare the weights after every batch. The module gets "
        "the batches of the original and the random state that it had when each began; its own "
        "loader is compared in the first epoch, its metrics to 5 digits.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", metavar="OLD.py:Trial", help="the original")
    parser.add_argument("new", metavar="NEW.py:Module", help="the migrated module")
    parser.add_argument("--batches", type=int, default=100, help="how long to train (100)")
    parser.add_argument(
        "--hparams", help="the hyperparameters: a mapping in YAML, or a file with one"
    )
    parser.add_argument(
        "--config",
        metavar="CONFIG.yaml",
        help="an experiment config with hyperparameters; --hparams wins",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.set_defaults(command=_command)


def _command(args: argparse.Namespace) -> int:
    from det_compat.migrate.configs import trial_arguments

    try:
        old, new = class_in_file(args.old), class_in_file(args.new)
        if args.batches < 1:
            raise ValueError(f"--batches is {args.batches}: it must be 1 or more")
        hparams, exp_conf = trial_arguments(parsed_hparams(args.hparams), args.config)
    except (OSError, ValueError) as error:
        print(f"det-compat: {error}", file=sys.stderr)
        return 2
    from det_compat.adapters.verify.verdict import Pair, verify

    pair = Pair(old, new, hparams, exp_conf)
    verdict = verify(pair, batches=args.batches, seed=args.seed)
    print(verdict)
    return 0 if verdict.is_identical else 1


def parsed_hparams(text: str | None) -> dict[str, Any] | None:
    """The hyperparameters in a mapping in YAML, or in a file of that name.

    Raises:
        ValueError: they are none.
    """
    from det_compat.config.document import ConfigError
    from det_compat.experiment.errors import FitError
    from det_compat.experiment.hyperparameters import mapping_of

    try:
        return None if text is None else mapping_of(text, "--hparams")
    except (ConfigError, FitError) as error:
        raise ValueError(str(error)) from error
