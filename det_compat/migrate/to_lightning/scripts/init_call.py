"""What scripts give ``pytorch.init()``."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from det_compat.migrate.tree import syntax

_KNOWN = {"hparams", "exp_conf", "aggregation_frequency", "enable_tensorboard_logging"}


@dataclass(frozen=True)
class Init:
    """What ``pytorch.init()`` was given: expressions as text, ``""`` for none."""

    hparams: str = ""
    exp_conf: str = ""
    aggregation: str = ""


def given_to_init(call: cst.Call) -> Init | None:
    """What ``init()`` is given; None if something of it has no place in Lightning."""
    given = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    if len(given) < len(call.args) or not given.keys() <= _KNOWN:
        return None
    texts = {name: syntax.code(value) for name, value in given.items()}
    said = {name: text for name, text in texts.items() if text != "None"}
    aggregation = said.get("aggregation_frequency", "1")
    # A step after each batch is what there is without the word.
    frequency = "" if aggregation == "1" else aggregation
    return Init(said.get("hparams", ""), said.get("exp_conf", ""), frequency)
