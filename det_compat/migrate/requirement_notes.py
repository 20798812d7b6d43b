"""Files that say what to install, and still name Determined."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from det_compat.migrate.results import Migration

_NAMES = re.compile(r"requirements.*\.(txt|in)|environment\.ya?ml|setup\.(py|cfg)|pyproject\.toml")
_DETERMINED = re.compile(r"""^[^#]*(?<![\w./-])determined(?![\w./-])""")
#: Lightning 1, asked for by name: what migrate writes needs Lightning 2.
_OLD_LIGHTNING = re.compile(
    r"^[^#]*(?<![\w./-])(pytorch[-_])?lightning\s*(==|~=|<=?)\s*[\"']?[01]\."
)


def requirement_notes(migration: Migration, paths: Sequence[str], package: str) -> Iterator[str]:
    """What is said of requirements beside modules, or above them below one of the ``paths``.

    The modules need ``package`` instead; whether something else needs Determined nobody knows here.
    """
    roots = {Path(path).absolute() for path in paths}
    made = [file.path.absolute() for file in migration.changed if file.trials]
    folders: dict[Path, None] = {}
    for path in made:
        above = [each for each in path.parents if not roots.isdisjoint((each, *each.parents))]
        folders |= dict.fromkeys(above or [path.parent])
    for folder in folders:
        for path in sorted(folder.iterdir()):
            if _NAMES.fullmatch(path.name) and path.is_file():
                yield from _notes(path, package)


def _notes(path: Path, package: str) -> Iterator[str]:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return
    for number, line in enumerate(lines, 1):
        if _DETERMINED.search(line):
            yield f"{path}:{number}: the modules need {package} and no determined"
        elif _OLD_LIGHTNING.search(line):
            yield f"{path}:{number}: the modules need {package}>=2, and this asks for an older one"
