"""Forks for each command: ``python -m tests.preloaded.server FOLDER OWNER``.

It makes the programs FOLDER/det_compat, FOLDER/determined and so on, goes into the background and
ends with the process OWNER. The sides have processes of their own: what is given to Determined
itself must find nothing of det_compat, and the other way round. Each imports what its commands need
when the first of them comes.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import fcntl
import gc
import importlib.util
import io
import json
import os
import runpy
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import types
import warnings
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from tests.preloaded import spare_the_machine

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("program.py")
SHARED = (
    "multiprocessing.spawn",
    "sklearn.datasets",
    "sklearn.model_selection",
    "torch",
    "torch._dynamo",  # by the first optimizer
    "torch.distributed.launcher.api",
    "torch.utils.tensorboard",
    "yaml",
)
SIDES = {
    "determined": ("determined.core", "determined.pytorch"),
    "det_compat": (
        "pytorch_lightning.cli",
        "rich.console",
        "det_compat.cli",
        "det_compat.core",
        "det_compat.adapters.module",
        "det_compat.adapters.trainer",
        "matplotlib.backends.backend_agg",  # curves.png of every run
    ),
    "neither": (),
}
# Ray itself reads its environment while it is imported, and its workers end at once in a fork that
# has imported it (2.60), so that only what it needs is here.
NEEDED_BY_RAY = ("jsonschema", "pandas", "pyarrow.fs", "pydantic", "requests")
_MOST_DESCRIPTORS = 100  # of one command


def main(folder: Path, owner: int) -> None:
    """Serve until the owner has ended; in a fork, run the command."""
    sockets = {side: _listen(folder, side) for side in SIDES}
    spare_the_machine()
    if os.fork() > 0:
        os._exit(0)  # requests wait in the sockets while this imports
    os.setsid()
    # Rooms of det_compat that only a test needs are imported when it does.
    for name in SHARED:
        importlib.import_module(name)
    side = next((side for side in SIDES if side != "neither" and os.fork() == 0), "neither")
    for other in sockets.keys() - {side}:
        sockets[other].close()
    # This comes after the import of multiprocessing, which hands descriptors to what it spawns.
    sys.executable = str(folder / side)
    if not _is_wanted(sockets[side], owner):
        return
    for name in SIDES[side]:
        importlib.import_module(name)
    if side == "det_compat" and importlib.util.find_spec("ray") is not None:
        for name in NEEDED_BY_RAY:
            importlib.import_module(name)
    gc.freeze()
    if side == "det_compat":
        # Each fork would count them.
        assert importlib.import_module("det_compat.shared.importing").something_is_frozen()
    request = _serve(sockets[side], owner)
    if request is None:
        shutil.rmtree(folder, ignore_errors=True)
        return
    end(_outcome(request))


def _listen(folder: Path, side: str) -> socket.socket:
    path = str(folder / f"{side}.socket")
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(64)
    program = folder / side
    settings = f"INTERPRETER = {sys.executable!r}\nSOCKET = {path!r}\n"
    program.write_text(f"#!{sys.executable} -IS\n{settings}{PROGRAM.read_text()}")
    program.chmod(0o700)
    return server


def _is_wanted(server: socket.socket, owner: int) -> bool:
    """Wait for a first command; False if the owner has ended without one."""
    while _is_alive(owner):
        if select.select([server], [], [], 2)[0]:
            return True
    return False


def _serve(server: socket.socket, owner: int) -> dict[str, Any] | None:
    """Returns in forks, with the request; in the server at the end, with None."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the guards
    while _is_alive(owner):
        if not select.select([server], [], [], 2)[0]:
            continue
        connection, _ = server.accept()
        if os.fork() == 0:
            server.close()
            return _guard(connection)
        connection.close()
    return None


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _guard(connection: socket.socket) -> dict[str, Any]:
    """Fork the command, hand signals on to it, and say how it ended; returns in that fork."""
    request, received = _receive(connection)
    streams, passed = received[:3], received[3:]
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    process = os.fork()
    if process == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        for target, stream in enumerate(streams):
            os.dup2(stream, target)
        for descriptor in (connection.detach(), woken, wakes, *streams):
            os.close(descriptor)
        _renumber(passed, request["descriptors"])
        return request
    null = os.open(os.devnull, os.O_RDWR)
    for target, stream in enumerate(streams):  # or a pipe would not end with the command
        os.dup2(null, target)
        os.close(stream)
    for descriptor in passed:
        os.close(descriptor)
    _wait(connection, woken, process)
    os._exit(0)


def _renumber(descriptors: list[int], numbers: list[int]) -> None:
    """Let descriptors have the numbers that they had where they come from."""
    above = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 1000) for descriptor in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    for descriptor, number in zip(above, numbers, strict=True):
        os.dup2(descriptor, number, inheritable=False)
        os.close(descriptor)


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    descriptors = array.array("i")
    room = socket.CMSG_SPACE(_MOST_DESCRIPTORS * descriptors.itemsize)
    data, ancillary, _, _ = connection.recvmsg(1 << 20, room)
    for _, _, content in ancillary:
        descriptors.frombytes(content)
    while not data.endswith(b"\n"):
        data += connection.recv(1 << 20)
    return json.loads(data), list(descriptors)


def _wait(connection: socket.socket, woken: int, process: int) -> None:
    while True:
        ready = select.select([connection, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 1000)
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                with contextlib.suppress(OSError):
                    connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
                return
        if connection in ready:
            numbers = connection.recv(100)
            for number in numbers:
                os.kill(process, number)
            if not numbers:  # the program was killed
                os.killpg(process, signal.SIGKILL)
                os.waitpid(process, 0)
                return


def _outcome(request: dict[str, Any]) -> int:
    """Run the command; returns its exit status."""
    try:
        _run(request)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def end(status: int) -> None:
    """End as an interpreter does, but for freeing every object, which takes half a second."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BrokenPipeError):
            stream.flush()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status & 0xFF)


def _run(request: dict[str, Any]) -> None:
    environment = request["environment"]
    # The ranks of a launcher know by its id that they belong together.
    own, real = os.getpid(), os.getppid
    # Its loader workers end by the real one.
    os.getppid = lambda: request["parent"] if os.getpid() == own else real()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(environment)
    _prepare(environment, request["warnings"], request["is_unbuffered"])
    kind, name = request["kind"], request["name"]
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    kept = [path for path in sys.path if path not in (os.getcwd(), str(ROOT), *paths)]
    first = {"-c": "", "-m": os.getcwd()}.get(kind, str(Path(name).resolve().parent))
    sys.path[:] = [first, *filter(None, paths), *kept]
    if any(Path(path, "sitecustomize.py").exists() for path in paths):
        importlib.import_module("sitecustomize")
    sys.argv = [kind if kind == "-c" else name, *request["arguments"]]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if kind == "-m":
        runpy._run_module_as_main(name)  # what `python -m` calls
        return
    file, source = "<string>", name
    if kind != "-c":
        main.__file__, main.__loader__ = name, SourceFileLoader("__main__", name)
        file, source = name, main.__loader__.get_data(name)
    exec(compile(source, file, "exec"), main.__dict__)


def _prepare(environment: dict[str, str], options: list[str], is_unbuffered: bool) -> None:
    """Do what an interpreter and the imported modules did with their environment at their start."""
    inherited = [text for text in environment.get("PYTHONWARNINGS", "").split(",") if text]
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    sys.warnoptions[:] = [*inherited, *options]
    warnings._processoptions(sys.warnoptions)
    # Streams remember whether the file that they were made for could be positioned.
    errors = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115 - it stays open
    sys.stderr = sys.__stderr__ = errors
    buffered: Any = io.FileIO(1, "w", closefd=False)
    if not is_unbuffered:
        buffered = io.BufferedWriter(buffered)
    sys.stdout = sys.__stdout__ = io.TextIOWrapper(
        buffered, encoding="utf-8", write_through=is_unbuffered
    )
    tempfile.tempdir = None  # It may have been looked up already, with another TMPDIR.
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # Python's own generator is seeded in every fork
    if "pytorch_lightning" in sys.modules:
        from lightning_fabric.utilities.rank_zero import _get_rank, rank_zero_only

        rank_zero_only.rank = _get_rank() or 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
