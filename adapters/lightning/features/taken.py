"""What a run takes from its Trainer, and gives back at its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from det_compat.adapters.lightning import door, epoch_loop, strategy
from det_compat.adapters.lightning.features import finders, own_callbacks
from det_compat.adapters.lightning.features.attempts import Attempts
from det_compat.adapters.lightning.package import pl
from det_compat.adapters.lightning.sources import Source


@dataclass
class Taken:
    """Flags and finders that Lightning would refuse, or do otherwise than a trial needs.

    Args:
        flags: the Trainer's flags for gradients, by their names.
        finders: its LearningRateFinder and BatchSizeFinder, with their places.
    """

    flags: dict[str, Any] = field(default_factory=dict)
    finders: finders.Finders = field(default_factory=list)

    @classmethod
    def of(cls, trainer: pl.Trainer) -> Taken:
        """Take them; Lightning would refuse the flags a little later, and the finders' names.

        Raises:
            InvalidExperimentException: one of the finders could not search.
        """
        found = finders.take_finders(trainer)
        return cls(strategy.take_gradient_flags(trainer), found)

    def search(
        self,
        trainer: pl.Trainer,
        source: Source,
        weights: dict[str, Any],
        save: Callable[[dict[str, Any]], None],
    ) -> None:
        """Search with the finders, each value with a trial of its own that begins with ``weights``.

        ``save`` is told the hyperparameters that a checkpoint keeps.
        """
        finders.find(Attempts(trainer, source, self.flags, weights), self.finders, save)

    def give_back(self, trainer: pl.Trainer) -> None:
        """Put all of it back, and take away what the run has put in its place."""
        door.release_trainer(trainer)
        own_callbacks.remove_first(trainer)
        epoch_loop.restore_loops(trainer)
        strategy.give_back(trainer, self.flags)
        finders.give_back_finders(trainer, self.finders)
