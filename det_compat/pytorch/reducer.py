"""Metrics that a trial reduces itself, over batches and ranks."""

from __future__ import annotations

import abc
import enum
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload


class Reducer(enum.Enum):
    """How ``PyTorchTrial.evaluation_reducer`` has a metric of ``evaluate_batch`` reduced."""

    AVG = 1
    SUM = 2
    MAX = 3
    MIN = 4


class MetricReducer(abc.ABC):
    """A metric with an accumulator of its own, for ``context.wrap_reducer``.

    How values come in is up to the subclass, ``update(...)`` by custom. Any object with these
    three methods will do.
    """

    @abc.abstractmethod
    def reset(self) -> None:
        """Forget all values: a reporting period or a validation begins."""

    @abc.abstractmethod
    def per_slot_reduce(self) -> Any:
        """What this rank contributes, picklable."""

    @abc.abstractmethod
    def cross_slot_reduce(self, per_slot_metrics: list[Any]) -> Any:
        """The metric, given what each rank contributed, in the order of ranks.

        A dict of metrics where ``wrap_reducer`` got no name, one metric where it got one.
        """


class FunctionReducer(MetricReducer):
    """Collects values and calls ``fn`` with the list of those of all ranks.

    The values of the ranks are interleaved. That is the order of the dataset where ``update`` is
    called once a batch.
    """

    def __init__(self, fn: Callable[[list[Any]], Any]) -> None:
        self.fn = fn
        self.values: list[Any] = []

    def reset(self) -> None:
        """Forget all values."""
        self.values = []

    def update(self, value: Any) -> None:
        """Add a value."""
        self.values.append(value)

    def per_slot_reduce(self) -> Any:
        """The values of this rank."""
        return self.values

    def cross_slot_reduce(self, per_slot_metrics: Sequence[Any]) -> Any:
        """What ``fn`` makes of the values of all ranks."""
        absent = object()
        rounds = itertools.zip_longest(*per_slot_metrics, fillvalue=absent)
        return self.fn([value for values in rounds for value in values if value is not absent])


def as_reducer(value: Any) -> Reducer | None:
    """``value``, or the member of its name where it is the real determined's, else None."""
    if isinstance(value, enum.Enum) and value.name in Reducer.__members__:
        return Reducer[value.name]
    return None


@dataclass
class WrappedReducer:
    """A reducer, and what its metrics are for."""

    reducer: Any
    name: str | None
    for_training: bool
    for_validation: bool

    def call(self, method: str, *args: Any) -> Any:
        """What a method of the reducer returns.

        Raises:
            ValueError: the reducer raised; it is named, and what it raised is the cause.
        """
        try:
            return getattr(self.reducer, method)(*args)
        except Exception as error:
            given = f" of {args[0]!r}" if args else ""
            raise ValueError(
                f"{self} failed in {method}(){given}: {type(error).__name__}: {error}"
            ) from error

    def named(self, reduced: Any) -> dict[str, Any]:
        """What the reducer reduced to, as metrics with names.

        Raises:
            AssertionError: a named reducer gave a dict, or one without a name gave something else.
        """
        if self.name is None and not isinstance(reduced, dict):
            raise AssertionError(
                f"{self._who} was wrapped with name=None but it did not return a dict: it returned "
                f"{type(reduced).__name__}. Return a dict of metrics, or give "
                "wrap_reducer() a name for the one metric"
            )
        if self.name is not None and isinstance(reduced, dict):
            raise AssertionError(
                f"{self._who} was wrapped with name set but it returned a dict anyway: return one "
                "metric, or give wrap_reducer() no name"
            )
        return dict(reduced) if self.name is None else {self.name: reduced}

    def __str__(self) -> str:
        named = "without a name" if self.name is None else f"named {self.name!r}"
        return f"{self._who}, wrapped {named},"

    @property
    def _who(self) -> str:
        if isinstance(self.reducer, FunctionReducer):
            fn = self.reducer.fn
            return f"reducer function {getattr(fn, '__name__', repr(fn))}"
        return f"reducer of type {type(self.reducer).__name__}"


_R = TypeVar("_R", bound=MetricReducer)


class ReducerContext:
    """The reducers of a trial. ``allgather_fn`` gives a list of every rank's argument."""

    def __init__(self, allgather_fn: Callable[[Any], list[Any]] = lambda stuff: [stuff]) -> None:
        self._wrapped_reducers: list[WrappedReducer] = []
        self._allgather_fn = allgather_fn

    @overload
    def wrap_reducer(
        self,
        reducer: _R,
        name: str | None = None,
        for_training: bool = True,
        for_validation: bool = True,
    ) -> _R: ...

    @overload
    def wrap_reducer(
        self,
        reducer: Callable[[list[Any]], Any],
        name: str | None = None,
        for_training: bool = True,
        for_validation: bool = True,
    ) -> FunctionReducer: ...

    def wrap_reducer(
        self,
        reducer: Any,
        name: str | None = None,
        for_training: bool = True,
        for_validation: bool = True,
    ) -> Any:
        """Have ``reducer``'s metric reported with those that the trial returns.

        ``reducer`` is a MetricReducer, which is returned, or a function of the list of all values,
        which is returned as an object with ``update(value)``. Without ``name`` it must reduce to a
        dict of metrics.

        Raises:
            AssertionError: ``reducer`` is neither, or was wrapped before.
        """
        if any(wrapped.reducer is reducer for wrapped in self._wrapped_reducers):
            raise AssertionError(
                f"the same reducer of type {type(reducer).__name__} was given to wrap_reducer() "
                "twice: wrap it once, or make one object for each metric"
            )
        reducer = _as_metric_reducer(reducer)
        self._wrapped_reducers.append(WrappedReducer(reducer, name, for_training, for_validation))
        return reducer

    def reset_reducers(self) -> None:
        """Reset every reducer.

        Raises:
            ValueError: a reducer raised; it is named, and what it raised is the cause.
        """
        for wrapped in self._wrapped_reducers:
            wrapped.call("reset")

    def reduce_metrics(self, for_training: bool) -> dict[str, Any]:
        """The metrics of the reducers for training or for validation, on every rank.

        Raises:
            ValueError: a reducer raised; it is named, and what it raised is the cause.
            AssertionError: a named reducer gave a dict, or one without a name gave something else.
        """
        chosen = [
            wrapped
            for wrapped in self._wrapped_reducers
            if (wrapped.for_training if for_training else wrapped.for_validation)
        ]
        if not chosen:
            return {}
        gathered = self._allgather_fn([wrapped.call("per_slot_reduce") for wrapped in chosen])
        return self.run_cross_slot_reduction(chosen, gathered)

    def run_cross_slot_reduction(
        self, reducables: Sequence[WrappedReducer], gathered: Sequence[Sequence[Any]]
    ) -> dict[str, Any]:
        """The metrics of reducers, given what they contributed on each rank.

        Raises:
            ValueError: a reducer raised; it is named, and what it raised is the cause.
            AssertionError: a named reducer gave a dict, or one without a name gave something else.
        """
        metrics: dict[str, Any] = {}
        for wrapped, per_slot in zip(reducables, zip(*gathered, strict=True), strict=True):
            metrics.update(wrapped.named(wrapped.call("cross_slot_reduce", per_slot)))
        return metrics


def _as_metric_reducer(reducer: Any) -> Any:
    methods = ("reset", "per_slot_reduce", "cross_slot_reduce")
    if all(callable(getattr(reducer, method, None)) for method in methods):
        if not isinstance(reducer, type):
            return reducer
        raise AssertionError(
            f"wrap_reducer() got the class {reducer.__name__}: give it an object, "
            f"wrap_reducer({reducer.__name__}(...))"
        )
    if callable(reducer):
        return FunctionReducer(reducer)
    raise AssertionError(
        f"wrap_reducer() got {type(reducer).__name__}, which is neither a function nor an object "
        "with reset(), per_slot_reduce() and cross_slot_reduce()"
    )
