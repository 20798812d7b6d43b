"""Stands for ``python``: has the server fork. It runs with ``-IS`` and imports next to nothing.

The server writes INTERPRETER and SOCKET above this text, and a first line that starts Python.
"""

# ruff: noqa: F821
import array
import json
import os
import signal
import socket
import sys

KNOWN = {
    "PYTHONBREAKPOINT",  # Ray's workers have it; it is read where code stops
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",  # Forks of one server have one, whichever it is.
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "PYTHONWARNINGS",
}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def main():
    request = read(sys.argv[1:])
    if request is None or needs_interpreter():
        os.execv(INTERPRETER, [INTERPRETER, *sys.argv[1:]])
    passed = request["descriptors"] = handed_on(request["name"])
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(SOCKET)
    descriptors = array.array("i", [0, 1, 2, *passed])
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)]
    data = json.dumps(request).encode() + b"\n"
    sent = connection.sendmsg([data], rights)
    connection.sendall(data[sent:])
    for descriptor in passed:
        os.close(descriptor)
    for number in SIGNALS:
        signal.signal(number, lambda number, _: connection.send(bytes([number])))
    status = connection.makefile().readline()
    if not status:
        sys.exit(f"the server of {SOCKET} has ended: see log.txt beside it")
    end(int(status))


def read(words):
    """What to run, or None if only an interpreter can."""
    warned, is_unbuffered = [], "PYTHONUNBUFFERED" in os.environ
    while words and words[0] in ("-u", "-W"):
        if words.pop(0) == "-u":
            is_unbuffered = True
        else:
            warned.append(words.pop(0))
    if not words or (words[0].startswith("-") and words[0] not in ("-c", "-m")):
        return None
    kind = words.pop(0) if words[0].startswith("-") else ""
    return {
        "kind": kind,
        "name": words[0],
        "arguments": words[1:],
        "warnings": warned,
        "is_unbuffered": is_unbuffered,
        "parent": os.getppid(),
        "folder": os.getcwd(),
        "environment": dict(os.environ),
    }


def handed_on(code):
    """The descriptors that multiprocessing has a process inherit; it names them in the code."""
    if not code.startswith("from multiprocessing."):
        return []
    return [number for number in map(int, os.listdir("/proc/self/fd")) if is_open(number)]


def is_open(number):
    """Whether this is a descriptor beside the streams, and not that of the listing itself."""
    try:
        return number > 2 and os.fstat(number) is not None
    except OSError:
        return False


def needs_interpreter():
    return (
        any(name.startswith("PYTHON") and name not in KNOWN for name in os.environ)
        or any(name.startswith(("MALLOC_", "GLIBC_", "LD_")) for name in os.environ)
        or os.environ.get("OMP_NUM_THREADS", "1") != "1"
    )


def end(status):
    if status < 0:
        if status != -signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


main()
