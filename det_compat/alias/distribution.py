"""What ``importlib.metadata`` tells of the aliased ``determined``."""

import os
from importlib.metadata import Distribution
from typing import Any

from det_compat.alias.version import DETERMINED_VERSION


class AliasedDistribution(Distribution):
    """The distribution ``determined``: its name and version, and no files."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: determined\nVersion: {DETERMINED_VERSION}\n"

    def locate_file(self, path: str | os.PathLike[str]) -> Any:
        raise FileNotFoundError(f"{path}: the aliased determined has no files of its own")
