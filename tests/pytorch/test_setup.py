from __future__ import annotations

import logging
from typing import Any

import pytest
import torch.distributed as dist

import det_compat
from det_compat import core
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch import PyTorchTrialContext, init
from tests.pytorch.libraries import Library

ON_A_RANK = {
    "size": 2,
    "per slot": 4,
    "global": 8,
    "distributed": True,
    "initialized": True,
    "backend": "gloo",
}


def test_one_process(lib: Library) -> None:
    with lib.init(hparams={"global_batch_size": 8}) as context:
        assert isinstance(context, lib.pytorch.PyTorchTrialContext)
        assert context.distributed.get_size() == 1
        assert context.get_per_slot_batch_size() == 8
        assert not dist.is_initialized()


def test_arguments_are_keywords(lib: Library) -> None:
    with pytest.raises(TypeError), lib.pytorch.init({"lr": 1}):
        pass


def test_distributed_may_be_given(lib: Library) -> None:
    distributed = {"det_compat": core}.get(lib.name) or pytest.importorskip("determined.core")
    given = distributed.DummyDistributedContext()
    with lib.init(distributed=given) as context:
        assert context.distributed is given


def test_a_torchrun_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    with init() as context:
        assert context.distributed.get_size() == 1
        assert not dist.is_initialized()


def test_a_launcher_that_is_not_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(RuntimeError, match=r"RANK.*not set.*torchrun"), init():
        pass


def test_invalid_hp_ends_the_process_in_good_order(
    lib: Library, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    home = {"det_compat": det_compat}.get(lib.name) or pytest.importorskip("determined")
    with pytest.raises(SystemExit) as caught, lib.init():
        raise home.InvalidHP("layers must be even")
    assert caught.value.code == 0
    assert "report_early_exit(EarlyExitReason.INVALID_HP)" in caplog.messages


def test_invalid_hp_is_explained(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(SystemExit), init():
        raise det_compat.InvalidHP("layers must be even")
    assert "layers must be even" in caplog.text and "status 0" in caplog.text


@pytest.mark.parametrize("error", [KeyError("user bug"), KeyboardInterrupt(), SystemExit(3)])
def test_exceptions_surface_as_themselves(lib: Library, error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, lib.init():
        raise error
    assert caught.value is error


def test_tensorboard_files_of_the_block_go_into_one_directory() -> None:
    with init() as context:
        assert core.current_tensorboard_path() == context.get_tensorboard_path()
    assert core.current_tensorboard_path() != context.get_tensorboard_path()


def test_a_run_that_cannot_begin_is_not_the_current_one() -> None:
    with pytest.raises(InvalidExperimentException), init(aggregation_frequency=0):
        pass
    with init() as context:
        assert isinstance(context, PyTorchTrialContext)
        assert core.current_tensorboard_path() == context.get_tensorboard_path()


# on two ranks


def check(rank: int, found: dict[str, Any], *, group_stays: bool) -> None:
    assert {key: found[key] for key in ON_A_RANK} == ON_A_RANK
    assert found["rank"] == rank
    assert found["initialized after"] is group_stays


@pytest.mark.parametrize("how", ["plain", "given"])
def test_two_ranks(two_ranks: list[dict[str, Any]], how: str) -> None:
    for rank, found in enumerate(two_ranks):
        check(rank, found[how], group_stays=False)
        assert found["group_is_gone"] is False
    assert two_ranks[0][how]["path"] == two_ranks[1][how]["path"]


def test_two_runs_in_one_process(two_ranks: list[dict[str, Any]]) -> None:
    for rank, found in enumerate(two_ranks):
        first, second = found["twice"]
        check(rank, first, group_stays=False)
        check(rank, second, group_stays=False)
        assert first["path"] != second["path"]


def test_a_process_group_of_the_script_is_used_and_left(two_ranks: list[dict[str, Any]]) -> None:
    for rank, found in enumerate(two_ranks):
        for run in found["group_of_the_script"]:
            check(rank, run, group_stays=True)
        assert len(found["group_of_the_script"]) == 3


def test_invalid_hp_on_two_ranks(two_ranks: list[dict[str, Any]]) -> None:
    for found in two_ranks:
        assert found["invalid_hp"] == {"code": 0, "initialized after": False}


def test_an_exception_on_two_ranks(two_ranks: list[dict[str, Any]]) -> None:
    for found in two_ranks:
        assert found["exception"] == {"error": "'user bug'", "initialized after": False}


def test_a_batch_size_that_two_ranks_cannot_share(two_ranks: list[dict[str, Any]]) -> None:
    for found in two_ranks:
        assert found["odd_batch_size"].startswith("InvalidExperimentException: ")
        assert "multiple of 2, for example 6" in found["odd_batch_size"]
