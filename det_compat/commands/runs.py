"""``det-compat runs``: what ``det experiment``, ``det trial`` and ``det checkpoint`` showed."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from det_compat.script.ending import INTERRUPTED, TO_MEND

if TYPE_CHECKING:
    from rich.table import Table

    from det_compat.runs.summary import Summary

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_STATES = ("running", "done", "stopped", "failed", "killed", "unknown")
_SORTS = ("started", "name", "state", "best", "batches", "path")
_LOOK_AGAIN = 0.3  # seconds


def add_parser(commands: _Commands) -> None:
    """Add ``runs`` to the subcommands of ``det-compat``."""
    about = "list, show, compare, stop and delete runs"
    parser = commands.add_parser(
        "runs",
        help=about,
        description=f"{about.capitalize()}: those of `det-compat fit` and `search` below a folder. "
        "Without ACTION, it lists them. RUN is the path of a run's folder, or the end of it that "
        "only it has, such as digits/002.",
    )
    parser.add_argument("--dir", default=".", help="the folder; by default this one")
    actions = parser.add_subparsers(title="actions", metavar="ACTION")
    _add_list(parser)
    _add_list(_action(actions, "list", _list, "list runs, as without ACTION"))
    _add_runs(_action(actions, "show", _show, "hyperparameters, validations, how to go on"))
    compared = _action(actions, "compare", _compare, "configs and metrics side by side")
    compared.add_argument("run", metavar="RUN", nargs="+")
    checkpoints = _action(actions, "checkpoints", _checkpoints, "checkpoints, the best first")
    _add_runs(checkpoints)
    checkpoints.add_argument("--best", type=_count, metavar="N", help="only the best N")
    checkpoints.add_argument("--json", action="store_true", help="as JSON")
    logs = _action(actions, "logs", _logs, "what a run has printed")
    _add_runs(logs)
    about = "of a search: only trial N, from 0; by default all, one after the other"
    logs.add_argument("--trial", type=int, metavar="N", help=about)
    logs.add_argument("-f", "--follow", action="store_true", help="go on while the run does")
    tracked = _action(actions, "track", _track, "send what a run has reported to MLflow")
    _add_runs(tracked)
    about = "where to; by default where it was sent before, MLFLOW_TRACKING_URI, or runs/mlflow.db"
    tracked.add_argument("--tracking", metavar="mlflow[:URI]", help=about)
    tracked.add_argument("--follow", action="store_true", help=argparse.SUPPRESS)
    _add_runs(_action(actions, "stop", _stop, "tell a run to write a checkpoint, and to end"))
    deleted = _action(actions, "delete", _delete, "delete the folder of a run that does not run")
    _add_runs(deleted)
    deleted.add_argument("--yes", action="store_true", help="do not ask")


def _action(
    actions: _Commands, name: str, does: Callable[[argparse.Namespace], int], about: str
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=about, description=f"{about.capitalize()}.")
    parser.set_defaults(action=does)
    return parser


def _add_runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN")


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command=_command, action=_list)
    parser.add_argument("--name", metavar="PATTERN", help="of the config's name, or the path")
    parser.add_argument("--state", choices=_STATES, action="append", default=[])
    about = "started at a date, such as 2026-11-02, or later; or in the last 12h, 7d"
    parser.add_argument("--since", metavar="WHEN", help=about)
    about = "a condition on a hyperparameter, or on the best searcher metric, such as 'lr>0.01'"
    parser.add_argument("--where", metavar="CONDITION", action="append", default=[], help=about)
    parser.add_argument("--sort", choices=_SORTS, default="started", help="by default: started")
    parser.add_argument("--trials", action="store_true", help="list the trials of searches, too")
    parser.add_argument("--json", action="store_true", help="as JSON, with all that is known")


def _command(args: argparse.Namespace) -> int:
    from det_compat.runs.finding import NoSuchRun

    try:
        if "://" in args.dir:
            raise NoSuchRun(
                f"--dir {args.dir}: runs are read from a folder of this machine; copy them here, "
                "or have those of all machines at one MLflow server (--tracking)"
            )
        if not Path(args.dir).is_dir():
            raise NoSuchRun(f"--dir: there is no folder {args.dir}")
        status: int = args.action(args)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED  # of `logs --follow`, for one; the run goes on
    except BrokenPipeError:
        # Who reads has seen enough; Python would complain when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (NoSuchRun, OSError) as error:
        print(f"det-compat: {error}", file=sys.stderr)
        return TO_MEND


def _named(args: argparse.Namespace) -> Summary:
    from det_compat.runs.finding import run_named

    return run_named(args.run, Path(args.dir))


def _count(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of 1 or more")


def _print(*tables: Table | str) -> None:
    from det_compat.shared.terminal import print_table

    for table in tables:
        if isinstance(table, str):
            print(table)
        else:
            print_table(table, wraps=False)


def _list(args: argparse.Namespace) -> int:
    from det_compat.runs.finding import Wanted, condition, find_runs, mistyped, moment

    wanted = Wanted(
        args.name,
        tuple(args.state),
        None if args.since is None else moment(args.since),
        tuple(map(condition, args.where)),
    )
    there = [*find_runs(Path(args.dir), trials=args.trials)]
    runs = _sorted([run for run in there if wanted(run)], args.sort)
    if args.json:
        print(json.dumps([run.as_dict() for run in runs], indent=2, default=str))
    elif not runs:
        like = " like that" if wanted != Wanted() else ""
        print(f"no runs{like} in {args.dir}{mistyped(wanted.where, there)}")
    else:
        from det_compat.runs.tables import list_table

        _print(list_table(runs))
    return 0


def _sorted(runs: Sequence[Summary], by: str) -> list[Summary]:
    keys: dict[str, Callable[[Summary], object]] = {
        "started": lambda run: run.state.started or 0,
        "name": lambda run: run.name,
        "state": lambda run: _STATES.index(run.state.state.value),
        "best": lambda run: run.rank(run.best[0] if run.best else None),
        "batches": lambda run: -run.batches,
        "path": lambda run: run.path.parts,
    }
    return sorted(runs, key=keys[by])  # type: ignore[arg-type]  # all of one kind


def _show(args: argparse.Namespace) -> int:
    from det_compat.runs import tables

    run = _named(args)
    shown: list[Table | str] = [tables.about_table(run)]
    if run.trials:
        shown.append(tables.list_table(_sorted(run.trials, "best")))
    if run.validations:
        shown.append(tables.validations_table(run))
    if run.kind == "run" and run.checkpoints:
        shown.append(tables.checkpoints_table(run, run.checkpoints))
    _print(*shown)
    return 0


def _compare(args: argparse.Namespace) -> int:
    from det_compat.runs.finding import run_named
    from det_compat.runs.tables import comparison_table

    _print(comparison_table([run_named(name, Path(args.dir)) for name in args.run]))
    return 0


def _checkpoints(args: argparse.Namespace) -> int:
    from det_compat.runs.tables import checkpoints_table

    run = _named(args)
    checkpoints = run.checkpoints[: args.best]
    if args.json:
        print(json.dumps([vars(one) for one in checkpoints], indent=2, default=str))
    elif checkpoints:
        _print(checkpoints_table(run, checkpoints))
    else:
        print(f"there is no complete checkpoint in {run.path}{run.elsewhere}")
    return 0


def _logs(args: argparse.Namespace) -> int:
    from det_compat.runs.finding import NoSuchRun, trial_of
    from det_compat.script.run_log import LOG

    run = _named(args)
    if args.trial is not None:
        run = trial_of(run, args.trial)
    shown = run.trials if run.kind == "search" else [run]
    if args.follow and run.kind == "search":
        raise NoSuchRun(f"{run.path} is a search: follow one of its trials, with --trial N")
    there = [one for one in shown if (one.path / LOG).exists()]
    if not there:
        raise NoSuchRun(f"{run.path} has no {LOG}: nothing has run, or under an older det_compat")
    for one in there:
        if run.kind == "search":
            print(f"trial {int(one.path.name)}:")
        _print_log(one, follow=args.follow)
    return 0


def _print_log(run: Summary, *, follow: bool) -> None:
    from det_compat.experiment.run_state import State
    from det_compat.runs.summary import summary_of
    from det_compat.script.run_log import LOG

    with (run.path / LOG).open(encoding="utf-8", errors="replace") as log:
        while True:
            # Whether the run goes on is asked before the rest is read, so that none is lost.
            now = summary_of(run.path) if follow else None
            shutil.copyfileobj(log, sys.stdout)
            sys.stdout.flush()
            if now is None or now.state.state is not State.RUNNING:
                return
            time.sleep(_LOOK_AGAIN)


def _track(args: argparse.Namespace) -> int:
    from det_compat.experiment.errors import FitError
    from det_compat.tracking.follow import NotSent, follow, send

    try:
        if args.follow:
            return follow(Path(args.run), args.tracking, sys.stdin)
        run = _named(args)
        print(f"sent: {send(run.path, args.tracking)}")
        return 0
    except (FitError, NotSent) as error:
        # Who starts it to follow a run reads nothing else.
        print(f"det-compat: {error}", file=sys.stdout if args.follow else sys.stderr, flush=True)
    return 1


def _stop(args: argparse.Namespace) -> int:
    from det_compat.experiment.run_state import State, read_state
    from det_compat.runs.finding import NoSuchRun

    run = _named(args)
    state = run.state
    if state.state is not State.RUNNING:
        raise NoSuchRun(f"{run.path} does not run: it is {state.state.value}")
    if not state.is_here or state.process is None:
        raise NoSuchRun(f"{run.path} runs on {state.host}: stop it there")
    os.kill(state.process, signal.SIGTERM)
    print(f"told process {state.process} to end, after a checkpoint", flush=True)
    while read_state(run.path).state is State.RUNNING:
        time.sleep(_LOOK_AGAIN)
    print(f"{run.path} is {read_state(run.path).state.value}")
    if state.resume:
        print(f"go on with it by: {state.resume}")
    return 0


def _delete(args: argparse.Namespace) -> int:
    from det_compat.experiment.run_state import State
    from det_compat.runs.finding import NoSuchRun

    run = _named(args)
    if run.state.state is State.RUNNING or (
        run.state.state is State.UNKNOWN and run.state.host and not run.state.is_here
    ):
        raise NoSuchRun(f"{run.path} runs, or may run on {run.state.host}: it is not deleted")
    path, elsewhere = run.path.resolve(), run.elsewhere
    if not args.yes:
        own = [one for one in run.checkpoints if run.path in one.path.parents]
        held = f"{len(own)} checkpoints"
        answer = input(f"delete {path}, with {held}? [y/N] ") if sys.stdin.isatty() else ""
        if answer.strip().lower() not in ("y", "yes"):
            print(f"{path} is kept; --yes deletes it without asking")
            return 1
    shutil.rmtree(path)
    print(f"deleted {path}{elsewhere}")
    return 0
