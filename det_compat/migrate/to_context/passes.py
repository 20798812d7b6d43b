"""``--to context``: trials of Determined 0.12 and PEDL become trials of the context API.

PEDL's names have become Determined's before.
"""

from __future__ import annotations

from pathlib import Path

import libcst as cst

from det_compat.analysis.classes import Hierarchy
from det_compat.analysis.generations import TrialClass
from det_compat.catalog.generations import Generation
from det_compat.migrate.configs import config_of
from det_compat.migrate.to_context.older_data import find_function
from det_compat.migrate.to_context.older_trial import Older, in_context_api
from det_compat.migrate.tree import leftovers
from det_compat.migrate.tree.facts import Analysis, Facts
from det_compat.migrate.tree.file import File
from det_compat.migrate.tree.imports import tidied
from det_compat.migrate.tree.symbols import resolve

_OLD = (Generation.DETERMINED_0_12, Generation.PEDL, Generation.PEDL_STANDARD)


class Context:
    """Rewrites the older trials of the files of one analysis."""

    def __init__(self, analysis: Analysis, sources: dict[Path, bytes]) -> None:
        self._analysis = analysis
        self._sources = sources
        self.problems: dict[Path, str] = {}

    def trials(self, path: Path) -> list[str]:
        """The classes of a file that are rewritten."""
        facts = self._analysis.facts(path)
        if facts is None:
            return []
        return [*old_trials(facts, self._analysis.inference.hierarchy)]

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a file; None if there is no older trial in it.

        Raises:
            cst.ParserSyntaxError: LibCST cannot parse it.
        """
        facts = self._analysis.facts(path)
        old = old_trials(facts, self._analysis.inference.hierarchy) if facts is not None else {}
        if facts is None or not old:
            return None
        tree, symbols = resolve(self._sources[path], facts)
        file = File(path, symbols, {})
        known = {name: self._older(path, name, kind) for name, kind in old.items()}
        tree = tree.visit(_OlderTrials(file, known))
        tree = leftovers.restore(tree, file)
        return tidied(tree, file.imports, file.kept).bytes

    def _older(self, path: Path, name: str, generation: Generation) -> Older:
        config = config_of(path, name)
        names = ("make_data_loaders", "download_data")
        return Older(
            is_standard=generation is Generation.PEDL_STANDARD,
            hparams=config.hyperparameters.constants() if config is not None else {},
            functions={n: find_function(n, path, name, self._analysis) for n in names},
        )


def old_trials(facts: Facts, hierarchy: Hierarchy) -> dict[str, Generation]:
    """The trial classes of a file that are of an older generation, each with its generation."""
    found = {}
    for scope in facts.classes.values():
        if hierarchy.is_trial(scope):
            generation = TrialClass(scope, hierarchy).generation
            if generation in _OLD:
                found[scope.name] = generation
    return found


class _OlderTrials(cst.CSTTransformer):
    def __init__(self, file: File, known: dict[str, Older]) -> None:
        self._file = file
        self._known = known

    def leave_ClassDef(
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.BaseStatement:
        older = self._known.get(updated_node.name.value)
        return updated_node if older is None else in_context_api(updated_node, self._file, older)
