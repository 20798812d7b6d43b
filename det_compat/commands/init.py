"""``det-compat init``: a config and a script for the trial classes of a folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from det_compat.script.ending import TO_MEND

if TYPE_CHECKING:
    from det_compat.first_config.trials import FoundTrial

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(commands: _Commands) -> None:
    """Add ``init`` to the subcommands of ``det-compat``."""
    parser = commands.add_parser(
        "init",
        help="write a config and a script for a trial class",
        description="Look for trial classes of any generation below FOLDER, without running them, "
        "and write const.yaml and train.py beside each, with the hyperparameters that it reads. "
        "Files that are there stay as they are.",
    )
    parser.add_argument(
        "folder", metavar="FOLDER", nargs="?", default=".", help="by default this one"
    )
    parser.add_argument("--trial", metavar="CLASS", help="the name of the one that is meant")
    parser.set_defaults(command=_command)


def _command(args: argparse.Namespace) -> int:
    from det_compat.first_config.trials import find_trials

    folder = Path(args.folder)
    if not folder.is_dir():
        return _to_mend(f"there is no folder {folder}")
    trials = find_trials(folder)
    if args.trial is not None:
        names = [one.name for one in trials]
        trials = [one for one in trials if one.name == args.trial]
        if names and not trials:
            from det_compat.shared.spelling import did_you_mean

            meant = did_you_mean(args.trial, names)
            found = f"it has {', '.join(names)}{meant}"
            return _to_mend(f"{folder} has no trial class {args.trial}: {found}")
    if not trials:
        return _to_mend(
            f"{folder} has no trial class that det_compat trains: `det-compat check` tells what "
            "there is, and `det-compat run` runs scripts with pytorch.Trainer"
        )
    return 0 if sum([_write(trial, trials) for trial in trials]) else 1


def _write(trial: FoundTrial, trials: list[FoundTrial]) -> int:
    """Write the files of a trial that are not there; how many were written."""
    from det_compat.first_config.files import config_text, missing, script_text

    is_alone = sum(one.folder == trial.folder for one in trials) == 1
    names = ("const.yaml", "train.py")
    if not is_alone:
        names = (f"{trial.name}.yaml", f"train_{trial.name}.py")
    texts = (config_text(trial), script_text(trial, names[0]))
    written = 0
    for name, text in zip(names, texts, strict=True):
        path = trial.folder / name
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            print(f"{path} is there, and stays as it is")
            continue
        except OSError as error:
            _to_mend(f"cannot write {path}: {error.strerror}")
            return 0
        written += 1
        print(f"wrote {path}, for {trial.entrypoint}")
        if name == names[0] and (fill := missing(trial)):
            print(f"  fill in {', '.join(fill)}; then: det-compat fit {path}")
        elif name == names[0]:
            print(f"  train by: det-compat fit {path}")
    return written


def _to_mend(message: str) -> int:
    print(f"det-compat: {message}", file=sys.stderr)
    return TO_MEND
