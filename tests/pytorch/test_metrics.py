from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from det_compat.errors import InvalidExperimentException
from det_compat.pytorch import metrics as _metrics
from det_compat.pytorch.reducer import Reducer


def theirs() -> Any:
    pytest.importorskip("determined.pytorch")
    from determined.pytorch import _metric_utils

    return _metric_utils


def their_util() -> Any:
    return pytest.importorskip("determined.util")


class Ranks:
    """The chief of several ranks, given what the others send."""

    def __init__(self, *others: Any, rank: int = 0) -> None:
        self.others = others
        self.rank = rank
        self.size = 1 + len(others)

    def gather(self, stuff: Any) -> list[Any] | None:
        return [stuff, *self.others] if self.rank == 0 else None


# NumPy warns of the sums of infinities and the means of nothing that are compared here.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

Series = Callable[[np.random.RandomState], list[Any]]

SERIES: dict[str, Series] = {
    "float64": lambda r: list(r.randn(17)),
    "float": lambda r: [float(x) for x in r.randn(101)],
    "int": lambda r: [int(x) for x in r.randint(0, 9, 7)],
    "bool": lambda r: [True, False, True],
    "float32": lambda r: [np.array(x, np.float32) for x in 1e4 * r.randn(103)],
    "float16": lambda r: [np.array(x, np.float16) for x in 300 * r.randn(103)],
    "float32 of a tensor": lambda r: [torch.tensor(x).float().numpy() for x in r.randn(23)],
    "one element": lambda r: [np.array([x], np.float32) for x in r.randn(9)],
    "vector": lambda r: list(r.randn(5, 4).astype(np.float32)),
    "matrix": lambda r: list(r.randn(5, 4, 3)),
    "int64": lambda r: [np.array(x) for x in r.randint(0, 9, 7)],
    "mixed": lambda r: [1, 2.5, np.float32(0.1), np.array(3), np.array(0.3, np.float32)],
    "nan": lambda r: [1.0, float("nan"), 3.0],
    "inf": lambda r: [1.0, float("inf"), -float("inf")],
    "list": lambda r: [[1, 2.5], [3, 4.5]],
    "complex": lambda r: [1 + 2j, 3j],
}
ODD: dict[str, list[Any]] = {
    "ragged": [[1], [2, 3]],
    "ragged arrays": [np.zeros(2), np.zeros(3)],
    "strings": ["a", "b"],
    "dicts": [{"a": {"b": "text"}}, {"a": {"b": "text"}}],
    "a number and a string": [1.0, "a"],
    "lists of strings": [["a"], ["b"]],
    "bytes": [b"a", b"b"],
}


def same(ours: Any, reference: Any) -> bool:
    """Equal to the last bit, with the same types."""
    if type(ours) is not type(reference):
        return False
    if isinstance(ours, dict):
        equal = [same(ours[name], reference.get(name)) for name in ours]
        return list(ours) == list(reference) and all(equal)
    if isinstance(ours, list):
        return len(ours) == len(reference) and all(map(same, ours, reference))
    if isinstance(ours, np.ndarray):
        same_kind = ours.dtype == reference.dtype and ours.shape == reference.shape
        return bool(same_kind and ours.tobytes() == reference.tobytes())
    return repr(ours) == repr(reference)


def batches_of(series: Series | list[Any], seed: int = 0) -> list[dict[str, Any]]:
    values = series(np.random.RandomState(seed)) if callable(series) else copy.deepcopy(series)
    return [{"metric": value, "index": i} for i, value in enumerate(values)]


def test_same_tells_apart() -> None:
    assert same({"a": [np.float32(1)]}, {"a": [np.float32(1)]})
    assert not same(np.float32(1), np.float64(1))
    assert not same({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert not same(np.array(0.1), np.array(np.nextafter(0.1, 1)))


def tensors() -> dict[str, Any]:
    weight = torch.ones(3)
    return {
        "loss": torch.tensor(0.1),
        "vector": torch.arange(4),
        "half": torch.tensor(0.1, dtype=torch.float16),
        "view": weight[1:],
        "number": 3.5,
        "nested": {"a": "text"},
    }


def test_to_numpy_converts_in_place_as_determined() -> None:
    metrics = tensors()
    assert _metrics.to_numpy(metrics) is metrics
    assert same(metrics, theirs()._convert_metrics_to_numpy(tensors()))


def test_to_numpy_detaches_and_has_float32_for_bfloat16() -> None:
    attached = torch.ones(2, requires_grad=True)
    metrics = _metrics.to_numpy({"a": attached * 2, "b": torch.tensor(0.1, dtype=torch.bfloat16)})
    assert metrics["a"].tolist() == [2, 2]
    assert metrics["b"].dtype == np.float32
    assert metrics["b"] == torch.tensor(0.1, dtype=torch.bfloat16).float()


@pytest.mark.parametrize("name", [*SERIES, *ODD])
def test_average_training_metrics_as_determined(name: str) -> None:
    batches = batches_of(SERIES.get(name) or ODD[name])
    expected = their_util().make_metrics(None, copy.deepcopy(batches))["avg_metrics"]
    ours = _metrics.average_training_metrics(batches)
    assert same(ours, expected)
    assert (ours["metric"] is None) == (name in ODD)


@pytest.mark.parametrize(
    "batches", [[], [{}], [{}, {}], [{"a": []}, {"a": []}], [{"a": None}, {"a": None}]]
)
def test_average_of_nothing_as_determined(batches: list[dict[str, Any]]) -> None:
    expected = their_util().make_metrics(None, batches)["avg_metrics"]
    assert same(_metrics.average_training_metrics(batches), expected)


def test_average_leaves_none_out_where_determined_fails() -> None:
    batches = [{"a": 1.0}, {"a": None}, {"a": 2.0}]
    assert _metrics.average_training_metrics(batches) == {"a": 1.5}


@pytest.mark.parametrize("value", [[torch.ones(1, requires_grad=True)], object()])
def test_average_of_what_determined_fails_on_is_none(value: Any) -> None:
    assert _metrics.average_training_metrics([{"a": value}, {"a": value}]) == {"a": None}


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([{"a": 1}, {"a": 1}, {"b": 1}], r"batch 2 .*\['b'\].*\['a'\].*a, b"),
        ([{"a": 1}, {"a": 1, "extra": 2}], r"batch 1 .*has extra\."),
        ([{"a": 1}, {}], r"batch 1 .*has a\."),
    ],
)
def test_names_that_differ_between_batches_are_an_error(
    batches: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        _metrics.average_training_metrics(batches)


def their_combination(ranks: list[list[dict[str, Any]]]) -> Any:
    transpose = their_util()._list_to_dict
    others = [(transpose(rank), len(rank)) for rank in ranks[1:]]
    return theirs()._combine_and_average_training_metrics(Ranks(*others), ranks[0])


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", list(SERIES))
def test_combine_training_metrics_as_determined(name: str, size: int) -> None:
    ranks = [batches_of(SERIES[name], seed) for seed in range(size)]
    expected = their_combination(copy.deepcopy(ranks))
    ours = _metrics.combine_training_metrics(Ranks(*ranks[1:]), ranks[0])
    assert same(ours, expected)
    averaged = _metrics.average_training_metrics(ours)
    assert same(averaged, their_util().make_metrics(None, expected)["avg_metrics"])


def test_combine_leaves_out_ranks_without_batches_and_metrics_of_others_as_determined() -> None:
    ranks: list[list[dict[str, Any]]] = [[{"a": 1.0}], [], [{"extra": "x", "a": 4.0}]]
    ours = _metrics.combine_training_metrics(Ranks(*ranks[1:]), ranks[0])
    assert same(ours, their_combination(ranks))


@pytest.mark.parametrize("name", ["strings", "dicts", "lists of strings", "bytes"])
def test_combine_keeps_what_the_chief_has_where_determined_fails(name: str) -> None:
    own, other = batches_of(ODD[name]), batches_of(ODD[name][::-1])
    with pytest.raises(TypeError):
        their_combination([copy.deepcopy(own), copy.deepcopy(other)])
    combined = _metrics.combine_training_metrics(Ranks(other), own)
    assert [batch["metric"] for batch in combined] == ODD[name]
    assert [batch["index"] for batch in combined] == [0, 1]


def test_combine_keeps_what_the_chief_has_where_shapes_differ() -> None:
    combined = _metrics.combine_training_metrics(Ranks([{"a": [2, 3]}]), [{"a": [1]}])
    assert combined == [{"a": [1]}]


@pytest.mark.parametrize("batches", [[], [{}], [{}, {}]])
def test_combine_nothing(batches: list[dict[str, Any]]) -> None:
    assert _metrics.combine_training_metrics(Ranks(copy.deepcopy(batches)), batches) == batches


def test_other_ranks_get_their_own_metrics_back() -> None:
    batches = [{"a": 1.0}]
    assert _metrics.combine_training_metrics(Ranks([{"a": 3.0}], rank=1), batches) is batches
    assert _metrics.combine_training_metrics(Ranks(), batches) is batches


def test_ranks_that_differ_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"batch 1 .*rank 1 lacks b, which rank 0 has"):
        _metrics.combine_training_metrics(Ranks([{"b": 1}, {}]), [{"b": 1}, {"b": 1}])
    with pytest.raises(ValueError, match=r"rank 2 trained 1 batches.*rank 0 trained 2"):
        _metrics.combine_training_metrics(Ranks([{}, {}], [{}]), [{}, {}])


def test_expand_reducers() -> None:
    assert _metrics.expand_reducers(Reducer.SUM, ["b", "a"]) == {"b": Reducer.SUM, "a": Reducer.SUM}
    each = {"a": Reducer.MAX, "b": Reducer.MIN}
    assert list(_metrics.expand_reducers(each, ["b", "a"]).items()) == [
        ("b", Reducer.MIN),
        ("a", Reducer.MAX),
    ]
    assert _metrics.expand_reducers(Reducer.AVG, []) == {}
    assert _metrics.expand_reducers({}, {}.keys()) == {}


def test_expand_reducers_takes_those_of_determined() -> None:
    reducer = pytest.importorskip("determined.pytorch").Reducer
    expanded = _metrics.expand_reducers({"a": reducer.MAX, "b": Reducer.MIN}, ["a", "b"])
    assert expanded == {"a": Reducer.MAX, "b": Reducer.MIN}


@pytest.mark.parametrize(
    ("reducer", "message"),
    [
        ({"a": Reducer.AVG}, r"\['a'\].*\['a', 'b'\]"),
        ({"a": Reducer.AVG, "b": Reducer.AVG, "c": Reducer.AVG}, r"\['a', 'b', 'c'\]"),
        ({}, r"\[\].*\['a', 'b'\]"),
        ({"a": Reducer.AVG, "b": "sum"}, r"'sum' for the metric 'b'.*pytorch\.Reducer\.AVG"),
        ("AVG", "'AVG' for the metric 'a'"),
        (None, "None for the metric 'a'"),
    ],
)
def test_reducers_that_do_not_match_are_an_error(reducer: Any, message: str) -> None:
    with pytest.raises(InvalidExperimentException, match=message):
        _metrics.expand_reducers(reducer, ["a", "b"])
    their_exception = pytest.importorskip("determined").errors.InvalidExperimentException
    with pytest.raises(their_exception):
        theirs()._prepare_metrics_reducers(reducer, keys={"a": 0, "b": 0}.keys())


def their_reduction(ranks: list[list[dict[str, Any]]], reducer: Reducer) -> Any:
    their_reducer = pytest.importorskip("determined.pytorch").Reducer[reducer.name]
    others = []
    for batches in [*ranks[1:], ranks[0]]:
        keys = batches[0].keys() if batches else {}.keys()
        reducers = dict.fromkeys(keys, their_reducer)
        distributed = Ranks(*others) if batches is ranks[0] else Ranks()
        reduced = theirs()._reduce_metrics(distributed, batches, keys, reducers)
        others.append((reduced, len(batches)))
    return reduced


@pytest.mark.parametrize("reducer", list(Reducer))
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("name", list(SERIES))
def test_reduce_validation_metrics_as_determined(name: str, size: int, reducer: Reducer) -> None:
    # Ranks hold different numbers of batches.
    ranks = [batches_of(SERIES[name], seed)[: len(SERIES) - seed] for seed in range(size)]
    reducers = dict.fromkeys(["index", "metric"], reducer)
    sent = [(their_reduction([rank], reducer), len(rank)) for rank in ranks[1:]]
    ours = _metrics.reduce_validation_metrics(Ranks(*sent), ranks[0], reducers)
    assert same(ours, their_reduction(ranks, reducer))


def test_reduce_uses_the_reducer_of_each_metric() -> None:
    batches = [{"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 3.0, "b": 3.0, "c": 3.0}]
    reducers = {"c": Reducer.MIN, "b": Reducer.SUM, "a": Reducer.AVG}
    other = ({"a": 5.0, "b": 5.0, "c": 0.0}, 1)
    reduced = _metrics.reduce_validation_metrics(Ranks(other, ({}, 0)), batches, reducers)
    assert reduced == {"a": 3.0, "b": 9.0, "c": 0.0}
    assert list(reduced) == ["a", "b", "c"]


def test_other_ranks_reduce_to_nothing() -> None:
    reducers = {"a": Reducer.AVG}
    assert _metrics.reduce_validation_metrics(Ranks(0, rank=1), [{"a": 1.0}], reducers) == {}


def test_reduce_no_metrics() -> None:
    assert _metrics.reduce_validation_metrics(Ranks(), [{}, {}], {}) == {}
    assert _metrics.reduce_validation_metrics(Ranks(({}, 2)), [{}, {}], {}) == {}
    assert _metrics.reduce_validation_metrics(Ranks(({}, 0)), [], {}) == {}


@pytest.mark.parametrize("name", ["ragged", "ragged arrays", "strings", "dicts"])
def test_metrics_that_cannot_be_reduced_are_an_error(name: str) -> None:
    batches = batches_of(ODD[name])
    reducers = dict.fromkeys(["metric", "index"], Reducer.AVG)
    with pytest.raises(ValueError, match=r"'metric' cannot be reduced by Reducer.AVG") as raised:
        _metrics.reduce_validation_metrics(Ranks(), batches, reducers)
    assert raised.value.__cause__ is not None
