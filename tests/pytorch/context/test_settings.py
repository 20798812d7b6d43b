from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from det_compat.errors import InternalException, InvalidExperimentException
from det_compat.pytorch import CheckpointLoadContext, PyTorchTrialContext, init
from det_compat.pytorch.context.settings import split_global_batch_size
from tests.pytorch.libraries import Library

HPARAMS = {"global_batch_size": 8, "lr": 0.1, "net": {"layers": [1, 2]}, "none": None}
CONFIG = {"data": {"url": "s3://here"}, "searcher": {"metric": "loss"}}


@contextmanager
def context(**kwargs: Any) -> Iterator[PyTorchTrialContext]:
    with init(**kwargs) as context:
        yield context


def test_hyperparameters(lib: Library) -> None:
    with lib.init(hparams=HPARAMS) as context:
        assert context.get_hparams() is HPARAMS
        assert context.get_hparam("lr") == 0.1
        assert context.get_hparam("net") is HPARAMS["net"]
        assert context.get_hparam("none") is None


def test_an_unknown_hyperparameter(lib: Library) -> None:
    with lib.init(hparams=HPARAMS) as context, pytest.raises(ValueError, match="momentum"):
        context.get_hparam("momentum")


def test_the_error_lists_the_names_that_exist() -> None:
    with context(hparams=HPARAMS) as one, pytest.raises(ValueError) as caught:
        one.get_hparam("momentum")
    for name in HPARAMS:
        assert repr(name) in str(caught.value)


def test_names_that_are_no_strings_are_listed_too() -> None:
    with context(hparams={1: "x", "lr": 0.1}) as one:
        with pytest.raises(ValueError, match="'1', 'lr'"):
            one.get_hparam("momentum")
        with pytest.raises(ValueError, match="'1', 'lr'"):
            one.get_per_slot_batch_size()


@pytest.mark.parametrize("method", ["get_hparams", "get_hparam"])
def test_no_hyperparameters(lib: Library, method: str) -> None:
    args = ["lr"] if method == "get_hparam" else []
    with lib.init() as context, pytest.raises(ValueError, match="hparams"):
        getattr(context, method)(*args)


def test_no_hyperparameters_says_what_to_do() -> None:
    with context() as one, pytest.raises(ValueError, match=r"pass hparams=\{...\}"):
        one.get_hparam("lr")


def test_asking_for_global_batch_size_as_a_hyperparameter_warns(
    lib: Library, caplog: pytest.LogCaptureFixture
) -> None:
    with lib.init(hparams=HPARAMS) as context:
        caplog.clear()
        assert context.get_hparam("global_batch_size") == 8
    (record,) = (record for record in caplog.records if record.levelname == "WARNING")
    assert record.name == "determined.pytorch"
    assert "get_per_slot_batch_size" in record.message


def test_batch_sizes(lib: Library) -> None:
    with lib.init(hparams=HPARAMS) as context:
        assert context.get_global_batch_size() == 8
        assert context.get_per_slot_batch_size() == 8


@pytest.mark.parametrize("hparams", [None, {}, {"lr": 1}, {"global_batch_size": 0}])
@pytest.mark.parametrize("method", ["get_global_batch_size", "get_per_slot_batch_size"])
def test_no_batch_size(lib: Library, method: str, hparams: Any) -> None:
    with lib.init(hparams=hparams) as context, pytest.raises(ValueError, match="batch_size"):
        getattr(context, method)()


def test_no_batch_size_says_who_asked_and_what_there_is() -> None:
    with context(hparams={"lr": 1}) as one:
        with pytest.raises(ValueError, match=r"get_per_slot_batch_size\(\).*global_batch_size"):
            one.get_per_slot_batch_size()
        with pytest.raises(ValueError, match=r"get_global_batch_size\(\).*only \['lr'\].*Add it"):
            one.get_global_batch_size()
    with context() as one, pytest.raises(ValueError, match="no hparams were given"):
        one.get_global_batch_size()


def test_experiment_config(lib: Library) -> None:
    with lib.init(exp_conf=CONFIG) as context:
        assert context.get_experiment_config() is CONFIG
        assert context.get_data_config() == {"url": "s3://here"}
    with lib.init(exp_conf={"searcher": {}}) as context:
        assert context.get_data_config() == {}


@pytest.mark.parametrize("method", ["get_experiment_config", "get_data_config"])
def test_no_experiment_config(lib: Library, method: str) -> None:
    with lib.init() as context, pytest.raises(ValueError, match="exp_conf"):
        getattr(context, method)()


def test_a_local_run_has_no_seed(lib: Library) -> None:
    with lib.init() as context, pytest.raises(lib.errors.InternalException, match="seed"):
        context.get_trial_seed()


def test_the_seed_of_the_experiment_config() -> None:
    with context(exp_conf={"reproducibility": {"experiment_seed": 7}}) as one:
        assert one.get_trial_seed() == 7
    with context(exp_conf={"reproducibility": None}) as one, pytest.raises(InternalException) as no:
        one.get_trial_seed()
    assert "experiment_seed in exp_conf" in str(no.value)


def test_the_seed_of_a_loaded_trial(lib: Library) -> None:
    assert lib.pytorch.CheckpointLoadContext().get_trial_seed() == 0


def test_a_run_begins_at_the_first_batch(lib: Library) -> None:
    with lib.init() as context:
        assert context.get_initial_batch() == 0


def test_there_are_no_experiments_to_number() -> None:
    one = CheckpointLoadContext()
    assert (one.get_experiment_id(), one.get_trial_id()) == (0, 0)


# split_global_batch_size


@pytest.mark.parametrize(("size", "slots"), [(8, 1), (8, 2), (8, 8), (1, 1)])
def test_splits_as_determined_does(size: int, slots: int) -> None:
    split = split_global_batch_size({"global_batch_size": size}, slots)
    assert split == (size // slots, size)
    reference = pytest.importorskip("determined.util").calculate_batch_sizes
    assert split == reference({"global_batch_size": size}, slots, "PyTorchTrial")


@pytest.mark.parametrize("hparams", [None, {}, {"lr": 1}, {"global_batch_size": None}])
def test_nothing_to_split(hparams: Any) -> None:
    assert split_global_batch_size(hparams, 2) == (None, None)


@pytest.mark.parametrize("size", [8.0, "8", [8]])
def test_it_must_be_an_integer(size: Any) -> None:
    with pytest.raises(InvalidExperimentException) as caught:
        split_global_batch_size({"global_batch_size": size}, 2)
    for told in ("global_batch_size", "integer", repr(size), type(size).__name__):
        assert told in str(caught.value)
    errors = pytest.importorskip("determined.errors")
    with pytest.raises(errors.InvalidExperimentException):
        pytest.importorskip("determined.util").calculate_batch_sizes(
            {"global_batch_size": size}, 2, "PyTorchTrial"
        )


def test_true_is_no_batch_size() -> None:
    with pytest.raises(InvalidExperimentException, match="got True"):
        split_global_batch_size({"global_batch_size": True}, 1)


@pytest.mark.parametrize(("size", "example"), [(7, 6), (1, 2), (101, 100)])
def test_it_must_divide_by_the_slots(size: int, example: int) -> None:
    with pytest.raises(InvalidExperimentException) as caught:
        split_global_batch_size({"global_batch_size": size}, 2)
    assert f"global_batch_size={size}" in str(caught.value)
    assert "multiple of 2" in str(caught.value)
    assert str(caught.value).endswith(f"for example {example}.")


@pytest.mark.parametrize("hparams", [[1], "lr", 3])
def test_hparams_are_a_dict(hparams: Any) -> None:
    with pytest.raises(TypeError, match="hparams must be a dict"):
        split_global_batch_size(hparams, 1)
