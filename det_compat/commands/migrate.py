"""``det-compat migrate``."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from det_compat.script.ending import INTERRUPTED
from det_compat.shared.extras import how_to_install

if TYPE_CHECKING:
    from det_compat.migrate.results import Migration

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_EPILOG = """\
exit status: 0 if nothing is left to do; 1 if a file could not be rewritten, a # MIGRATE: comment or
a notebook is left, or --verify found a difference; 2 if the command line is wrong; 3 if a file
could not be rewritten because of an error in det_compat itself
"""


def add_parser(commands: _Commands) -> None:
    """Add ``migrate`` to the subcommands of ``det-compat``."""
    parser = commands.add_parser(
        "migrate",
        help="rewrite code of Determined's for det_compat, the context API or Lightning",
        description="Rewrite Python files: imports of det_compat instead of determined, trials of "
        "PEDL and Determined 0.12 in the context API, or LightningModules that need neither "
        "Determined nor det_compat. Shows the change; what cannot be rewritten stays as it was, "
        "below a # MIGRATE: comment.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="a directory, or a file with what changes with it"
    )
    parser.add_argument("--to", required=True, choices=("det_compat", "context", "lightning"))
    parser.add_argument("--write", action="store_true", help="write the files")
    parser.add_argument(
        "--force",
        action="store_true",
        help="write files that git does not have in the state that they are in, too",
    )
    parser.add_argument(
        "--config",
        metavar="CONFIG.yaml",
        action="append",
        default=[],
        help="an experiment config: also make CONFIG.lightning.yaml, for LightningCLI; may be "
        "given several times",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="train each trial before and after, with each config that names it, and compare; "
        "without this no code of yours is run",
    )
    parser.add_argument(
        "--lightning",
        choices=("pytorch_lightning", "lightning"),
        help="the package to import Lightning from (pytorch_lightning)",
    )
    parser.add_argument("--batches", type=int, default=100, help="for --verify (100)")
    parser.add_argument("--hparams", help="for --verify: a mapping in YAML")
    parser.set_defaults(command=_command)


def _command(args: argparse.Namespace) -> int:
    try:
        _check_extra()
        hparams = _hparams(args)
        return _migrate(args, hparams)
    except (ImportError, OSError, ValueError) as error:
        print(f"det-compat: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("det-compat: interrupted", file=sys.stderr)
        return INTERRUPTED


def _check_extra() -> None:
    if importlib.util.find_spec("libcst") is None:
        raise ImportError(f"rewriting code needs LibCST: {how_to_install('migrate')}")


def _hparams(args: argparse.Namespace) -> dict[str, Any] | None:
    from det_compat.commands.verify import parsed_hparams

    if args.verify and args.to != "lightning":
        raise ValueError("--verify compares with a LightningModule: it goes with --to lightning")
    if args.lightning and args.to != "lightning":
        raise ValueError("--lightning names the package for --to lightning")
    return parsed_hparams(args.hparams)


def _migrate(args: argparse.Namespace, hparams: dict[str, Any] | None) -> int:
    from det_compat.migrate.cli_config import lightning_config, target_of
    from det_compat.migrate.migration import migrate
    from det_compat.migrate.package import PACKAGES
    from det_compat.migrate.writing import refusals, write

    # More would wait for the disk; Windows has no more than 61.
    processes = min(os.cpu_count() or 1, 8)
    migration = migrate(args.paths, args.to, args.lightning or PACKAGES[0], processes)
    # Each is made of the Python files alone, and of trials: a second run has none any more.
    configs = [Path(each) for each in args.config]
    has_trials = any(file.trials for file in migration.files)
    made = [each for each in configs if has_trials or not target_of(each).exists()]
    migration.files += [lightning_config(each, migration) for each in made]
    for each in (each for each in configs if each not in made):
        said = "left as it is: no trial is rewritten, of which it would be made"
        print(f"{target_of(each)}: {said}", file=sys.stderr)
    for file in migration.changed:
        print(file.diff(), end="")
    different = _verify(args, migration, hparams) if args.verify else 0
    refused = [] if args.force else refusals(migration) if args.write else []
    if args.write and not refused:
        write(migration)
    is_written = args.write and not refused
    _summarize(migration, args, is_written=is_written)
    for path, reason in refused:
        print(f"not written: {path}: {reason}; --force writes all the same", file=sys.stderr)
    if not args.verify and any(file.trials for file in migration.files):
        _tell_how_to_verify(args, is_written=is_written)
    if any(file.traceback for file in migration.failed):
        return 3
    left = migration.marks or migration.failed or migration.notebooks or migration.left_out
    return 1 if left or refused or different else 0


def _tell_how_to_verify(args: argparse.Namespace, is_written: bool) -> None:
    if args.to != "lightning":
        return
    command = shlex.join(["det-compat", "migrate", *args.paths, "--to", "lightning", "--verify"])
    if is_written:
        # The originals are not there any more, but where git has them.
        command = "det-compat verify OLD.py:Trial NEW.py:Module --config CONFIG.yaml"
    print(f"not verified; this trains before and after, and compares: {command}", file=sys.stderr)


def _verify(args: argparse.Namespace, migration: Migration, hparams: dict[str, Any] | None) -> int:
    from det_compat.migrate.verification import outcome, verify_migration

    verdicts = verify_migration(
        migration.folders, migration, hparams, args.config, args.batches, args.lightning
    )
    for name, verdict in verdicts:
        print(f"{name}: {outcome(verdict)}")
    return sum(not verdict.is_identical for _, verdict in verdicts)


def _summarize(migration: Migration, args: argparse.Namespace, *, is_written: bool) -> None:
    for file in migration.failed:
        print(f"{file.path}: not migrated: {file.problem}", file=sys.stderr)
        print(file.traceback, end="", file=sys.stderr)
    for path in migration.notebooks:
        print(f"{path}: not migrated: a notebook", file=sys.stderr)
    for path, reason in migration.set_aside.items():
        print(f"{path}: left as it is: {reason}", file=sys.stderr)
    if migration.copies:
        print(f".ipynb_checkpoints: not read: {migration.copies} folders", file=sys.stderr)
    for path, reason in migration.left_out.items():
        print(f"{path}: not read: {reason}; name it, or the folder", file=sys.stderr)
    for path, by in migration.companions.items():
        print(f"{path}: changed, too: it belongs with {by.name}", file=sys.stderr)
    if args.to == "lightning":
        from det_compat.migrate.configs import hparams_of_clusters, refused_configs
        from det_compat.migrate.device_notes import device_notes
        from det_compat.migrate.package import PACKAGES
        from det_compat.migrate.requirement_notes import requirement_notes

        package = (args.lightning or PACKAGES[0]).replace("_", "-")
        refused = refused_configs((f.path, name) for f in migration.files for name in f.trials)
        needs = requirement_notes(migration, migration.folders, package)
        lost = hparams_of_clusters((f.path, f.before, f.after) for f in migration.files)
        for note in (*device_notes(migration), *refused, *lost, *needs):
            print(note, file=sys.stderr)
    trials = [name for file in migration.files for name in file.trials]
    verb = "written" if is_written else "would change"
    print(
        f"{len(migration.changed)} of {len(migration.files)} files {verb}, "
        f"{len(trials)} trials rewritten; left to you: {migration.marks} MIGRATE comments, "
        f"{len(migration.failed) + len(migration.left_out)} files, "
        f"{len(migration.notebooks)} notebooks",
        file=sys.stderr,
    )
