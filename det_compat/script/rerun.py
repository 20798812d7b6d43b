"""The program of ``det-compat run`` once more, in a process that the program starts.

``python SCRIPT`` leaves ``__main__.__spec__`` None; what starts the program again then takes the
bare script. Under ``det-compat run`` the spec names this module instead, and the alias is in place:

- multiprocessing's spawn and forkserver run it as ``__mp_main__``, to find what was pickled;
- Lightning's ddp launcher runs ``python -m det_compat.script.rerun ARGS``, one process a rank.
"""

import json
import os
import pkgutil
import runpy
import sys
from typing import Any

from det_compat.alias import alias_determined
from det_compat.script.run import PROGRAM_VARIABLE, run


def _remembered() -> tuple[str, bool]:
    if PROGRAM_VARIABLE not in os.environ:
        sys.exit(
            f"det_compat.script.rerun: {PROGRAM_VARIABLE} is not set, so `det-compat run` has "
            "not started this process or its parent. Use `det-compat run SCRIPT`."
        )
    name, is_module = json.loads(os.environ[PROGRAM_VARIABLE])
    return name, is_module


def _run_again() -> int:
    name, is_module = _remembered()
    return run(name, sys.argv[1:], is_module=is_module)


def _contents() -> dict[str, Any]:
    """The names of the program for a spawned process.

    None for a ``__main__.py``: it has no ``if __name__`` guard, and Python does not run it either.
    """
    alias_determined()
    name, is_module = _remembered()
    if is_module:
        if name.rpartition(".")[2] == "__main__":
            return {}
        return runpy.run_module(name, run_name="__mp_main__", alter_sys=True)
    # There is an importer only for a directory or a zip file.
    return {} if pkgutil.get_importer(name) else runpy.run_path(name, run_name="__mp_main__")


if __name__ == "__main__":
    sys.exit(_run_again())
elif __name__ == "__mp_main__":
    # The __spec__ stays, since processes that this one spawns read it.
    globals().update({name: it for name, it in _contents().items() if name != "__spec__"})
