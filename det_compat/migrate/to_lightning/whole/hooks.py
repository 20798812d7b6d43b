"""A validation of a whole data set, written as Lightning's hooks where it has the usual form.

What is before the loop over the loader, what is in it, and what is behind it become three hooks,
and the loader is Lightning's to go through. Whatever does not fit stays one step with the loader
for its batch, which is right, too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from det_compat.migrate.to_lightning.plan import LightningFile, OtherBases
from det_compat.migrate.to_lightning.taken.reserved import HOOKS, KEPT, RESERVED
from det_compat.migrate.to_lightning.whole import flow, kept
from det_compat.migrate.to_lightning.whole.devices import needs_cpu
from det_compat.migrate.to_lightning.whole.loaders import unwrapped_loader
from det_compat.migrate.to_lightning.whole.moves import without_moves
from det_compat.migrate.to_lightning.whole.parts import Parts, parsed, parts_of
from det_compat.migrate.to_lightning.whole.shares import apart, reduction
from det_compat.migrate.to_lightning.whole.writing import END, START, STEP, Writing
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import comments_of
from det_compat.migrate.tree.trial_attributes import attributes_changed, reachable

_LOADER = "val_dataloader"
_TRANSFERS = ("transfer_batch_to_device", "on_before_batch_transfer", "on_after_batch_transfer")
#: What only runs before a validation, or beside it.
_MAKING = ("__init__", "setup", "configure_optimizers", "configure_model", "train_dataloader")
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
    given = [param.name.value for param in step.params.params]
    loader = unwrapped_loader(own, file.elsewhere)
    if loader is None or len(given) != 3 or not _has_no_other_decorators(step):
        return None
    if any(f"def {END}" in text or _ADDING.search(text) for text in file.elsewhere.texts.values()):
        return None
    made = _Validation(node, own, step, given[0], given[1], file).hooks()
    if made is None:
        return None
    body = [
        new
        for line in syntax.body_of(node)
        for new in (made if line is step else [loader if line is own[_LOADER] else line])
    ]
    return syntax.with_body(node, body)


def _has_no_other_decorators(step: cst.FunctionDef) -> bool:
    """Whether nothing decorates a step but what switches gradients off, as Lightning does."""
    texts = [syntax.code(each.decorator) for each in step.decorators]
    return all(text in ("torch.no_grad()", "torch.inference_mode()") for text in texts)


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
    """

    node: cst.ClassDef
    own: dict[str, cst.FunctionDef]
    step: cst.FunctionDef
    me: str
    loader: str
    file: LightningFile

    def hooks(self) -> list[cst.FunctionDef] | None:
        """The hooks; None if it has to stay as it is."""
        body = [*syntax.body_of(self.step)]
        docstring = body[:1] if syntax.has_docstring(body) else []
        found = parts_of(body[len(docstring) :], self.loader)
        if found is None or not flow.is_plain(parsed(found.all)) or self._logs_early(found):
            return None
        if _TOGETHER.search(syntax.code(self.step)):
            return None
        batch, found = self._given(found)
        if batch is None or self._is_bound_to_loader(found):
            return None
        if self._moves_draws(found) or self._differs_on_devices(found):
            return None
        found = self._with_index(without_moves(found, batch, self.me))
        found = apart(found, self.me) if found is not None else None
        shared = self._shared(found, batch) if found is not None else None
        if found is None or shared is None:
            return None
        devices = reduction(parsed(found.body), parsed(found.after), self.me)
        if devices is None:
            return None
        repeated, names = shared
        kept_before = [line for line in found.before if line not in repeated]
        before = [
            line for line in found.before if line not in repeated or _needed([line], kept_before)
        ]
        parts = [before] + [[*_needed(repeated, p), *p] for p in (found.body, found.after)]
        for old, new in names.items():
            attribute = f"{self.me}.{new}"
            parts = [_renamed(part, old, attribute, is_last=part is parts[2]) for part in parts]
        writing = Writing(self.step, self.own.get("training_step"), self.me, batch, devices)
        return writing.hooks(parts, docstring)

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

    def _differs_on_devices(self, parts: Parts) -> bool:
        target = ast.parse(f"for {syntax.code(parts.target)} in x: pass").body[0]
        assert isinstance(target, ast.For)
        body, after = parsed(parts.body), parsed(parts.after)
        before = parsed(parts.before)
        if kept.has_keys_of_data(before, body, after):
            return True
        if kept.meets_data(before, body, after, self.me):
            return True
        names = target.target
        if not isinstance(parts.target, cst.Name):
            body = body[1:]
        return needs_cpu(names, body, [*before, *body, *after]) or kept.decides_on_data(
            after, self.me
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

    def _shared(
        self, parts: Parts, batch: str
    ) -> tuple[list[cst.BaseStatement], dict[str, str]] | None:
        """The statements that several hooks need again, and the attributes that variables become.

        None if a variable can be neither.
        """
        before, body, after = map(parsed, (parts.before, parts.body, parts.after))
        given = {batch, *([parts.index] if parts.index else [])}
        first, loop, last = flow.flow(before), flow.flow(body, given), flow.flow(after)
        of_loop = given | {*syntax.names_in(parts.target)}
        shared = (loop.read | last.read) & (first.bound | loop.bound)
        bound = first.bound | loop.bound | last.bound
        read = (first.read | loop.read | last.read) - bound
        if last.read & of_loop or self.me in bound or "batch_idx" in read - {parts.index}:
            return None
        everything = [*before, *body, *after]
        changed = {
            name
            for method, found in self.own.items()
            if method not in _MAKING
            for name in attributes_changed(found)
        }
        repeated = []
        for line in parts.before:
            name, value = syntax.target_of(line), syntax.simple(line)
            is_once = name not in loop.bound | last.bound and name in shared
            if is_once and isinstance(value, cst.Assign) and isinstance(name, str):
                found = ast.parse(syntax.code(value.value).strip(), mode="eval").body
                is_one = [n for each in everything for n in flow.stored(each)].count(name) == 1
                if is_one and kept.is_repeatable(found, self.me, changed):
                    repeated.append(line)
        shared -= {syntax.target_of(line) or "" for line in repeated}
        if shared & flow.set_otherwise(everything):
            return None
        made = loop.bound | of_loop | shared
        texts = self.file.elsewhere.texts
        for name in shared:
            early, last_lines = kept.values_of(before, name), _until_set(after, name)
            late = kept.values_of([*body, *last_lines], name)
            if not all(kept.is_no_module(value, texts, self.me) for value in early):
                return None
            if any(kept.may_be_module(value, made) for value in late):
                return None
        names = self._names(shared)
        return None if names is None else (repeated, names)

    def _names(self, shared: Collection[str]) -> dict[str, str] | None:
        """The attributes that variables become."""
        taken = {node.attr.value for node in syntax.find(self.node, cst.Attribute)}
        taken |= {*self.own, *self.file.elsewhere.asked, *RESERVED, *KEPT, *HOOKS}
        for line in syntax.body_of(self.node):
            if not isinstance(line, cst.FunctionDef):
                taken |= syntax.names_in(line)
        names = {name: f"val_{name}" if name in taken else name for name in sorted(shared)}
        is_clear = taken.isdisjoint(names.values()) and len({*names.values()}) == len(names)
        return names if is_clear else None


def _asks(line: cst.BaseStatement, me: str, name: str) -> bool:
    return syntax.mentions(line, f"{me}.{name}")


def _attributes(node: cst.CSTNode, me: str) -> set[str]:
    """The attributes of the module that a statement or method mentions."""
    found = syntax.find(node, cst.Attribute)
    return {each.attr.value for each in found if syntax.code(each.value) == me}


def _until_set(body: Sequence[ast.stmt], name: str) -> list[ast.stmt]:
    """The statements in front of the first that only sets a variable."""
    sets = (isinstance(line, ast.Assign) and name in flow.flow([line]).bound for line in body)
    at = next((i for i, is_set in enumerate(sets) if is_set), len(body))
    return [*body[:at]]


def _renamed(
    part: Sequence[cst.BaseStatement], old: str, new: str, *, is_last: bool
) -> list[cst.BaseStatement]:
    """Statements with an attribute for a variable; the last ones until they have a value for it."""
    made: list[cst.BaseStatement] = []
    for at, line in enumerate(part):
        small = syntax.simple(line)
        is_set = isinstance(small, cst.Assign) and old in flow.flow(parsed([line])).bound
        if is_last and is_set and isinstance(small, cst.Assign):
            value = syntax.replaced(small.value, old, new)
            return [
                *made,
                line.with_changes(body=[small.with_changes(value=value)]),
                *part[at + 1 :],
            ]
        made.append(syntax.replaced(line, old, new))
    return made


def _needed(
    repeated: Sequence[cst.BaseStatement], part: Sequence[cst.BaseStatement]
) -> list[cst.BaseStatement]:
    """Those of some statements whose variables others read, below their comments."""
    read = flow.flow(parsed(part)).read
    found = [line for line in repeated if syntax.target_of(line) in read]
    return [line.with_changes(leading_lines=comments_of(line)) for line in found]
