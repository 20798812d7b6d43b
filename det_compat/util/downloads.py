"""Downloads from Google Cloud Storage, tried again when they fail."""

import random
import time
from typing import Any


def download_gcs_blob_with_backoff(blob: Any, n_retries: int = 32, max_backoff: int = 32) -> bytes:
    """The contents of a ``google.cloud.storage.Blob``, tried ``n_retries`` times.

    The wait between tries doubles from one second up to ``max_backoff`` seconds. The state of
    ``random`` is the same afterwards, as in Determined 0.38.1.

    Raises:
        ImportError: the package google-cloud-storage is not installed.
        TypeError: ``blob`` is no Blob.
        RuntimeError: every try failed; the cause is the last failure.
    """
    if not isinstance(blob, _blob_class()):
        raise TypeError(
            f"download_gcs_blob_with_backoff() takes a google.cloud.storage.Blob, "
            f"got {type(blob).__name__}"
        )
    # The retries of google's library draw from it as well.
    state = random.getstate()
    try:
        return _download(blob, n_retries, max_backoff)
    finally:
        random.setstate(state)


def _blob_class() -> Any:
    try:
        from google.cloud import storage
    except ImportError as error:
        raise ImportError(
            "download_gcs_blob_with_backoff() needs the package google-cloud-storage: "
            "pip install google-cloud-storage"
        ) from error
    return storage.Blob


def _download(blob: Any, n_retries: int, max_backoff: int) -> bytes:
    failure: Exception | None = None
    for attempt in range(n_retries):
        if attempt:
            time.sleep(min(2 ** (attempt - 1) + random.random(), max_backoff))
        try:
            return bytes(blob.download_as_bytes())
        except Exception as error:
            failure = error
    raise RuntimeError(
        f"could not download {blob.name!r}: {n_retries} tries failed, the last one with {failure!r}"
    ) from failure
