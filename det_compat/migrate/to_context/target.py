"""``--to context``: trials of Determined 0.12 and PEDL become trials of the context API.

PEDL's names have become Determined's before.
"""

from functools import cached_property
from pathlib import Path

import libcst as cst

from det_compat.analysis.classes import Hierarchy
from det_compat.analysis.generations import TrialClass
from det_compat.analysis.scopes import Scope
from det_compat.catalog.generations import Generation
from det_compat.migrate.configs import configs_of
from det_compat.migrate.target import Target
from det_compat.migrate.to_context.data_functions import find_function
from det_compat.migrate.to_context.families import Families
from det_compat.migrate.to_context.trial_class import Older, in_context_api
from det_compat.migrate.tree import leftovers, syntax
from det_compat.migrate.tree.facts import Facts
from det_compat.migrate.tree.file import File
from det_compat.migrate.tree.imports import tidied
from det_compat.migrate.tree.symbols import resolve
from det_compat.migrate.tree.transformers import CannotRewriteError

_OLD = (Generation.DETERMINED_0_12, Generation.PEDL, Generation.PEDL_STANDARD)


class Context(Target):
    """Rewrites the older trials of the files of one analysis."""

    def trials(self, path: Path) -> list[str]:
        """The classes of a file that are rewritten."""
        return [*self._old_trials(path)]

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a file; None if there is no older trial in it.

        Raises:
            CannotRewriteError: one of these builds itself in two ways, and Determined runs neither.
        """
        facts, old = self.analysis.facts(path), self._old_trials(path)
        if facts is None:
            return None
        known = {
            scope.name: self._older(path, scope, old.get(scope.name))
            for scope in facts.classes.values()
            if scope.name in old or scope in self._families.bases
        }
        if not known:
            return None
        for scope in facts.classes.values():
            trial = TrialClass(scope, self.analysis.inference.hierarchy)
            if scope.name in old and trial.is_known and trial.problem:
                raise CannotRewriteError(f"{scope.name} {trial.problem}")
        tree, symbols = resolve(self.sources[path], facts)
        file = File(symbols, elsewhere=self.elsewhere)

        def rewritten(node: cst.ClassDef) -> cst.BaseStatement:
            older = known.get(node.name.value)
            return node if older is None else in_context_api(node, file, older)

        tree = syntax.each(tree, cst.ClassDef, rewritten)
        return tidied(leftovers.put_back_silently(tree, file), file.imports).bytes

    @cached_property
    def _families(self) -> Families:
        hierarchy = self.analysis.inference.hierarchy
        found = (facts for path in self.sources if (facts := self.analysis.facts(path)) is not None)
        every = ((facts, old_trials(facts, hierarchy)) for facts in found)
        old = {each for facts, old in every for each in facts.classes.values() if each.name in old}
        return Families(old, hierarchy, self.sources, self.elsewhere)

    def _old_trials(self, path: Path) -> dict[str, Generation]:
        facts = self.analysis.facts(path)
        return old_trials(facts, self.analysis.inference.hierarchy) if facts is not None else {}

    def _older(self, path: Path, scope: Scope, generation: Generation | None) -> Older:
        names = ("make_data_loaders", "download_data")
        family = self._families.of(scope)
        return Older(
            is_standard=generation is Generation.PEDL_STANDARD,
            hparams=[
                found.hyperparameters.space
                for each in family.relatives
                for found in configs_of(each.source.path, each.name)
            ],
            functions={n: find_function(n, path, scope.name, self.analysis) for n in names},
            family=family,
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
