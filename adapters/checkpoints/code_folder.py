"""The ``code`` folder of a checkpoint: the sources that the trial may be imported from.

Copying never ends a run: what cannot be read, or would make the folder large, is left out, and one
warning a run says so.
"""

import functools
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from det_compat.core.store import is_uuid
from det_compat.experiment.run_folder import RECORD
from det_compat.shared.detignore import ignored_by
from det_compat.shared.masking import holds_secrets, is_secret_name

MOST_FILES = 2_000
MOST_BYTES = 32 * 2**20
LARGEST_FILE = 2**20  # bytes
#: Folders and files that are looked at; a data set of loose files may have millions.
MOST_ENTRIES = 20_000

_SUFFIXES = (".py", ".ipynb", ".yaml", ".yml", ".json", ".toml", ".txt")
_CODE = (".py", ".ipynb")
_EVENTS = "events.out.tfevents."  # what TensorBoard's files begin with
# Folders that tools fill: environments, caches, builds and logs.
_TOOLS = ("__pycache__", "node_modules", "site-packages", "lightning_logs", "mlruns", "wandb")
# A folder with one of these is an environment, a run, a search, or a checkpoint, whole or not.
_MARKS = {
    *("pyvenv.cfg", "conda-meta", RECORD, "search.json", "state_dict.pth", "load_data.json"),
    "metadata.json.partial",
}
_FOLDERS_WITH_WEIGHTS = ("determined", "pedl")  # in checkpoints of old versions

logger = logging.getLogger("determined.pytorch")


class CodeFolder:
    """Copies the sources of a directory into the checkpoints of one run.

    Args:
        origin: the directory that training was started from.
        storage: where the checkpoints are; nothing is copied from there.
    """

    def __init__(self, origin: Path, storage: Path) -> None:
        self._origin = origin.resolve()
        self._storage = storage.resolve()
        self._is_ignored = ignored_by(origin / ".detignore")
        self._secret: dict[tuple[Path, int, int], bool] = {}
        self._has_warned = False

    def copy_to(self, target: Path) -> None:
        """Copy the sources into ``target``, which is made."""
        target.mkdir()
        left_out: list[str] = []
        files = size = 0
        for file in self._sources(left_out):
            try:
                size += file.stat().st_size
                if files == MOST_FILES or size > MOST_BYTES:
                    left_out.append(
                        f"all beyond {MOST_FILES:,} files or {MOST_BYTES >> 20} MiB: start the run "
                        "in the folder of its sources, or name what is no source in .detignore"
                    )
                    break
                copy = target / file.relative_to(self._origin)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, copy)
                files += 1
            except FileNotFoundError:
                continue  # It was deleted in the meantime.
            except OSError as error:
                left_out.append(f"{file.relative_to(self._origin)} ({error.strerror or error})")
        if left_out and not self._has_warned:
            self._has_warned = True
            logger.warning(
                f"the code folders of this run's checkpoints leave out, of {self._origin}: "
                + "; ".join([*left_out[:10], *(["..."] if len(left_out) > 10 else [])])
            )

    def _sources(self, left_out: list[str]) -> Iterator[Path]:
        seen = 0
        for folder, folders, files in os.walk(self._origin):
            path = Path(folder)
            if path != self._origin and _is_marked(path, folders, files):
                folders.clear()
                continue
            folders[:] = sorted(name for name in folders if self._may_hold_sources(path / name))
            seen += len(folders) + len(files)
            if seen > MOST_ENTRIES:
                left_out.append(f"all beyond {MOST_ENTRIES:,} files that were looked at")
                return
            if _is_log(files):
                folders.clear()
                continue
            for file in sorted(path / name for name in files):
                if not self._is_source(file):
                    continue
                if self._is_secret(file):
                    left_out.append(f"{file.relative_to(self._origin)} (it looks like a secret)")
                else:
                    yield file

    def _may_hold_sources(self, folder: Path) -> bool:
        return not (
            folder.name.startswith(".")
            or folder.name in _TOOLS
            or folder.name.endswith(".egg-info")
            or is_uuid(folder.name)
            or folder == self._storage
            or self._is_ignored(f"{folder.relative_to(self._origin).as_posix()}/")
        )

    def _is_source(self, file: Path) -> bool:
        try:
            return (
                file.suffix in _SUFFIXES
                and not file.name.startswith(".")
                and file.is_file()
                and file.stat().st_size <= LARGEST_FILE
                and not self._is_ignored(file.relative_to(self._origin).as_posix())
            )
        except OSError:
            return False

    def _is_secret(self, file: Path) -> bool:
        """Whether a file holds a secret; each state of a file is read for it once a run."""
        is_code = file.suffix in _CODE
        if not is_code and is_secret_name(file.stem):
            return True
        try:
            status = file.stat()
            key = (file, status.st_size, status.st_mtime_ns)
            if key not in self._secret:
                # Without its null bytes, UTF-16 reads as UTF-8 does.
                content = file.read_bytes().replace(b"\0", b"")
                text = content.decode("utf-8", errors="ignore").replace('\\"', '"')
                self._secret[key] = holds_secrets(text, is_code=is_code)
            return self._secret[key]
        except OSError:
            return False  # Copying it tells what is wrong with it.


@functools.lru_cache(maxsize=1)
def code_folder(origin: Path, storage: Path) -> CodeFolder:
    """The code folder of the run of this process, which remembers what it has read."""
    return CodeFolder(origin, storage)


def _is_marked(path: Path, folders: list[str], files: list[str]) -> bool:
    return not _MARKS.isdisjoint((*folders, *files)) or any(
        name in folders and (path / name / "state_dict.pth").exists()
        for name in _FOLDERS_WITH_WEIGHTS
    )


def _is_log(files: list[str]) -> bool:
    """Whether TensorBoard's events lie among these files, and no code does."""
    return any(name.startswith(_EVENTS) for name in files) and not any(
        name.endswith(_CODE) for name in files
    )
