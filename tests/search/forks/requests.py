"""What processes do in tests of forks."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from typing import Any


def about(payload: bytes, channel: Connection[Any, Any]) -> None:
    """Imports the modules that ``payload`` names, and tells of its process."""
    known = set(sys.modules)
    for name in json.loads(payload):
        __import__(name)
    told = {
        "process": os.getpid(),
        "server": os.getppid(),
        "leads": os.getsid(0) == os.getpid(),
        "random": random.random(),
        "handlers": [str(signal.getsignal(it)) for it in (signal.SIGTERM, signal.SIGCHLD)],
        "stdin": os.readlink("/proc/self/fd/0"),
        "imported": sorted({*sys.modules} - known),
        "counted": getattr(sys.modules.get("of_a_user"), "COUNTED", None),
        "variable": os.environ.get("GIVEN"),
    }
    channel.send_bytes(json.dumps(told).encode())


def changes(payload: bytes, channel: Connection[Any, Any]) -> None:
    """Changes a variable, and imports something that may look at it."""
    os.environ["CHANGED"] = "1"
    about(payload, channel)


def raises(payload: bytes, channel: Connection[Any, Any]) -> None:
    raise ValueError(payload.decode())


def waits(payload: bytes, channel: Connection[Any, Any]) -> None:
    """Starts a process, and waits for an answer if ``payload`` is empty, or for ever."""
    process = subprocess.Popen(["sleep", "1000"])
    channel.send_bytes(json.dumps({"process": os.getpid(), "child": process.pid}).encode())
    if not payload and not json.loads(channel.recv_bytes()):
        raise SystemExit
    time.sleep(1000)
