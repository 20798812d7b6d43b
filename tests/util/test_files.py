from __future__ import annotations

import errno
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from det_compat.errors import NotSupportedError
from det_compat.util import files


@pytest.mark.parametrize("there", ["nothing", "folder", "file", "link"])
def test_a_link_takes_the_place_of_what_is_there(there: str, tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    if there == "folder":
        (link / "inner").mkdir(parents=True)
    elif there == "file":
        link.write_text("x")
    elif there == "link":
        link.symlink_to(tmp_path)
    files.force_create_symlink(str(target), str(link))
    assert link.is_symlink() and link.resolve() == target and target.is_dir()


def test_a_folder_that_is_not_empty_at_first_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[Any] = []

    def rmtree(*args: Any, **kwargs: Any) -> None:
        tries.append(args)
        if len(tries) < 3:
            raise OSError(errno.ENOTEMPTY, "not empty")

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    files.rmtree_nfs_safe(tmp_path)
    assert len(tries) == 3
    with pytest.raises(OSError):
        monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: Path(tmp_path / "no").unlink())
        files.rmtree_nfs_safe(tmp_path)


def test_user_code_is_copied_without_what_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for name in ("dir/file.py", "dir/subdir/a.py", "__pycache__/x.pyc", "keep.py", ".git/config"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("")
    (source / ".detignore").write_text("\ndir/sub*/\n")
    monkeypatch.chdir(source)
    target.mkdir()
    with caplog.at_level(logging.DEBUG):
        for _ in range(2):
            files.write_user_code(target, False)
    copied = {path.relative_to(target / "code").as_posix() for path in target.rglob("*.py")}
    assert copied == {"dir/file.py", "keep.py"}
    assert not (target / "code" / "__pycache__").exists() and not (target / "code/.git").exists()
    with pytest.raises(NotSupportedError, match="on_cluster=False"):
        files.write_user_code(target, on_cluster=True)
