"""Transformers that know which trial they are in, and what it has beside its hyperparameters."""

from __future__ import annotations

import re

import libcst as cst

from det_compat.migrate.to_lightning.early.hyperparameters import (
    HYPERPARAMETERS,
    OF_CLI,
    WithoutOthers,
    plain_dict,
)
from det_compat.migrate.to_lightning.plan import LightningFile, TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import FileTransformer

#: What a context is asked for of which the number of processes is a part.
_SIZE = re.compile(r"get_per_slot_batch_size|\bget_size\(|\.distributed\.size\b")


def beside_hparams(node: cst.ClassDef, plan: TrialPlan, file: LightningFile) -> set[str]:
    """What a module is given beside hyperparameters.

    These are sections, how many processes there are, and what LightningCLI adds.
    """
    init = syntax.methods(node).get("__init__")
    given = {p.name.value for p in syntax.find(init.params, cst.Param)} if init else set()
    texts = {text.evaluated_value for text in syntax.find(node, cst.SimpleString)}
    size = {"world_size"} & (given | texts) - {*plan.arguments.types}
    cli = OF_CLI if takes_unnamed(init) and file.hands_hparams_on(plan) else ()
    return size.union(plan.arguments.sections, plan.arguments.settings, cli)


def takes_unnamed(init: cst.FunctionDef | None) -> bool:
    """Whether a module takes hyperparameters without a name.

    LightningCLI goes on with a run by what it adds to these alone, so that must be kept.
    """
    return init is not None and init.params.star_kwarg is not None


class LightningTransformer(FileTransformer[LightningFile]):
    """A transformer that knows which trial class it is in."""

    def plain_hparams(
        self, hparams: cst.BaseExpression, node: cst.ClassDef | None = None
    ) -> cst.BaseExpression:
        """The hyperparameters of a module, where code elsewhere gets hold of them.

        Args:
            hparams: what has them, and more.
            node: the class that the code is in; the innermost around by default.
        """
        node = node or (self.classes[-1] if self.classes else None)
        plan = self.file.plans.get(node.name.value) if node is not None else None
        if node is None or plan is None or not plan.is_root:
            # Files beside those of trials are handed what these have.
            plans = self.file.plans or self.file.trials
            found = [plan.arguments for plan in plans.values()]
            others = {n for a in found for n in (*a.sections, *a.settings)}
            others |= {"world_size"} if plan is None and self._are_asked_early() else set()
            is_kept = any(a.is_open and a.is_whole for a in found)
            # A script makes a module without LightningCLI.
            is_kept &= plan is not None or self._is_called()
            return plain_dict(hparams, others.union(OF_CLI if is_kept else ()))
        others = beside_hparams(node, plan, self.file)
        if others and not syntax.has_attribute(node, HYPERPARAMETERS):
            owner = syntax.code(hparams).rpartition(".")[0]
            return syntax.expression(f"{owner}.{HYPERPARAMETERS}")
        return plain_dict(hparams, others)

    def _are_asked_early(self) -> bool:
        """Whether trials ask for the number of processes before there is a Trainer to tell it."""
        for name in self.file.trials.keys() & self.file.elsewhere.texts.keys():
            early = {"__init__", *self.file.early.get(name, ())}
            tree = syntax.looked_at(self.file.elsewhere.texts[name])
            methods = (syntax.methods(node) for node in syntax.find(tree, cst.ClassDef))
            asking = (m for own in methods for n, m in own.items() if n in early)
            if any(_SIZE.search(syntax.code(method)) for method in asking):
                return True
        return False

    def _is_called(self) -> bool:
        """Whether trials call the function around, or the class."""
        around = {node.name.value for node in self.classes[:1]}
        around |= {node.name.value for node in self.functions[:1]}
        every = (p.own.called.values() for p in self.file.trials.values())
        called = {name for methods in every for names in methods for name in names}
        return not around.isdisjoint(called)

    def without_others(
        self, original: cst.ClassDef, updated: cst.ClassDef, wrapper: str = ""
    ) -> cst.ClassDef:
        """A class whose code has what LightningCLI adds among its hyperparameters nowhere."""
        plan = self.file.plans.get(original.name.value)
        if plan is None:
            return updated
        plain = self.plain_hparams(syntax.expression("self.hparams"), original)
        beside = beside_hparams(original, plan, self.file) if plan.is_root else ()
        if OF_CLI[0] not in beside and OF_CLI[0] not in syntax.code(plain):
            return updated
        return syntax.transformed(updated, WithoutOthers(plain, wrapper))

    @property
    def plan(self) -> TrialPlan | None:
        """The plan of the innermost class around, None if that is no trial class."""
        return self.file.plans.get(self.classes[-1].name.value) if self.classes else None
