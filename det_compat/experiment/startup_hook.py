"""``startup-hook.sh``, which a container of a cluster sourced before its trial started."""

import os
import sys
from pathlib import Path
from typing import NoReturn

from det_compat.experiment.environment import is_worker
from det_compat.experiment.errors import FitError
from det_compat.experiment.request import Request

NAME = "startup-hook.sh"

#: The variable that tells the command after the hook that it has run.
_DONE = "DET_COMPAT_STARTUP_HOOK"

# A cluster sourced it in the folder of the code, and an error in it ended the task; what it exports
# is for the trial.
_SCRIPT = f"""
here=$PWD
cd "$1"; shift
trap 'echo "det-compat: {NAME} ended with status $?, before the run" >&2' EXIT
set -ex
source ./{NAME}
{{ set +ex; }} 2> /dev/null
trap - EXIT
cd "$here"
exec "$@"
"""


def run_first(request: Request) -> NoReturn:
    """Source the hook, and become the command that was asked for, without the option.

    Raises:
        FitError: there is no hook or no bash, or another process has started this one.
    """
    folder = request.model_dir.resolve()
    if not (folder / NAME).is_file():
        raise FitError(f"--startup-hook: there is no {NAME} in {folder}")
    if is_worker():
        raise FitError(
            f"--startup-hook: every process of the launcher would run {NAME}: run "
            f"`bash {NAME}` once before it"
        )
    command = [sys.executable, "-m", "det_compat", *request.words()]
    sys.stdout.flush()
    environment = {**os.environ, _DONE: "1"}
    try:
        os.execvpe("bash", ["bash", "-c", _SCRIPT, NAME, str(folder), *command], environment)
    except OSError as error:
        raise FitError(f"--startup-hook: cannot run bash: {error.strerror}") from error


def note(model_dir: Path) -> str | None:
    """What to say of a hook that nobody runs; None if there is none, or it has run."""
    if _DONE in os.environ or not (model_dir / NAME).is_file():
        return None
    return (
        f"{model_dir / NAME} ran before each trial of a cluster, and does not run by itself here: "
        "give --startup-hook to `det-compat fit`, or run it once yourself"
    )
