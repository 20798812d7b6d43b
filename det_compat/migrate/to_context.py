"""``--to context``: trials of Determined 0.12 and PEDL become trials of the context API."""

from __future__ import annotations

from pathlib import Path

import libcst as cst

from det_compat.check.classes import Hierarchy
from det_compat.check.generations import DETERMINED_0_12, PEDL, PEDL_STANDARD, TrialClass
from det_compat.migrate import leftovers
from det_compat.migrate.facts import Analysis, Facts
from det_compat.migrate.file import File
from det_compat.migrate.imports import tidied
from det_compat.migrate.marks import marked
from det_compat.migrate.older_trial import in_context_api
from det_compat.migrate.symbols import resolve

_OLD = (DETERMINED_0_12, PEDL, PEDL_STANDARD)
_PEDL = "MIGRATION.md#pedl"


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
        return [
            name
            for name, generation in old_trials(facts, self._analysis.inference.hierarchy).items()
            if generation in _CAN
        ]

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
        tree = tree.visit(_OlderTrials(file, old))
        tree = leftovers.restore(tree, file)
        return tidied(tree, file.imports, file.kept).bytes


def old_trials(facts: Facts, hierarchy: Hierarchy) -> dict[str, str]:
    """The trial classes of a file that are of an older generation, each with its generation."""
    found = {}
    for scope in facts.classes.values():
        if hierarchy.is_trial(scope):
            generation = TrialClass(scope, hierarchy).generation
            if generation in _OLD:
                found[scope.name] = generation
    return found


_CAN = (DETERMINED_0_12,)


class _OlderTrials(cst.CSTTransformer):
    def __init__(self, file: File, old: dict[str, str]) -> None:
        self._file = file
        self._old = old

    def leave_ClassDef(
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.BaseStatement:
        generation = self._old.get(updated_node.name.value)
        if generation is None:
            return updated_node
        if generation not in _CAN:
            message = "trials of PEDL are rewritten by hand: the context API has loader methods"
            return marked(updated_node, message, _PEDL)
        return in_context_api(updated_node, self._file)
