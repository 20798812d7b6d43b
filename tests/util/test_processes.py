from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from det_compat.util import processes


def test_signals_reach_a_process_and_the_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    with (
        subprocess.Popen(sleeper) as process,
        processes.forward_signals(process, signal.SIGUSR1),
    ):
        os.kill(os.getpid(), signal.SIGUSR1)
        assert process.wait() == -signal.SIGUSR1
    assert signal.getsignal(signal.SIGUSR1) is before


def test_children_are_signalled() -> None:
    pytest.importorskip("psutil")
    child = "import time; time.sleep(60)"
    code = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
    code += "print(p.pid, flush=True); print(p.wait())"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        processes.signal_process_tree(process, signal.SIGTERM)
        assert process.stdout.read().strip() == str(-signal.SIGTERM).encode()


def test_a_server_that_greets_is_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def greet() -> None:
            connection, _ = server.accept()
            connection.sendall(b"SSH-2.0")
            connection.close()

        thread = threading.Thread(target=greet)
        thread.start()
        processes.check_sshd("127.0.0.1", time.time() + 5, port)
        thread.join()
    with pytest.raises(ValueError, match=f"127.0.0.1:{port}"):
        processes.check_sshd("127.0.0.1", time.time() - 1, port)
