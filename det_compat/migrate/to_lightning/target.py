"""``--to lightning``: trials of the context API become LightningModules."""

import ast
import builtins
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import libcst as cst

from det_compat.analysis.scopes import Scope
from det_compat.catalog.support import home
from det_compat.migrate.configs import nested_hparams, of_script, step_of
from det_compat.migrate.refused import of_other_frameworks, without_counterparts, without_training
from det_compat.migrate.target import Problem, Problems, Target
from det_compat.migrate.to_context.target import old_trials
from det_compat.migrate.to_lightning.automatic.clips import give_clips
from det_compat.migrate.to_lightning.callbacks import taken_in_callbacks
from det_compat.migrate.to_lightning.class_facts import (
    asking_at_once,
    facts_of,
)
from det_compat.migrate.to_lightning.data import loaders
from det_compat.migrate.to_lightning.early.branched import wrapped_behind
from det_compat.migrate.to_lightning.early.kept_late import with_late_properties
from det_compat.migrate.to_lightning.early.mixins import handing_on, mixins_in_front
from det_compat.migrate.to_lightning.early.named_once import named_once
from det_compat.migrate.to_lightning.from_config.lookups import with_own_hyperparameters
from det_compat.migrate.to_lightning.metrics.training import apart
from det_compat.migrate.to_lightning.modes import callbacks_evaluate, evaluators, makes_evaluating
from det_compat.migrate.to_lightning.optimization.mapped import of_lists, spread_maps
from det_compat.migrate.to_lightning.optimization.optimizer_wrappers import (
    gets_closure,
    is_set_on,
)
from det_compat.migrate.to_lightning.optimization.rebound import (
    keep_rebound,
    with_made_where_kept,
    with_one_name,
)
from det_compat.migrate.to_lightning.optimization.schedulers import keep_modes
from det_compat.migrate.to_lightning.optimization.stepping import always_made
from det_compat.migrate.to_lightning.optimization.wrapping import (
    keep_wrapped,
    name_wrapped,
    spread_choices,
    spread_makers,
)
from det_compat.migrate.to_lightning.passes import rewritten
from det_compat.migrate.to_lightning.plan import (
    LightningFile,
    TrialPlan,
    early_methods,
    with_own,
)
from det_compat.migrate.to_lightning.planning import REDUCER, Planner, ReadFile
from det_compat.migrate.to_lightning.returned.hoisting import Resolved, hoist_wraps
from det_compat.migrate.to_lightning.shadowed import without_shadowed
from det_compat.migrate.to_lightning.taken.renaming import with_new_names
from det_compat.migrate.to_lightning.taken.reserved import (
    ATTRIBUTE_DICTS,
    keeps_hparams,
    taken_names,
)
from det_compat.migrate.to_lightning.written_out.outputs import asks_outputs
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.branches import without_questions
from det_compat.migrate.tree.elsewhere import Importers, of_samplers
from det_compat.migrate.tree.facts import CALLBACK, Analysis, Facts, is_callback
from det_compat.migrate.tree.file import bound_names, function_names
from det_compat.migrate.tree.imports import tidied
from det_compat.migrate.tree.symbols import Symbols, new_name, own_name, resolve
from det_compat.migrate.tree.transformers import CannotRewriteError

#: How many functions may hand on what one of them wraps.
_DEEPEST = 5


class Lightning(Target):
    """Rewrites the files of one analysis.

    Reading all of them first tells which trials derive from which.
    """

    def __init__(self, analysis: Analysis, sources: dict[Path, bytes], problems: Problems) -> None:
        super().__init__(analysis, sources, problems)
        self._hierarchy = analysis.inference.hierarchy
        self._read: dict[Path, ReadFile] = {}
        self._importers = Importers(sources)
        nodes = {node: path for path, node in self._trial_nodes()}
        callbacks = [*self._callback_nodes()]
        own = (f"class {name}".encode() for name in ATTRIBUTE_DICTS)
        are_deep = not any(name in text for name in own for text in sources.values())
        self._renamed = taken_names(
            nodes, hooked=callbacks, nested=lambda: nested_hparams(nodes), are_deep=are_deep
        )
        self._hparams = {"hparams"} - self._renamed if keeps_hparams(nodes) else set[str]()
        self._taken = taken_in_callbacks(callbacks)
        self._asks_outputs = asks_outputs(callbacks)
        resolved: list[Resolved] = []
        for path in sources:
            facts = analysis.facts(path)
            refused = of_other_frameworks(facts, self._hierarchy)
            if refused := refused or without_training(facts, self._hierarchy):
                problems[path] = Problem(refused)
                continue
            with problems.of(path):
                resolved += self._resolved(path)
        resolved, settings = with_own_hyperparameters(resolved, analysis)
        kept = resolved
        for _ in range(_DEEPEST):
            hoisted = hoist_wraps(kept)
            if all(hoisted[file.path] is file.tree for file in kept):
                break
            # Objects, and other functions, may keep what functions have wrapped before.
            kept = [replace(file, tree=hoisted[file.path]) for file in kept]
        handed = handing_on(self._mixins(), {f.path: (f.tree, f.symbols) for f in kept})
        kept = [replace(file, tree=handed[file.path]) for file in kept]
        for file in with_late_properties(kept, analysis):
            with problems.of(file.path):
                self._read_file(file.path, file.tree, file.symbols)
        self._planner = Planner(self._read, analysis, sources, self.elsewhere, settings)
        for path, source in self._read.items():
            with problems.of(path):
                for scope in source.trials:
                    self._planner.plan(scope)
        self._trials = {n: plan for each in self._read for n, plan in self._plans_of(each).items()}

    def trials(self, path: Path) -> list[str]:
        """The trial classes of a file that become LightningModules."""
        plans = self._plans_of(path).values()
        return [plan.own.name for plan in plans if any(p.is_root for p in plan.ancestors)]

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a file; None if there is nothing to migrate in it."""
        if path not in self._read or self._is_untouched(path):
            return None
        tree, file = self._read[path].tree, self._file(path)
        return tidied(rewritten(tree, file), file.imports).bytes

    def _is_untouched(self, path: Path) -> bool:
        """Whether no pass would find anything in a file, which saves most of the time it takes."""
        source = self._read[path]
        scopes = source.facts.classes.values()
        if self._trials and any(gets_closure(scope.node) for scope in scopes):
            return False
        if self._trials and is_set_on(self.sources[path]):
            return False
        if len(source.symbols) or source.trials or any(self._bases(scope)[0] for scope in scopes):
            return False
        # Attributes of trials have been renamed as the file was read.
        names = [*map(new_name, self._renamed), *map(own_name, self._taken)]
        defined = {each.name.value for each in syntax.find(source.tree, cst.FunctionDef)}
        if any(name in defined or syntax.has_attribute(source.tree, name) for name in names):
            return False
        return not any(name.encode() in self.sources[path] for name in loaders.NAMES)

    def _trial_nodes(self) -> Iterator[tuple[Path, ast.ClassDef]]:
        """Those of trials that are rewritten, by their files."""
        for code in self.analysis.inference.codes:
            for scope in code.classes:
                relatives = (scope, *self._hierarchy.relatives(scope))
                is_trial = any(self._hierarchy.is_trial(each) for each in relatives)
                if is_trial and scope not in self._old and isinstance(scope.node, ast.ClassDef):
                    yield code.module.source.path, scope.node

    def _callback_nodes(self) -> Iterator[ast.ClassDef]:
        for code in self.analysis.inference.codes:
            for scope in code.classes:
                if isinstance(scope.node, ast.ClassDef) and is_callback(scope, self._hierarchy):
                    yield scope.node

    def _mixins(self) -> Iterator[tuple[list[tuple[Path, str]], bool]]:
        """For each trial class, its mixins, and whether only other trials are behind them."""
        scopes = {
            s: code.module.source.path
            for code in self.analysis.inference.codes
            for s in code.classes
        }
        for scope in filter(self._hierarchy.is_trial, scopes):
            found, has_trial = mixins_in_front(scope, self._hierarchy)
            heirs = (heir for each in found for heir in self._hierarchy.children(each))
            has_trial &= all(self._hierarchy.is_trial(h) or h in found for h in heirs)
            if found:
                yield [(scopes[each], each.name) for each in found], has_trial

    def _is_alone(self, scope: Scope, facts: Facts) -> bool:
        """Whether a class is a trial, with neither bases nor heirs in the project."""
        return facts.is_trial(scope) and {*self._hierarchy.relatives(scope)} <= {scope}

    def _resolved(self, path: Path) -> list[Resolved]:
        facts = self.analysis.facts(path)
        if facts is None or not self._old.isdisjoint(facts.classes.values()):
            # Older trials that are still there have been marked: the code around them is theirs.
            return []
        text = self.sources[path]
        tree, symbols = resolve(text, facts, self._renamed, self._taken, self._hparams)
        if self._renamed:
            names = {s.name for s in facts.classes.values() if facts.is_named_as_trial(s)}
            tree = with_new_names(tree, names, self._renamed)
        is_off = self._has_trials and not self.elsewhere.has_core_contexts
        if refused := without_counterparts(self.sources[path], symbols, is_off_clusters=is_off):
            raise CannotRewriteError(refused)
        if len(symbols):
            alone = {scope.name for scope in facts.classes.values() if self._is_alone(scope, facts)}
            tree = without_shadowed(
                tree, {s.name for s in facts.classes.values() if facts.is_trial(s)}
            )
            tree = apart(tree, symbols, alone, self.elsewhere)
            tree = without_questions(spread_maps(of_lists(tree, symbols), symbols), symbols)
            tree = spread_choices(tree, symbols)
            tree = spread_makers(tree, symbols)
            tree = named_once(wrapped_behind(tree, symbols), symbols, alone, self.elsewhere.asked)
            tree = with_made_where_kept(tree, symbols, self.elsewhere.asked)
            tree = keep_rebound(with_one_name(tree, symbols, alone, self.elsewhere.asked), symbols)
            tree = give_clips(tree, symbols)
        return [Resolved(path, tree, symbols)]

    def _read_file(self, path: Path, tree: cst.Module, symbols: Symbols) -> None:
        facts = self.analysis.facts(path)
        assert facts is not None
        if len(symbols):
            tree = keep_modes(name_wrapped(keep_wrapped(tree, symbols), symbols), symbols)
        nodes = {node.name.value: node for node in syntax.find(tree, cst.ClassDef)}
        children = self._hierarchy.children
        trials = {
            scope: (node, facts_of(node, symbols, nodes, has_heirs=bool(children(scope))))
            for scope in facts.classes.values()
            if (node := nodes.get(scope.name)) is not None and facts.is_trial(scope)
        }
        self._read[path] = ReadFile(tree, symbols, facts, trials)

    def _plans_of(self, path: Path) -> dict[str, TrialPlan]:
        scopes = self._read[path].trials if path in self._read else ()
        plans = self._planner.plans
        return {scope.name: plans[scope] for scope in scopes if scope in plans}

    def _meant(self, path: Path) -> dict[str, TrialPlan]:
        """The trial classes by name, as a file means them: its own, what it imports, others."""
        if len(self._trials) == len(self._planner.plans):
            return self._trials
        found: dict[str, TrialPlan] = {}
        for each in (path, *self.analysis.imported(path)):
            found = {**self._plans_of(each), **found}
        return {**self._trials, **found}

    def _file(self, path: Path) -> LightningFile:
        source = self._read[path]
        classes = {scope.name: self._bases(scope) for scope in source.facts.classes.values()}
        scripts = (each for each in self.sources if path in self.analysis.imported(each))
        asks_steps = self._says(b"first_step")
        return LightningFile(
            source.symbols,
            plans=self._plans_of(path),
            trials=self._meant(path),
            every=(*self._planner.plans.values(),),
            callbacks={name for name, (every, _) in classes.items() if CALLBACK in every},
            reducers={n: REDUCER in own for n, (every, own) in classes.items() if REDUCER in every},
            functions={*dir(builtins), *function_names(source.tree)},
            made=always_made(source.tree),
            names=bound_names(self.sources[path], path),
            renamed=self._renamed,
            taken=self._taken,
            early=with_own(self._early, early_methods(self._plans_of(path))),
            makes_evaluating=self._makes_evaluating,
            evaluators=self._evaluators,
            callbacks_evaluate=self._callbacks_evaluate,
            has_own_loaders=self._says(b"def get_data_loader("),
            asks_lengths=self._says(b".get_batch_length("),
            asks_outputs=self._asks_outputs,
            asked=self._importers.asked(path),
            **(of_script(path, scripts) if b".fit(" in self.sources[path] else {}),
            batches_per_step=step_of(path, self._plans_of(path) if asks_steps else ()),
            asking=self._asking,
            elsewhere=self.elsewhere,
            imported=of_samplers(path, self.sources),
        )

    @cached_property
    def _has_trials(self) -> bool:
        return bool(self._old) or any(self._trial_nodes())

    @cached_property
    def _old(self) -> set[Scope]:
        """The older trials that are still there, with their bases and heirs in other files."""
        codes = self.analysis.inference.codes
        files = [f for code in codes if (f := self.analysis.facts(code.module.source.path))]
        return {
            relative
            for facts in files
            for scope in facts.classes.values()
            if scope.name in old_trials(facts, self._hierarchy)
            for relative in self._hierarchy.relatives(scope)
        }

    @cached_property
    def _early(self) -> dict[str, frozenset[str]]:
        return early_methods(self._trials)

    @cached_property
    def _makes_evaluating(self) -> bool:
        return makes_evaluating((self.sources[p], read.tree) for p, read in self._read.items())

    @cached_property
    def _evaluators(self) -> frozenset[str]:
        return evaluators((self.sources[p], read.tree) for p, read in self._read.items())

    @cached_property
    def _callbacks_evaluate(self) -> bool:
        names = {node.name for node in self._callback_nodes()}
        trees = [read.tree for read in self._read.values()]
        nodes = (node for tree in trees for node in syntax.find(tree, cst.ClassDef))
        callbacks = (node for node in nodes if node.name.value in names)
        return callbacks_evaluate(callbacks, self._evaluators)

    def _says(self, word: bytes) -> bool:
        return any(word in text for text in self.sources.values())

    @cached_property
    def _asking(self) -> frozenset[str]:
        every = [each for each in self._read.values() if len(each.symbols)]
        return frozenset(name for each in every for name in asking_at_once(each.tree, each.symbols))

    def _bases(self, scope: Scope) -> tuple[set[str | None], set[str | None]]:
        """The bases of a class that are Determined's: all of them, and those that it names."""
        every = {home(name) for name in self._hierarchy.determined_bases(scope)}
        own = {home(getattr(base, "path", "")) for base in self._hierarchy.bases(scope)}
        return every, own
