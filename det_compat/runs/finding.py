"""Runs and searches below a folder, and those that a user asks for."""

from __future__ import annotations

import contextlib
import fnmatch
import operator
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from det_compat.runs.summary import Summary, summary_of
from det_compat.shared.spelling import did_you_mean

_DEEPEST = 8  # folders below the one that is searched
_NOT_OF_RUNS = {
    *("__pycache__", "node_modules", "site-packages"),
    *("mlruns", "mlartifacts", "wandb", "checkpoints"),
}
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    "==": operator.eq,
    "=": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}


class NoSuchRun(ValueError):
    """What the user names is no run, or several, or cannot be understood."""


def find_runs(root: Path, *, trials: bool = False) -> Iterator[Summary]:
    """The runs and searches below ``root``, which may be one itself; no links are followed.

    Args:
        root: a folder.
        trials: whether the trials of searches are listed after their search.
    """
    for folder, folders, _ in os.walk(root):
        path = Path(folder)
        if (found := summary_of(path)) is not None:
            folders.clear()
            yield found
            if trials:
                yield from found.trials
        elif len(path.relative_to(root).parts) >= _DEEPEST:
            folders.clear()
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _NOT_OF_RUNS
        )


def run_named(name: str, root: Path) -> Summary:
    """The run or search in the folder ``name``, or the one below ``root`` whose path ends so.

    Raises:
        NoSuchRun: there is none, or there are several.
    """
    for folder in (Path(name), root / name):
        if (found := summary_of(folder)) is not None:
            return found
    wanted = Path(name).parts
    near = [one for one in find_runs(root, trials=True) if one.path.parts[-len(wanted) :] == wanted]
    if len(near) == 1:
        return near[0]
    if near:
        paths = ", ".join(str(one.path) for one in near)
        raise NoSuchRun(f"{name} may be any of {paths}: give more of the path")
    raise NoSuchRun(f"there is no run {name} in {root}; `det-compat runs` lists those that are")


def trial_of(search: Summary, number: int) -> Summary:
    """Trial ``number`` of a search, from 0.

    Raises:
        NoSuchRun: there is none.
    """
    for trial in search.trials:
        if trial.path.name.isdecimal() and int(trial.path.name) == number:
            return trial
    kind = f"has {len(search.trials)} trials" if search.kind == "search" else "is no search"
    raise NoSuchRun(f"there is no trial {number}: {search.path} {kind}")


@dataclass(frozen=True)
class Wanted:
    """What is asked of a run; None and empty ask for nothing.

    Attributes:
        name: a pattern of the shell, for the name of the config or the path.
        states: states of which it has one.
        since: seconds since 1970, at or after which it was started.
        where: conditions such as ``lr>0.01`` on hyperparameters or on the best searcher's metric.
    """

    name: str | None = None
    states: tuple[str, ...] = ()
    since: float | None = None
    where: tuple[str, ...] = ()

    def __call__(self, run: Summary) -> bool:
        named = self.name is None or any(
            fnmatch.fnmatch(text, self.name) for text in (run.name, str(run.path))
        )
        in_state = not self.states or run.state.state.value in self.states
        in_time = self.since is None or (run.state.started or 0) >= self.since
        return named and in_state and in_time and all(_holds(run, one) for one in self.where)


def condition(text: str) -> str:
    """``text``, which is a condition such as ``lr>0.01``.

    Raises:
        NoSuchRun: it is none.
    """
    _parts(text)
    return text


def mistyped(conditions: Iterable[str], runs: Iterable[Summary]) -> str:
    """What is to be told of names in ``conditions`` that none of ``runs`` has, with what is near.

    It begins with a semicolon; it is empty if there are none, or no run that could have any.
    """
    known = {name for run in runs for name in (*run.hparams, run.metric) if name}
    names = dict.fromkeys(_parts(text)[0] for text in conditions)
    unknown = [name for name in names if name not in known] if known else []
    return "".join(f"; none has {name}{did_you_mean(name, known)}" for name in unknown)


def _parts(text: str) -> tuple[str, str, str]:
    found = re.fullmatch(r"\s*([\w./-]+?)\s*(>=|<=|!=|==|=|>|<)\s*([^<>=!\s].*?)\s*", text)
    if found is None:
        raise NoSuchRun(f"{text!r} is no condition: write NAME>0.1, NAME<=0.1, NAME=text, ...")
    name, sign, value = found.groups()
    return name, sign, value


def _holds(run: Summary, text: str) -> bool:
    name, sign, value = _parts(text)
    known = run.hparams
    if name == run.metric:
        known = {**known, name: run.best[0] if run.best else None}
    if name not in known:
        return False
    try:
        return _OPERATORS[sign](known[name], _value(value))
    except TypeError:
        return False  # A text is neither more nor less than a number.


def _value(text: str) -> Any:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return {"true": True, "false": False, "null": None, "none": None}.get(text.lower(), text)


def moment(text: str) -> float:
    """The time that ``text`` says: a date (2026-11-02, or with a time), or 30m, 12h, 7d, 2w ago.

    Returns:
        Seconds since 1970.

    Raises:
        NoSuchRun: it says none.
    """
    if found := re.fullmatch(r"(\d+)([mhdw])", text):
        return time.time() - int(found[1]) * _SECONDS[found[2]]
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise NoSuchRun(f"{text!r} is no time: write 2026-11-02, or 30m, 12h, 7d, 2w") from None
