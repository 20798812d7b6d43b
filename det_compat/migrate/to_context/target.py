"""``--to context``: trials of Determined 0.12 and PEDL become trials of the context API.

PEDL's names have become Determined's before.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import libcst as cst

from det_compat.analysis.classes import Hierarchy
from det_compat.analysis.generations import TrialClass
from det_compat.analysis.scopes import Scope
from det_compat.catalog.generations import Generation
from det_compat.migrate.configs import configs_of
from det_compat.migrate.target import Target
from det_compat.migrate.to_context.clipping import (
    clips_by_hparams,
    hparams_in_code,
    may_clip,
    with_words_of_clipping,
)
from det_compat.migrate.to_context.data_functions import find_function
from det_compat.migrate.to_context.families import Families
from det_compat.migrate.to_context.trial_class import (
    Older,
    in_context_api,
    problem_of,
    with_reasons,
)
from det_compat.migrate.tree import leftovers, syntax
from det_compat.migrate.tree.facts import Facts
from det_compat.migrate.tree.file import File
from det_compat.migrate.tree.imports import tidied
from det_compat.migrate.tree.symbols import resolve
from det_compat.migrate.tree.transformers import CannotRewriteError

_OLD = (Generation.DETERMINED_0_12, Generation.PEDL, Generation.PEDL_STANDARD)


@dataclass(frozen=True)
class _Read:
    """A file with older trials, and their bases."""

    tree: cst.Module
    file: File
    scopes: dict[str, Scope]
    known: dict[str, Older]


class Context(Target):
    """Rewrites the older trials of the files of one analysis."""

    def trials(self, path: Path) -> list[str]:
        """The classes of a file that are rewritten."""
        read = self._read(path)
        scopes = read.scopes if read is not None else {}
        old = self._old_trials(path)
        return [n for n, scope in scopes.items() if n in old and not self._stays(scope)]

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a file; None if it has neither an older trial nor what these clip by.

        Raises:
            CannotRewriteError: one of these builds itself in two ways, and Determined runs neither.
        """
        read = self._read(path)
        if read is None:
            return self._with_words_of_clipping(path)
        old = self._old_trials(path)
        for scope in read.scopes.values():
            trial = TrialClass(scope, self.analysis.inference.hierarchy)
            if scope.name in old and trial.is_known and trial.problem:
                raise CannotRewriteError(f"{scope.name} {trial.problem}")

        def rewritten(node: cst.ClassDef) -> cst.BaseStatement:
            older = read.known.get(node.name.value)
            if older is None:
                return node
            stays = self._stays(read.scopes[node.name.value])
            return in_context_api(node, read.file, replace(older, stays=stays))

        tree = syntax.each(read.tree, cst.ClassDef, rewritten)
        if self._clips_by_callbacks:
            tree = with_words_of_clipping(tree, read.file)
        return tidied(leftovers.put_back_silently(tree, read.file), read.file.imports).bytes

    def _with_words_of_clipping(self, path: Path) -> bytes | None:
        facts = self.analysis.facts(path)
        if facts is None or not self._clips_by_callbacks or not may_clip(self.sources[path]):
            return None
        tree, symbols = resolve(self.sources[path], facts)
        file = File(symbols, elsewhere=self.elsewhere)
        return leftovers.put_back_silently(with_words_of_clipping(tree, file), file).bytes

    @cached_property
    def _clips_by_callbacks(self) -> bool:
        """Whether the trials of all files are older ones, and no hyperparameter of theirs clips."""
        hierarchy = self.analysis.inference.hierarchy
        every = [facts for path in self.sources if (facts := self.analysis.facts(path)) is not None]
        trials = [(f, s) for f in every for s in f.classes.values() if hierarchy.is_trial(s)]
        are_older = all(scope.name in old_trials(facts, hierarchy) for facts, scope in trials)
        return (
            bool(trials)
            and are_older
            and not clips_by_hparams(
                space for _, scope in trials for space in self._hparams([scope])
            )
        )

    def _hparams(self, scopes: Iterable[Scope]) -> list[Mapping[str, Any]]:
        """The hyperparameters of each config of some trials, and of each that code has."""
        found = [c for each in scopes for c in configs_of(each.source.path, each.name)]
        spaces = [config.hyperparameters.space for config in found]
        return [*spaces, *hparams_in_code(self.sources.values())]

    def _read(self, path: Path) -> _Read | None:
        """A file with its older trials and their bases; None if there are none."""
        if path not in self._files:
            self._files[path] = self._with_old(path)
        return self._files[path]

    def _with_old(self, path: Path) -> _Read | None:
        facts, old = self.analysis.facts(path), self._old_trials(path)
        if facts is None:
            return None
        scopes = {
            scope.name: scope
            for scope in facts.classes.values()
            if scope.name in old or scope in self._families.bases
        }
        if not scopes:
            return None
        tree, symbols = resolve(self.sources[path], facts)
        known = {name: self._older(path, scope, old.get(name)) for name, scope in scopes.items()}
        return _Read(tree, File(symbols, elsewhere=self.elsewhere), scopes, known)

    def kept_whole(self, before: Mapping[Path, bytes]) -> dict[Path, bytes]:
        """The files as they were, where each of their trials is an older one that stays.

        They run as they are, and not beside files that have been changed for other trials.
        """
        every = [facts for path in before if (facts := self.analysis.facts(path)) is not None]
        if not any(old_trials(facts, self.analysis.inference.hierarchy) for facts in every):
            return {}
        trials = {s for facts in every for s in facts.classes.values() if facts.is_trial(s)}
        staying = {scope: self._stays(scope) for scope in (*trials, *self._families.bases)}
        if not all(staying[scope] for scope in trials):
            return {}
        found = dict(before)
        for path in before:
            reasons = {s.name: why for s, why in staying.items() if s.source.path == path and why}
            if reasons:
                found[path] = with_reasons(cst.parse_module(before[path]), reasons).bytes
        return found

    def _stays(self, scope: Scope) -> str:
        """Why a class stays as it was: by itself, or since another of its family does."""
        found = {each: self._problem(each) for each in (scope, *self._families.of(scope).relatives)}
        other = next((each.name for each, problem in found.items() if problem), "")
        return found[scope] or (other and f"{other}, which it goes with, stays as it was")

    def _problem(self, scope: Scope) -> str:
        read = self._read(scope.source.path)
        if read is None or scope.name not in read.known:
            return ""
        nodes = (n for n in syntax.find(read.tree, cst.ClassDef) if n.name.value == scope.name)
        return problem_of(next(nodes), read.file, read.known[scope.name])

    @cached_property
    def _files(self) -> dict[Path, _Read | None]:
        return {}

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
            hparams=self._hparams(family.relatives),
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
