"""One process of a launcher: its script, in which ``determined`` is det_compat."""

import os
import sys
from collections.abc import Sequence

from det_compat.script.command import under_det_compat

_TRIAL = "determined.exec.harness"


def main(argv: Sequence[str]) -> None:
    """Become the process that runs ``argv``.

    Raises:
        SystemExit: it is a trial class, or cannot be run.
    """
    if list(argv[1:3]) == ["-m", _TRIAL]:
        sys.exit(
            f"det-compat: --trial {' '.join(argv[3:])}: train it by `det-compat fit CONFIG.yaml`, "
            "whose entrypoint names it; resources.slots_per_trial says on how many processes"
        )
    command = under_det_compat(argv)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"det-compat: cannot run {command[0]!r}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
