"""What is to become of the files and trial classes of a tree, before anything is changed.

All of it is read, and decided, before the first pass; no pass changes it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from det_compat.analysis.classes import Hierarchy, base_nodes
from det_compat.analysis.scopes import Class, Scope
from det_compat.config.periods import batches_per_step
from det_compat.migrate.to_lightning.class_facts import (
    BATCH_METHODS,
    EVALUATIONS,
    ClassFacts,
    WrappedModel,
    WrappedReducer,
    WrappedScheduler,
)
from det_compat.migrate.to_lightning.from_config.same_names import SameNames
from det_compat.migrate.to_lightning.metrics.renamed import ALL, NOT_YET, renamed_key
from det_compat.migrate.to_lightning.optimization.accumulation import Accumulation
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.file import File
from det_compat.migrate.tree.parameters import Arguments
from det_compat.migrate.tree.trial_attributes import VALIDATING

#: The number of the batch in the whole training, given the LightningModule.
TOTAL_BATCH = "{0}.trainer.fit_loop.total_batch_idx"


class OtherBases(enum.Enum):
    """The bases of a class in front of Determined's."""

    NONE = "there are none"
    PLAIN = "none of them has an __init__"
    INITIALIZED = "one of them has an __init__"
    UNKNOWN = "one of them is in no file that was read"


#: The strategy of Lightning for backward passes through some of the models alone.
UNUSED = "ddp_find_unused_parameters_true"


@dataclass(frozen=True, eq=False)
class TrialPlan:
    """What becomes of a trial class, which depends on the other classes of the tree.

    Attributes:
        own: what stands in the class itself.
        parents: plans of its bases that are trial classes of the tree, or mixins of them.
        is_root: whether it derives from Determined's class itself.
        is_single: whether all of the trial is in this class.
        is_whole: whether it is, and nothing but the trial's loops calls its batch methods.
        alone: the batch methods that it has and none of its relatives, so that they can become
            Lightning's; others stay, and Lightning's call them.
        is_automatic: whether Lightning may step the optimizer.
        arguments: the parameters of its constructor.
        is_mixin: whether it is no trial class itself, and so no module.
        other_bases: what is known of the bases in front of Determined's.
        arrays: whether its batches have NumPy's arrays.
        needs_loader: whether a validation needs what making the training loader has left.
        keeps_modes: whether a validation uses a model that stays in the mode that it is in.
        leaves_unused: whether it keeps parameters that a batch may leave without gradients.
        accumulation: how it steps once in several batches; None if it does not.
        steps: how many steps of optimizers a batch makes; None if that is not known, and 0 if
            it leaves batches to its heirs.
        objects: what it is given as it is made that is no hyperparameter.
        same_names: what it is given so under the name of a hyperparameter.
        shared_names: the metrics of its validation that have a name of training's.
    """

    own: ClassFacts
    parents: Sequence[TrialPlan]
    is_root: bool
    is_single: bool
    is_whole: bool
    alone: frozenset[str]
    is_automatic: bool
    arguments: Arguments
    is_mixin: bool
    other_bases: OtherBases
    arrays: bool
    needs_loader: bool
    keeps_modes: bool
    leaves_unused: bool
    accumulation: Accumulation | None
    steps: int | None
    objects: frozenset[str]
    same_names: SameNames
    shared_names: frozenset[str]

    @property
    def ancestors(self) -> list[TrialPlan]:
        """This plan and those of its bases, nearest first."""
        found = [self]
        for plan in found:
            found.extend(parent for parent in plan.parents if parent not in found)
        return found

    @property
    def new(self) -> list[TrialPlan]:
        """This plan and those of mixins that no base has which is a trial itself."""
        had = {each for p in self.parents if not p.is_mixin for each in p.ancestors}
        return [each for each in self.ancestors if each not in had]

    def parameters(self, method: str) -> list[str] | None:
        """The parameters of a method, its own or inherited; None if there is none."""
        known = (plan.own.methods for plan in self.ancestors)
        return next((methods[method] for methods in known if method in methods), None)

    @property
    def all_methods(self) -> set[str]:
        """The names of all methods, inherited ones included."""
        return {name for plan in self.ancestors for name in plan.own.methods}

    def is_alone(self, method: str) -> bool:
        """Whether a batch method, its own or inherited, becomes Lightning's where it is."""
        return any(method in plan.alone for plan in self.ancestors)

    @property
    def early(self) -> list[str]:
        """The methods that run before there is a Trainer: ``__init__``, and what it calls."""
        return self.reached("__init__")

    def reached(self, *first: str) -> list[str]:
        """Some methods, and those that they call."""
        found = [*first]
        methods = self.all_methods
        for name in found:
            found += [each for each in self.uses(name) if each in methods - {*found}]
        return found

    def uses(self, *methods: str) -> dict[str, None]:
        """The attributes that some methods use."""
        every = (plan.own.uses.get(name, ()) for name in methods for plan in self.ancestors)
        return dict.fromkeys(attribute for used in every for attribute in used)

    @property
    def is_partial(self) -> bool:
        """Whether backward passes may go through some of its parameters, and not through others."""
        if any(plan.leaves_unused for plan in self.ancestors):
            return True
        passes = sum(plan.own.backwards for plan in self.ancestors)
        kept = [m.attribute for m in self.all_models], self.all_optimizers
        # A star stands for all that a list or a dict has.
        are_several = any(len(names) > 1 or "*" in "".join(names) for names in kept)
        return not self.is_automatic and passes > 1 and are_several

    @cached_property
    def training(self) -> set[str]:
        """The methods that train, and are called by no validation."""
        return {*self.reached("train_batch")} - {*self.reached(*VALIDATING)}

    @property
    def evaluates_whole(self) -> bool:
        """Whether validation is one call with the whole loader."""
        return self.parameters("evaluate_full_dataset") is not None

    @property
    def _initialized(self) -> list[ClassFacts]:
        inherits = self.own.calls_init or "__init__" not in self.own.methods
        return [p.own for p in self.ancestors if p is self or inherits][::-1]

    @property
    def validation_names(self) -> dict[str, str]:
        """What each metric of a validation is logged as: Lightning has one name for one metric."""
        known = {name for plan in self.ancestors for name in plan.own.validated}
        return {name: name for name in sorted(known)} | self.renamed

    @property
    def renamed(self) -> dict[str, str]:
        """The metrics of a validation that are logged under another name, with that."""
        is_alone = bool(self.alone & EVALUATIONS)
        shared = self.shared_names & self.own.validated if is_alone else self.shared_names
        return {name: f"val_{name}" for name in sorted(shared)}

    @property
    def renames_all(self) -> bool:
        """Whether these are all that a validation has."""
        if not self.is_single and not self.alone & EVALUATIONS:
            return False
        every = self.own.every_validated
        return every is not None and bool(every) and every <= self.renamed.keys()

    @property
    def renames_unknown(self) -> bool:
        """Whether a validation may have names of training, and not all names of both are known."""
        return any(
            plan.is_open
            and (plan.own.every_validated is None or self._shares)
            and (plan.is_mixin or self.is_single)
            for plan in self.ancestors
        )

    @property
    def _shares(self) -> bool:
        """Whether a validation has names of training, none of which begins as those of it do."""
        known = {n for plan in self.ancestors for n in plan.own.validated | plan.own.logged}
        are_same = any(p.own.are_shared or p.own.are_partly_shared for p in self.ancestors)
        return are_same and not any(name.startswith("val") for name in known)

    @property
    def key(self) -> str:
        """The expression of what the metric ``name`` of a validation is logged as."""
        if self.renames_unknown:
            return ALL if self._shares else NOT_YET
        return renamed_key(self.renamed, is_every=self.renames_all)

    @property
    def is_open(self) -> bool:
        """Whether it is not known which metrics training, and a validation, log."""
        logged, validated = self.own.every_logged, self.own.every_validated
        if logged is not None and validated is not None:
            same = {name for name in logged & validated if not name.endswith("*")}
            return bool(same - self.renamed.keys())
        return validated is None and logged is None

    @property
    def is_idle(self) -> bool:
        """Whether bases step schedulers that this class does not make."""
        if self.is_root or self.own.calls_init or "__init__" not in self.own.methods:
            return False
        inherited = (s for p in self.ancestors[1:] for s in p.own.schedulers)
        return any(scheduler.interval or scheduler.choices for scheduler in inherited)

    @property
    def all_optimizers(self) -> list[str]:
        """The attributes of every optimizer, those of bases first."""
        return [*dict.fromkeys(o for own in self._initialized for o in own.optimizers)]

    @property
    def lacking_optimizers(self) -> set[str]:
        """Those of several that may be missing; a trial cannot train without its only one."""
        every = self.all_optimizers
        lacking = {name for own in self._initialized for name in own.lacking}
        return lacking & {*every} if len(every) > 1 else set()

    @property
    def all_models(self) -> list[WrappedModel]:
        """Every model that is wrapped, those of bases first."""
        return [*dict.fromkeys(m for own in self._initialized for m in own.models)]

    @property
    def knows_models(self) -> bool:
        """Whether every model that is wrapped, and one at least, is in an attribute."""
        unkept = any("wrap_model" in plan.own.unkept for plan in self.ancestors)
        return bool(self.all_models) and not unkept

    @property
    def all_reducers(self) -> list[WrappedReducer]:
        """Every reducer, those of bases first."""
        return [*dict.fromkeys(r for own in self._initialized for r in own.reducers)]

    @property
    def hides_schedulers(self) -> bool:
        """Whether one attribute keeps schedulers of two classes, all of which are stepped."""
        kept = [{s.attribute for s in o.schedulers if not s.may_lack} for o in self._initialized]
        return sum(map(len, kept)) > len(set[str]().union(*kept))

    @property
    def all_schedulers(self) -> list[WrappedScheduler]:
        """Every scheduler, those of bases first."""
        return [*dict.fromkeys(s for own in self._initialized for s in own.schedulers)]


@dataclass(frozen=True)
class LightningFile(File):
    """What the passes over a file know.

    Attributes:
        plans: of the trial classes of the file, by name.
        trials: of those of the whole tree.
        every: of all of these, also of classes that share a name.
        callbacks: the names of the classes that are callbacks.
        reducers: those of reducers, and whether they derive from MetricReducer itself.
        functions: the names of the file's functions, and of Python's own.
        made: the names of variables and attributes that are always what a call returns.
        names: those that the file binds at its top level.
        renamed: the attributes of trials that a LightningModule has for something else.
        taken: the attributes of callbacks that Lightning's have for something else.
        makes_evaluating: whether the tree makes models that are in evaluation mode.
        evaluators: the functions of the tree that leave models in evaluation mode.
        callbacks_evaluate: whether callbacks of the tree put models into evaluation mode.
        has_own_loaders: whether the tree has a method get_data_loader, as Determined's loaders do.
        asks_lengths: whether the tree asks trials how many records a batch has.
        asks_outputs: whether callbacks of the tree use what each batch of a validation returned.
        early: the methods of each trial class that run before there is a Trainer, since its
            ``__init__`` calls them, or that of a class which derives from it.
        asking: the functions and classes of the tree that ask at once how many processes run.
        asked: the names that files which import this one may take of it; ``*`` for all of them.
        imported: what is in the files that this one imports, and these, as far as samplers go.
        length: how long its configs have it train, as the argument of a Trainer; ``""`` if there is
            no one answer.
        devices: on how many devices its configs have it train, by their names.
        seeds: which seeds its configs say, by their names.
        config: the path of the config that has the hyperparameters of a script.
        batches_per_step: how many batches Determined 0.12 called a step.
    """

    plans: dict[str, TrialPlan] = field(default_factory=dict)
    trials: dict[str, TrialPlan] = field(default_factory=dict)
    every: tuple[TrialPlan, ...] = ()
    callbacks: set[str] = field(default_factory=set)
    reducers: dict[str, bool] = field(default_factory=dict)
    functions: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    renamed: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()
    early: dict[str, frozenset[str]] = field(default_factory=dict)
    asking: frozenset[str] = frozenset()
    makes_evaluating: bool = False
    evaluators: frozenset[str] = frozenset()
    callbacks_evaluate: bool = False
    has_own_loaders: bool = False
    asks_lengths: bool = False
    asks_outputs: bool = False
    asked: frozenset[str] = frozenset()
    imported: Elsewhere = field(default_factory=Elsewhere)
    length: str = ""
    devices: dict[str, int] = field(default_factory=dict)
    seeds: dict[str, int] = field(default_factory=dict)
    config: str = ""
    batches_per_step: int = batches_per_step(None)

    @property
    def steps(self) -> int | None:
        """How many steps a batch makes, each of which Lightning counts; None if trials differ."""
        counts = {plan.steps for plan in self.trials.values() if not plan.is_mixin} - {0}
        return counts.pop() if len(counts) == 1 else None

    @cached_property
    def called_early(self) -> frozenset[str]:
        """What trials call before there is a Trainer, by the last parts of the names."""
        return frozenset(
            name
            for plan in self.trials.values()
            for each in plan.ancestors
            for method in self.early.get(plan.own.name, ())
            for name in each.own.called.get(method, ())
        )

    def hands_hparams_on(self, plan: TrialPlan) -> bool:
        """Whether a trial, or an heir, does more with its hyperparameters than to look one up."""
        return any(p.arguments.is_whole for p in self.trials.values() if plan in p.ancestors)

    def hands_size_on(self, plan: TrialPlan) -> bool:
        """Whether a trial calls what must be told how many processes there are."""
        called = {n for p in plan.ancestors for names in p.own.called.values() for n in names}
        return bool(self.asking & self.called_early & called)


def other_bases(scope: Scope, hierarchy: Hierarchy) -> OtherBases:
    """What a class derives from besides Determined's."""
    nodes = base_nodes(scope)
    values = [hierarchy.evaluate(node, scope.parent or scope) for node in nodes]
    first = (i for i, found in enumerate(values) if any(getattr(v, "path", "") for v in found))
    # Determined's own __init__ called none behind it.
    others = values[: next(first, len(values))]
    classes = [value.scope for found in others for value in found if isinstance(value, Class)]
    if not others:
        return OtherBases.NONE
    ancestors = (each for found in classes for each in hierarchy.ancestors(found))
    if any("__init__" in each.functions for each in ancestors):
        return OtherBases.INITIALIZED
    is_known = len(classes) == len(others) and not [*hierarchy.unknown_bases(scope)]
    return OtherBases.PLAIN if is_known else OtherBases.UNKNOWN


def alone(scope: Scope, hierarchy: Hierarchy) -> frozenset[str]:
    """The batch methods of a trial class that no class has which it derives from, or heirs have."""
    relatives = hierarchy.relatives(scope)
    if not hierarchy.is_trial(scope) or scope in hierarchy.cut:
        return frozenset()
    others = {n for each in relatives if each is not scope for n in each.functions}
    evaluating = others & {*EVALUATIONS, "evaluation_reducer"}
    # Of two ways to evaluate, one counts, which a relative may decide.
    return (
        (BATCH_METHODS & scope.functions.keys()) - others - (EVALUATIONS if evaluating else set())
    )


def heirs_and_mixins(scope: Scope, hierarchy: Hierarchy) -> list[Scope] | None:
    """The relatives of a trial class; None if another one that is no heir of it is a trial, too."""
    others = [each for each in hierarchy.relatives(scope) if each is not scope]
    bases = [each for each in others if scope not in hierarchy.ancestors(each)]
    return None if any(map(hierarchy.is_trial, bases)) else others


def early_methods(trials: Mapping[str, TrialPlan]) -> dict[str, frozenset[str]]:
    """The methods of each class that run before there is a Trainer."""
    found: dict[str, set[str]] = {name: set() for name in trials}
    for plan in trials.values():
        names = {*plan.early}
        for each in plan.ancestors:
            found.setdefault(each.own.name, set()).update(names)
    return {name: frozenset(names) for name, names in found.items()}


def with_own(
    every: Mapping[str, frozenset[str]], own: Mapping[str, frozenset[str]]
) -> dict[str, frozenset[str]]:
    """These methods with those of a file's own classes, whose names others may have."""
    return {**every, **{name: names | every.get(name, names) for name, names in own.items()}}
