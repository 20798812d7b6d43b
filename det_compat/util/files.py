"""Folders, links and copies of code."""

import errno
import logging
import os
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from det_compat.errors import NotSupportedError
from det_compat.shared.detignore import ignored_by

logger = logging.getLogger("determined")

_TRIES = 5


def rmtree_nfs_safe(
    path: str | os.PathLike[str],
    ignore_errors: bool = False,
    onerror: Callable[[Any, Any, Any], Any] | None = None,
) -> None:
    """``shutil.rmtree``, tried up to five times where a folder is found not empty, as on NFS."""
    for attempt in range(1, _TRIES + 1):
        try:
            return shutil.rmtree(path, ignore_errors=ignore_errors, onerror=onerror)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or attempt == _TRIES:
                raise
            logger.debug(f"rmtree() failed ({error}), is this NFS?  Retrying (tries={attempt})...")
            time.sleep(2**attempt / 100)
    return None


def force_create_symlink(src: str, dst: str) -> None:
    """Make ``dst`` a link to the folder ``src``, which is made, in place of what is there."""
    os.makedirs(src, exist_ok=True)
    try:
        os.symlink(src, dst, target_is_directory=True)
        return
    except FileExistsError:
        pass
    try:
        if os.path.islink(dst) or os.path.isfile(dst):
            os.unlink(dst)
        else:
            rmtree_nfs_safe(dst)
        os.symlink(src, dst, target_is_directory=True)
        os.chmod(dst, os.stat(dst).st_mode | stat.S_IWOTH)
    except FileExistsError:
        pass  # Another process has made it in the meantime.
    except PermissionError as error:
        logger.warning(f"{error} trying to remove {dst}")


def write_user_code(path: Path, on_cluster: bool) -> None:
    """Copy the working directory to ``path / "code"``, without what its ``.detignore`` excludes.

    Raises:
        NotSupportedError: ``on_cluster`` is true.
    """
    if on_cluster:
        raise NotSupportedError(
            "write_user_code(on_cluster=True) copies a folder that a cluster made: leave it out, "
            "or pass on_cluster=False to copy the working directory"
        )
    target = Path(path) / "code"
    if target.exists():
        rmtree_nfs_safe(target)
    is_ignored = ignored_by(Path(".detignore"), _ALWAYS)

    def left_out(folder: str, names: list[str]) -> list[str]:
        inside = Path(folder).relative_to(".")
        found = []
        for name in names:
            slash = "/" if (Path(folder) / name).is_dir() else ""
            if is_ignored(f"{(inside / name).as_posix()}{slash}"):
                found.append(name)
        return found

    shutil.copytree(".", target, ignore=left_out)
    os.chmod(target, 0o755)


# What every copy leaves out, as of Determined 0.38.1.
_ALWAYS = (
    *("__pycache__/", "*.py[co]", "*$py.class", ".git/", ".vscode/", ".idea/", ".mypy_cache/"),
    *("terraform", "terraform_data", "terraform.tfstate*", "terraform.tfvars*", ".terraform*"),
    "/shared_fs",
)
