"""``det-compat run``, with the runs of scripts kept, so that ``det-compat runs`` lists them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from det_compat.script import own_runs, run

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(commands: _Commands) -> None:
    """Add ``run`` to the subcommands of ``det-compat``."""
    run.add_parser(commands)
    commands.choices["run"].set_defaults(command=_command)


def _command(args: argparse.Namespace) -> int:
    own_runs.keep_by(_kept)
    return run.command(args)


def _kept(
    folder: Path, config: Mapping[str, Any], storage: str, is_preempted: Callable[[], bool]
) -> AbstractContextManager[None]:
    # A script that has no such run waits for no imports.
    from det_compat.experimental.unmanaged import run_noted

    return run_noted(folder, config, storage=storage, is_preempted=is_preempted)
