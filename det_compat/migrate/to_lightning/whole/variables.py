"""The variables that several hooks of a validation have: repeated in each, or attributes."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from det_compat.migrate.to_lightning.taken.reserved import HOOKS, KEPT, RESERVED
from det_compat.migrate.to_lightning.whole import flow, kept
from det_compat.migrate.to_lightning.whole.parts import Parts, parsed
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.marks import comments_of
from det_compat.migrate.tree.trial_attributes import attributes_changed

#: What only runs before a validation, or beside it.
_MAKING = ("__init__", "setup", "configure_optimizers", "configure_model", "train_dataloader")


def changed_later(own: Mapping[str, cst.FunctionDef]) -> set[str]:
    """The attributes of a module that are set when it trains or validates."""
    return {
        name
        for method, found in own.items()
        if method not in _MAKING
        for name in attributes_changed(found)
    }


@dataclass(frozen=True)
class Variables:
    """What makes the variables of a validation those of its hooks.

    Attributes:
        node: the module.
        own: its methods.
        me: what the validation calls it.
        elsewhere: the code that it calls.
    """

    node: cst.ClassDef
    own: Mapping[str, cst.FunctionDef]
    me: str
    elsewhere: Elsewhere

    def handed_on(self, parts: Parts, batch: str) -> list[list[cst.BaseStatement]] | None:
        """The statements of the three hooks; None if a variable cannot get from one to the next."""
        shared = self._shared(parts, batch)
        if shared is None:
            return None
        repeated, names = shared
        stay = [line for line in parts.before if line not in repeated]
        before = [line for line in parts.before if line not in repeated or _needed([line], stay)]
        made = [before] + [[*_needed(repeated, p), *p] for p in (parts.body, parts.after)]
        for old, new in names.items():
            attribute = f"{self.me}.{new}"
            made = [_renamed(part, old, attribute, is_last=part is made[2]) for part in made]
        return made

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
        changed = changed_later(self.own)
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
        texts = self.elsewhere.texts
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
        taken |= {*self.own, *self.elsewhere.asked, *RESERVED, *KEPT, *HOOKS}
        for line in syntax.body_of(self.node):
            if not isinstance(line, cst.FunctionDef):
                taken |= syntax.names_in(line)
        names = {name: f"val_{name}" if name in taken else name for name in sorted(shared)}
        is_clear = taken.isdisjoint(names.values()) and len({*names.values()}) == len(names)
        return names if is_clear else None


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
