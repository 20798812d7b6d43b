"""Wrapped models, optimizers and schedulers: ``configure_optimizers``."""

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.to_lightning.class_facts import WrappedScheduler
from det_compat.migrate.to_lightning.metrics.training import (
    left_to_log,
    reset_in_training,
    undecided,
)
from det_compat.migrate.to_lightning.moving.lines import (
    MOVED,
    has_default,
    maker,
    target,
    targets,
    wraps_itself,
)
from det_compat.migrate.to_lightning.optimization.kept import wrappings
from det_compat.migrate.to_lightning.optimization.schedulers import (
    listed,
    listed_schedulers,
    stepping_hooks,
)
from det_compat.migrate.to_lightning.optimization.stepping import asks_by_name
from det_compat.migrate.to_lightning.plan import LightningFile, TrialPlan
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import comments_of, without_word_of_wrapping
from det_compat.migrate.tree.trial_attributes import is_there


def configure_optimizers(
    plan: TrialPlan,
    moved: list[cst.BaseStatement],
    used: set[str],
    *,
    asks: bool,
    held: Mapping[str, str],
) -> list[cst.BaseStatement]:
    """configure_optimizers, and the hooks that step schedulers where Lightning does not.

    Args:
        plan: of the class.
        moved: the statements that make optimizers and schedulers; if there are none, the class
            has made them.
        used: the attributes that are used elsewhere, and so stay attributes.
        asks: whether what steps asks Lightning for the optimizers.
        held: the attributes of helpers that keep one, too, each with that of the class.
    """
    optimizers, schedulers = plan.all_optimizers, plan.all_schedulers
    every = [*optimizers, *(s.attribute for s in schedulers)]
    if plan.is_automatic:
        moved = _only_made(moved, {s.attribute for s in schedulers if not s.is_stepped})
        schedulers = [*dict.fromkeys(s for s in schedulers if s.is_stepped)]
    branch = moved[-1] if moved and isinstance(moved[-1], cst.If) else None
    if branch is not None and [f"self.{s.attribute}" for s in schedulers] != [target(branch)]:
        branch = None
    lacking = {s.attribute for s in schedulers if s.may_lack and branch is None}
    variables = _by_variables(moved)
    # A variable of this name is something else.
    others = {name for line in moved for name in syntax.names_in(line)} - variables.keys()
    kept = used | lacking | others if moved else {*every}
    names = {n: _own(n) if n in kept or not n.isidentifier() else n for n in every}
    local = {f"self.{name}" for name, text in names.items() if text == name}
    names |= {name: made for name, made in variables.items() if names.get(name) == name}
    lines = [line for line in moved if not has_default(line, local)]
    lines = [line for line in lines if line is branch or not wraps_itself(maker(line))]
    lines = [without_word_of_wrapping(_unwrapped_line(line, names)) for line in lines]
    lines[:1] = [line.with_changes(leading_lines=comments_of(line)) for line in lines[:1]]
    end = syntax.statements(_ending(plan, optimizers, schedulers, names))
    if branch is not None:
        # The scheduler is returned where it is made.
        branch = ensure_type(lines.pop(), cst.If)
        there, *end = end
        body = [*syntax.body_of(branch), *syntax.body_of(ensure_type(there, cst.If))]
        end = [syntax.with_body(branch, body), *end]
    returned = syntax.simple(end[0])
    value = getattr(returned, "value", None) if isinstance(returned, cst.Return) else None
    if lines and isinstance(value, cst.Name) and syntax.target_of(lines[-1]) == value.value:
        # Nothing else needs the name of what is made last.
        value = getattr(syntax.simple(lines[-1]), "value", None)
        end = [lines.pop().with_changes(body=[cst.Return(value)])]
    whole = syntax.with_body(syntax.method("def configure_optimizers(self): ..."), [*lines, *end])
    is_kept = any("self." in name for name in map(names.get, optimizers) if name)
    is_kept &= not asks
    starred = [name for name in optimizers if name.startswith("*")]
    can_count = len(starred) < min(2, len(optimizers)) or len(optimizers) == 1
    lacking = plan.lacking_optimizers
    counted = list[cst.BaseStatement]()
    if is_kept and can_count and not plan.is_automatic:
        text = _counted(optimizers, plan.own.emptied)
        text = _counted_if_there(optimizers) if lacking else text
        text += "".join(f"    self.{there} = self.{name}\n" for there, name in held.items())
        counted = [syntax.method(f"def on_train_start(self):\n{text}")]
        if held or any(each.all_schedulers for each in plan.ancestors):
            text = text.replace(".optimizers()", ".optimizers(use_pl_optimizer=False)")
            counted.append(syntax.method(f"def on_train_end(self):\n{_AGAIN}{text}"))
    return [whole, *counted, *stepping_hooks(plan, schedulers)]


def _by_variables(moved: Sequence[cst.BaseStatement]) -> dict[str, str]:
    """The attributes for what variables are already that move along, and are by then."""
    wraps = {
        at: syntax.code(call.args[0].value)
        for at, line in enumerate(moved)
        if (call := syntax.call_of(line)) and call.args and syntax.code(call.func).endswith(MOVED)
    }
    found, given = dict[str, str](), [*wraps.values()]
    for at, name in wraps.items():
        sets = [i for i, line in enumerate(moved) if name in map(syntax.code, targets(line))]
        # One that several attributes have had is another optimizer for each.
        is_one = bool(sets) and sets[-1] < at and given.count(name) == 1
        if is_one and name.isidentifier():
            found[target(moved[at]).removeprefix("self.")] = name
    return found


def used_attributes(nodes: Sequence[cst.CSTNode], plan: TrialPlan, file: LightningFile) -> set[str]:
    """The attributes that code beside ``configure_optimizers`` uses."""
    attributes = [found for node in nodes for found in syntax.find(node, cst.Attribute)]
    # torch.optim has an lr_scheduler, too, which is no attribute of the trial.
    used = {n.attr.value for n in attributes if not syntax.code(n.value).endswith("optim")}
    used |= file.elsewhere.asked
    if any(asks_by_name(node) for node in nodes):
        used |= {*plan.all_optimizers, *(each.attribute for each in plan.all_schedulers)}
    if any(m is not None and m[1] == "optimizers" for m in map(file.symbols.member, attributes)):
        used |= {*plan.all_optimizers}
    if not plan.is_automatic:
        stepped = (s for s in plan.own.schedulers if s.interval or s.choices)
        used |= {scheduler.attribute for scheduler in stepped}
    return used


def _own(attribute: str) -> str:
    """An attribute, or the elements of one, of the module."""
    return f"*self.{attribute[1:]}" if attribute.startswith("*") else f"self.{attribute}"


#: Lightning gives one optimizer as it is, and several in a list.
_AS_LIST = "[*found] if isinstance(found, list) else [found]"
_AGAIN = "    # another fit needs those that the schedulers have, not Lightning's wrappers\n"


def _counted(optimizers: list[str], emptied: Collection[str]) -> str:
    """Lets Lightning count the steps, without which it saves no checkpoints."""
    dicts = [name.removesuffix(".values()") for name in optimizers if name.endswith(".values()")]
    names = ["*found" if name.endswith(".values()") else _own(name) for name in optimizers]
    first = f"{', '.join(names)} = self.optimizers()"
    if len(optimizers) == 1 and names[0].startswith("*"):
        made = names[0][1:]
        first = f"found = self.optimizers()\n    {made} = {_AS_LIST}"
    elif not {*emptied}.isdisjoint(optimizers):
        first = f"found = self.optimizers()\n    {', '.join(names)} = {_AS_LIST}"
    lines = [
        first,
        *(f"self.{name[1:]} = dict(zip(self.{name[1:]}, found, strict=True))" for name in dicts),
    ]
    return "".join(f"    {line}\n" for line in lines)


def _counted_if_there(optimizers: list[str]) -> str:
    """The same, where some of them may not have been made."""
    names = ", ".join(f'"{name}"' for name in optimizers)
    first = f"""\
    found = self.optimizers()
    found = {_AS_LIST}
"""
    if not all(map(str.isidentifier, optimizers)):
        lines = (f"    if {is_there(n)}:\n        self.{n} = found.pop(0)\n" for n in optimizers)
        return first + "".join(lines)
    return f"""\
{first}\
    for name in ({names}):
        if getattr(self, name, None) is not None:
            setattr(self, name, found.pop(0))
"""


def _unwrapped_line(line: cst.BaseStatement, names: dict[str, str]) -> cst.BaseStatement:
    for attribute, name in names.items():
        if name.isidentifier():
            line = syntax.replaced(line, f"self.{attribute}", name)
    return line


def _only_made(moved: list[cst.BaseStatement], idle: set[str]) -> list[cst.BaseStatement]:
    """The statements, with schedulers that nothing steps made, but not kept."""
    names, lines = {f"self.{attribute}" for attribute in idle}, list[cst.BaseStatement]()
    for line in reversed(moved):
        name, value = target(line), getattr(syntax.simple(maker(line)), "value", None)
        if name not in names:
            lines.append(line)
            continue
        if "." in name and isinstance(value, cst.Call):
            value = syntax.argument(value, 0, "lr_scheduler")
        if isinstance(value, cst.Name) and value.value != "None":
            if not any(value.value in syntax.names_in(other) for other in lines):
                names.add(value.value)
        elif value is not None and syntax.code(value) != "None":
            made = ensure_type(maker(line), cst.SimpleStatementLine)
            above_it = [*made.leading_lines, _IDLE]
            made = made.with_changes(leading_lines=above_it, body=[cst.Expr(value)])
            last = maker(line)
            lines.append(made if last is line else syntax.with_node(line, last, made))
    return lines[::-1]


_IDLE = cst.EmptyLine(comment=cst.Comment("# nothing steps it: it sets the first learning rates"))


def _ending(
    plan: TrialPlan,
    optimizers: list[str],
    schedulers: list[WrappedScheduler],
    names: dict[str, str],
) -> str:
    """What configure_optimizers ends with, given what each attribute is called in it."""
    if not plan.is_automatic:
        steps = listed_schedulers(schedulers, names)
        if len(optimizers) == 1 and not steps and not optimizers[0].startswith("*"):
            return f"return {names[optimizers[0]]}"
        every = listed(optimizers, plan.lacking_optimizers, names)
        return f"return {every}, {steps}" if steps else f"return {every}"
    first = names[optimizers[0]]
    if not schedulers:
        return f"return {first}"
    described = [_described(scheduler, names) for scheduler in schedulers]
    lacking = [is_there(s.attribute) if s.may_lack else "" for s in schedulers]
    if len(described) == 1:
        both = f'return {{\n    "optimizer": {first},\n    "lr_scheduler": {described[0]},\n}}'
        if schedulers[0].chosen:
            both = f"interval = {schedulers[0].chosen}\n{both}"
        if not lacking[0]:
            return both
        return f"if {lacking[0]}:\n{textwrap.indent(both, _INDENT)}\nreturn {first}"
    if not any(lacking):
        lines = "".join(f"\n    {text}," for text in described)
        return f"return [{first}], [{lines}\n]"
    lines = "schedulers = []\n"
    for text, condition in zip(described, lacking, strict=True):
        adding = f"schedulers.append({text})\n"
        lines += f"if {condition}:\n{textwrap.indent(adding, _INDENT)}" if condition else adding
    return f"{lines}return [{first}], schedulers"


_INDENT = "    "


def _described(scheduler: WrappedScheduler, names: dict[str, str]) -> str:
    is_given = scheduler.frequency != "1" and not scheduler.counts_batches
    frequency = f', "frequency": {scheduler.frequency}' if is_given else ""
    name = names[scheduler.attribute]
    interval = "interval" if scheduler.chosen else f'"{scheduler.interval}"'
    return f'{{"scheduler": {name}, "interval": {interval}{frequency}}}'


def left_of_wraps(
    node: cst.ClassDef, made: cst.ClassDef, plan: TrialPlan, file: LightningFile
) -> Iterator[str]:
    """What is to be said of what a class wraps, if a module cannot do all of it.

    Args:
        node: the class.
        made: what it has become.
        plan: of it.
        file: in which it is.
    """
    own, symbols = syntax.methods(node), file.symbols
    kept = [found for method in own.values() for found in wrappings(method, symbols)]
    wraps = len(symbols.calls(node, "wrap_optimizer"))
    lacking = plan.all_optimizers if plan.lacking_optimizers else ()
    owners = (name.partition("[")[0] for name in lacking)
    named = all(part.isidentifier() for owner in owners for part in owner.split("."))
    if not named or wraps > sum(found.member == "wrap_optimizer" for found in kept):
        yield "configure_optimizers must return every optimizer of the trial"
        return
    if "wrap_lr_scheduler" in plan.own.unkept or plan.hides_schedulers:
        yield "an LR scheduler that no attribute keeps must be stepped"
    if "wrap_reducer" in plan.own.unkept:
        yield "what a reducer computes that no attribute keeps must be logged"
    for name in undecided(kept):
        yield f"whether {name} reduces training, validations or both is known at run time"
    families = [_methods_of(each, node, file) for each in file.every if plan in each.ancestors]
    for name in left_to_log(made, kept, [own, *families]):
        yield f"what {name} reduces of training must be logged"
    for name in reset_in_training(kept, own):
        yield f"training resets {name}, of which an epoch's end tells what has come since"
    if not all(scheduler.is_torchs for scheduler in plan.own.schedulers):
        yield "Lightning saves no state of a scheduler that does not derive from torch's"
    if any(not scheduler.mode and not scheduler.choices for scheduler in plan.own.schedulers):
        yield "an LR scheduler whose step mode is known at run time must be stepped"
    for name in _uncounted(own, plan, file):
        yield f"{name} is stepped, and Lightning counts the steps of what optimizers() gives alone"


def _methods_of(
    plan: TrialPlan, node: cst.ClassDef, file: LightningFile
) -> dict[str, cst.FunctionDef]:
    """The methods of a trial with those of its bases, one of which is ``node``."""
    found: dict[str, cst.FunctionDef] = {}
    for each in reversed(plan.ancestors):
        if each.own.name == node.name.value:
            found |= syntax.methods(node)
            continue
        text = file.elsewhere.texts.get(each.own.name, "")
        base = next(syntax.find(syntax.looked_at(text), cst.ClassDef), None)
        found |= {} if base is None else syntax.methods(base)
    return found


def _uncounted(
    own: Mapping[str, cst.FunctionDef], plan: TrialPlan, file: LightningFile
) -> list[str]:
    """The attributes that are stepped, and are none of those that Lightning gets.

    Without steps that it counts it saves no checkpoints, and never comes to ``max_steps``.
    """
    around = (each for each in file.every if plan in each.ancestors or each in plan.ancestors)
    every = {name for each in (plan, *around) for name in each.own.optimizers}
    known = {name.lstrip("*").removesuffix(".values()").partition("[")[0] for name in every}
    stepped: list[str] = []
    for method in own.values():
        for call in file.symbols.calls(method, "step_optimizer"):
            given = syntax.argument(call, 0, "optimizer")
            text = "" if given is None else syntax.code(given)
            owner, _, name = text.partition("[")[0].partition(".")
            is_asked = name in {*own, *file.elsewhere.properties}
            if name and owner == syntax.self_name(method) and not is_asked and name not in known:
                stepped.append(text)
    return [*dict.fromkeys(stepped)]
