"""A name for each start of torchrun's processes, which all of them find by way of its store.

torchrun 2.13 keeps one store over its restarts, in which the addresses of processes that have ended
stay: torch's own process group takes them for those of now, and cannot be made a second time. The
number of restarts does not tell one start from another, either, since each machine counts those of
its own processes.
"""

from __future__ import annotations

import json
import logging
import math
import os
import time
import uuid
from collections.abc import Sequence
from typing import Any

from det_compat.script.machines import ranks_named

logger = logging.getLogger("determined.core")

_HERE = "det_compat/here"
_CALLED = "det_compat/called"
_GIVEN_UP = "det_compat/given up"
_PERIOD = 0.05  # seconds between two looks into the store
_PATIENCE = 60.0  # seconds of waiting after which the log says for whom
# So much longer than rank 0 do the others wait, who may have begun before it did.
_SECONDS_FOR_CHIEF = 15.0


class NotAllThereError(TimeoutError):
    """Other processes have not come in time.

    Args:
        rank: this process's.
        missing: those that have not come, as far as this one knows.
        seconds: how long they were waited for.
        is_told: whether rank 0 says so.

    Attributes:
        rank: this process's.
        is_told: whether it is for another process to say so: where rank 0 is missing, it is for the
            first one of each machine.
    """

    def __init__(
        self, rank: int, missing: Sequence[int], seconds: float, *, is_told: bool = False
    ) -> None:
        self.rank = rank
        self.is_told = is_told or (rank > 0 and os.environ.get("LOCAL_RANK", "0") != "0")
        super().__init__(
            f"rank {rank} has waited {seconds:g} seconds for {ranks_named(missing)}: if one has "
            "ended, what its machine has printed says why"
        )


def name_of_start(store: Any, rank: int, size: int, seconds: float = math.inf) -> str:
    """The name of this start, which keys in ``store`` may begin with. All processes call it.

    Each puts a token of its own into the store. Rank 0 calls those whose tokens are there, and once
    more if one of them was of a process that has ended. A process that finds its token called says
    so, and goes on when all have.

    Args:
        store: one that all processes reach, and earlier ones have reached.
        rank: of this process.
        size: how many there are.
        seconds: how long all of them may take to come.

    Raises:
        NotAllThereError: one of them has not.
    """
    token = uuid.uuid4().hex
    store.set(f"{_HERE}/{rank}", token)
    if rank == 0:
        return _call(store, size, seconds)
    return _wait_for_call(store, rank, size, token, seconds)


def _call(store: Any, size: int, seconds: float) -> str:
    called: list[str | None] = []
    name, begun, has_said = "", time.monotonic(), False
    while True:
        tokens = [_value(store, f"{_HERE}/{rank}") for rank in range(size)]
        if None not in tokens and tokens != called:
            called, name = tokens, uuid.uuid4().hex
            store.set(_CALLED, json.dumps({"name": name, "tokens": called}))
        missing = [rank for rank in range(1, size) if not _has_heard(store, name, rank)]
        if not missing:
            store.set(f"{name}/all", "")
            return name
        if time.monotonic() - begun > seconds:
            store.set(_GIVEN_UP, json.dumps(tokens))
            raise NotAllThereError(0, _absent(tokens) or missing, seconds)
        if not has_said and time.monotonic() - begun > _PATIENCE:
            has_said = True
            logger.warning(
                f"rank 0 is waiting for {ranks_named(_absent(tokens) or missing)}, "
                f"{_for_how_long(seconds)}. If one of them has ended, what its machine has "
                "printed says why: stop this, and start all again"
            )
        time.sleep(_PERIOD)


def _has_heard(store: Any, name: str, rank: int) -> bool:
    return bool(name and store.check([f"{name}/{rank}"]))


def _absent(tokens: list[str | None]) -> list[int]:
    """Those of whom there is nothing; a process that has ended may have left something."""
    return [rank for rank, token in enumerate(tokens) if token is None]


def _for_how_long(seconds: float) -> str:
    return "for as long as they take" if seconds == math.inf else f"for {seconds:g} seconds"


def _wait_for_call(store: Any, rank: int, size: int, token: str, seconds: float) -> str:
    begun = time.monotonic()
    while True:
        call = json.loads(_value(store, _CALLED) or "{}")
        if _is_among(token, rank, call.get("tokens", ())):
            name = str(call["name"])
            store.set(f"{name}/{rank}", "")
            if store.check([f"{name}/all"]):
                return name
        if _is_among(token, rank, json.loads(_value(store, _GIVEN_UP) or "[]")):
            raise NotAllThereError(rank, [0], seconds, is_told=True)
        if time.monotonic() - begun > seconds + _SECONDS_FOR_CHIEF:
            here = [_value(store, f"{_HERE}/{other}") for other in range(size)]
            raise NotAllThereError(rank, sorted({0, *_absent(here)}), seconds)
        time.sleep(_PERIOD)


def _is_among(token: str, rank: int, tokens: Sequence[str | None]) -> bool:
    return rank < len(tokens) and tokens[rank] == token


def _value(store: Any, key: str) -> str | None:
    return store.get(key).decode() if store.check([key]) else None
