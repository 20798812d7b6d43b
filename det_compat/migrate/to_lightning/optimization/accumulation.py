"""Gradients of several batches in one step: a module counts its batches, as Determined did.

Lightning's own ``accumulate_grad_batches`` is another thing: it also steps at the end of each
epoch, and divides losses, where Determined divided the sum of the gradients.
"""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import libcst as cst

from det_compat.config import ExperimentConfig
from det_compat.migrate.configs import BATCHES, aggregating, optimizations
from det_compat.migrate.to_lightning.class_facts import ClassFacts, WrappedScheduler
from det_compat.migrate.to_lightning.optimization.gradients import zeroes_gradients
from det_compat.migrate.to_lightning.optimization.step_modes import kept_choices, kept_mode
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import is_there

_INIT = "det_compat.pytorch.init"
#: Its method that says whether a step is due.
IS_DUE = "is_step_due"
_AVERAGE = "average_gradients"
_DUE = f"""\
def {IS_DUE}(self):
    # what an epoch leaves over waits for the batches of the next one
    batches = self.trainer.fit_loop.total_batch_idx + 1
    return batches % self.hparams.{BATCHES} == 0
"""
_AVERAGING = f"""\
def {_AVERAGE}(self, optimizer):
    for group in optimizer.param_groups:
        for param in group["params"]:
            if param.grad is not None:
                param.grad /= self.hparams.{BATCHES}
"""


@dataclass(frozen=True)
class Accumulation:
    """How a module accumulates gradients.

    Attributes:
        batches: over how many batches, by default.
        averages: whether it averages them.
        given: the number of batches in each config, by its name, where these are not all alike.
        is_apart: whether a class without an ``__init__`` has another number than its base.
    """

    batches: int
    averages: bool
    given: Mapping[str, int] = field(default_factory=dict)
    is_apart: bool = False


def accumulation(
    classes: Sequence[tuple[cst.ClassDef, ClassFacts, Symbols]],
    configs: Sequence[Sequence[ExperimentConfig]],
    *,
    in_script: bool,
) -> Accumulation | None:
    """How a family of trials is to accumulate; None if nobody asks for it, or if it cannot.

    Args:
        classes: those of the family, the first one of all, with what stands in each and the
            symbols of its file.
        configs: those of each class.
        in_script: whether a script asks for it.
    """
    every = list({each.file or id(each): each for c in configs for each in c}.values())
    asked = aggregating(every)
    names = {BATCHES, IS_DUE, _AVERAGE}
    taken = {name for _, own, _ in classes for name in (*own.methods, *own.stores)}
    if not (asked or in_script) or names & taken:
        return None
    steps = [c for node, _, symbols in classes for c in symbols.calls(node, "step_optimizer")]
    plain = [c for node, _, symbols in classes for c in _plain_steps(node, symbols)]
    schedulers = (each for _, own, _ in classes for each in own.schedulers)
    if not steps or len(plain) < len(steps) or any(map(_is_open, schedulers)):
        return None
    of_configs = {each.average_aggregated_gradients for each in asked}
    # A script hears nothing of that from its config.
    of_configs |= {True} if in_script else set()
    wraps = [c for node, _, symbols in classes for c in symbols.calls(node, "wrap_optimizer")]
    given = (syntax.argument(call, 3, "average_aggregated_gradients") for call in wraps)
    texts = {"None" if each is None else syntax.code(each) for each in given}
    averages = {str(each) for each in of_configs} if "None" in texts else set[str]()
    averages |= texts - {"None"}
    if averages not in ({"True"}, {"False"}):
        return None
    firsts = {first for of_class in configs if (first := frequency(of_class))}
    batches = firsts.pop() if len(firsts) == 1 else 1
    told = [each for each in every if optimizations([each])]
    counts = {Path(c.file or "").name: c.optimizations.aggregation_frequency for c in told}
    is_one = len({*counts.values()}) < 2
    return Accumulation(batches, averages == {"True"}, {} if is_one else counts)


def frequency(configs: Sequence[ExperimentConfig]) -> int | None:
    """The default of a class: as for other hyperparameters, its first config has that."""
    return next((each.aggregation_frequency for each in optimizations(configs)), None)


def _plain_steps(node: cst.ClassDef, symbols: Symbols) -> list[cst.Call]:
    """The steps of optimizers that are statements, and leave gradients to be zeroed."""
    lines = map(syntax.lone_call, syntax.find(node, cst.SimpleStatementLine))
    return [c for c in lines if symbols.method(c) == "step_optimizer" and c and _is_plain(c)]


def _is_open(scheduler: WrappedScheduler) -> bool:
    """Whether nothing keeps the step mode of a scheduler, which is known at run time."""
    return not scheduler.mode and scheduler.choices != kept_choices(scheduler.attribute)


def _is_plain(step: cst.Call) -> bool:
    return zeroes_gradients(step) and not any(arg.star for arg in step.args)


def are_aggregating(trees: Iterable[tuple[cst.Module, Symbols]]) -> bool:
    """Whether some script has Determined's Trainer aggregate gradients."""
    return any(
        syntax.argument(call, 2, "aggregation_frequency") is not None
        for tree, symbols in trees
        if symbols.has(_INIT)
        for call in syntax.find(tree, cst.Call)
        if symbols.path(call.func) == _INIT
    )


def methods(found: Accumulation) -> list[cst.BaseStatement]:
    """What a module gets that says when a step is due, and takes the mean of gradients."""
    said = ", ".join(f"{batches} for {name}" for name, batches in found.given.items())
    lines = textwrap.wrap(f"{BATCHES} is {said}", 84) if said else []
    due = _DUE.replace("\n", "".join(["\n", *(f"    # {line}\n" for line in lines)]), 1)
    return [syntax.method(text) for text in (due, *([_AVERAGING] if found.averages else []))]


def when_due(lines: Sequence[str], own: str, optimizer: str, found: Accumulation) -> list[str]:
    """The lines of a step of this optimizer, to be done in the batches in which one is due."""
    averaging = [f"{own}.{_AVERAGE}({optimizer})"] if found.averages else []
    return [f"if {own}.{IS_DUE}():", *(f"    {line}" for line in (*averaging, *lines))]


def stepping_when_due(
    schedulers: Iterable[tuple[WrappedScheduler, list[str]]],
) -> list[cst.BaseStatement]:
    """The hook that steps LR schedulers, given the lines that step each once."""
    made = "".join(text for each, lines in schedulers for text in _stepping(each, lines))
    if not made:
        return []
    header = "def on_train_batch_end(self, outputs, batch, batch_idx):\n"
    return [syntax.method(f"{header}    if self.{IS_DUE}():\n{textwrap.indent(made, ' ' * 8)}")]


def _stepping(scheduler: WrappedScheduler, lines: list[str]) -> Iterator[str]:
    """The lines that step a scheduler as often as Determined did after a step of optimizers."""
    for mode in _COUNTED if not scheduler.mode else ():
        made = "".join(_stepping(replace(scheduler, mode=mode), lines))
        test = f'self.{kept_mode(scheduler.attribute)} == "{mode}"'
        yield f"if {test}:\n{textwrap.indent(made, '    ')}"
    if scheduler.mode not in _COUNTED:
        return
    counts, number = _COUNTED[scheduler.mode]
    if scheduler.frequency != "1":
        due = scheduler.is_due(f"({number} + 1)")
        lines = [f"if {due}:", *_indented(lines)]
    elif scheduler.mode == "STEP_EVERY_BATCH":
        counts = [f"for _ in range(self.hparams.{BATCHES}):"]
    lines = [*counts, *(_indented(lines) if counts else lines)]
    if scheduler.may_lack:
        lines = [f"if {is_there(scheduler.attribute)}:", *_indented(lines)]
    yield "".join(f"{line}\n" for line in lines)


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]


_TOTAL = "self.trainer.fit_loop.total_batch_idx"
#: What one step of the optimizers counts as, by step mode: the lines that go through the batches or
#: epochs, and the number of each.
_COUNTED: dict[str, tuple[list[str], str]] = {
    "STEP_EVERY_OPTIMIZER_STEP": ([], _TOTAL),
    "STEP_EVERY_BATCH": (
        [
            f"last = {_TOTAL}",
            f"for index in range(last + 1 - self.hparams.{BATCHES}, last + 1):",
        ],
        "index",
    ),
    "STEP_EVERY_EPOCH": (
        [
            "# the last step of an epoch",
            f"last, length = {_TOTAL}, self.trainer.num_training_batches",
            f"following = last + self.hparams.{BATCHES}",
            "for epoch in range(last // length, following // length):",
        ],
        "epoch",
    ),
}
