from __future__ import annotations

from pathlib import Path

import pytest

from det_compat.core.tensorboard_path import (
    current_tensorboard_path,
    new_tensorboard_path,
    tensorboard_path_is,
)


def test_a_new_run_gets_a_directory_under_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = new_tensorboard_path()
    assert path.parts[0] == "runs" and len(path.parts) == 2
    assert not path.parent.exists()


def test_outside_of_a_run_it_is_a_new_one() -> None:
    assert current_tensorboard_path().parent == new_tensorboard_path().parent


def test_the_innermost_run_counts() -> None:
    with tensorboard_path_is(Path("outer")):
        with tensorboard_path_is(Path("inner")):
            assert current_tensorboard_path() == Path("inner")
        assert current_tensorboard_path() == Path("outer")
    assert current_tensorboard_path() not in (Path("outer"), Path("inner"))


def test_an_exception_ends_the_run() -> None:
    with pytest.raises(KeyError), tensorboard_path_is(Path("run")):
        raise KeyError
    assert current_tensorboard_path() != Path("run")


def test_two_runs_of_one_directory() -> None:
    with tensorboard_path_is(Path("same")):
        with tensorboard_path_is(Path("same")):
            pass
        assert current_tensorboard_path() == Path("same")


def test_runs_that_start_together_have_directories_of_their_own() -> None:
    assert len({new_tensorboard_path() for _ in range(3)}) == 3
