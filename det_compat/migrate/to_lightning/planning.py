"""The plans of trial classes, made of all files of a project once these have been read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import libcst as cst

from det_compat.analysis.scopes import Class, Scope
from det_compat.catalog.support import home
from det_compat.migrate.configs import BATCHES, configs_of
from det_compat.migrate.to_lightning.automatic.by_hand import as_automatic
from det_compat.migrate.to_lightning.class_facts import (
    ClassFacts,
    are_decorated,
    calls_batch_methods,
)
from det_compat.migrate.to_lightning.data import transfers
from det_compat.migrate.to_lightning.data.handed_in import handed_in
from det_compat.migrate.to_lightning.data.loader_order import Project, needs_training_loader
from det_compat.migrate.to_lightning.from_config.arguments import parameters_of, with_default
from det_compat.migrate.to_lightning.from_config.lookups import Setting
from det_compat.migrate.to_lightning.from_config.same_names import SameNames, same_names
from det_compat.migrate.to_lightning.metrics.names import shared_names
from det_compat.migrate.to_lightning.optimization.accumulation import (
    Accumulation,
    accumulation,
    are_aggregating,
    frequency,
)
from det_compat.migrate.to_lightning.optimization.optimizer_wrappers import (
    leaves_closure,
)
from det_compat.migrate.to_lightning.optimization.unused import leaves_unused
from det_compat.migrate.to_lightning.plan import (
    TrialPlan,
    alone,
    heirs_and_mixins,
    other_bases,
)
from det_compat.migrate.to_lightning.script_contexts.hyperparameters import (
    GivenInScripts,
    given_in_scripts,
)
from det_compat.migrate.to_lightning.scripts.step_counts import steps_of_trial
from det_compat.migrate.to_lightning.unwrapped import keeps_modes
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.facts import Analysis, Facts
from det_compat.migrate.tree.parameters import Arguments, config_use, distinct
from det_compat.migrate.tree.symbols import Symbols

REDUCER = "det_compat.pytorch.MetricReducer"


@dataclass(frozen=True)
class ReadFile:
    """A file as it was read: its tree with placeholders, and the trial classes in it."""

    tree: cst.Module
    symbols: Symbols
    facts: Facts
    trials: dict[Scope, tuple[cst.ClassDef, ClassFacts]]


class Planner:
    """Makes the plan of each trial class after those of its bases.

    Args:
        files: the files that were read.
        analysis: of these, and of all others that are migrated with them.
        sources: the texts of all.
        elsewhere: what the code beside trial classes does.
        settings: how to look up what is no hyperparameter, but a value of the config.

    Attributes:
        plans: those that are made.
    """

    def __init__(
        self,
        files: Mapping[Path, ReadFile],
        analysis: Analysis,
        sources: Mapping[Path, bytes],
        elsewhere: Elsewhere,
        settings: Mapping[str, Setting],
    ) -> None:
        self.plans: dict[Scope, TrialPlan] = {}
        self._accumulating: dict[Scope, Accumulation | None] = {}
        self._files = files
        self._analysis = analysis
        self._hierarchy = analysis.inference.hierarchy
        self._sources = sources
        self._elsewhere = elsewhere
        self._settings = settings
        self._paths = {scope: path for path, read in files.items() for scope in read.trials}
        collating = any(b"collate_fn" in sources[path] for path in files)
        self._arrays = transfers.collates_arrays(s.tree for s in files.values() if collating)
        self._are_aggregating = are_aggregating((s.tree, s.symbols) for s in files.values())

    @cached_property
    def _given(self) -> GivenInScripts:
        files = [(each.tree, each.symbols) for each in self._files.values()]
        return given_in_scripts(files, self._elsewhere.tables)

    @cached_property
    def _steps_otherwise(self) -> bool:
        """Whether files without trials step optimizers, or one has a step of its own."""
        helpers = (self._sources[path] for path, read in self._files.items() if not read.trials)
        nodes = (scope.node for code in self._analysis.inference.codes for scope in code.classes)
        has_own = any(map(leaves_closure, nodes))
        return has_own or any(b".step_optimizer(" in each for each in helpers)

    @cached_property
    def _project(self) -> Project:
        """What trial classes and reducers, whose methods run in their own time, may call."""
        scopes = [scope for code in self._analysis.inference.codes for scope in code.classes]
        reducers = {
            scope.name
            for scope in scopes
            if REDUCER in map(home, self._hierarchy.determined_bases(scope))
        }
        own = {scope.name for scope in scopes if self._hierarchy.is_trial(scope)} | reducers
        return Project(self._sources.values(), own)

    def plan(self, scope: Scope) -> TrialPlan:
        """The plan of a trial class, made after those of its bases."""
        if scope in self.plans:
            return self.plans[scope]
        source = self._files[path := self._paths[scope]]
        node, own = self._class(scope)
        bases = self._hierarchy.bases(scope)
        parents = [b.scope for b in bases if isinstance(b, Class) and b.scope in self._paths]
        is_root = self._is_root(scope)
        has_heirs = bool(self._hierarchy.children(scope))
        keeps = self._calls_methods(own) or are_decorated(node)
        is_single = not (parents or has_heirs) and is_root
        is_whole = is_single and not keeps
        family = [s for s in reversed(self._hierarchy.ancestors(scope)) if s in self._paths]
        relatives = [self._class(each) for each in family]
        family_methods = [syntax.methods(each) for each, _ in relatives]
        models = [model for _, facts in relatives for model in facts.models]
        methods = {name: method for own in family_methods for name, method in own.items()}
        # What a trial hands its context to may ask for more than its own file.
        named = map(self._files.get, self._analysis.imported(path))
        helpers = [each for each in named if each and each.symbols and not each.trials]
        # A mixin has no parameters: what it asks for is the trial's that it is in front of.
        is_known = all(self._is_plain_mixin(each, node, source.symbols) for each in parents)
        takes_all = is_root and not has_heirs and is_known
        mixed = [self._files[self._paths[each]] for each in parents if takes_all]
        around = {id(each): each for each in (source, *mixed, *helpers)}
        configs = configs_of(path, node.name.value) if takes_all else []
        taken = parameters_of(
            node,
            [(each.tree, each.symbols) for each in around.values()],
            self._elsewhere.functions,
            configs,
            settings=self._settings,
            others=[
                other
                for each in (source, *mixed)
                for one, (other, _) in each.trials.items()
                if one not in parents
            ],
            is_whole=takes_all,
        )
        if not takes_all:
            # What one class of a family asks the config for is given to each.
            taken = replace(taken, sections=distinct((*taken.sections, *self._asked(scope))))
        optional = self._elsewhere.looked_up
        name = node.name.value
        taken = self._given.taken(name, taken, is_whole=takes_all, optional=optional)
        accumulates = self._accumulation(scope)
        if accumulates is not None:
            taken = with_default(taken, BATCHES, accumulates.batches)
        automatic, lone = None, frozenset() if keeps else alone(scope, self._hierarchy)
        others = heirs_and_mixins(scope, self._hierarchy) if "train_batch" in lone else None
        can = is_root and others is not None and {*others} <= self._paths.keys()
        if can and not (self._steps_beside(path) or accumulates or self._steps_otherwise):
            found = [(self._files[self._paths[o]].symbols, *self._class(o)) for o in others or ()]
            asked = self._elsewhere.asked
            automatic = as_automatic(node, source.symbols, own, self._project, asked, found)
        inits = [own["__init__"] for own in family_methods[::-1] if "__init__" in own]
        takes_more = any(len([*syntax.find(each.params, cst.Param)]) > 2 for each in inits)
        plans = [self.plan(parent) for parent in parents if parent is not scope]
        is_automatic = automatic is not None or any(base.is_automatic for base in plans)
        plan = self.plans[scope] = TrialPlan(
            own=automatic or own,
            parents=plans,
            is_root=is_root,
            is_single=is_single,
            is_whole=is_whole,
            alone=lone,
            is_automatic=is_automatic,
            arguments=taken,
            is_mixin=not self._hierarchy.is_trial(scope),
            other_bases=other_bases(scope, self._hierarchy),
            arrays=is_root
            and self._arrays
            and not transfers.is_default_collated(methods, source.symbols),
            needs_loader=needs_training_loader(methods, self._project),
            leaves_unused=leaves_unused(family_methods, models, source.symbols, self._elsewhere),
            keeps_modes=keeps_modes(family_methods, models, self._elsewhere, has_heirs),
            accumulation=accumulates,
            steps=1 if is_automatic else steps_of_trial(family_methods, [f for _, f in relatives]),
            objects=handed_in(node, source.symbols, self._elsewhere.made, inits)
            if takes_more
            else frozenset(),
            same_names=self._same_names(scope, taken) if takes_more else SameNames(),
            shared_names=shared_names(
                scope, self._hierarchy, self._paths, lambda each: self._class(each)[1]
            ),
        )
        return plan

    def _accumulation(self, scope: Scope) -> Accumulation | None:
        """How a trial class accumulates gradients, as all of its family does.

        That family is the one of a single class which derives from Determined's, without mixins.
        """
        ancestors = [s for s in self._hierarchy.ancestors(scope) if s in self._paths]
        if (first := ancestors[-1]) not in self._accumulating:
            self._accumulating[first] = self._accumulation_below(first)
        found = self._accumulating[first]
        if found is None:
            return None
        batches, *of_bases = (
            next(filter(None, map(self._frequency, ancestors[at:])), found.batches)
            for at in range(len(ancestors))
        )
        has_init = "__init__" in self._class(scope)[1].methods
        is_apart = not has_init and batches not in of_bases[:1] and scope is not first
        return replace(found, batches=batches, is_apart=is_apart)

    def _frequency(self, scope: Scope) -> int | None:
        """The number of batches that the configs of a class say, if it has any."""
        return frequency(configs_of(self._paths[scope], self._class(scope)[0].name.value))

    def _accumulation_below(self, first: Scope) -> Accumulation | None:
        """The same of the family whose first class this is."""
        family = [first, *(s for s in self._hierarchy.relatives(first) if s is not first)]
        # A class that has nothing of a trial may be in front of one.
        family = [s for s in family if s in self._paths or self._hierarchy.is_trial(s)]
        are_heirs = all(s in self._paths and first in self._hierarchy.ancestors(s) for s in family)
        if not (are_heirs and self._is_root(first) and all(map(self._hierarchy.is_trial, family))):
            return None
        known = [(self._paths[each], *self._class(each)) for each in family]
        configs = [configs_of(path, node.name.value) for path, node, _ in known]
        texts = [self._sources[path].decode(errors="replace") for path, *_ in known]
        texts += [str(each.hyperparameters) for of_class in configs for each in of_class]
        if any(BATCHES in text for text in texts) or any(self._steps_beside(p) for p, *_ in known):
            return None
        return accumulation(
            [(node, own, self._files[path].symbols) for path, node, own in known],
            configs,
            in_script=self._are_aggregating,
        )

    def _is_root(self, scope: Scope) -> bool:
        """Whether a class derives from Determined's itself."""
        return any(getattr(base, "path", None) for base in self._hierarchy.bases(scope))

    def _steps_beside(self, path: Path) -> bool:
        """Whether something else of a file than its trial classes steps optimizers."""
        source = self._files[path]
        nodes = (source.tree, *(each for each, _ in source.trials.values()))
        every, *stepping = (len(source.symbols.calls(n, "step_optimizer")) for n in nodes)
        return every > sum(stepping)

    def _same_names(self, scope: Scope, taken: Arguments) -> SameNames:
        """What a trial class takes beside its context under the name of a hyperparameter."""
        known = {
            each: (path, self._class(each)[0], self._files[path].symbols)
            for each, path in self._paths.items()
        }
        asked = {*taken.types, *taken.needs}
        return same_names(scope, self._hierarchy, known, self._elsewhere.made, asked)

    def _is_plain_mixin(self, scope: Scope, trial: cst.ClassDef, symbols: Symbols) -> bool:
        """Whether a class in front of a trial is no trial, has no bases, and gets no context."""
        node, _ = self._class(scope)
        if len(self._hierarchy.ancestors(scope)) > 1 or self._hierarchy.is_trial(scope):
            return False
        return "__init__" not in syntax.methods(node) or _makes_bases(trial, symbols)

    @cached_property
    def _sections(self) -> dict[Path, tuple[str, ...]]:
        """What else than hyperparameters each file asks the config for."""
        found = ((path, each) for path, each in self._files.items() if len(each.symbols))
        return {path: config_use(each.tree, each.symbols).sections for path, each in found}

    def _asked(self, scope: Scope) -> Iterator[str]:
        """What else than hyperparameters the files of a family ask the config for."""
        relatives = self._hierarchy.relatives(scope)
        for path in dict.fromkeys(self._paths[each] for each in relatives if each in self._paths):
            for each in (path, *self._analysis.imported(path)):
                yield from self._sections.get(each, ())

    def _class(self, scope: Scope) -> tuple[cst.ClassDef, ClassFacts]:
        return self._files[self._paths[scope]].trials[scope]

    def _calls_methods(self, own: ClassFacts) -> bool:
        """Whether some code calls the methods that would become Lightning's."""
        is_open = any(name.startswith("**") for name in own.methods.get("train_batch", []))
        return is_open or self._calls_batch_methods

    @cached_property
    def _calls_batch_methods(self) -> bool:
        return any(
            calls_batch_methods(each.tree, of_trials=bool(each.trials))
            for each in self._files.values()
        )


def _makes_bases(trial: cst.ClassDef, symbols: Symbols) -> bool:
    """Whether a trial's ``__init__`` calls that of its bases with what it says, and no context."""
    init = syntax.methods(trial).get("__init__")
    calls = [*syntax.find(init, cst.Call)] if init is not None else []
    made = [call for call in calls if syntax.code(call.func).endswith(".__init__")]
    given = [arg for call in made for arg in call.args]
    return bool(made) and not any(arg.star or symbols.is_context(arg.value) for arg in given)
