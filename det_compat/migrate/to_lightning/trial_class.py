"""A trial class becomes a LightningModule."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import libcst as cst

from det_compat.migrate.line_length import spaced
from det_compat.migrate.shapes.known import Shapes
from det_compat.migrate.shapes.returned import gives_dicts
from det_compat.migrate.to_lightning import modes
from det_compat.migrate.to_lightning.callback_lists import configure_callbacks
from det_compat.migrate.to_lightning.class_facts import BATCH_METHODS, EVALUATIONS, asks_sizes
from det_compat.migrate.to_lightning.data import loaders, transfers
from det_compat.migrate.to_lightning.data.going_on import with_one_iterator
from det_compat.migrate.to_lightning.data.seeds import with_word_of_seeds
from det_compat.migrate.to_lightning.early.computing import moved_early
from det_compat.migrate.to_lightning.early.cuda import on_its_device, on_own_gpu
from det_compat.migrate.to_lightning.early.empty_lists import with_empty_lists
from det_compat.migrate.to_lightning.early.in_setup import made_in_setup
from det_compat.migrate.to_lightning.early.init_method import needs_init, with_arguments
from det_compat.migrate.to_lightning.early.late import late_values, setup_hook
from det_compat.migrate.to_lightning.early.mixins import mixin_init
from det_compat.migrate.to_lightning.early.moved_devices import left_to_lightning, never_later
from det_compat.migrate.to_lightning.from_config.changed_hparams import (
    changed_copies,
    keeping_given,
    with_copies,
    with_kept,
)
from det_compat.migrate.to_lightning.metrics.in_place import changed_in_place
from det_compat.migrate.to_lightning.metrics.logged import EACH_BATCH, as_numbers, by_name
from det_compat.migrate.to_lightning.metrics.moved_along import with_metrics_moved
from det_compat.migrate.to_lightning.metrics.numbers import numbers_of, with_numbers_of
from det_compat.migrate.to_lightning.metrics.on_cpu import Devices
from det_compat.migrate.to_lightning.metrics.renamed import ALL_RENAMED, renamed_in, said_of
from det_compat.migrate.to_lightning.metrics.training import training_hooks
from det_compat.migrate.to_lightning.metrics.unknown import are_unknown
from det_compat.migrate.to_lightning.moving.lines import moved_lines
from det_compat.migrate.to_lightning.moving.reading import Reader
from det_compat.migrate.to_lightning.moving.surely import surely
from det_compat.migrate.to_lightning.optimization import (
    accumulation,
    gradients,
    schedulers,
    stepping,
)
from det_compat.migrate.to_lightning.optimization.kept import by_attributes
from det_compat.migrate.to_lightning.optimization.optimizer_wrappers import (
    HELD,
    held_by_helpers,
    left_of_steps,
    set_on_wrappers,
)
from det_compat.migrate.to_lightning.optimization.optimizers import (
    configure_optimizers,
    left_of_wraps,
    used_attributes,
)
from det_compat.migrate.to_lightning.plan import LightningFile, OtherBases, TrialPlan
from det_compat.migrate.to_lightning.reducers.kinds import odd_makers
from det_compat.migrate.to_lightning.reducers.metrics import reducer_hooks, updates_at_start
from det_compat.migrate.to_lightning.reducers.reductions import (
    ReducerNames,
    late_hook,
    reduction,
    reported_late,
    with_names_at_top,
)
from det_compat.migrate.to_lightning.steps import training_step, validation_step
from det_compat.migrate.to_lightning.taken.renaming import left_to_base
from det_compat.migrate.to_lightning.written_out import lengths
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import comment, marked
from det_compat.migrate.tree.trial_attributes import VALIDATING, reachable


def rewrite_trials(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Rewrite the trial classes of a file."""
    classes = [*syntax.find(tree, cst.ClassDef)]
    every = [*syntax.find(tree, cst.FunctionDef)]
    names = [node.name.value for node in every]
    functions = {n.name.value: n for n in every if names.count(n.name.value) == 1}

    def rewritten(node: cst.ClassDef) -> cst.BaseStatement:
        plan = file.plans.get(node.name.value)
        if plan is None:
            return node
        file.imports.new.update(("import torch", "import pytorch_lightning as pl"))
        early = never_later(node, plan, file.elsewhere.asked)
        node = left_to_lightning(on_own_gpu(node, early, file.symbols), early, plan, file)
        if "cuda" not in file.elsewhere.classes_with:
            node = on_its_device(node)
        family = [p for p in (*file.every, *file.trials.values()) if plan in p.ancestors]
        relatives = {each.own.name for p in (plan, *family) for each in p.ancestors}
        relatives -= {plan.own.name}
        node = moved_early(node, file.symbols, file.elsewhere.texts, sorted(relatives))
        node = with_metrics_moved(node, file.elsewhere.imported)
        if (copied := with_copies(node, file.symbols)) is not node:
            file.imports.new.add("import copy")
            node = copied
        node = with_one_iterator(node, file.symbols, file.elsewhere)
        node = with_word_of_seeds(node, file.symbols, file.elsewhere)
        others = [other for other in classes if other.name.value != plan.own.name]
        heirs = (p.own for p in file.trials.values() if plan in p.ancestors and p is not plan)
        theirs = {name for own in heirs for name in own.methods}
        own = {name: found for name, found in syntax.methods(node).items() if name not in theirs}
        near = {name: found for name, found in functions.items() if name not in theirs}
        around = file.elsewhere
        shapes = Shapes(own, near, around.functions, around.imported, around.texts)
        return _Rewriting(node, plan, file, others, shapes).result()

    tree = syntax.each(with_names_at_top(tree, file), cst.ClassDef, rewritten)
    return with_numbers_of(tree)


@dataclass
class _Rewriting:
    """One class, method by method, in the order of the file.

    Attributes:
        node: the class.
        plan: what becomes of it.
        file: the file that it is in.
        others: the other classes of the file.
        shapes: what is known of metrics.
    """

    node: cst.ClassDef
    plan: TrialPlan
    file: LightningFile
    others: Sequence[cst.ClassDef]
    shapes: Shapes
    _asks: bool = field(default=False, init=False)
    _late_metrics: dict[str, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.own = syntax.methods(self.node)
        self._validating = reachable(self.own, *VALIDATING)
        self._held, self._lost = held_by_helpers(self.own, self.plan, self.file)

    def result(self) -> cst.BaseStatement:
        """The class."""
        plan, init, asks = self.plan, self.own.get("__init__"), False
        moved, late, told = (list[cst.BaseStatement]() for _ in range(3))
        # __init__ calls these methods, so they may need what it makes.
        early = [self.own[name] for name in self.own if name in self._early(plan) - {"__init__"}]
        if init is not None and not plan.is_mixin:
            stored = self._stored()
            gone, late, told = late_values(init, self.own, early, stored, self.file.symbols)
            init = _without(init, gone)
        around = self.file.elsewhere
        before = gradients.before_validations(self.own, self._validating, around.texts)
        if before and not plan.is_mixin:
            told = [*told, syntax.statement(before)]
        if init is not None and plan.is_whole:
            # Lightning asks for callbacks before it asks for optimizers, or only validates.
            first = [self.own[n] for n in reachable(self.own, "build_callbacks", *VALIDATING)]
            reader = Reader(self.node, self.file.elsewhere, self.file.symbols)
            moved, names = moved_lines(
                init, [*early, *first], reader, is_automatic=plan.is_automatic
            )
            asks = not self._held and stepping.asks_where_it_steps(self.own, plan, self.file)
            self._asks = bool(moved) or asks
            init, moved = _without(init, moved), by_attributes(moved, names)
            # What only the moved statements call is not called before there is a Trainer any more.
            called = {*reachable({**self.own, "__init__": init}, "__init__")}
            early = [method for method in early if method.name.value in called]
            if "setup" not in self.own:
                first = [self.own[n] for n in reachable(self.own, "build_callbacks")]
                gone, later = made_in_setup(init, [*early, *first], reader)
                init, told = _without(init, gone), [*told, *later]
        asking = [*early, *([init] if init is not None else [])]
        asks_size = not plan.is_mixin and (
            any(asks_sizes(each, self.file.symbols) for each in asking)
            or any(p.is_mixin and p.own.sizes & self._early(p) for p in plan.ancestors)
            or self.file.hands_size_on(plan)
        )
        body = [made for line in syntax.body_of(self.node) for made in self._made_of(line)]
        made: list[cst.BaseStatement] = []
        if init is not None and plan.is_mixin:
            made.append(mixin_init(init, plan, self.file))
        elif init is not None or needs_init(plan, self.file):
            made += [with_arguments(init, plan, self.file, asks_size=asks_size), *late]
        if plan.own.optimizers or plan.own.schedulers or (plan.is_root and plan.all_optimizers):
            nodes = [*body, *self.others, *([init] if init is not None else [])]
            used = used_attributes(nodes, plan, self.file)
            made += configure_optimizers(plan, moved, used, asks=asks, held=self._held)
        if plan.accumulation is not None and not any(p.is_root for p in plan.ancestors[1:]):
            made += accumulation.methods(plan.accumulation)
        at = self._index_of_init(body)
        hooks = self._hooks()
        if (asks_size or told) and "setup" not in self.own:
            hooks.append(setup_hook(plan, told, checks=asks_size))
        hooks += training_hooks(
            plan, odd_makers(plan.own, self.own, self.file.elsewhere), beside=[*body, *made, *hooks]
        )
        body[at:at] = made
        whole = schedulers.in_training([*body, *hooks], plan, self.file.every)
        whole = modes.with_one_start(whole, is_heir=not plan.is_root)
        whole = with_empty_lists(whole, plan.own.kept, self.node, self.file.elsewhere.texts)
        return self._checked(syntax.with_body(self.node, spaced(whole)))

    def _early(self, plan: TrialPlan) -> frozenset[str]:
        return self.file.early.get(plan.own.name, frozenset())

    def _stored(self) -> set[str]:
        """The attributes that the bases of the class set, and what derives from it."""
        plan = self.plan
        family = (p for p in self.file.trials.values() if plan in p.ancestors)
        others = {*plan.ancestors, *(each for p in family for each in p.ancestors)} - {plan}
        return {name for found in others for name in found.own.stores}

    def _index_of_init(self, body: list[cst.BaseStatement]) -> int:
        original, init = syntax.body_of(self.node), self.own.get("__init__")
        if init is not None:
            # LibCST compares nodes by identity, so a statement that is kept is found again.
            before = {*original[: original.index(init)]}
            return sum(line in before for line in body) or len(before)
        methods = (i for i, line in enumerate(body) if syntax.simple(line) is None)
        return next(methods, len(body))

    def _made_of(self, line: cst.BaseStatement) -> Sequence[cst.BaseStatement]:
        """What takes the place of a statement of the class; ``__init__`` comes later."""
        if not isinstance(line, cst.FunctionDef):
            return [] if syntax.code(line).strip() == "pass" else [line]
        name, plan, symbols = line.name.value, self.plan, self.file.symbols
        if name in self._validating and plan.is_mixin:
            line = gradients.with_gradients(line)
        if name == "__init__":
            return []
        if name == "build_callbacks":
            return [configure_callbacks(line, self.node, plan, self.file)]
        if name == "evaluation_reducer":
            is_one = self._evaluation() in plan.alone and not self._decides_late()
            named = syntax.transformed(line, ReducerNames(self.file))
            return [] if is_one else [named]
        if name == "build_validation_data_loader" and plan.needs_loader:
            line = self._after_training_loader(line)
        if name in BATCH_METHODS and (shared := changed_in_place(line, self.own)):
            reduces = "evaluation_reducer" in plan.all_methods or bool(plan.own.reducers)
            line, late = reported_late(line, shared, can=not reduces)
            self._late_metrics.update(late)
        if name == "get_batch_length" and not self.file.asks_lengths:
            # Lightning counts no records, which this method is for.
            return []
        if name == "train_batch" and name in plan.alone:
            return training_step(line, plan, self.file, asks=self._asks, shapes=self.shapes)
        if name == self._evaluation() and name in plan.alone and not self._decides_late():
            reducer = self.own.get("evaluation_reducer")
            returns = self.file.asks_outputs and not plan.evaluates_whole
            return [
                validation_step(line, plan, reducer, symbols, shapes=self.shapes, returns=returns)
            ]
        return [stepping.with_optimizers(line, plan, self.file, self._asks)]

    def _after_training_loader(self, line: cst.FunctionDef) -> cst.FunctionDef:
        """A method that makes the loader of validations, where these may come without training."""
        if line.name.value in self._early(self.plan):
            return line
        return loaders.after_training_loader(line, is_mixin=self.plan.is_mixin)

    def _evaluation(self) -> str:
        return "evaluate_full_dataset" if self.plan.evaluates_whole else "evaluate_batch"

    def _decides_late(self) -> bool:
        known = reduction(self.own.get("evaluation_reducer"), self.file.symbols) is not None
        return not (known or self.plan.evaluates_whole)

    def _hooks(self) -> list[cst.BaseStatement]:
        plan = self.plan
        made: list[cst.BaseStatement] = [*gradients.scaler_hooks(self.own, self.file.symbols)]
        # A base that has no train_batch has no training_step that would call it.
        is_new = not any(p.parameters("train_batch") for p in plan.parents if not p.is_mixin)
        is_new = is_new or bool(self._own_odd("train_batch"))
        trains = plan.is_root or (not plan.is_mixin and is_new)
        trains &= plan.parameters("train_batch") is not None and not plan.is_alone("train_batch")
        if trains:
            own = self.own.get("train_batch")
            is_dict = plan.is_single and own is not None and gives_dicts(own)
            given = "metrics" if is_dict else _TRAINING_METRICS
            metrics = numbers_of(given, "", self._odd("train_batch"))
            made.append(syntax.method(f"{_TRAINING}    self.log_dict({metrics})\n"))
        if self._calls_evaluation():
            made.append(self._calling_validation())
        if plan.is_root and self.file.asks_lengths and not plan.parameters("get_batch_length"):
            made.append(syntax.method(lengths.METHOD))
        made += [syntax.method(_NO_SANITY_CHECK)] if self._refuses_sanity_check() else []
        if self._inherits_loader():
            made.append(syntax.method(loaders.WHOLE_LOADER))
        made += modes.training_mode(self.node, self.own, plan, self.file)
        keeps = stepping.keeps_gradients(self.node, plan, self.file)
        made += [syntax.method(gradients.KEEPING)] if keeps else []
        made += [late_hook(self._late_metrics)] if self._late_metrics else []
        hooks = transfers.transfer_hooks(plan.own.stays, plan.arrays)
        updating = any(map(updates_at_start, self.others))
        odd = odd_makers(plan.own, self.own, self.file.elsewhere)
        more = any(parent.all_reducers for parent in plan.parents)
        # There is no validation before its loader.
        first = ("__init__", "build_validation_data_loader")
        kept = surely(plan.own.reducers, plan, self.own, *first)
        reducers = reducer_hooks(
            kept,
            odd,
            callbacks_update=updating,
            are_others=more,
            is_whole=plan.evaluates_whole,
        )
        bases = (base for base in plan.parents if not base.is_mixin)
        has_hooks = not (updating and reducers) and any(
            (base.keeps_modes or (self.file.callbacks_evaluate and base.all_models))
            and base.knows_models
            and base.all_models == plan.all_models
            for base in bases
        )
        if self._keeps_modes() and plan.knows_models and not has_hooks:
            models = modes.with_modes(plan.all_models, self.own, self.file.elsewhere)
            mode, back = modes.validation_hooks(models)
            if updating and reducers:
                # The same hook resets them; its super() would put all models into eval mode.
                start, *reducers = reducers
                mode = syntax.with_body(mode, [*syntax.body_of(mode), *syntax.body_of(start)[1:]])
            made += [mode, back]
        made = with_kept(made, keeping_given(self.node, self.file.symbols))
        return [*made, *reducers, *hooks]

    def _keeps_modes(self) -> bool:
        """Whether a validation leaves other modes behind than Lightning would."""
        lasts = modes.leaves_for_long(self.own, self.file)
        is_kept = self.plan.keeps_modes or (lasts and bool(self.plan.all_models))
        return is_kept and not self.plan.is_mixin

    def _refuses_sanity_check(self) -> bool:
        """Whether Lightning would validate this class, and none of its bases, before it trains."""
        if self.plan.is_mixin or not self.plan.all_methods & EVALUATIONS:
            return False
        bases = (plan for plan in self.plan.ancestors[1:] if not plan.is_mixin)
        return not any(plan.all_methods & EVALUATIONS for plan in bases)

    def _inherits_loader(self) -> bool:
        """Whether the validation loader is that of a base which is not evaluated as a whole."""
        plan, name = self.plan, "build_validation_data_loader"
        if plan.is_mixin or not plan.evaluates_whole or name in self.own:
            return False
        is_whole = any(p.evaluates_whole for p in plan.ancestors[1:])
        return not is_whole and bool(plan.parameters(name))

    def _calls_evaluation(self) -> bool:
        """Whether the class keeps its evaluation, and needs a validation_step that calls it."""
        plan, name = self.plan, self._evaluation()
        if plan.is_alone(name):
            return self._decides_late() and name in self.own
        if plan.is_root:
            return bool(plan.parameters(name))
        bases = [p for p in plan.parents if not p.is_mixin]
        methods = {name for p in plan.new for name in p.own.methods}
        # The validation_step of a base asks for no reduction that only this class has.
        if any("evaluation_reducer" in methods - p.all_methods for p in bases):
            return bool(plan.parameters(name))
        if not plan.is_mixin and self._own_odd(name):
            # Nor does it expect metrics that are no single numbers.
            return True
        differs = any(plan.parameters(name) != p.parameters(name) for p in bases)
        return differs and not methods.isdisjoint(EVALUATIONS)

    def _own_odd(self, name: str) -> frozenset[str]:
        """What of the metrics of a method that is new in this class is no single number."""
        new = {p.own.name for p in self.plan.new}
        owns = [self.own, *(syntax.methods(n) for n in self.others if n.name.value in new)]
        found = next((own[name] for own in owns if name in own), None)
        return frozenset() if found is None else self.shapes.odd_kinds(found)

    def _odd(self, name: str) -> frozenset[str]:
        """What of the metrics of a method, in whichever class of the file, is no single number."""
        known = [syntax.methods(node) for node in (self.node, *self.others)]
        found = [own[name] for own in known if name in own]
        unknown = {"unknown"} if any(are_unknown(each, self.shapes) for each in found) else set()
        return frozenset(unknown).union(*map(self.shapes.odd_kinds, found))

    def _calling_validation(self) -> cst.FunctionDef:
        plan, name = self.plan, self._evaluation()
        given = plan.parameters(name) or []
        batch = given[1] if len(given) > 1 else "batch"
        index = ", batch_idx=batch_idx" if "batch_idx" in given else ""
        odd = self._odd(name)
        metrics = numbers_of("metrics", "" if plan.evaluates_whole else "mean", odd)
        said = said_of(plan.renamed, is_open=any(each.is_open for each in plan.ancestors))
        if plan.renames_unknown:
            said = ALL_RENAMED
        metrics = renamed_in(metrics, plan.key)
        method = self.own.get(name)
        if not odd and method is not None and Devices(method, self.shapes).returns_on_cpu():
            metrics = as_numbers(metrics)
        logs = f"    self.log_dict({metrics}{EACH_BATCH})\n"
        if plan.parameters("evaluation_reducer") is not None and not plan.evaluates_whole:
            logs = by_name(plan.key, is_odd=bool(odd))
        if "none" in odd:
            logs = f"    {comment(_NO_NUMBER)}\n{logs}"
        if said:
            logs = f"    {said}\n{logs}"
        if self.file.asks_outputs and not plan.evaluates_whole:
            logs += "    return metrics\n"
        header = f"def validation_step(self, {batch}, batch_idx):\n"
        return syntax.method(f"{header}    metrics = self.{name}({batch}{index})\n{logs}")

    def _checked(self, node: cst.ClassDef) -> cst.BaseStatement:
        plan = self.plan
        around = self.file.elsewhere
        said = loaders.left_of_loaders(self.own, plan.all_models, self.file.symbols, around)
        said += loaders.shuffled_anew(self.own, self.file.symbols, self.file.imported)
        said += changed_copies(self.node, self.file.symbols, around.texts)
        said += left_of_steps(self.node, self.file.symbols, around)
        if self._keeps_modes() and not plan.knows_models:
            said.append("validations put all models into evaluation mode, wrapped or not")
        said += set_on_wrappers(self.node, node, plan)
        if plan.other_bases is OtherBases.UNKNOWN:
            said += left_to_base(self.own, self.file.renamed)
        said += map(HELD.format, self._lost)
        for message in (*said, *left_of_wraps(self.node, node, plan, self.file)):
            node = marked(node, message)
        return node


def _without(init: cst.FunctionDef, gone: Sequence[cst.BaseStatement]) -> cst.FunctionDef:
    return syntax.with_body(init, [line for line in syntax.body_of(init) if line not in gone])


_NO_NUMBER = "Lightning logs numbers, and a text or None among these is none"
# Determined never validated before it trained, and what Lightning's check would leave behind, in
# metrics, data, callbacks or files, nobody can tell from the code alone.
_NO_SANITY_CHECK = """\
def on_fit_start(self):
    # training begins without a validation
    self.trainer.num_sanity_val_steps = 0
"""
_TRAINING = """\
def training_step(self, batch, batch_idx):
    metrics = self.train_batch(
        batch=batch,
        epoch_idx=self.current_epoch,
        batch_idx=self.trainer.fit_loop.total_batch_idx,
    )
"""
_TRAINING_METRICS = 'metrics if isinstance(metrics, dict) else {"loss": metrics}'
