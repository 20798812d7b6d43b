"""Checkpoints that all machines reach: on an S3 server that fails every tenth request.

Where moto and s3fs are not installed, they are in a folder.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.attacks.started import ROOT
from tests.torchrun import free_port

_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "one",
    "AWS_SECRET_ACCESS_KEY": "two",
    "AWS_DEFAULT_REGION": "us-east-1",
}

#: Whether there is an S3 server.
HAS_S3 = all(map(importlib.util.find_spec, ("moto", "s3fs")))


@contextlib.contextmanager
def reached_by_all(folder: Path) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """A ``checkpoint_storage``, and the variables that it takes."""
    if not HAS_S3:
        yield {"type": "shared_fs", "host_path": str(folder / "storage")}, {}
        return
    port = free_port()
    command = [sys.executable, "-m", "tests.attacks.s3_server", str(port), "10"]
    with (folder / "s3.log").open("w") as log:
        server = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
    try:
        variables = {**_CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
        while server.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        with with_variables(variables):
            import s3fs

            # fsspec has one filesystem for all that are asked for alike, wherever they were.
            s3fs.S3FileSystem.clear_instance_cache()
            s3fs.S3FileSystem().mkdir("bucket")
        yield {"type": "s3", "bucket": "bucket", "prefix": "all"}, variables
    finally:
        server.kill()
        server.wait()


@contextlib.contextmanager
def with_variables(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables of this process, for as long as the block takes."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
