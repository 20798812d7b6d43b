"""``det-compat search``: what Determined's hyperparameter searchers did, on Ray Tune."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from det_compat.script.ending import INTERRUPTED, TERMINATED, TO_MEND

if TYPE_CHECKING:
    from det_compat.search.results import TrialResult
    from det_compat.search.search import Search

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_MOST_NAMED = 10


def add_parser(commands: _Commands) -> None:
    """Add ``search`` to the subcommands of ``det-compat``."""
    parser = commands.add_parser(
        "search",
        help="search hyperparameters",
        description="Run the hyperparameter search of an experiment config: single, random, grid, "
        "async_halving and adaptive_asha, and what they were called before. Trials run on this "
        "machine, or on a Ray cluster. The exit status is 1 if no trial has reported the metric.",
    )
    parser.add_argument("config", metavar="CONFIG.yaml", help="an experiment config")
    parser.add_argument(
        "model_dir",
        metavar="MODEL_DIR",
        nargs="?",
        help="where the entrypoint is imported from; by default the config's folder",
    )
    parser.add_argument(
        "--run-dir", metavar="DIR", help="a new folder for the results; by default ./search_NAME"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with the interrupted search in the folder"
    )
    parser.add_argument(
        "--address",
        help="of a Ray cluster (HOST:PORT, or auto), whose machines have det_compat",
    )
    parser.add_argument(
        "--tracking",
        metavar="mlflow[:URI]",
        help="send what is reported to MLflow, a run for the search and one for each trial; by "
        "default to MLFLOW_TRACKING_URI, else to runs/mlflow.db",
    )
    parser.set_defaults(command=_search)


def _search(args: argparse.Namespace) -> int:
    from det_compat.config import ConfigError
    from det_compat.experiment.errors import FitError
    from det_compat.experiment.processes.tracker import check_tracking
    from det_compat.search.errors import SearchError
    from det_compat.search.search import prepare

    try:
        check_tracking(args.tracking)
        search = prepare(args.config, args.model_dir, run_dir=args.run_dir, resume=args.resume)
        _announce(search)
        return _run(search, args)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    except (FitError, ImportError, OSError, SearchError) as error:
        print(f"det-compat: {error}", file=sys.stderr)
        return TO_MEND


def _run(search: Search, args: argparse.Namespace) -> int:
    from det_compat.core.storage.write_failures import NO_ROOM
    from det_compat.search.errors import SearchEndedError

    status = INTERRUPTED

    def interrupt(*_: Any) -> None:
        nonlocal status
        status = TERMINATED
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        search.run(args.address, resuming=_resuming(search, args), tracking=args.tracking)
    except KeyboardInterrupt:
        # This is a second one, or one before the trials began: Tune takes the first.
        print(f"interrupted; go on with\n  {_resuming(search, args)}")
        return status
    except SearchEndedError as error:
        if search.folder.trials():
            _show(search, search.results())
        return _given_up(str(error), search, args)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        return _given_up(f"cannot write in {search.folder.path}: {error}", search, args)
    finally:
        signal.signal(signal.SIGTERM, before)
    return _finish(search, args, status)


def _given_up(why: str, search: Search, args: argparse.Namespace) -> int:
    print(f"det-compat: {why}", file=sys.stderr, flush=True)
    print(f"go on, when that is mended, with\n  {_resuming(search, args)}")
    return TO_MEND


def _announce(search: Search) -> None:
    from det_compat.config import parse_config
    from det_compat.experiment.checks import cluster_only_notes

    plan = search.plan
    metric = f"{plan.searcher.metric} ({plan.mode}imum)"
    config, model_dir = parse_config(search.task.config), search.task.model_dir
    for note in (*plan.searcher.notes, *cluster_only_notes(config, model_dir)):
        print(note)
    if config.entrypoint is not None and config.entrypoint.is_command:
        print(
            f"the scripts of all trials run in {model_dir}, where a cluster gave each a copy: what "
            "two of them write at one path is one file, unless info.trial.trial_id is in it"
        )
    print(f"{plan.max_trials} trials, by {metric}, in {search.folder.path}")
    for number, bracket in enumerate(plan.brackets):
        unit = plan.searcher.time_metric or plan.unit.value
        rungs = f"rungs at {', '.join(map(str, bracket.rungs))} {unit}"
        trials = bracket.max_trials
        print(
            f"  bracket {number}: {trials} trials, at most "
            f"{min(bracket.max_concurrent_trials, trials)} at once, "
            f"{rungs if bracket.rungs else 'each as long as the script says'}"
        )
    sys.stdout.flush()


def _finish(search: Search, args: argparse.Namespace, if_interrupted: int) -> int:
    results = search.results()
    _show(search, results)
    if any(one.status.value == "unfinished" for one in results):
        print(f"go on with\n  {_resuming(search, args)}")
        return if_interrupted
    return _name_best(search, results)


def _show(search: Search, results: list[TrialResult]) -> None:
    from det_compat.search.results import saving
    from det_compat.search.tables import results_table
    from det_compat.shared.terminal import print_table

    print_table(results_table(search.plan, results), wraps=False)
    stops_early = any(len(bracket.rungs) > 1 for bracket in search.plan.brackets)
    if stops_early and (saved := saving(results)):
        print(saved)
    print(f"written: {search.folder.path}/results.json, results.csv, results.png")
    trials = search.folder.path / "trials"
    # A script need not write any.
    if next(trials.rglob("*tfevents*"), None) is not None:
        print(f"TensorBoard: tensorboard --logdir {shlex.quote(str(trials))}")
    if unfinished := [one for one in results if one.status.value == "unfinished"]:
        numbers = ", ".join(str(one.index) for one in unfinished[:_MOST_NAMED])
        more = ", ..." if len(unfinished) > _MOST_NAMED else ""
        print(f"unfinished trials: {len(unfinished)} ({numbers}{more})")
    sys.stdout.flush()


def _resuming(search: Search, args: argparse.Namespace) -> str:
    words = ["det-compat", "search", args.config, *filter(None, [args.model_dir])]
    cluster = ["--address", args.address] if args.address else []
    tracking = ["--tracking", args.tracking] if args.tracking else []
    folder = str(search.folder.path)
    return shlex.join([*words, "--run-dir", folder, *cluster, *tracking, "--resume"])


def _name_best(search: Search, results: list[TrialResult]) -> int:
    from det_compat.search.tune.attempt import SCRIPT_TRAINER

    if not results or results[0].metric is None or results[0].has_failed:
        print(
            f"no trial that did not fail has reported a number as {search.plan.searcher.metric}",
            file=sys.stderr,
        )
        return 1
    valid = sum(result.status.value != "invalid_hp" for result in results)
    if valid < search.plan.max_trials:
        print(f"{valid} of {search.plan.max_trials} trials had hyperparameters that could be used")
    best = results[0]
    print(f"best: trial {best.index}, {search.plan.searcher.metric} {best.metric:.6g}")
    config = search.folder.trial(best.index).folder / "config.yaml"
    if config.exists():
        command = ["det-compat", "fit", str(config), str(search.task.model_dir)]
        print(f"train it: {shlex.join(command)}")
    if best.checkpoint:
        is_script = search.task.train_one == SCRIPT_TRAINER
        print(what_to_do_with(best.checkpoint, is_script=is_script))
    return 0


def what_to_do_with(checkpoint: str, *, is_script: bool) -> str:
    """What can be done with the best trial's checkpoint, a directory or URL."""
    # A script has it as it likes, unless its `pytorch.Trainer` has written it.
    if is_script and not (Path(checkpoint) / "load_data.json").is_file():
        return f"its checkpoint, with the files that the script wrote: {checkpoint}"
    return f"export it: det-compat checkpoint export {shlex.quote(checkpoint)} best.safetensors"
