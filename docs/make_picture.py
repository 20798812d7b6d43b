"""Make the picture of a terminal in README.md: ``python docs/make_picture.py``.

The commands are run in a terminal, and what they print there is drawn. Their folder is a new one
below /tmp, whose name is drawn as one of the same length that says more.
"""

from __future__ import annotations

import io
import os
import pty
import re
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "run.svg"
COLUMNS = 104
SHOWN_AS = "/home/you/digits"
COMMANDS = (
    "det-compat fit const.yaml --trainer.max_epochs 4 --trainer.enable_progress_bar false",
    "det-compat fit const.yaml --trainer.max_epochs 4 --model.hparams.dropout 0.5 --quiet",
    "det-compat runs compare digits/001 digits/002",
)


def printed(command: str, folder: Path) -> str:
    """What a command prints on standard output, which is a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    environment["PYTHONPATH"] = str(ROOT)
    process = subprocess.Popen(
        [sys.executable, "-m", *command.replace("det-compat", "det_compat", 1).split()],
        cwd=folder,
        env=environment,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    told = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # as Linux says that nobody writes any more
            break
        if not part:
            break
        told += part
    if process.wait() != 0:
        raise SystemExit(f"{command} ended with status {process.returncode}")
    return told.decode().replace("\r\n", "\n")


def main() -> None:
    """Run the commands, and draw them."""
    folder = Path("/tmp", secrets.token_hex(8)[: len(SHOWN_AS) - len("/tmp/")])
    shutil.copytree(ROOT / "examples" / "digits", folder)
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    try:
        for command in COMMANDS:
            console.print(Text.assemble(("$ ", "green"), (command, "bold")))
            text = printed(command, folder).replace(str(folder), SHOWN_AS)
            console.print(Text.from_ansi(text))
    finally:
        shutil.rmtree(folder)
    # The fonts would be fetched from elsewhere.
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title="det-compat"), flags=re.S)
    PICTURE.write_text(drawn, "utf-8")


if __name__ == "__main__":
    main()
