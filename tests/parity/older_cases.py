"""Trials of older generations on Lightning, the same rewritten for the context API before it."""

from __future__ import annotations

from typing import Any

from case import Case, epochs


def _case(name: str, older: str = "", ranks: tuple[int, ...] = (1, 2), **given: Any) -> Case:
    trial = given.pop("trial", "Rewritten")
    return Case(
        f"0.12-{name}",
        f"rewritten:{trial}",
        {"global_batch_size": 8, **given.pop("hparams", {})},
        {"max_length": epochs(3)},
        ranks=ranks,
        lightning=True,
        recorder=False,
        older=f"older:{older or trial}",
        **given,
    )


def determined_0_12() -> list[Case]:
    cases = [
        _case("plain"),
        _case("reset-parameters", hparams={"reset": True}, ranks=(1,)),
        # On two ranks Determined 0.38.1 hangs: one rank alone goes through the models.
        _case("full-dataset", trial="RewrittenFullDataset", hparams={"clip": "norm"}, ranks=(1,)),
    ]
    for mode in ("STEP_EVERY_EPOCH", "STEP_EVERY_BATCH", "MANUAL_STEP"):
        for aggregation in (1, 3):
            short = mode.lower().replace("_", "-")
            hparams = {"step_mode": mode, "clip": "norm" if aggregation == 3 else "value"}
            given: dict[str, Any] = {"hparams": hparams, "aggregation": aggregation}
            cases.append(_case(f"{short}-aggregated-{aggregation}", **given))
    by_epoch = {"step_mode": "STEP_EVERY_EPOCH"}
    return [
        *cases,
        _case("early-keywords", hparams={**by_epoch, "early": True}, ranks=(1,)),
        _case("earliest", "Earliest", hparams=by_epoch, ranks=(1,)),
        _case("transitional", "Transitional", hparams={**by_epoch, "clip": "norm"}),
    ]
