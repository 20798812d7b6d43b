from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from det_compat.core.storage.local import LocalStorage, is_unfinished


class Killed(BaseException):
    """Stands for the end of the process."""


def written(base: Path) -> LocalStorage:
    storage = LocalStorage(base)
    path = storage.begin("a")
    (path / "code").mkdir()
    (path / "code" / "model_def.py").touch()
    (path / "state").touch()
    storage.commit("a", "{}")
    return storage


def test_a_checkpoint_is_marked_until_it_is_complete(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    path = storage.begin("a")
    assert path == tmp_path / "a" and is_unfinished(path) and storage.metadata("a") is None
    storage.commit("a", "{}")
    assert not is_unfinished(path) and storage.metadata("a") == b"{}"
    assert os.listdir(path) == ["metadata.json"]


def test_what_others_made_is_not_unfinished(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert is_unfinished(tmp_path / "a")  # killed before it could be marked
    (tmp_path / "a" / "checkpoint.pt").touch()
    assert not is_unfinished(tmp_path / "a")


@pytest.mark.parametrize("way", ["delete", "discard"])
@pytest.mark.parametrize("last", range(14))
def test_a_half_deleted_checkpoint_is_unfinished(
    way: str, last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = written(tmp_path)
    done = 0

    def killing(real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal done
            if done == last:
                raise Killed
            done += 1
            return real(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for owner, name in [(os, "replace"), (os, "rmdir"), (os, "unlink"), (shutil, "rmtree")]:
            patch.setattr(owner, name, killing(getattr(owner, name)))
        for name in ("unlink", "rmdir"):
            patch.setattr(Path, name, killing(getattr(Path, name)))
        try:
            getattr(storage, way)("a")
            was_killed = False
        except Killed:
            was_killed = True
    if last == 0:
        assert not is_unfinished(tmp_path / "a")
    elif was_killed and storage.exists("a"):
        assert is_unfinished(tmp_path / "a")
        storage.delete("a")
    else:
        assert not was_killed
    assert storage.exists("a") == (last == 0)


def test_names_of_a_directory_that_is_not_there(tmp_path: Path) -> None:
    assert LocalStorage(tmp_path / "nowhere").names() == []
