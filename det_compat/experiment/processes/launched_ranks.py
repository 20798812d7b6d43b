"""Ranks that Lightning starts from rank 0: Ctrl-C in one of them is one of the run.

Lightning 2.6.6 kills rank 0 within five seconds after another rank has ended with a status, and
rank 0 kills the others when it is interrupted. So the others leave it to rank 0.
"""

import os
import signal
from typing import Any

from det_compat.script.ending import end_after_parent

_CHIEF = "DET_COMPAT_CHIEF"
# So long may a rank do what user code does at its end after rank 0 has ended.
_PATIENCE = 30.0


def follow_chief() -> None:
    """In a rank that rank 0 of this machine has started, send SIGINT on to it, and end after it.

    In rank 0, have the ranks that it will start do so.
    """
    if os.environ.get("LOCAL_RANK", "0") == "0":
        os.environ[_CHIEF] = str(os.getpid())
        return
    chief = os.getppid()
    if os.environ.get(_CHIEF) != str(chief):
        return
    own = os.getpid()

    def pass_on(number: int, frame: Any) -> None:
        # Forks, such as loader workers, inherit the handler.
        if os.getpid() != own:
            return
        if os.getppid() != chief:
            signal.default_int_handler(number, frame)
        os.kill(chief, number)

    signal.signal(signal.SIGINT, pass_on)
    # It may be waiting for rank 0.
    end_after_parent(_PATIENCE)
