"""The keys of ``searcher``."""

from __future__ import annotations

from det_compat.config.keys.kinds import (
    BOOLEAN,
    LENGTH,
    MAPPING,
    SECTION,
    STEPS,
    TEXT,
    Kind,
    either,
    integer,
    list_of,
    number_above,
    one_of,
)
from det_compat.config.keys.table import Key, mapped, refused

#: each searcher's name and what runs it now
SUCCESSORS = {
    "single": "single",
    "random": "random",
    "grid": "grid",
    "async_halving": "async_halving",
    "asha": "async_halving",
    "adaptive_asha": "adaptive_asha",
    "adaptive_simple": "adaptive_asha",
    "adaptive": "adaptive_asha",
    "sync_halving": "async_halving",
    "pbt": "pbt",
    "custom": "custom",
}
_PBT = "of the pbt searcher, which `det-compat search` does not run"
_BUDGET = "batches, records or epochs that all trials have together"
_NEEDS_MASTER = "only a Determined master knows what it names: pass the checkpoint's path instead"


def _pbt(name: str, kind: Kind) -> Key:
    return refused(f"searcher.{name}", kind, "0.12 to 0.17", _PBT)


ROWS: tuple[Key, ...] = (
    mapped("searcher", SECTION, "0.12", "how many trials, how long, and by which metric"),
    mapped(
        "searcher.name",
        one_of(*SUCCESSORS),
        "0.12",
        "single trains once; the others run under `det-compat search`, adaptive and "
        "adaptive_simple as adaptive_asha, sync_halving as async_halving; pbt and custom are "
        "refused",
    ),
    mapped(
        "searcher.metric",
        TEXT,
        "0.12",
        "the validation metric that is watched and decides the best",
    ),
    mapped(
        "searcher.smaller_is_better",
        BOOLEAN,
        "0.12",
        "whether the best is the smallest (true by default)",
    ),
    mapped(
        "searcher.max_length",
        LENGTH,
        "0.13",
        "how long a trial trains; a bare number is in the script's own unit",
    ),
    mapped("searcher.max_steps", STEPS, "PEDL to 0.12", "`max_length` in steps of 100 batches"),
    mapped("searcher.target_trial_steps", STEPS, "PEDL to 0.12", "`max_length` in steps"),
    mapped("searcher.max_time", integer(1), "0.38", "how long a trial trains, in `time_metric`"),
    mapped(
        "searcher.time_metric",
        TEXT,
        "0.38",
        "unit of `max_time`: batches, epochs, or a metric that the script reports",
    ),
    mapped(
        "searcher.unit",
        one_of("batches", "records", "epochs"),
        "0.20",
        "unit of a bare `max_length`",
    ),
    mapped("searcher.max_trials", integer(1), "0.12", "number of trials"),
    mapped(
        "searcher.max_concurrent_trials",
        integer(0),
        "0.13",
        "trials that run at once (16 by default; 0 for no limit)",
    ),
    mapped(
        "searcher.mode",
        one_of("aggressive", "standard", "conservative"),
        "0.12",
        "how early adaptive_asha stops trials",
    ),
    mapped("searcher.divisor", number_above(1), "0.12", "1/divisor of the trials go on (4)"),
    mapped("searcher.max_rungs", integer(1), "0.12", "most rungs of a bracket (5)"),
    mapped("searcher.num_rungs", integer(1), "0.12", "rungs of async_halving"),
    mapped("searcher.bracket_rungs", list_of(integer(1)), "0.12", "the brackets, by their rungs"),
    mapped("searcher.stop_once", BOOLEAN, "0.15", "has the effect that ASHA has since 0.38"),
    mapped(
        "searcher.train_stragglers",
        BOOLEAN,
        "PEDL to 0.12",
        "no effect: asynchronous halving waits for no trial",
    ),
    mapped("searcher.budget", LENGTH, "0.13", _BUDGET),
    mapped("searcher.step_budget", STEPS, "PEDL to 0.12", f"`budget` in steps: {_BUDGET}"),
    refused("searcher.source_trial_id", integer(0), "0.12", _NEEDS_MASTER),
    refused("searcher.source_checkpoint_uuid", TEXT, "0.12", _NEEDS_MASTER),
    _pbt("population_size", integer(1)),
    _pbt("num_rounds", integer(1)),
    _pbt("length_per_round", LENGTH),
    _pbt("steps_per_round", STEPS),
    _pbt("replace_function", either(MAPPING, TEXT)),
    _pbt("explore_function", either(MAPPING, TEXT)),
)
