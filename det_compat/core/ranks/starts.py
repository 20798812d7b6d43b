"""A name for each start of torchrun's processes, which all of them find by way of its store.

torchrun 2.13 keeps one store over its restarts, in which the addresses of processes that have ended
stay: torch's own process group takes them for those of now, and cannot be made a second time. The
number of restarts does not tell one start from another, either, since each machine counts those of
its own processes.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from typing import Any

logger = logging.getLogger("determined.core")

_HERE = "det_compat/here"
_CALLED = "det_compat/called"
_PERIOD = 0.05  # seconds between two looks into the store
_PATIENCE = 60.0  # seconds of waiting after which the log says for whom


def name_of_start(store: Any, rank: int, size: int) -> str:
    """The name of this start, which keys in ``store`` may begin with. All processes call it.

    Each puts a token of its own into the store. Rank 0 calls those whose tokens are there, and once
    more if one of them was of a process that has ended. A process that finds its token called says
    so, and goes on when all have.

    Args:
        store: one that all processes reach, and earlier ones have reached.
        rank: of this process.
        size: how many there are.
    """
    token = uuid.uuid4().hex
    store.set(f"{_HERE}/{rank}", token)
    return _call(store, size) if rank == 0 else _wait_for_call(store, rank, token)


def _call(store: Any, size: int) -> str:
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
        if not has_said and time.monotonic() - begun > _PATIENCE:
            has_said = True
            logger.warning(
                f"rank 0 is waiting for ranks {missing}, for as long as they take. If one of them "
                "has ended, what its machine has printed says why: stop this, and start all again"
            )
        time.sleep(_PERIOD)


def _has_heard(store: Any, name: str, rank: int) -> bool:
    return bool(name and store.check([f"{name}/{rank}"]))


def _wait_for_call(store: Any, rank: int, token: str) -> str:
    while True:
        call = json.loads(_value(store, _CALLED) or "{}")
        if rank < len(call.get("tokens", ())) and call["tokens"][rank] == token:
            name = str(call["name"])
            store.set(f"{name}/{rank}", "")
            if store.check([f"{name}/all"]):
                return name
        time.sleep(_PERIOD)


def _value(store: Any, key: str) -> str | None:
    return store.get(key).decode() if store.check([key]) else None
