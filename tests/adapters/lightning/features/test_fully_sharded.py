"""Trials on two ranks, by ``ddp`` and with their models in shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.fsdp

from det_compat import to_lightning
from tests.adapters.lightning.features import fully_sharded_ranks as ranks
from tests.adapters.trials import trainer
from tests.torchrun import on_two_ranks

HAS_FSDP2 = hasattr(
    getattr(torch.distributed.fsdp, "FSDPModule", None), "set_reshard_after_forward"
)
with_fsdp2 = pytest.mark.skipif(not HAS_FSDP2, reason="this torch has no FSDP2 that would do")
TRIALS = {"rivals": ranks.Rivals, "uneven": ranks.Uneven}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return on_two_ranks(Path(str(ranks.__file__)), tmp_path_factory)


@pytest.fixture(scope="module")
def folder(found: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.getbasetemp()
    [path] = [*base.glob("features-*/Rivals.ckpt"), *base.parent.glob("features-*/Rivals.ckpt")]
    return path.parent


@with_fsdp2
@pytest.mark.parametrize("trial", TRIALS)
def test_weights_and_metrics_are_those_of_ddp(found: list[dict[str, Any]], trial: str) -> None:
    expected, metrics = found[0][trial]["ddp"]
    for way in ("sharded", "on"):
        torch.testing.assert_close(found[0][trial][way][0], expected, atol=1e-4, rtol=1e-4)
    assert found[0][trial]["sharded"][1] == pytest.approx(metrics, rel=1e-4)


@with_fsdp2
@pytest.mark.parametrize("trial", TRIALS)
def test_each_rank_has_a_part(found: list[dict[str, Any]], trial: str) -> None:
    for name in ("sharded", "on"):
        assert found[1][trial][f"{name} shapes"] == found[1][trial]["ddp shapes"]
        whole, part = (found[rank][trial][name][0] for rank in (0, 1))
        assert part.keys() == whole.keys()
        assert sum(map(torch.numel, part.values())) < sum(map(torch.numel, whole.values()))


@with_fsdp2
def test_one_rank_reads_a_checkpoint(found: list[dict[str, Any]], folder: Path) -> None:
    path = folder / "Rivals.ckpt"
    module = to_lightning(ranks.Rivals).load_from_checkpoint(path)
    torch.testing.assert_close(dict(module.state_dict()), found[0]["rivals"]["part"][0])
    optimizers = torch.load(path, weights_only=True)["optimizer_states"]
    assert [len(state["state"]) for state in optimizers] == [4, 4]
    trainer(max_epochs=2).fit(to_lightning(ranks.Rivals)(ranks.HPARAMS), ckpt_path=path)


@with_fsdp2
def test_ranks_train_the_same_in_half_the_precision(found: list[dict[str, Any]]) -> None:
    by_ddp, sharded = found[0]["precision"]
    assert by_ddp.dtype == torch.bfloat16
    for weights in (sharded, *found[1]["precision"]):
        assert torch.equal(weights, by_ddp)


@with_fsdp2
@pytest.mark.parametrize(
    ("case", "words"),
    {
        "callback": "EMAWeightAveraging does not go with strategy='fully_shard'",
        "penalized": "weights of a sharded model outside of its forward()",
        "in parts": "torch cannot do what the trial or its optimizer does with weights",
        "one number": "OneNumber cannot be sharded: it has a parameter that is one number, scale",
        "list": "torch cannot shard the model ModuleList",
    }.items(),
)
def test_refused(found: list[dict[str, Any]], case: str, words: str) -> None:
    if case == "in parts" and found[0][case] is None:
        pytest.skip("this torch steps Rprop on parts, as 2.15 does")
    for rank in found:
        assert words in rank[case]
        assert "ddp" in rank[case]


@pytest.mark.skipif(HAS_FSDP2, reason="this torch has FSDP2")
def test_a_torch_that_cannot_do_it_is_named(found: list[dict[str, Any]]) -> None:
    for rank in found:
        assert "strategy='fully_shard' needs a newer torch than 2." in rank["penalized"]
        assert "use strategy='ddp'" in rank["penalized"]
