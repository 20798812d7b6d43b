from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from det_compat.pytorch.reducer import (
    FunctionReducer,
    MetricReducer,
    Reducer,
    ReducerContext,
    as_reducer,
)


def theirs() -> Any:
    return pytest.importorskip("determined.pytorch")


def their_context(allgather: Callable[[Any], list[Any]]) -> Any:
    return theirs()._reducer._PyTorchReducerContext(allgather)


class Mean:
    """A reducer by what it does, derived from nothing."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.sum, self.count = 0.0, 0

    def update(self, value: float) -> None:
        self.sum += value
        self.count += 1

    def per_slot_reduce(self) -> Any:
        return self.sum, self.count

    def cross_slot_reduce(self, per_slot_metrics: Any) -> Any:
        sums, counts = zip(*per_slot_metrics)  # noqa: B905
        return sum(sums) / sum(counts)


class Broken(Mean):
    def __init__(self, method: str) -> None:
        super().__init__()

        def fail(*args: Any) -> None:
            raise KeyError("user bug")

        setattr(self, method, fail)


def two_ranks(other: list[Any]) -> Callable[[Any], list[Any]]:
    return lambda stuff: [stuff, other]


def test_same_members_as_determined() -> None:
    assert [(m.name, m.value) for m in Reducer] == [(m.name, m.value) for m in theirs().Reducer]
    methods = {"reset", "per_slot_reduce", "cross_slot_reduce"}
    assert (
        MetricReducer.__abstractmethods__ == theirs().MetricReducer.__abstractmethods__ == methods
    )


def test_same_signature_of_wrap_reducer_as_determined() -> None:
    ours = inspect.signature(ReducerContext.wrap_reducer).parameters
    reference = inspect.signature(type(their_context(list)).wrap_reducer).parameters
    assert [(p.name, p.kind, p.default) for p in ours.values()] == [
        (p.name, p.kind, p.default) for p in reference.values()
    ]


@pytest.mark.parametrize("name", list(Reducer.__members__))
def test_knows_the_reducers_of_determined(name: str) -> None:
    assert as_reducer(theirs().Reducer[name]) is Reducer[name]
    assert as_reducer(Reducer[name]) is Reducer[name]


@pytest.mark.parametrize("value", [1, "AVG", None, Reducer])
def test_knows_no_other_reducers(value: Any) -> None:
    assert as_reducer(value) is None


def test_no_reducers_need_no_exchange() -> None:
    def allgather(stuff: Any) -> list[Any]:
        raise AssertionError("called")

    context = ReducerContext(allgather)
    context.reset_reducers()
    assert context.reduce_metrics(for_training=True) == {}
    context.wrap_reducer(max, name="max", for_training=False)
    assert context.reduce_metrics(for_training=True) == {}


def run(context: Any) -> list[Any]:
    mean = context.wrap_reducer(MeanOfBoth(), name="mean")
    everything = context.wrap_reducer(lambda values: {"all": list(values)})
    train = context.wrap_reducer(sum, name="train", for_validation=False)
    val = context.wrap_reducer(max, "val", False)
    seen = []
    for period in range(3):
        context.reset_reducers()
        for value in range(period, period + 3):
            for reducer in (mean, everything, train, val):
                reducer.update(value)
        seen += [context.reduce_metrics(for_training=t) for t in (True, False)]
    late = context.wrap_reducer(len, name="late")
    late.update("x")
    return [*seen, context.reduce_metrics(for_training=False)]


class MeanOfBoth(Mean, MetricReducer):
    pass


def test_the_same_metrics_as_determined_on_one_rank() -> None:
    ours = run(ReducerContext())
    reference = their_context(lambda stuff: [stuff])
    theirs().MetricReducer.register(MeanOfBoth)
    assert ours == run(reference)
    assert ours[0] == {"mean": 1.0, "all": [0, 1, 2], "train": 3}
    assert ours[1] == {"mean": 1.0, "all": [0, 1, 2], "val": 2}
    assert list(ours[0]) == ["mean", "all", "train"]
    assert ours[-1]["late"] == 1


def test_the_values_of_ranks_are_interleaved() -> None:
    context = ReducerContext(two_ranks([["a", None]]))
    values = context.wrap_reducer(lambda values: {"all": values})
    for value in (1, 2, 3, 4):
        values.update(value)
    assert context.reduce_metrics(for_training=True) == {"all": [1, "a", 2, None, 3, 4]}


def test_contributions_arrive_in_the_order_of_ranks() -> None:
    context = ReducerContext(two_ranks([(6.0, 1)]))
    context.wrap_reducer(Mean(), name="mean").update(2.0)
    assert context.reduce_metrics(for_training=False) == {"mean": 4.0}


def test_returns_what_it_wrapped() -> None:
    context = ReducerContext()
    mean = Mean()
    assert context.wrap_reducer(mean, name="mean") is mean
    assert isinstance(context.wrap_reducer(sum, name="sum"), FunctionReducer)


def test_takes_the_metric_reducers_of_determined() -> None:
    cls = type("Theirs", (theirs().MetricReducer,), dict(vars(Mean)))
    reducer = cls()
    context = ReducerContext()
    assert context.wrap_reducer(reducer, name="mean") is reducer
    reducer.update(3.0)
    assert context.reduce_metrics(for_training=True) == {"mean": 3.0}


def test_one_function_may_be_wrapped_under_two_names() -> None:
    context = ReducerContext()
    first, second = (context.wrap_reducer(sum, name=name) for name in "ab")
    first.update(1)
    second.update(2)
    assert context.reduce_metrics(for_training=True) == {"a": 1, "b": 2}


def test_refuses_to_wrap_one_reducer_twice() -> None:
    context = ReducerContext()
    mean: Any = context.wrap_reducer(Mean(), name="a")
    with pytest.raises(AssertionError, match=r"type Mean.*twice"):
        context.wrap_reducer(mean, name="b")
    total = context.wrap_reducer(sum, name="sum")
    with pytest.raises(AssertionError, match="twice"):
        context.wrap_reducer(total, name="again")


@pytest.mark.parametrize("reducer", [None, 3, "mean", object()])
def test_refuses_what_is_no_reducer(reducer: Any) -> None:
    with pytest.raises(AssertionError, match=type(reducer).__name__):
        ReducerContext().wrap_reducer(reducer, name="x")


def test_refuses_a_class_in_place_of_a_reducer() -> None:
    with pytest.raises(AssertionError, match=r"wrap_reducer\(Mean\(...\)\)"):
        ReducerContext().wrap_reducer(Mean, name="mean")


@pytest.mark.parametrize(
    ("reducer", "name", "message"),
    [
        (lambda values: {"a": 1}, "a", r"with name set but it returned a dict anyway"),
        (sum, None, r"function sum.*returned int.*give wrap_reducer\(\) a name"),
        (functools.partial(sum), None, r"partial.*returned int"),
        (Mean(), None, r"type Mean.*returned float"),
    ],
)
def test_a_name_and_a_dict_exclude_each_other(reducer: Any, name: Any, message: str) -> None:
    context: Any = ReducerContext()
    context.wrap_reducer(reducer, name).update(1)
    with pytest.raises(AssertionError, match=message):
        context.reduce_metrics(for_training=True)


@pytest.mark.parametrize("method", ["reset", "per_slot_reduce", "cross_slot_reduce"])
def test_an_exception_in_a_reducer_names_it(method: str) -> None:
    context: Any = ReducerContext()
    context.wrap_reducer(sum, name="fine")
    context.wrap_reducer(Broken(method), name="mine")
    with pytest.raises(ValueError, match=rf"type Broken.*'mine'.*{method}\(\)") as raised:
        context.reset_reducers()
        context.reduce_metrics(for_training=True)
    assert isinstance(raised.value.__cause__, KeyError)
