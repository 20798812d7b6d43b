"""A validation of a whole data set, written as Lightning's hooks where it has the usual form.

What is before the loop over the loader, what is in it, and what is behind it become three hooks,
and the loader is Lightning's to go through. Whatever does not fit stays one step with the loader
for its batch, which is right, too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from det_compat.migrate.to_lightning.data.transfers import CONVERTING, is_converting
from det_compat.migrate.to_lightning.plan import LightningFile, OtherBases
from det_compat.migrate.to_lightning.whole import flow, kept
from det_compat.migrate.to_lightning.whole.branches import (
    STEP,
    WITHOUT_GRADIENTS,
    Branch,
    Branching,
)
from det_compat.migrate.to_lightning.whole.devices import needs_cpu
from det_compat.migrate.to_lightning.whole.loaders import unsharded, unwrapped_loader
from det_compat.migrate.to_lightning.whole.moves import without_moves
from det_compat.migrate.to_lightning.whole.parts import Parts, parsed, parts_of
from det_compat.migrate.to_lightning.whole.shares import apart, reduction
from det_compat.migrate.to_lightning.whole.variables import Variables, changed_later
from det_compat.migrate.to_lightning.whole.writing import END, START, Writing
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.trial_attributes import reachable

_LOADER = "val_dataloader"
_TRANSFERS = ("transfer_batch_to_device", "on_after_batch_transfer")
#: What devices do together, each as often as the others.
_TOGETHER = re.compile(
    r"\b(torch\.distributed|dist\.|all_?gather\w*|all_?reduce|barrier|broadcast)"
)
#: A callback that logs at the end of a validation has Lightning's hook for it, before a module's.
_ADDING = re.compile(r"def on_validation_(step_)?end\b[\s\S]*\[[^]\n]*\] *=[^=]")


def as_hooks(tree: cst.Module, file: LightningFile) -> cst.Module:
    """The file, whose modules validate whole data sets by hooks where they can."""

    def split(node: cst.ClassDef) -> cst.ClassDef:
        plan = file.plans.get(node.name.value)
        name = "evaluate_full_dataset"
        if plan is None or not (plan.is_whole and name in plan.alone):
            return node
        if plan.other_bases is not OtherBases.NONE or len(node.bases) > 1:
            return node
        return _split(node, file) or node

    return syntax.each(tree, cst.ClassDef, split)


def _split(node: cst.ClassDef, file: LightningFile) -> cst.ClassDef | None:
    own = syntax.methods(node)
    step = own.get(STEP)
    if step is None or not own.keys().isdisjoint((START, END, *_TRANSFERS)):
        return None
    if CONVERTING in own and not is_converting(own[CONVERTING]):
        return None
    given = [param.name.value for param in step.params.params]
    loader = unwrapped_loader(own, file.elsewhere)
    if loader is None or len(given) != 3 or not _has_no_other_decorators(step):
        return None
    if any(f"def {END}" in text or _ADDING.search(text) for text in file.elsewhere.texts.values()):
        return None
    models = [each.attribute for each in file.plans[node.name.value].all_models]
    made = _Validation(node, own, step, given[0], given[1], file, models).hooks()
    if made is not None and made.goes_through_all:
        loader = unsharded(loader, file.elsewhere)
    if made is None or loader is None:
        return None
    new: dict[str, list[cst.FunctionDef]] = {name: [] for name in made.written if name}
    new |= {STEP: made.hooks, _LOADER: [loader]}
    body = [
        each
        for line in syntax.body_of(node)
        for each in (
            new.get(line.name.value, [line]) if isinstance(line, cst.FunctionDef) else [line]
        )
    ]
    return syntax.with_body(node, body)


def _has_no_other_decorators(step: cst.FunctionDef) -> bool:
    """Whether nothing decorates a step but what switches gradients off, as Lightning does."""
    texts = [syntax.code(each.decorator) for each in step.decorators]
    return {*texts} <= WITHOUT_GRADIENTS


@dataclass(frozen=True)
class _Made:
    """What a validation becomes.

    Attributes:
        hooks: its hooks.
        written: the methods that are written out in these.
        goes_through_all: whether each device has to go through all of the data.
    """

    hooks: list[cst.FunctionDef]
    written: list[str]
    goes_through_all: bool


@dataclass(frozen=True)
class _Pieces:
    """One of several validations, taken apart.

    Attributes:
        branch: the validation.
        parts: what is before its loop, in it, and behind it.
        batch: what it calls a batch.
        devices: how what several devices find becomes one number; None if each has to go through
            all of the data.
    """

    branch: Branch
    parts: Parts
    batch: str
    devices: str | None


@dataclass
class _Validation:
    """One validation.

    Attributes:
        node: the module.
        own: its methods.
        step: the one that goes through the loader.
        me: what it calls the module.
        loader: what it calls the loader.
        file: the file that it is in.
        models: the attributes that are models which are on the device.
    """

    node: cst.ClassDef
    own: dict[str, cst.FunctionDef]
    step: cst.FunctionDef
    me: str
    loader: str
    file: LightningFile
    models: Sequence[str]

    def hooks(self) -> _Made | None:
        """What it becomes; None if it has to stay as it is."""
        body = [*syntax.body_of(self.step)]
        docstring = body[:1] if syntax.has_docstring(body) else []
        if _TOGETHER.search(syntax.code(self.step)):
            return None
        elsewhere = self.file.elsewhere
        changed = changed_later(self.own) | {*elsewhere.given}
        telling = Branching(self.own, self.me, changed, elsewhere.asked)
        branches = telling.branches(body[len(docstring) :], self.loader)
        found = [replace(self, loader=each.loader).taken_apart(each) for each in branches]
        pieces = [each for each in found if each is not None]
        batches = [each.batch for each in pieces if each.batch]
        if len(pieces) < len(branches) or len({*batches}) != 1:
            return None
        goes_through_all = any(each.devices is None for each in pieces)
        if goes_through_all:
            pieces = [replace(each, devices=None) for each in pieces]
        variables = Variables(self.node, self.own, self.me, elsewhere)
        made = []
        for each in pieces:
            parts = apart(each.parts, self.me) if each.devices else each.parts
            lines = variables.handed_on(parts, each.batch)
            if lines is None:
                return None
            made.append((each.branch, lines, each.devices))
        writing = Writing(self.step, self.own.get("training_step"), self.me, batches[0])
        written = [each.branch.method for each in pieces]
        return _Made(writing.hooks(made, docstring), written, goes_through_all)

    def taken_apart(self, branch: Branch) -> _Pieces | None:
        """What is before the loop of a validation, in it, and behind it; None if it has to stay."""
        if not any(self._is_asked(line) for line in branch.lines):
            # There are no metrics: Determined made an error of it, unless this raises another.
            alone = Parts([*branch.lines], [], [], cst.Name("batch"), "")
            is_plain = not kept.draws(parsed(branch.lines), self.file.elsewhere.texts)
            return _Pieces(branch, alone, "", "mean") if is_plain else None
        found = parts_of(branch.lines, self.loader)
        if found is None or not flow.is_plain(parsed(found.all)) or self._logs_early(found):
            return None
        if not self._is_converted(found):
            return None
        batch, found = self._given(found)
        if batch is None or self._is_bound_to_loader(found) or self._moves_draws(found):
            return None
        if self._needs_cpu(found):
            return None
        is_apart = self._differs_on_devices(found)
        is_plain = "cuda" not in self.file.elsewhere.classes_with
        indexed = self._with_index(without_moves(found, batch, self.me, is_plain=is_plain))
        if indexed is None:
            return None
        logged = apart(indexed, self.me)
        devices = reduction(parsed(logged.body), parsed(logged.after), self.me)
        return _Pieces(branch, indexed, batch, None if is_apart else devices)

    def _is_asked(self, line: cst.BaseStatement) -> bool:
        """Whether a statement asks for the loader, or logs something."""
        nodes = [each for top in parsed([line]) for each in ast.walk(top)]
        return self.loader in syntax.names_in(line) or any(kept.is_log(n, self.me) for n in nodes)

    def _is_converted(self, parts: Parts) -> bool:
        """Whether batches are as Lightning would give them, with tensors for NumPy's arrays."""
        if CONVERTING not in self.own:
            return True
        line = syntax.simple(parts.body[0]) if parts.body else None
        name = parts.target.value if isinstance(parts.target, cst.Name) else ""
        if not isinstance(line, cst.Assign) or not isinstance(line.value, cst.Call):
            return False
        is_move = syntax.code(line.value.func) == f"{self.me}.transfer_batch_to_device"
        later = flow.flow(parsed(parts.body[1:])).read
        is_set = name in flow.flow(parsed(parts.body[:1])).bound
        return (
            is_move
            and syntax.code(line.value.args[0].value) == name
            and (is_set or name not in later)
        )

    def _logs_early(self, parts: Parts) -> bool:
        before = [node for line in parsed([*parts.before, *parts.body]) for node in ast.walk(line)]
        return any(kept.is_log(node, self.me) for node in before)

    def _given(self, parts: Parts) -> tuple[str | None, Parts]:
        """What the step calls a batch, and its parts with what the loop set in them."""
        target, body = parts.target, parts.body
        if isinstance(target, cst.Name):
            taken = target.value in ("batch_idx", self.me, parts.index)
            return (None if taken else "batch" if target.value == "_" else target.value), parts
        names = {name for line in body for name in syntax.names_in(line)}
        if "batch" in names | syntax.names_in(target):
            return None, parts
        text = syntax.code(target.with_changes(lpar=[], rpar=[]))
        if isinstance(target, cst.List):
            text = syntax.code(target)
        line = syntax.statement(f"{text} = batch\n")
        return "batch", Parts(parts.before, [line, *body], parts.after, target, parts.index)

    def _is_bound_to_loader(self, parts: Parts) -> bool:
        """Whether more is asked of the loader than how many batches, or samples, it has."""
        known = {
            f"len({self.loader})": self._count,
            f"len({self.loader}.dataset)": f"len({self.me}.trainer.val_dataloaders.dataset)",
        }

        def counted(call: cst.Call) -> cst.BaseExpression:
            text = known.get(syntax.code(call))
            return call if text is None else syntax.expression(text)

        for body in (parts.before, parts.body, parts.after):
            body[:] = [syntax.each(line, cst.Call, counted) for line in body]
        return any(self.loader in syntax.names_in(line) for line in parts.all)

    @property
    def _count(self) -> str:
        """How many batches there are."""
        return f"{self.me}.trainer.num_val_batches[0]"

    def _moves_draws(self, parts: Parts) -> bool:
        """Whether what is before the loop would draw random numbers, or change data, too late.

        Lightning begins to go through the loader before the hook that comes first.
        """
        called = {name for name in self.own for line in parts.before if _asks(line, self.me, name)}
        methods = [self.own[name] for name in reachable(self.own, *called)]
        before = [*parsed(parts.before), *parsed(methods)]
        if kept.draws(before, self.file.elsewhere.texts):
            return True
        loading = [self.own[name] for name in reachable(self.own, _LOADER)]
        data = {n for m in loading for n in _attributes(m, self.me)} - kept.LASTING
        used = {n for line in (*parts.before, *methods) for n in _attributes(line, self.me)}
        return bool(data & used - self.own.keys())

    def _needs_cpu(self, parts: Parts) -> bool:
        target = ast.parse(f"for {syntax.code(parts.target)} in x: pass").body[0]
        assert isinstance(target, ast.For)
        before, body, after = map(parsed, (parts.before, parts.body, parts.after))
        if not isinstance(parts.target, cst.Name):
            body = body[1:]
        models = [f"{self.me}.{name}" for name in self.models]
        return needs_cpu(target.target, body, [*before, *body, *after], models)

    def _differs_on_devices(self, parts: Parts) -> bool:
        """Whether devices find what Determined's chief did in all of the data only."""
        before, body, after = map(parsed, (parts.before, parts.body, parts.after))
        return (
            kept.has_keys_of_data(before, body, after)
            or kept.meets_data(before, body, after, self.me)
            or kept.decides_on_data(after, self.me)
        )

    def _with_index(self, parts: Parts) -> Parts | None:
        """The parts, where Lightning counts the batches; None if that name is another's."""
        index, body = parts.index, parsed(parts.body)
        is_counting = index in flow.flow(parsed(parts.after)).read
        if is_counting and index in flow.flow(parsed(parts.before)).bound | flow.flow(body).bound:
            return None
        if is_counting:
            after = [syntax.each(n, cst.BinaryOperation, self._counted(index)) for n in parts.after]
            after = [syntax.replaced(line, index, f"({self._count} - 1)") for line in after]
            parts = replace(parts, after=after)
        if index in ("", "_", "batch_idx"):
            return parts
        needed = flow.flow(body)
        if index not in needed.read:
            return parts
        every = {n.id for line in body for n in ast.walk(line) if isinstance(n, ast.Name)}
        if "batch_idx" in every or index in needed.bound | flow.set_otherwise(body):
            return None
        lines = [syntax.replaced(line, index, "batch_idx") for line in parts.body]
        return Parts(parts.before, lines, parts.after, parts.target, "batch_idx")

    def _counted(self, index: str) -> Callable[[cst.BinaryOperation], cst.BaseExpression]:
        """What puts how many batches there are in the place of one more than the last number."""
        texts = (f"{index} + 1", f"1 + {index}")

        def counted(node: cst.BinaryOperation) -> cst.BaseExpression:
            is_one = syntax.code(node.with_changes(lpar=[], rpar=[])) in texts
            return syntax.expression(self._count) if is_one else node

        return counted


def _asks(line: cst.BaseStatement, me: str, name: str) -> bool:
    return syntax.mentions(line, f"{me}.{name}")


def _attributes(node: cst.CSTNode, me: str) -> set[str]:
    """The attributes of the module that a statement or method mentions."""
    found = syntax.find(node, cst.Attribute)
    return {each.attr.value for each in found if syntax.code(each.value) == me}
