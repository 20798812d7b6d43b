"""What ``det-compat check`` and ``migrate`` take for 10, 100 and 1,000 files."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from benchmarks.starts import SCRIPTS, cost_of

SIZES = (10, 100, 1000)
_COMMANDS = {"check": ("check",), "migrate": ("migrate", "--to", "lightning")}


def measure_tools(largest: int = SIZES[-1]) -> dict[str, dict[str, dict[str, float]]]:
    """CPU seconds, seconds and peak memory of each command, by the number of files."""
    found: dict[str, dict[str, dict[str, float]]] = {name: {} for name in _COMMANDS}
    source = (SCRIPTS / "trial.py").read_text("utf-8")
    for size in SIZES:
        if size > largest:
            continue
        with tempfile.TemporaryDirectory() as folder:
            for number in range(size):
                # Ten in each package, which import one another as a project's files do.
                package = Path(folder, f"package_{number // 10}")
                package.mkdir(exist_ok=True)
                text = f"from package_{number // 10} import trial_{number // 10 * 10}\n{source}"
                (package / f"trial_{number}.py").write_text(text, "utf-8")
            for name, words in _COMMANDS.items():
                command = [sys.executable, "-m", "det_compat", *words, folder]
                cost = cost_of(command, statuses=(0, 1))
                found[name][str(size)] = {
                    "CPU seconds": cost.cpu,
                    "seconds": cost.wall,
                    "peak MiB": cost.peak_mib,
                }
    return found


if __name__ == "__main__":
    print(json.dumps(measure_tools(int(sys.argv[1]))))
