"""Which files can refer to Determined at all."""

import re

from det_compat.analysis.source import Source
from det_compat.catalog.members import MEMBERS, TELLTALE
from det_compat.catalog.names import EXPORTS

# Words that say nothing of where they come from.
_EVERYDAY = {"value", "step", "rank", "size", "close", "reset", "state_dict", "load_state_dict"}
_CLASSES = ("PyTorchTrial", "PyTorchCallback", "PyTorchTrialContext")


def _words() -> set[str]:
    """One of these is in every reference: a package, a way to import, a member, a context's name.

    What a star import may bring is among them, too.
    """
    words = {"determined", "pedl", "model_hub", "det_compat", "ctx", "context", *TELLTALE}
    words.update(("import_module", "__import__", "exec", "eval", r"import \*"))
    words.update(name for names in EXPORTS.values() for name in names)
    members = (name for cls in _CLASSES for name in MEMBERS[f"det_compat.pytorch.{cls}"])
    words.update(name for name in members if len(name) > 8)
    return words - _EVERYDAY


_WORDS = re.compile("|".join(sorted(_words())))


def is_relevant(source: Source) -> bool:
    """Whether a file has a word that a reference would have, or may hand one on."""
    return source.path.name == "__init__.py" or any(_WORDS.search(line) for line in source.lines)
