"""The searcher: how many trials there are, how long each is, and by what metric."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from det_compat.config.document import Problems, chosen
from det_compat.config.keys.kinds import UNITS
from det_compat.config.keys.table import SUCCESSORS
from det_compat.config.lengths import Length, Unit, parse_length

_LENGTHS = ("max_length", "max_steps", "target_trial_steps", "max_time")
_COUNTS = ("max_trials", "max_concurrent_trials", "max_rungs", "num_rungs")
_IN_STEPS = ("max_steps", "target_trial_steps", "step_budget")
_REQUIRED = {
    "random": ("max_trials",),
    "adaptive_asha": ("max_trials",),
    "adaptive_simple": ("max_trials",),
    "async_halving": ("max_trials", "num_rungs"),
    "asha": ("max_trials", "num_rungs"),
    "sync_halving": ("num_rungs",),
}
# These stop trials early, at a share of the length that they must know.
_HALVING = ("adaptive_asha", "adaptive_simple", "adaptive", "async_halving", "asha", "sync_halving")
_REFUSALS = {
    "pbt": "population based training was given up in Determined 0.17: use random or adaptive_asha",
    "custom": "a custom searcher runs a program against a Determined master: use random, grid or "
    "adaptive_asha, or a Ray Tune search of your own",
}


@dataclass(frozen=True)
class Searcher:
    """A searcher, its names and lengths those of Determined 0.38.

    Attributes:
        name: single, random, grid, async_halving, adaptive_asha, pbt or custom.
        written_name: the name in the config, which may be an older one.
        metric: the validation metric to go by, "" if there is none.
        smaller_is_better: whether its best is its smallest.
        max_length: how long one trial is; None if only the script knows.
        time_metric: what ``max_time`` counts, if it is no unit of ``max_length``.
        max_trials: trials in all; None for single, grid, and searchers that have a ``budget``.
        max_concurrent_trials: trials at once, 0 for no limit.
        mode, divisor, max_rungs, bracket_rungs: the settings of adaptive_asha.
        num_rungs: the number of rungs of async_halving.
        budget: what all trials train together, in older searchers.
        notes: how an older searcher differs from the one that now does its work.
        refusal: why it cannot be run, None if it can.
    """

    name: str
    written_name: str
    metric: str = ""
    smaller_is_better: bool = True
    max_length: Length | None = None
    time_metric: str | None = None
    max_trials: int | None = None
    max_concurrent_trials: int = 16
    mode: str = "standard"
    divisor: float = 4.0
    max_rungs: int = 5
    bracket_rungs: tuple[int, ...] = ()
    num_rungs: int | None = None
    budget: Length | None = None
    notes: tuple[str, ...] = ()
    refusal: str | None = None


def parse_searcher(config: Mapping[str, Any], step: int, problems: Problems) -> Searcher | None:
    """The ``searcher`` of a config, whose steps are ``step`` batches; None if it is unusable."""
    if "searcher" not in config:
        problems.missing(("searcher",), "a searcher, such as {name: single, metric: loss}")
        return None
    given = config["searcher"]
    _check(given, step, problems)
    if "name" not in given:
        return None
    name = given["name"]
    length, time_metric = _length(given, step)
    return Searcher(
        name=SUCCESSORS[name],
        written_name=name,
        max_length=length,
        time_metric=time_metric,
        bracket_rungs=tuple(map(int, given.get("bracket_rungs", ()))),
        budget=_first_length(given, ("budget", "step_budget"), step, Unit.BATCHES),
        notes=_notes(name, given),
        refusal=_REFUSALS.get(name),
        **chosen(given, *_COUNTS, "divisor", "metric", "mode", "smaller_is_better"),
    )


def _check(given: dict[str, Any], step: int, problems: Problems) -> None:
    name = given.get("name")
    required = ("name", "metric", *_REQUIRED.get(str(name), ()))
    for key in required:
        if key not in given:
            problems.missing(("searcher", key), f"a value, which {name or 'every searcher'} needs")
    _check_lengths(given, step, problems)
    if name in _HALVING and not any(key in given for key in _LENGTHS):
        problems.missing(("searcher", "max_length"), "max_length, or max_time with time_metric")
    if name == "adaptive" and not ("budget" in given or "step_budget" in given):
        problems.missing(("searcher", "budget"), "a value, which adaptive needs")


def _check_lengths(given: dict[str, Any], step: int, problems: Problems) -> None:
    several = [key for key in _LENGTHS if key in given]
    first = _first_length(given, tuple(several[:1]), step, Unit.CUSTOM)
    for key in several[1:]:
        # As it was on a cluster, a config has the length in batches beside that in steps.
        if key in _IN_STEPS and _first_length(given, (key,), step, Unit.CUSTOM) == first:
            continue
        found = f"{key} next to {several[0]}"
        problems.add_key(("searcher", key), "one length", found)
    if "budget" in given and "step_budget" in given:
        problems.add_key(("searcher", "step_budget"), "one budget", "step_budget next to budget")
    if ("max_time" in given) != ("time_metric" in given):
        there, missing = "max_time", "time_metric"
        if missing in given:
            there, missing = missing, there
        problems.missing(("searcher", missing), f"a value, since there is a {there}")


def _length(given: dict[str, Any], step: int) -> tuple[Length | None, str | None]:
    if "max_time" not in given:
        bare = Unit(given["unit"]) if "unit" in given else Unit.CUSTOM
        return _first_length(given, _LENGTHS[:3], step, bare), None
    metric = given.get("time_metric")
    if metric in UNITS:
        return Length(int(given["max_time"]), Unit(metric)), None
    return Length(int(given["max_time"]), Unit.CUSTOM), metric


def _first_length(
    given: dict[str, Any], names: tuple[str, ...], step: int, bare: Unit
) -> Length | None:
    name = next((name for name in names if name in given), None)
    if name is None:
        return None
    if name in _IN_STEPS:
        return parse_length(given[name], factor=step)
    length = parse_length(given[name], bare)
    return length if length.value else None


def _notes(name: str, given: dict[str, Any]) -> tuple[str, ...]:
    notes = []
    if SUCCESSORS[name] != name and name != "asha":
        notes.append(f"searcher {name} runs as its successor {SUCCESSORS[name]}")
    if SUCCESSORS[name] in ("adaptive_asha", "async_halving") and "max_trials" not in given:
        notes.append("its budget takes the place of max_trials")
    if given.get("stop_once") is False:
        notes.append("stop_once: false: since 0.38 trials that were stopped are never resumed")
    return tuple(notes)
