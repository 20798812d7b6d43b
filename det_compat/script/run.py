"""``det-compat run``: what ``python`` does with a script, with ``determined`` aliased."""

from __future__ import annotations

import argparse
import builtins
import importlib.util
import json
import os
import pkgutil
import signal
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader, SourcelessFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import det_compat
from det_compat.alias import alias_determined
from det_compat.catalog.names import MODULES
from det_compat.script.ending import (
    PARENT,
    REQUEUE,
    end_after_parent,
    end_noted,
    end_of_program,
    is_failure,
)
from det_compat.script.machines import launched, tell_as_torchrun
from det_compat.script.meeting import until_met
from det_compat.script.run_log import run_logged
from det_compat.script.run_paths import RunPaths
from det_compat.script.task import current_task
from det_compat.shared.importing import collect_as_usual, collect_old_objects_seldom
from det_compat.shared.own_process import outlive_readers

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

#: The module that runs the program once more, in a process that the program starts.
_RERUN = "det_compat.script.rerun"
#: The environment variable that tells it what the program is.
PROGRAM_VARIABLE = "DET_COMPAT_PROGRAM"

_SECONDS_WITHOUT_PARENT = 1.0
_CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(det_compat.__file__)))


def add_parser(commands: _Commands) -> None:
    """Add ``run`` to the subcommands of ``det-compat``."""
    parser = commands.add_parser(
        "run",
        help="run a script, with `import determined` finding det_compat",
        description="Run an unmodified script as `python SCRIPT` would, with `import determined` "
        "finding det_compat.",
        epilog="on several processes:\n"
        "  torchrun --nproc_per_node=N --no-python det-compat run SCRIPT [ARGS...]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="det-compat run SCRIPT [ARGS...]\n       det-compat run -m MODULE [ARGS...]",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("-m", dest="module", help="run a module, as python -m does")
    what.add_argument("script", nargs="?", metavar="SCRIPT", help="a file, directory or zip file")
    parser.set_defaults(command=command)


def split(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """A command line of ``det-compat`` up to the script's name, and the script's own arguments.

    argparse sees only the first: it takes a ``--`` away from the second.
    """
    if argv[:1] != ["run"]:
        return argv, []
    end = 3 if argv[1:2] == ["-m"] else 2
    return argv[:end], argv[end:]


def command(args: argparse.Namespace) -> int:
    """Run what the command line names; see ``run``."""
    if os.environ.get(PARENT) == str(os.getppid()):
        end_after_parent(_SECONDS_WITHOUT_PARENT)
        # SLURM sends it to all processes, and the one that has started this one acts upon it.
        signal.signal(REQUEUE, signal.SIG_IGN)
    return until_met(lambda: _command(args))


def _command(args: argparse.Namespace) -> int:
    task, name = current_task(), args.module or args.script
    tell_as_torchrun()
    argv, is_module = args.script_args, args.module is not None
    if not task or not task.run_dir:
        return run(name, argv, is_module=is_module)
    outlive_readers()
    with run_logged(Path(task.run_dir)):
        try:
            return run(name, argv, is_module=is_module)
        finally:
            # What starts ranks may hide how they end: the status of torchrun is 1 for all of it.
            if launched() is not None and is_failure(end_of_program()):
                RunPaths(task.run_dir).begin_process()


def run(name: str, argv: Sequence[str], *, is_module: bool = False) -> int:
    """Run a script or module as ``__main__`` with the arguments ``argv``.

    Returns the exit status: 0, 1 after an exception, 2 if the script cannot be read. SystemExit
    and KeyboardInterrupt pass through.

    Raises:
        RuntimeError: the real ``determined`` is imported already.
    """
    alias_determined()
    if is_module:
        # A launcher of Determined's, for example, is here under another name.
        name = MODULES.get(name) or name
        # The search for the module begins in this directory.
        _set_first_path(os.getcwd())
    try:
        program = _load_module(name) if is_module else _load_path(name)
    except OSError as error:
        if is_module:
            # The code of a package has raised it.
            raise
        reason = f"[Errno {error.errno}] {error.strerror}"
        print(f"det-compat: can't open file {os.path.abspath(name)!r}: {reason}", file=sys.stderr)
        return 2
    except SyntaxError as error:
        return _show(error, None)
    sys.argv = [program.argv0, *argv]
    _set_first_path(program.first_path)
    os.environ[PROGRAM_VARIABLE] = json.dumps([program.name, is_module])
    collect_old_objects_seldom()
    try:
        return _execute(program)
    finally:
        collect_as_usual()


class _Program(NamedTuple):
    """A path, or a module with ``-m``, ready to be executed.

    Attributes:
        name: what finds it again from another working directory; for a module, its full name.
        argv0: its ``sys.argv[0]``.
        first_path: its ``sys.path[0]``.
        package: its ``__package__``.
        found: what the import system found; its origin is the program's ``__file__``.
        code: the code to execute.
    """

    name: str
    argv0: str
    first_path: str
    package: str | None
    found: ModuleSpec
    code: CodeType


class _MainSpec(ModuleSpec):
    """Names _RERUN; relative imports follow the program's own package all the same."""

    def __init__(self, program: _Program) -> None:
        super().__init__(_RERUN, program.found.loader, origin=program.found.origin)
        self._package = program.package

    @property
    def parent(self) -> str:
        return self._package or ""


def _load_path(path: str) -> _Program:
    """The script at ``path``, or the ``__main__.py`` in that directory or zip file.

    Raises:
        OSError: the file cannot be read.
        SystemExit: there is no ``__main__.py``.
        SyntaxError: the script cannot be compiled.
    """
    # Python, too, leaves any `..` in the path.
    file = os.path.join(os.getcwd(), path)
    importer: Any = pkgutil.get_importer(file)
    if importer is None:
        found = _file_spec(file)
        folder = os.path.dirname(os.path.realpath(path))
        return _Program(file, path, folder, None, found, _compile(found, file))
    found = importer.find_spec("__main__")
    if found is None:
        sys.exit(f"det-compat: can't find '__main__' module in {path!r}")
    return _Program(file, path, file, "", found, _code(found, found.origin))


def _file_spec(file: str) -> ModuleSpec:
    kind = SourcelessFileLoader if file.endswith(".pyc") else SourceFileLoader
    return ModuleSpec(_RERUN, kind(_RERUN, file), origin=file)


def _compile(found: ModuleSpec, file: str) -> CodeType:
    if isinstance(found.loader, SourceFileLoader):
        # The method get_code() would write a __pycache__.
        code: CodeType = found.loader.source_to_code(found.loader.get_data(file), file)
        return code
    return _code(found, file)


def _load_module(name: str) -> _Program:
    """The module ``name``, or the ``__main__`` in the package of that name.

    Raises:
        SystemExit: there is no such module, or it has no code.
    """
    found = _find_module(name)
    found.origin = found.origin or found.name
    code = _code(found, found.name)
    return _Program(found.name, found.origin, os.getcwd(), found.parent, found, code)


def _find_module(name: str) -> ModuleSpec:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        spec = None
    if spec is None:
        sys.exit(f"det-compat: no module named {name}")
    if spec.submodule_search_locations is not None:
        return _find_module(f"{name}.__main__")
    return spec


def _code(found: ModuleSpec, where: str | None) -> CodeType:
    loader: Any = found.loader
    code: CodeType | None = loader.get_code(found.name)
    if code is None:
        sys.exit(f"det-compat: there is no Python code in {where}")
    return code


def _set_first_path(directory: str) -> None:
    """Put ``directory`` where Python put the place of det-compat itself."""
    if not getattr(sys.flags, "safe_path", sys.flags.isolated):
        sys.path[0] = directory
    if not any(finder.find_spec("det_compat", None) for finder in sys.meta_path):
        # This is a checkout that is not installed, and spawned processes import it too.
        sys.path.append(_CHECKOUT)


def _execute(program: _Program) -> int:
    main = _main_module(program)
    sys.modules["__main__"] = main
    try:
        with end_noted():
            exec(program.code, vars(main))
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        return _show(error, _frames_of(main, error.__traceback__))
    return 0


def program_again() -> list[str]:
    """The command that runs the program of this process again; empty without ``det-compat run``."""
    if PROGRAM_VARIABLE not in os.environ:
        return []
    name, is_module = json.loads(os.environ[PROGRAM_VARIABLE])
    return ["det-compat", "run", *(["-m", name] if is_module else [name]), *sys.argv[1:]]


def _main_module(program: _Program) -> ModuleType:
    main = ModuleType("__main__")
    vars(main).update(
        __annotations__={},
        __builtins__=builtins,
        __cached__=program.found.cached,
        __file__=program.found.origin,
        __loader__=program.found.loader,
        __package__=program.package,
        __spec__=_MainSpec(program),
    )
    return main


def _frames_of(main: ModuleType, traceback: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that begins in the program."""
    while traceback and traceback.tb_frame.f_globals is not vars(main):
        traceback = traceback.tb_next
    return traceback


def _show(error: BaseException, traceback: TracebackType | None) -> int:
    sys.excepthook(type(error), error.with_traceback(traceback), traceback)
    return 1
