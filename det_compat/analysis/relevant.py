"""Which files can refer to Determined at all."""

from __future__ import annotations

import re

from det_compat.analysis.source import Source
from det_compat.catalog.members import MEMBERS, TELLTALE
from det_compat.catalog.names import EXPORTS

# Every reference has one of these words: a package, a name that may come through a star import, a
# member, or the usual name of a context. The everyday words are left out.
_EVERYDAY = {"value", "step", "rank", "size", "close", "reset", "state_dict", "load_state_dict"}


def _words() -> re.Pattern[str]:
    words = {"determined", "pedl", "model_hub", "det_compat", "ctx", "context", *TELLTALE}
    words.update(name for names in EXPORTS.values() for name in names)
    words.update(n for t in ("PyTorchTrial", "PyTorchCallback") for n in _members(t))
    words.update(
        _members("PyTorchTrialContext"),
        ("import_module", "__import__", "exec", "eval", r"import \*"),
    )
    return re.compile("|".join(sorted(words - _EVERYDAY)))


def _members(cls: str) -> set[str]:
    names = MEMBERS[f"det_compat.pytorch.{cls}"]
    return {name for name in names if len(name) > 8}


_WORDS = _words()


def is_relevant(source: Source) -> bool:
    """Whether a file has a word that a reference would have, or may hand one on."""
    return source.path.name == "__init__.py" or any(_WORDS.search(line) for line in source.lines)
