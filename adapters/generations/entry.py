"""The entry of a PEDL directory: the ``__init__.py`` that brings the trial and its loaders.

A PEDL config names no entrypoint where the directory has one. It imports from its neighbours as
``from model_def import MyTrial`` or ``from .model_def import MyTrial``.
"""

import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from det_compat.adapters.generations.adapted import LoaderFunctions
from det_compat.adapters.generations.trial_class import ClassFacts
from det_compat.shared.importing import has_entry, load_package

_LIBRARIES = ("det_compat", "determined", "pedl")


def trial_of(folder: Path) -> tuple[type, LoaderFunctions]:
    """The trial class and the loader functions that the entry of ``folder`` brings.

    Raises:
        LookupError: it brings no trial class, or several.
    """
    entry = load_package(folder)
    trials = [value for value in vars(entry).values() if inspect.isclass(value)]
    trials = [cls for cls in dict.fromkeys(trials) if _is_trial(cls)]
    # A base class may have come with the class that is meant.
    last = [cls for cls in trials if not any(cls in other.__mro__[1:] for other in trials)]
    if len(last) != 1:
        found = ", ".join(sorted(cls.__name__ for cls in last)) or "no trial class"
        raise LookupError(
            f"{folder / '__init__.py'} brings {found}: import the one trial class there, or name "
            "it in the config, `entrypoint: module:TrialClass`"
        )
    names = ("make_data_loaders", "download_data")
    return last[0], LoaderFunctions(*(getattr(entry, name, None) for name in names))


def function_beside(name: str, trial_cls: type) -> Any:
    """What the entry in the folder of a trial class has under ``name``; None if there is nothing.

    Where the trial was imported from a package, that package is the entry.
    """
    module = sys.modules.get(trial_cls.__module__)
    file = getattr(module, "__file__", None)
    if module is None or file is None:
        return None
    package = sys.modules.get(module.__package__ or "")
    if package is None:
        package = _entry_in(Path(file).parent)
    return getattr(package, name, None)


def _entry_in(folder: Path) -> ModuleType | None:
    return load_package(folder) if has_entry(folder) else None


def _is_trial(cls: type) -> bool:
    if cls.__module__.partition(".")[0] in _LIBRARIES:
        return False
    facts = ClassFacts(cls)
    return facts.defines("train_batch") or facts.defines("losses")
