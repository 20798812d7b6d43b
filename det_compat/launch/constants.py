"""Ports, times and places that the launchers of Determined 0.38.1 use."""

import os
import tempfile

__all__ = [
    "DTRAIN_SSH_PORT",
    "HOROVOD_AUTOTUNE_LOG_FILEPATH",
    "HOROVOD_GLOO_TIMEOUT_SECONDS",
    "HOROVOD_STARTUP_TIMEOUT_SECONDS",
    "INTER_TRAIN_PROCESS_COMM_PORT_1",
    "INTER_TRAIN_PROCESS_COMM_PORT_2",
]

DTRAIN_SSH_PORT = int(os.environ.get("DTRAIN_SSH_PORT", "12350"))

#: For how many seconds ``horovodrun`` waits for its processes to start.
HOROVOD_STARTUP_TIMEOUT_SECONDS = 1200
#: For how many seconds they wait for each other.
HOROVOD_GLOO_TIMEOUT_SECONDS = 240
HOROVOD_AUTOTUNE_LOG_FILEPATH = os.path.join(tempfile.gettempdir(), "autotune_log.csv")

#: The ports of a ``DistributedContext``.
INTER_TRAIN_PROCESS_COMM_PORT_1 = 12360
INTER_TRAIN_PROCESS_COMM_PORT_2 = 12376
