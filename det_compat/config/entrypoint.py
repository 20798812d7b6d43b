"""What a config starts: a trial class, a script, or a script under a launcher."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from det_compat.config.document import Problems
from det_compat.script.command import PYTHON

_TRIAL_CLASS = re.compile(r"(?P<module>[\w.]*):(?P<name>[A-Za-z_][\w.]*)")
_LAUNCHERS = "determined.launch"
_HARNESS = "determined.exec.harness"
_PEDL_TRIAL = ("trial_class", "trial", "trial_def")
_OPERATORS = set("();<>|&")
_EXPANSIONS = re.compile(r"[$`*?~\n]|^\w+=")


class EntrypointKind(Enum):
    """The forms of an entrypoint."""

    TRIAL = "trial class"
    SCRIPT = "command"
    LAUNCHER = "command under a launcher"


@dataclass(frozen=True)
class Entrypoint:
    """What to start.

    Attributes:
        kind: which of the attributes count.
        trial: ``module:Class`` of a trial class, with a launcher (``--trial``) or without; or None.
        argv: the command, without the launcher. Of a text that needs a shell (``cd x && ...``) it
            is ``["sh", "-c", text]``.
        launcher: torch_distributed, horovod, deepspeed, or as they were called in 0.17,
            autohorovod and autodeepspeed; None for none.
        launcher_args: what the launcher is given before ``--``; for torchrun.
        functions: PEDL's further ``entrypoints`` by name, ``module:function`` each.
    """

    kind: EntrypointKind
    trial: str | None = None
    argv: tuple[str, ...] = ()
    launcher: str | None = None
    launcher_args: tuple[str, ...] = ()
    functions: dict[str, str] = field(default_factory=dict)

    @property
    def is_in_package(self) -> bool:
        """Whether the trial is what the directory's ``__init__.py`` brings, as PEDL had it."""
        return self.trial is None and not self.argv

    @property
    def is_command(self) -> bool:
        """Whether a command is started, and no trial class."""
        return self.trial is None and bool(self.argv)


def parse_entrypoint(config: Mapping[str, Any], problems: Problems) -> Entrypoint | None:
    """The ``entrypoint`` of a config, or PEDL's ``entrypoints``; None if there is neither."""
    entrypoint, entrypoints = config.get("entrypoint"), config.get("entrypoints")
    if entrypoints is not None:
        if entrypoint is not None:
            problems.add_key(("entrypoints",), "either of them", "entrypoints next to entrypoint")
        return _pedl(entrypoints, problems)
    if entrypoint is None:
        return None
    if not entrypoint or entrypoint[0] == "":
        problems.add(("entrypoint",), "module:Class, a command, or a list with one")
        return None
    if isinstance(entrypoint, str) and _TRIAL_CLASS.fullmatch(entrypoint.strip()):
        return Entrypoint(EntrypointKind.TRIAL, trial=entrypoint.strip())
    return _command(_argv(entrypoint, problems), problems)


def _pedl(entrypoints: dict[str, Any], problems: Problems) -> Entrypoint:
    functions = {}
    for name, value in entrypoints.items():
        if isinstance(value, str) and _TRIAL_CLASS.fullmatch(value):
            functions[name] = value
        elif value is not None:
            problems.add(("entrypoints", name), "module:name")
    trial = next((functions.pop(name) for name in _PEDL_TRIAL if name in functions), None)
    return Entrypoint(EntrypointKind.TRIAL, trial=trial, functions=functions)


def _argv(entrypoint: str | list[str], problems: Problems) -> list[str]:
    if isinstance(entrypoint, list):
        return entrypoint
    try:
        words = shlex.split(entrypoint)
    except ValueError as error:
        problems.add(("entrypoint",), f"a command that a shell can read ({error})")
        return []
    return ["sh", "-c", entrypoint] if _needs_shell(entrypoint) else words


def _needs_shell(command: str) -> bool:
    tokens = shlex.shlex(command, posix=True, punctuation_chars=True)
    tokens.whitespace_split, tokens.commenters = True, ""
    operators = (token for token in tokens if token and set(token) <= _OPERATORS)
    return _EXPANSIONS.search(command.strip()) is not None or any(operators)


def _command(argv: list[str], problems: Problems) -> Entrypoint | None:
    if not argv:
        return None
    package, _, launcher = _module(argv).rpartition(".")
    if _module(argv) == _HARNESS and (started := _trial(argv)[0]):
        return Entrypoint(EntrypointKind.TRIAL, trial=started)
    if package != _LAUNCHERS:
        return Entrypoint(EntrypointKind.SCRIPT, argv=tuple(argv))
    args, rest = [], argv[3:]
    if "--" in rest:
        args, rest = rest[: rest.index("--")], rest[rest.index("--") + 1 :]
    while launcher == "horovod" and rest[:1] == ["--autohorovod"]:
        rest = rest[1:]
    trial, rest = _trial(rest)
    if not trial and not rest:
        problems.add(("entrypoint",), "a script, or --trial module:Class, after the launcher")
        return None
    return Entrypoint(
        EntrypointKind.LAUNCHER,
        trial=trial,
        argv=tuple(rest),
        launcher=launcher,
        launcher_args=tuple(args),
    )


def _module(argv: list[str]) -> str:
    """The module that a command runs, or ``""``."""
    is_module = len(argv) > 2 and argv[1] == "-m" and PYTHON.fullmatch(argv[0]) is not None
    return argv[2] if is_module else ""


def _trial(argv: list[str]) -> tuple[str | None, list[str]]:
    if _module(argv) == _HARNESS:
        # What Determined started for a trial class, people wrote after a launcher of their own.
        argv = argv[3:]
    if argv[:1] == ["--trial"] and len(argv) > 1:
        return argv[1], argv[2:]
    if argv and argv[0].startswith("--trial="):
        return argv[0].removeprefix("--trial="), argv[1:]
    if len(argv) == 1 and _TRIAL_CLASS.fullmatch(argv[0]):
        return argv[0], []
    return None, argv
