"""One file on its way to Lightning: what transformations know, and what they leave behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from det_compat.migrate.tree.symbols import Symbols


@dataclass(frozen=True)
class Schedule:
    """A wrapped LR scheduler: its attribute, when it steps, every how many of these.

    The attribute has a star if it is a list of schedulers.

    ``mode`` is the name of Determined's step mode, ``""`` if it is decided at run time.
    """

    attribute: str
    mode: str
    frequency: str = "1"

    @property
    def interval(self) -> str:
        """Lightning's interval; ``""`` where the trial steps it."""
        modes = {"STEP_EVERY_EPOCH": "epoch", "STEP_EVERY_BATCH": "step"}
        return {**modes, "STEP_EVERY_OPTIMIZER_STEP": "step"}.get(self.mode, "")


@dataclass(frozen=True)
class WrappedReducer:
    """A wrapped reducer: its attribute and the expression of its name, if it has one.

    An attribute with a star is a list of reducers, with names that ``loop`` goes through.
    """

    attribute: str
    name: str | None
    loop: str = ""


@dataclass
class TrialPlan:
    """What becomes of a trial class.

    Attributes:
        name: of the class.
        parents: plans of its bases that are trial classes of the tree, or mixins of them.
        is_root: whether it derives from Determined's class itself.
        is_whole: whether all of the trial is in this class, so that its methods can become
            Lightning's; otherwise they stay, and Lightning's call them.
        is_automatic: whether Lightning may step the optimizer.
        hparams: the names of the hyperparameters that are known, in order.
        is_open: whether there may be others.
        defaults: of hyperparameters, from the experiment config.
        arguments: what else of the experiment config the trial asks for.
        optimizers, schedulers, reducers: what this class wraps in its ``__init__``, by attribute;
            with a star in front, the attribute is a list.
        stays: whether its batches are not moved to the device.
        arrays: whether its batches have NumPy's arrays.
        is_moved: whether optimizers are made in ``configure_optimizers`` now.
        calls_init: whether its ``__init__`` calls that of its base.
        methods: the names of its methods with their parameters.
        early: methods that run before there is a Trainer.
        logged: metric names that train_batch is known to return.
    """

    name: str
    parents: list[TrialPlan] = field(default_factory=list)
    is_root: bool = True
    is_whole: bool = True
    is_automatic: bool = False
    hparams: list[str] = field(default_factory=list)
    is_open: bool = False
    defaults: dict[str, Any] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    optimizers: list[str] = field(default_factory=list)
    schedulers: list[Schedule] = field(default_factory=list)
    reducers: list[WrappedReducer] = field(default_factory=list)
    calls_init: bool = False
    is_moved: bool = False
    stays: bool = False
    arrays: bool = False
    methods: dict[str, list[str]] = field(default_factory=dict)
    early: set[str] = field(default_factory=set)
    logged: set[str] = field(default_factory=set)

    @property
    def ancestors(self) -> list[TrialPlan]:
        """This plan and those of its bases, nearest first."""
        found = [self]
        for plan in found:
            found.extend(parent for parent in plan.parents if parent not in found)
        return found

    def parameters(self, method: str) -> list[str] | None:
        """The parameters of a method, its own or inherited; None if there is none."""
        return next((p.methods[method] for p in self.ancestors if method in p.methods), None)

    @property
    def evaluates_whole(self) -> bool:
        """Whether validation is one call with the whole loader."""
        return self.parameters("evaluate_full_dataset") is not None

    @property
    def _initialized(self) -> list[TrialPlan]:
        return [p for p in self.ancestors if p is self or self.calls_init][::-1]

    @property
    def idle_hooks(self) -> list[str]:
        """The hooks of bases that step what this class does not make."""
        if self.is_root or self.calls_init or "__init__" not in self.methods:
            return []
        own = {schedule.interval for schedule in self.schedulers}
        inherited = {s.interval for p in self.ancestors[1:] for s in p.schedulers}
        return sorted(interval for interval in inherited - own if interval)

    @property
    def all_optimizers(self) -> list[str]:
        """The attributes of every optimizer, those of bases first."""
        return [*dict.fromkeys(o for p in self._initialized for o in p.optimizers)]

    @property
    def all_schedulers(self) -> list[Schedule]:
        """Every scheduler, those of bases first."""
        return [*dict.fromkeys(s for p in self._initialized for s in p.schedulers)]


@dataclass
class File:
    """What transformations of a file share.

    Attributes:
        plans: of the trial classes of the file, by name.
        trials: of those of the whole tree.
        callbacks: the names of the classes that are callbacks.
        reducers: those of reducers, and whether they derive from MetricReducer itself.
        functions: the names of the file's functions, and of Python's own.
        names: those that the file binds at its top level.
        has_function_reducers: whether some reducer is a function.
        imports: the import statements that the new code needs.
        kept: the names that are still needed of Determined's.
        local: the statements that functions import the others by.
    """

    path: Path
    symbols: Symbols
    plans: dict[str, TrialPlan]
    trials: dict[str, TrialPlan] = field(default_factory=dict)
    callbacks: set[str] = field(default_factory=set)
    reducers: dict[str, bool] = field(default_factory=dict)
    functions: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    has_function_reducers: bool = False
    imports: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    local: set[str] = field(default_factory=set)
