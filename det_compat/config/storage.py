"""Where checkpoints are stored, and how many are kept."""

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from det_compat.config.document import Problems, from_mapping, section
from det_compat.config.keys.table import HDFS_REFUSAL, STORAGE_REQUIRES


@dataclass(frozen=True)
class CheckpointStorage:
    """Storage that fsspec can open, and how many checkpoints are kept there.

    Attributes:
        type: shared_fs, directory, s3, gcs, azure or hdfs; None if the config names none.
        url: for ``fsspec.core.url_to_fs(url, **options)``; None for the run directory.
        options: the ``**options``; they hold secrets, and are not in ``repr``.
        refusal: why the storage cannot be used, None if it can.
        refused: the key that the refusal is about.
    """

    type: str | None = None
    url: str | None = None
    options: dict[str, str] = field(default_factory=dict, repr=False)
    refusal: str | None = None
    refused: str = "type"


def parse_storage(config: Mapping[str, Any], problems: Problems) -> CheckpointStorage:
    """The ``checkpoint_storage`` of a config."""
    given = section(config, "checkpoint_storage")
    kind = given.get("type")
    if kind is None:
        return CheckpointStorage(**_without_type(given))
    _check(kind, given, problems)
    refusal = _refusal(kind, given)
    url, options = (None, {}) if refusal else _URLS[kind](given)
    return CheckpointStorage(kind, url, options, refusal=refusal)


def storage_of(config: Mapping[str, Any]) -> CheckpointStorage:
    """The ``checkpoint_storage`` of a config that was checked when its run began."""
    return parse_storage(config, Problems(from_mapping(config)))


def _without_type(given: Mapping[str, Any]) -> dict[str, Any]:
    """The key of a place of which the config does not say what it is, and what to do."""
    for key in (key for keys in STORAGE_REQUIRES.values() for key in keys):
        if given.get(key):
            kinds = [kind for kind, keys in STORAGE_REQUIRES.items() if key in keys]
            refusal = (
                f"checkpoint_storage has {key} and no type: the cluster's own settings completed "
                f"it; add type: {' or '.join(kinds)}"
            )
            return {"refusal": refusal, "refused": key}
    return {}


def _refusal(kind: str, given: Mapping[str, Any]) -> str | None:
    if kind == "hdfs":
        return HDFS_REFUSAL
    missing = [key for key in STORAGE_REQUIRES[kind] if not given.get(key)]
    if missing:
        return (
            f"checkpoint_storage of type {kind} has no {missing[0]}: the cluster's own settings "
            "completed it; add it here"
        )
    return None


def _check(kind: str, given: Mapping[str, Any], problems: Problems) -> None:
    def at(key: str) -> tuple[str, str]:
        return ("checkpoint_storage", key)

    if ".." in given.get("prefix", "").split("/"):
        problems.add(at("prefix"), "a path without `..`")
    if kind == "azure" and "connection_string" in given:
        for key in ("credential", "account_url"):
            if key in given:
                found = f"{key} next to connection_string"
                problems.add_key(at(key), "either connection_string or account_url", found)
    if kind == "shared_fs" and "storage_path" in given and given.get("host_path"):
        host = posixpath.normpath(given["host_path"])
        path = posixpath.normpath(posixpath.join(host, given["storage_path"]))
        if path != host and not path.startswith(f"{host.rstrip('/')}/"):
            problems.add(at("storage_path"), f"a directory in host_path, {given['host_path']}")


def _file_url(path: str) -> str:
    return f"file://{posixpath.normpath(path)}" if path.startswith("/") else path


def _bucket_url(scheme: str, bucket: str, given: Mapping[str, Any]) -> str:
    prefix = posixpath.normpath(given.get("prefix") or ".").strip("/")
    return f"{scheme}://{bucket}" if prefix in ("", ".") else f"{scheme}://{bucket}/{prefix}"


def _s3(given: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    names = {"access_key": "key", "secret_key": "secret", "endpoint_url": "endpoint_url"}
    options = {option: given[key] for key, option in names.items() if given.get(key)}
    return _bucket_url("s3", given["bucket"], given), options


def _azure(given: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    options = {key: given[key] for key in ("connection_string", "credential") if given.get(key)}
    account = urlsplit(given.get("account_url", "")).netloc
    if account:
        options |= {"account_name": account.split(".")[0], "account_host": account}
    return _bucket_url("abfs", given["container"], given), options


_URLS: dict[str, Callable[[Mapping[str, Any]], tuple[str, dict[str, str]]]] = {
    "shared_fs": lambda given: (
        _file_url(posixpath.join(given["host_path"], given.get("storage_path", ""))),
        {},
    ),
    "directory": lambda given: (_file_url(given["container_path"]), {}),
    "s3": _s3,
    "gcs": lambda given: (_bucket_url("gs", given["bucket"], given), {}),
    "azure": _azure,
}
