from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from det_compat.adapters.lightning.company import Company
from det_compat.core.ranks.starts import NotAllThereError

OF_GLOO = RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer")


def company(rank: int, local_rank: int, lost: int | None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """That of one of four processes on two machines, of which ``lost`` is gone."""
    lifeline = SimpleNamespace(lost=lost, is_closed=False, listen=lambda: (1, b""))
    lifeline.connect = lambda *address: None
    lifeline.look_for_silent = lambda seconds: None
    lifeline.close = lambda: setattr(lifeline, "is_closed", True)
    where = "det_compat.adapters.lightning.company"
    monkeypatch.setattr(f"{where}.Lifeline", lambda *args: lifeline)
    monkeypatch.setattr(f"{where}._SECONDS_OF_WORD", 0.1)
    own: list[Any] = [("head", (1, b"")), "first", "second"]
    found = Company(lambda: "det-compat fit --resume")
    strategy = SimpleNamespace(broadcast=lambda value, src=0: own.pop(0))
    trainer: Any = SimpleNamespace(
        world_size=4, num_nodes=2, global_rank=rank, local_rank=local_rank, strategy=strategy
    )
    found.setup(trainer, trainer, "fit")
    return found


@pytest.mark.parametrize(
    ("rank", "local_rank", "lost", "says"),
    [(0, 0, 3, True), (1, 1, 3, False), (2, 0, 3, False), (1, 1, 0, True), (2, 0, 0, True)],
)
def test_one_process_says_which_one_is_gone(
    rank: int, local_rank: int, lost: int, says: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit) as ended:
        company(rank, local_rank, lost, monkeypatch).explain(OF_GLOO)
    place = "second" if lost == 3 else "first"
    said = str(ended.value.code)
    assert (f"rank {lost}, on {place}, has ended" in said and "--resume" in said) == says
    assert says or ended.value.code == 1


def test_other_errors_are_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    company(0, 0, 3, monkeypatch).explain(ValueError("of the trial"))
    company(0, 0, None, monkeypatch).explain(OF_GLOO)


@pytest.mark.parametrize("stays", [False, True])
def test_a_script_that_goes_on_after_an_error_outlives_the_others(
    stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, ended = company(0, 0, None, monkeypatch), []
    monkeypatch.setattr("det_compat.adapters.lightning.company._SECONDS", 0)
    monkeypatch.setattr("os._exit", ended.append)
    if stays:
        own.stay()
    own._lost(3)
    assert ended == ([] if stays else [1])


def test_a_run_that_is_told_to_end_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    own = company(0, 0, None, monkeypatch)
    own.explain(SystemExit(143))
    assert own._lifeline.is_closed


def test_one_that_is_gone_before_all_have_met(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = Company(lambda: "det-compat fit --resume")
    alone.explain(OF_GLOO)
    late = torch.distributed.DistStoreError("Timed out. 1/2 clients joined.\nframe #0")
    alone.explain(late, is_alone=True)
    with pytest.raises(SystemExit, match=r"has not come.*1/2 clients joined\. Resume the run by: "):
        alone.explain(late)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr("torch.distributed.is_initialized", lambda: True)
    monkeypatch.setattr("torch.distributed.get_world_size", lambda: 2)
    alone.explain(RuntimeError("ProcessGroup is not there"))
    with pytest.raises(
        SystemExit, match=r"another process.*Connection closed by peer\. Start all again"
    ):
        alone.explain(OF_GLOO)


@pytest.mark.parametrize("rank", [0, 2])
def test_one_that_has_not_come_in_time(rank: int) -> None:
    alone = Company(lambda: "det-compat fit --resume")
    on = "Start all again" if rank else "Resume the run by: det-compat fit --resume"
    with pytest.raises(SystemExit, match=f"det-compat: .* for rank 3: .*{on}$"):
        alone.explain(NotAllThereError(rank, [3], 20))
    with pytest.raises(SystemExit, match=r"^1$"):
        alone.explain(NotAllThereError(rank, [3], 20, is_told=True))
