from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from det_compat import core
from tests.core.threads import on_ranks


def test_ranks_of_a_machine_share_a_download(tmp_path: Path) -> None:
    def run(distributed: Any) -> list[str]:
        context = core.init(distributed=distributed, checkpoint_storage=str(tmp_path / "storage"))
        metadata = {"steps_completed": 1}
        with context.checkpoint.store_path(metadata, shard=True) as (path, uuid):
            (path / f"rank{distributed.rank}").write_text("")
        target = tmp_path / f"machine{distributed.cross_rank}"
        wanted = f"rank{distributed.rank}"
        context.checkpoint.download(uuid, target, selector=lambda path: path == wanted)
        return sorted(path.name for path in target.iterdir())

    machines = [["rank0", "rank1"]] * 2 + [["rank2", "rank3"]] * 2
    assert on_ranks(run, 4, 2) == machines


def test_a_download_that_fails_is_an_error_for_all(tmp_path: Path) -> None:
    def run(distributed: Any) -> str:
        context = core.init(distributed=distributed, checkpoint_storage=str(tmp_path))
        with pytest.raises(Exception, match="Did not find checkpoint gone") as caught:
            context.checkpoint.download("gone", tmp_path / "target")
        with pytest.raises(Exception, match="Did not find checkpoint gone"):
            context.checkpoint.restore_path("gone").__enter__()
        return caught.type.__name__

    assert on_ranks(run) == ["CheckpointNotFound", "RuntimeError"]
