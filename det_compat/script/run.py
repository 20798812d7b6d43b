"""``det-compat run``: what ``python`` does with a script, with ``determined`` aliased."""

from __future__ import annotations

import argparse
import builtins
import os
import sys
from collections.abc import Sequence
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING

import det_compat
from det_compat.alias import alias_determined
from det_compat.script import rerun
from det_compat.script.program import Program, load_module, load_path

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

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
    parser.set_defaults(command=_command)


def split(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """A command line of ``det-compat`` up to the script's name, and the script's own arguments.

    argparse sees only the first: it takes a ``--`` away from the second.
    """
    if argv[:1] != ["run"]:
        return argv, []
    end = 3 if argv[1:2] == ["-m"] else 2
    return argv[:end], argv[end:]


def _command(args: argparse.Namespace) -> int:
    name = args.module or args.script
    return run(name, args.script_args, is_module=args.module is not None)


def run(name: str, argv: Sequence[str], *, is_module: bool = False) -> int:
    """Run a script or module as ``__main__`` with the arguments ``argv``.

    Returns the exit status: 0, 1 after an exception, 2 if the script cannot be read. SystemExit
    and KeyboardInterrupt pass through.

    Raises:
        RuntimeError: the real ``determined`` is imported already.
    """
    alias_determined()
    if is_module:
        # The search for the module begins in the working directory.
        _set_first_path(os.getcwd())
    try:
        program = load_module(name) if is_module else load_path(name)
    except OSError as error:
        if is_module:
            # The code of a package has raised this.
            raise
        reason = f"[Errno {error.errno}] {error.strerror}"
        print(f"det-compat: can't open file {os.path.abspath(name)!r}: {reason}", file=sys.stderr)
        return 2
    except SyntaxError as error:
        return _show(error, None)
    sys.argv = [program.argv0, *argv]
    _set_first_path(program.first_path)
    rerun.remember(program)
    return _execute(program)


def _set_first_path(directory: str) -> None:
    """Put ``directory`` where Python put the place of det-compat itself."""
    if not getattr(sys.flags, "safe_path", sys.flags.isolated):
        sys.path[0] = directory
    if not any(finder.find_spec("det_compat", None) for finder in sys.meta_path):
        # This is a checkout that is not installed, which spawned processes import, too.
        sys.path.append(_CHECKOUT)


def _execute(program: Program) -> int:
    main = _main_module(program)
    sys.modules["__main__"] = main
    try:
        exec(program.code, vars(main))
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        return _show(error, _frames_of(main, error.__traceback__))
    return 0


def _main_module(program: Program) -> ModuleType:
    main = ModuleType("__main__")
    vars(main).update(
        __annotations__={},
        __builtins__=builtins,
        __cached__=program.found.cached,
        __file__=program.file,
        __loader__=program.found.loader,
        __package__=program.package,
        __spec__=program.spec(),
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
