"""``--to lightning``: the passes over the files of a tree, in order."""

from __future__ import annotations

import builtins
import keyword
from pathlib import Path

import libcst as cst

from det_compat.analysis.scopes import Scope
from det_compat.analysis.values import Class
from det_compat.catalog.support import home
from det_compat.migrate.configs import config_of
from det_compat.migrate.to_context.passes import old_trials
from det_compat.migrate.to_lightning import (
    aliases,
    callbacks,
    functions,
    loaders,
    members,
    optimizers,
    reducers,
    reserved,
    scripts,
    stepping,
    tensorboard,
    training_report,
    trial_class,
    unassigned,
)
from det_compat.migrate.to_lightning import annotations as types
from det_compat.migrate.to_lightning.batch_transfer import collates_arrays
from det_compat.migrate.to_lightning.plan import decide, hparams_of, plan_of
from det_compat.migrate.tree import imports, leftovers
from det_compat.migrate.tree.facts import Analysis, Facts
from det_compat.migrate.tree.file import File, TrialPlan
from det_compat.migrate.tree.symbols import resolve
from det_compat.migrate.tree.syntax import find, simple, target_of

_PASSES = (
    reserved.apply,
    scripts.apply,
    trial_class.apply,
    stepping.apply,
    aliases.apply,
    optimizers.apply,
    loaders.apply,
    tensorboard.apply,
    members.apply,
    functions.apply,
    callbacks.apply,
    training_report.apply,
    reducers.apply,
    types.apply,
    leftovers.apply,
)
_CALLBACK = "det_compat.pytorch.PyTorchCallback"
_REDUCER = "det_compat.pytorch.MetricReducer"


class Lightning:
    """Rewrites the files of one analysis.

    Reading all of them first tells which trials derive from which.
    """

    def __init__(self, analysis: Analysis, sources: dict[Path, bytes]) -> None:
        self._analysis = analysis
        self._files: dict[Path, tuple[cst.Module, File]] = {}
        self._plans: dict[Scope, TrialPlan] = {}
        self.problems: dict[Path, str] = {}
        for path, source in sources.items():
            facts = analysis.facts(path)
            if facts is None:
                continue
            try:
                self._read(path, source, facts)
            except cst.ParserSyntaxError as error:
                self.problems[path] = f"LibCST cannot parse it: {error.message}"
        self._link()

    def trials(self, path: Path) -> list[str]:
        """The trial classes of a file that become LightningModules."""
        if path not in self._files:
            return []
        plans = self._files[path][1].plans.values()
        return [plan.name for plan in plans if any(p.is_root for p in plan.ancestors)]

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a file; None if there is nothing to migrate in it."""
        if path not in self._files:
            return None
        tree, file = self._files[path]
        for apply in _PASSES:
            tree = apply(tree, file)
        return imports.tidied(tree, file.imports, file.kept, file.local).bytes

    def _read(self, path: Path, source: bytes, facts: Facts) -> None:
        tree, symbols = resolve(source, facts)
        file = File(path, symbols, {})
        file.functions, file.names = {*dir(builtins)}, _bound(tree)
        file.functions |= {node.name.value for node in find(tree, cst.FunctionDef)}
        tree = unassigned.apply(tree, file)
        nodes = {node.name.value: node for node in find(tree, cst.ClassDef)}
        hierarchy = self._analysis.inference.hierarchy
        if old_trials(facts, hierarchy):
            # they have been marked, and what is around them is still theirs
            return
        for scope in facts.classes.values():
            bases = [home(name) for name in hierarchy.determined_bases(scope)]
            if _CALLBACK in bases:
                file.callbacks.add(scope.name)
            if _REDUCER in bases:
                own = [home(getattr(base, "path", "")) for base in hierarchy.bases(scope)]
                file.reducers[scope.name] = _REDUCER in own
            if facts.is_trial(scope) and scope.name in nodes:
                plan = plan_of(nodes[scope.name], symbols)
                self._plans[scope] = file.plans[scope.name] = plan
        self._files[path] = (tree, file)

    def _link(self) -> None:
        hierarchy = self._analysis.inference.hierarchy
        for scope, plan in self._plans.items():
            bases = [base.scope for base in hierarchy.bases(scope) if isinstance(base, Class)]
            plan.parents = [self._plans[base] for base in bases if base in self._plans]
            own = {getattr(base, "path", None) for base in hierarchy.bases(scope)}
            plan.is_root = any(path for path in own)
            is_alone = not plan.parents and not hierarchy.children(scope)
            plan.is_whole = is_alone and plan.is_root and not self._calls_methods(plan)
        trials = {plan.name: plan for plan in self._plans.values()}
        arrays = collates_arrays(tree for tree, _ in self._files.values())
        for tree, file in self._files.values():
            file.trials = trials
            for node in find(tree, cst.ClassDef):
                if node.name.value in file.plans:
                    self._complete(file.plans[node.name.value], node, tree, file, arrays)

    def _calls_methods(self, plan: TrialPlan) -> bool:
        """Whether some code calls the methods that would become Lightning's."""
        names = {"train_batch", "evaluate_batch", "evaluate_full_dataset"}
        if any(name.startswith("**") for name in plan.methods.get("train_batch", [])):
            return True
        called = (
            call.func.attr.value
            for tree, _ in self._files.values()
            for call in find(tree, cst.Call)
            if isinstance(call.func, cst.Attribute)
        )
        return any(name in names for name in called)

    def _complete(
        self, plan: TrialPlan, node: cst.ClassDef, tree: cst.Module, file: File, arrays: bool
    ) -> None:
        names, is_open, arguments = hparams_of(tree, file.symbols)
        plan.hparams = [*dict.fromkeys([*plan.hparams, *names])]
        plan.is_open = plan.is_open or is_open or not plan.is_whole
        plan.arguments = [*dict.fromkeys([*plan.arguments, *arguments])]
        config = config_of(file.path, plan.name)
        plan.arrays = plan.is_root and arrays
        asks = bool(plan.hparams or plan.is_open)
        if config is not None and plan.is_whole and asks:
            plan.defaults = config.hyperparameters.constants()
            known = config.hyperparameters.space
            plan.hparams = [*dict.fromkeys([*plan.hparams, *known])]
            plan.is_open = not all(map(_is_parameter, known))
        in_file = [
            c
            for c in find(tree, cst.Call)
            if (f := file.symbols.called(c)) and f[1] == "step_optimizer"
        ]
        in_class = [
            c
            for c in find(node, cst.Call)
            if (f := file.symbols.called(c)) and f[1] == "step_optimizer"
        ]
        decide(plan, node, file.symbols, len(in_file) > len(in_class))


def _is_parameter(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def _bound(tree: cst.Module) -> set[str]:
    """The names that a file binds at its top level."""
    bound: set[str] = set()
    for line in tree.body:
        small = simple(line)
        if isinstance(small, (cst.Import, cst.ImportFrom)):
            is_star = isinstance(small.names, cst.ImportStar)
            bound |= set() if is_star else {imports.bound_name(a) for a in small.names}  # type: ignore[union-attr]
        elif isinstance(line, (cst.FunctionDef, cst.ClassDef)):
            bound.add(line.name.value)
        bound |= {target_of(line) or ""}
    return bound
