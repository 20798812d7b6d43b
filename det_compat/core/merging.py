"""What several ranks upload as one checkpoint: their metadata and files, made one."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from det_compat.core.distributed import DistributedContext
from det_compat.core.storage.local import METADATA

# What the content of a directory counts as where another rank has a file of that name.
_DIRECTORY = "a directory"


def merge_metadata(
    all_metadata: Sequence[dict[str, Any]],
) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """The metadata of all ranks as one, and the ranks of each key that they do not agree on.

    Dictionaries under one key are merged; any other two values have to be equal. Of a conflict,
    the first rank's value is kept. Keys of the conflicts are paths such as ``/a/b``.
    """
    merged: dict[str, Any] = {}
    owners: dict[str, list[int]] = {}
    conflicts: dict[str, list[int]] = {}
    for rank, metadata in enumerate(all_metadata):
        _merge(merged, metadata, rank, "", owners, conflicts)
    return merged, conflicts


def _merge(
    merged: dict[str, Any],
    metadata: Mapping[str, Any],
    rank: int,
    above: str,
    owners: dict[str, list[int]],
    conflicts: dict[str, list[int]],
) -> None:
    for key, value in metadata.items():
        path = f"{above}/{key}"
        owners.setdefault(path, []).append(rank)
        if isinstance(value, dict) and isinstance(merged.setdefault(key, {}), dict):
            _merge(merged[key], value, rank, path, owners, conflicts)
        elif key not in merged:
            merged[key] = copy.deepcopy(value)
        elif merged[key] != value:
            first = conflicts.setdefault(path, owners[path][:-1])
            first.append(rank)


def merge_resources(
    all_resources: Sequence[Mapping[str, int]],
) -> tuple[dict[str, int], dict[str, list[int]]]:
    """The files of all ranks with their sizes, and the ranks of each that may be in conflict.

    Two files of one name are in conflict, or a file and a directory; two directories are not.
    Directories have a "/" at their end.
    """
    merged: dict[str, int] = {}
    ranks: dict[str, list[int]] = {}
    for rank, resources in enumerate(all_resources):
        for name, size in resources.items():
            ranks.setdefault(name.rstrip("/"), []).append(rank)
            merged[name] = size
    return merged, {
        name: uploading
        for name, uploading in ranks.items()
        if len(uploading) > 1 and name in merged
    }


def own_files(
    dist: DistributedContext, files: dict[str, int], directory: str | os.PathLike[str] | None
) -> tuple[dict[str, int], dict[str, int]]:
    """The files of all ranks, and those that this one uploads, both without the metadata.

    Of a file that several ranks have, the first uploads it. All ranks have to call it.

    Args:
        dist: the ranks.
        files: the files of this rank, with their sizes; directories have a "/" at their end.
        directory: where they are; None for a rank without any.

    Raises:
        RuntimeError: two ranks have different files of one name.
    """
    own = {name: size for name, size in files.items() if name != METADATA}
    merged, conflicts = merge_resources(dist.allgather(own))
    unresolved = {}
    for name in sorted(conflicts):
        ranks = conflicts[name]
        content = _content(directory, name) if dist.rank in ranks else None
        contents = {found for found in dist.allgather(content) if found is not None}
        if len(contents) > 1 or _DIRECTORY in contents:
            unresolved[name] = ranks
        elif dist.rank != ranks[0]:
            own.pop(name, None)
    if unresolved:
        raise_conflict(unresolved, "files", dist.rank)
    return merged, own


def _content(directory: str | os.PathLike[str] | None, name: str) -> str:
    """What a file of this rank has in it, as a digest."""
    assert directory is not None
    path = Path(directory, name)
    if path.is_dir():
        return _DIRECTORY
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def raise_conflict(conflicts: Mapping[str, list[int]], what: str, rank: int) -> None:
    """Raise RuntimeError for what ranks do not agree on; the chief has a line for each name."""
    if rank > 0:
        raise RuntimeError(f"refusing to upload with {what} conflicts: {dict(conflicts)}")
    lines = [f"    {name} uploaded by ranks {ranks}" for name, ranks in sorted(conflicts.items())]
    raise RuntimeError(f"refusing to upload with {what} conflicts:\n" + "\n".join(lines))
