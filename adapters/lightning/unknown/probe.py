"""A fit of next to nothing, to see what a Lightning that is not known does beside training."""

import contextlib
import functools
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from det_compat.adapters.lightning.known import refusal
from det_compat.adapters.lightning.package import MODULE, LightningEnvironment, pl
from det_compat.adapters.lightning.unknown.surroundings import SETTINGS, difference, surroundings
from det_compat.shared.random_state import preserved_random_state

_BATCHES = 3


class _Numbers:
    """Data that draw nothing. Lightning takes a list for several loaders."""

    def __len__(self) -> int:
        return _BATCHES

    def __iter__(self) -> Iterator[torch.Tensor]:
        return map(torch.tensor, range(_BATCHES))


class _Witness(pl.LightningModule):
    """Trains nothing, and says what it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.seen: list[tuple[str, int, bool]] = []

    def training_step(self, batch: Any, batch_idx: int) -> None:
        self._note("trained", batch)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self._note("evaluated", batch)

    def _note(self, what: str, batch: Any) -> None:
        casts = torch.is_autocast_enabled("cpu")
        self.seen.append((what, int(batch), casts))

    def configure_optimizers(self) -> None:
        """Have none."""


@functools.cache
def check_defaults() -> None:
    """Look whether Lightning leaves alone what nothing has told it to change; once a process.

    Where Lightning does not take the flags of this fit, nothing is said.

    Raises:
        InvalidExperimentException: a trial would not be trained as Determined trained it.
    """
    found: str | None = None
    with _as_if_nothing_was(), contextlib.suppress(AttributeError, TypeError, ValueError):
        found = _found()
    if found is not None:
        raise refusal(f"it {found}, which nothing has asked it to do")


def _found() -> str | None:
    for setting in SETTINGS.values():
        first, second = setting.values
        setting.set(second if setting.get() == first else first)
    before = surroundings()
    witness = _Witness()
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=1,
        val_check_interval=2,
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        plugins=[LightningEnvironment()],
    )
    if trainer.precision != "32-true":
        return f"trains with precision={trainer.precision!r}"
    trainer.fit(witness, _Numbers(), _Numbers())
    if (changed := difference(before, surroundings())) is not None:
        return changed
    if witness.weight.tolist() != [1, 1]:
        return "changes weights"
    validation = [("evaluated", number, False) for number in range(_BATCHES)]
    training = [("trained", number, False) for number in range(_BATCHES)]
    if witness.seen != [*training[:2], *validation, *training[2:]]:
        return f"trains and evaluates other batches, or with autocast ({witness.seen})"
    return None


def _rank_zero_only() -> Any:
    # Lightning's types do not export what its documentation does.
    return vars(pl.utilities.rank_zero)["rank_zero_only"]


@contextlib.contextmanager
def _as_if_nothing_was() -> Iterator[None]:
    settings = [(setting, setting.get()) for setting in SETTINGS.values()]
    rank_zero = _rank_zero_only()
    rank = getattr(rank_zero, "rank", None)
    log = logging.getLogger(MODULE.partition(".")[0])
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with preserved_random_state(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
        for setting, value in settings:
            setting.set(value)
        rank_zero.rank = rank
