"""Scripts that train a trial by ``pytorch.init()`` and ``pytorch.Trainer``: Lightning's Trainer.

``Batch`` and ``Epoch`` become flags: arguments of ``pl.Trainer``, or elsewhere a dict of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.to_lightning.optimization.gradients import asks_gradients
from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.to_lightning.script_contexts.asked import (
    asking_trained,
    told,
)
from det_compat.migrate.to_lightning.script_contexts.chosen import chosen, unbound
from det_compat.migrate.to_lightning.script_contexts.given import arguments
from det_compat.migrate.to_lightning.script_contexts.init_call import (
    Init,
    asked_within,
    given_to_init,
    told_of_torchrun,
)
from det_compat.migrate.to_lightning.script_contexts.one_place import (
    BY_HAND,
    IMPORT,
    INIT,
    RANK,
    TRAINER,
    as_init,
    has_name,
    in_one_place,
    put_back_by_hand,
    values_in,
)
from det_compat.migrate.to_lightning.scripts.devices import devices, only, others, seeded, strategy
from det_compat.migrate.to_lightning.scripts.endings import Ending, trainings
from det_compat.migrate.to_lightning.scripts.lengths import Lengths
from det_compat.migrate.to_lightning.scripts.lines import (
    calls,
    has_trainer,
    is_fit,
    is_given_to_fit,
    is_kept,
    is_once,
    is_text,
    is_trainer,
    kept_apart,
    names_in,
    profiler,
    told_at_once,
    with_profiling,
)
from det_compat.migrate.to_lightning.scripts.makers import UNITS
from det_compat.migrate.to_lightning.scripts.periods import (
    at_end,
    lacks_period,
    period_flags,
    with_named_periods,
    with_period,
)
from det_compat.migrate.to_lightning.scripts.schedule import (
    Length,
    Schedule,
    before_the_first,
    given_to_fit,
    needs_fit,
)
from det_compat.migrate.to_lightning.scripts.step_counts import constants, in_steps
from det_compat.migrate.to_lightning.transformer import LightningTransformer
from det_compat.migrate.to_lightning.written_out.checkpoints import (
    validations_change,
    write_out_checkpoints,
)
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line, Lines
from det_compat.migrate.tree.marks import above, comments_of, devices_said, marked
from det_compat.migrate.tree.trial_attributes import bound_in

_CHECKPOINT = "from pytorch_lightning.callbacks import ModelCheckpoint"
#: The flags by which checkpoints may be made inside of an epoch.
_INSIDE = ("every_n_train_steps=", "val_check_interval=")
_BEGINS = "# Lightning goes on inside of an epoch with the first batches of a loader"
_LACKS_BEST = "# Determined also kept what validated best: ModelCheckpoint(monitor=...) does, too"
_STEPS = "max_steps counts the steps of each optimizer, of which there are several"
_ACCUMULATES = "the gradients of {0} batches went into one step, and the trial steps after each"
_COUNTS = "Lightning counts steps of {0} batches each here, where batches were counted"
_STARTS_LATER = (
    "Lightning calls on_fit_start of callbacks after this, and Determined had called "
    "on_trial_startup before: do in setup() what a validation needs"
)
_POLICY = (
    "which validations a checkpoint follows is known at run time, and Lightning keeps the last: "
    "give callbacks a ModelCheckpoint for others"
)
_OPEN = "{0} needs the hyperparameters that its context had, too: give it each of them once"


def train_with_lightning(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Rewrite the scripts of a file that train a trial which is rewritten."""
    if not file.symbols.has(INIT, BY_HAND, TRAINER, *UNITS):
        return tree
    tree = in_one_place(tree, file)
    tree = with_named_periods(tree, Lengths(tree, file.symbols, file.asked).functions)
    tree = told_of_torchrun(asked_within(tree, file.symbols), file.symbols)
    tree = syntax.transformed(syntax.each(tree, cst.Call, _with_length), _Scripts(file))
    return write_out_checkpoints(tree, file)


def _with_length(call: cst.Call) -> cst.Call:
    """A call of ``fit()`` with a length: Determined refused to train off a cluster without one."""
    # Other libraries have a fit(), too.
    length = syntax.argument(call, len(call.args), "max_length") if is_fit(call) else None
    if not isinstance(length, cst.IfExp):
        return call
    arms = [arm for arm in (length.body, length.orelse) if not is_text(arm, "None")]
    return syntax.with_node(call, length, arms[0]) if len(arms) == 1 else call


class _Scripts(LightningTransformer):
    def __init__(self, file: LightningFile) -> None:
        super().__init__(file)
        self._inits: list[Init | None] = []
        self._every: list[Init | None] = []
        self._calls: list[cst.Call] = []
        self._said: list[str] = []
        self._comments: list[str] = []
        self._values: dict[str, list[cst.BaseExpression]] = {}
        self._constants: dict[str, str] = {}
        self._names: set[str] = set()
        self._lengths = Lengths(cst.Module([]), file.symbols)
        self._module = cst.Module([])
        self._modes: list[str] = []

    def visit_Module(self, node: cst.Module) -> None:
        self._module = node
        self._values = values_in(node, self.file.asked)
        self._constants, self._names = constants(node), syntax.names_in(node)
        self._lengths = Lengths(node, self.symbols, self.file.asked)
        calls = (each for each in syntax.find(node, cst.Call) if as_init(each, self.symbols))
        self._every = [given_to_init(call, self.symbols) for call in calls]

    def leave_FunctionDef(
        self, original: cst.FunctionDef, updated: cst.FunctionDef
    ) -> cst.FunctionDef:
        return self._lengths.without_idle(updated, original)

    def visit_With(self, node: cst.With) -> None:
        call = node.items[0].item if len(node.items) == 1 else None
        init = as_init(call, self.symbols)
        found = None if init is None else given_to_init(init, self.symbols)
        number, _ = devices_said(node.leading_lines)
        if found is not None and number:
            found = replace(found, devices=(f"devices={number}",))
        if found is not None and found.hparams.isidentifier():
            found = replace(found, is_named=found.hparams not in bound_in(node.body))
        self._inits.append(found)

    def leave_With(self, original: cst.With, updated: cst.With) -> Lines:
        init = self._inits.pop()
        body = ensure_type(updated.body, cst.IndentedBlock).body if init is not None else ()
        if init is None or any(has_trainer(line, self.symbols) for line in body):
            return updated
        given = updated.items[0].asname
        text = "" if given is None else syntax.code(given.name)
        body = asking_trained(body, text, self.file.trials, self.symbols)
        names = [name for line in body for name in syntax.find(line, cst.Name)]
        if any(syntax.code(line).count(RANK) for line in body):
            self.file.imports.new.add(IMPORT)
        if any(has_name(name, text, self.symbols) for name in names):
            # The context is still asked, or handed on: a Trainer that is with it stays, too.
            if self.symbols.path(ensure_type(updated.items[0].item, cst.Call).func) == BY_HAND:
                return put_back_by_hand(original)
            return original if has_trainer(original, self.symbols) else updated
        # What is left of the context are the trials that are made with it, which need none now.
        first, *rest = body
        _, comments = devices_said(updated.leading_lines)
        return cst.FlattenSentinel([above(first, comments), *rest])

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> syntax.Expression:
        self._calls.pop()
        length = UNITS.get(self.symbols.path(updated.func) or "")
        if self._lengths.is_of_number(original):
            return updated.args[0].value
        if self._lengths.makers.is_made(original):
            return cst.Dict([cst.DictElement(updated.func, updated.args[0].value)])
        # A period or length among the arguments of fit() is written out there.
        is_written_out = bool(self._calls) and is_given_to_fit(original, self._calls[-1])
        if length and len(updated.args) == 1 and not is_written_out:
            return syntax.expression(f'{{"{length}": {syntax.code(updated.args[0].value)}}}')
        init = next((found for found in reversed(self._inits) if found is not None), None)
        func, bound = unbound(updated.func, self._values)
        names = chosen(func, self._values, self.file.elsewhere.tables)
        plans = [self.file.trials[name] for name in names if name in self.file.trials]
        given = [arg for arg in updated.args if not self.symbols.is_context(arg.value)]
        if init is not None and self.symbols.method(updated):
            return told(updated, init, self.symbols)
        if init is None or len(plans) < len(names) or len(given) == len(updated.args):
            return updated
        every = [arguments(plan, init, [*bound, *given]) for plan in plans]
        for plan in (plan for plan, (_, is_open) in zip(plans, every, strict=True) if is_open):
            self.mark(_OPEN.format(plan.own.name))
        first = every[0][0]
        if any(other != first for other, _ in every):
            return updated
        made = ensure_type(syntax.expression(f"f({first})"), cst.Call)
        return updated.with_changes(args=made.args[len(bound) :])

    def visit_Call(self, node: cst.Call) -> None:
        self._calls.append(node)

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.BaseExpression:
        flag = self._lengths.makers.flag(original)
        return updated if flag is None else flag

    def leave_IndentedBlock(
        self, original: cst.IndentedBlock, updated: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        return updated.with_changes(body=self._rewritten(updated.body))

    def leave_Module(self, original: cst.Module, updated: cst.Module) -> cst.Module:
        return updated.with_changes(body=self._rewritten(updated.body))

    def _rewritten(self, body: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
        """A block with each ``pytorch.Trainer(...)`` and its ``fit()`` as Lightning's."""
        body = kept_apart(body, self._names, self.symbols)
        lines = [made for line in body for made in self._chained(told_at_once(line))]
        for made in [line for line in lines if is_trainer(line, self.symbols)]:
            name, created = syntax.target_of(made), syntax.call_of(made)
            small = [each for line in lines for each in syntax.find(line, Line)]
            fits = [each for each in small if calls(each, f"{name}.fit")]
            every = (c for line in lines for c in syntax.find(line, cst.Call))
            is_one = sum(syntax.code(c.func) == f"{name}.fit" for c in every) == len(fits) == 1
            call = syntax.lone_call(fits[0]) if is_one else None
            profiled = [line for line in lines if calls(line, f"{name}.configure_profiler")]
            call = call and with_profiling(call, [*map(syntax.lone_call, profiled)])
            texts = self._texts(created, call) if name and created and call else None
            lines = [line for line in lines if line not in profiled]
            at = next((i for i, line in enumerate(lines) if fits and is_once(fits[0], line)), 0)
            if any(syntax.mentions(line, f"{name}.configure_profiler") for line in lines):
                texts = None
            if name and call is not None and texts is not None and at:
                new = self._marked(syntax.statement(f"{name} = {texts[0]}"))
                new = above(new, getattr(made, "leading_lines", ()))
                fit = above(syntax.statement(f"{name}.{texts[1]}"), comments_of(fits[0]))
                if "ckpt_path=" in texts[1] and any(each in texts[0] for each in _INSIDE):
                    fit = above(fit, [cst.EmptyLine(comment=cst.Comment(_BEGINS))])
                end = self._at_the_end(name, texts[1], call)
                fit = self._with_modes(fit)
                between = names_in(lines[lines.index(made) + 1 : at])
                # The flags are what fit() was given, and may be known no earlier than there.
                holder, flags = lines[at], syntax.names_in(syntax.expression(texts[0])) - {"pl"}
                is_late = between & flags
                if flags & bound_in(holder) or (is_late and name in between):
                    continue
                early = [] if is_late else [new]
                before = self._before(name, texts[1], call)
                done: list[cst.BaseStatement] = [*before, fit, *end]
                if holder is not fits[0]:
                    done = [syntax.with_node(holder, fits[0], cst.FlattenSentinel(done))]
                lines[at : at + 1] = [*([] if early else [new]), *done]
                at = lines.index(made)
                lines[at : at + 1] = early
        return lines

    def _chained(self, line: cst.BaseStatement) -> list[cst.BaseStatement]:
        """``pytorch.Trainer(...).fit(...)`` as Lightning's."""
        call = syntax.lone_call(line)
        created = call.func.value if call and isinstance(call.func, cst.Attribute) else None
        if call is None or not isinstance(created, cst.Call) or not is_fit(call):
            return [line]
        if self.symbols.path(created.func) != TRAINER:
            return [line]
        texts = self._texts(created, call)
        if texts is None:
            return [line]
        last = self._at_the_end("trainer", texts[1], call)
        apart = [f"trainer = {texts[0]}", f"trainer.{texts[1]}"]
        first = self._before("trainer", texts[1], call)
        is_apart = bool(first or last)
        made, *rest = map(syntax.statement, apart if is_apart else [f"{texts[0]}.{texts[1]}"])
        made = above(self._marked(made), getattr(line, "leading_lines", ()))
        rest = [self._with_modes(each) for each in rest]
        made = self._with_modes(made)
        return [made, *first, *rest, *last]

    def _marked(self, line: cst.BaseStatement) -> cst.BaseStatement:
        """The statement that makes a Trainer, with a comment where what it says means another."""
        text = syntax.code(line)
        are_steps = self.file.steps is None and "steps=" in text.replace("log_every_n_steps=", "")
        are_open = self.file.steps != 1 and ", **" in text
        more = [_STEPS] if are_steps or are_open else []
        for message in (*dict.fromkeys(self._said), *more):
            line = marked(line, message)
        said = [cst.EmptyLine(comment=cst.Comment(text)) for text in self._comments]
        seeds = seeded(self.file.seeds)
        return above(line, [*others(self._init, self.file.devices), *seeds, *said])

    @property
    def _init(self) -> Init:
        """What the context of a Trainer was told."""
        found = (each for each in reversed(self._inits) if each is not None)
        return next(found, only(self._every))

    def _texts(self, created: cst.Call, call: cst.Call) -> tuple[str, str] | None:
        """The Trainer and its call of ``fit()``; None if something of it is not known."""
        trial, given = syntax.argument(created, 0, "trial"), self._given(call)
        init = self._init
        aggregation = init.aggregation
        plans = [plan for plan in self.file.trials.values() if not plan.is_mixin]
        can = all(plan.accumulation is not None for plan in plans)
        self._said = [_ACCUMULATES.format(aggregation)] if aggregation and not can else []
        flags = self._flags(given, aggregation if can else "") if given is not None else None
        if trial is None or given is None or flags is None:
            return None
        asked = self.file.elsewhere.asked
        is_late = not is_kept(trial) or any(needs_fit(plan, asked) for plan in plans)
        if is_late and before_the_first(given):
            return None
        flags += at_end(flags[0], given)
        if not aggregation:
            flags[:1] = self._lengths.in_steps(flags[0], self.file.steps or 1)
        told = devices(init, self.file.devices)
        flags += strategy(told) if any(plan.is_partial for plan in plans) else []
        self.file.imports.new.add("import pytorch_lightning as pl")
        if "os.environ" in told[0]:
            self.file.imports.new.add("import os")
        latest = given.get("latest_checkpoint")
        path = (
            ""
            if latest is None or is_text(latest, "None")
            else f", ckpt_path={syntax.code(latest)}"
        )
        return f"pl.Trainer({', '.join([*told, *flags])})", f"fit({syntax.code(trial)}{path})"

    def _given(self, call: cst.Call) -> dict[str, cst.BaseExpression] | None:
        """The arguments of ``fit()`` by name, with the period that Determined took for none."""
        given = self._lengths.told(given_to_fit(call))
        length = None if given is None else given.get("max_length")
        is_told = length is not None and bool(self._lengths.unit(length)[0])
        return with_period(given) if given is not None and is_told else given

    def _flags(self, given: dict[str, cst.BaseExpression], aggregation: str) -> list[str] | None:
        """The arguments of ``pl.Trainer``; None if one of them is not known."""
        length = given.get("max_length")
        is_said = length is not None and not is_text(length, "None")
        if not is_said and (aggregation or not self.file.length):
            return None
        name, _, count = self.file.length.partition("=")
        count = self._steps(count, "") if name == "max_steps" else count
        flags = [self._length(length, aggregation) if length and is_said else f"{name}={count}"]
        periods = period_flags(given, self._lengths)
        if periods is None:
            return None
        flags += periods
        schedule = self._schedule(given)
        every = schedule.checkpoint
        if every.choice is not None and (aggregation or self.file.steps != 1):
            return None
        callbacks = schedule.callbacks(partial(self._steps, aggregation=aggregation))
        if callbacks:
            self.file.imports.new.add(_CHECKPOINT)
            flags.append(f"callbacks=[{', '.join(callbacks)}]")
        elif not schedule.saves:
            # Lightning takes a callback that writes some, and the word that none is, for an error.
            flags.append("enable_checkpointing=False")
        if schedule.is_open:
            self._said.append(_POLICY)
        self._comments = [_LACKS_BEST] if schedule.lacks_best else []
        test_mode = given.get("test_mode")
        if test_mode is not None and not is_text(test_mode, "False"):
            flags.append(f"fast_dev_run={syntax.code(test_mode)}")
        flags += profiler(given.get("profiling_enabled"))
        if any(
            asks_gradients(self.file.elsewhere.texts.get(name, "")) for name in self.file.trials
        ):
            # What is made in inference mode, as batches are in validate(), never has gradients.
            flags.append("inference_mode=False")
        return flags

    def _schedule(self, given: dict[str, cst.BaseExpression]) -> Schedule:
        length = self._lengths.length(given.get("max_length"))
        if is_text(given.get("max_length"), "None", None) and self.file.length:
            unit, _, number = self.file.length.partition("=")
            length = Length(unit, number)
        validation = self._lengths.length(given.get("validation_period"))
        if lacks_period(given):
            # Lightning is told to validate after the last batch alone, whichever that is.
            length = validation = length if length.unit else Length("at run time", "1")
        return Schedule(
            length,
            validation,
            self._lengths.length(given.get("checkpoint_period")),
            "" if (policy := given.get("checkpoint_policy")) is None else syntax.code(policy),
            may_test=not is_text(given.get("test_mode"), "False", None),
            counts_batches=self.file.steps == 1 and not self._init.aggregation,
            learns=validations_change(self.file.elsewhere.texts.values()),
        )

    def _at_the_end(self, name: str, fit: str, call: cst.Call) -> list[cst.BaseStatement]:
        """What is to be done after the last batch, where Lightning may not do it."""
        trial = ensure_type(syntax.expression(fit), cst.Call).args[0].value
        end = Ending(name, trial, self._schedule(self._given(call) or {}))
        fits = trainings(self._module, name, self.symbols)
        function = self.functions[-1] if self.functions else None
        lines, self._modes = end.with_modes(end.lines(), function, self._module, fits)
        return end.marked(lines, self.file.elsewhere.texts.values())

    def _with_modes(self, fit: cst.BaseStatement) -> cst.BaseStatement:
        """The statement that trains, with what is to be said of modes, which are said once."""
        for message in self._modes:
            fit = marked(fit, message)
        self._modes = []
        return fit

    def _before(self, name: str, fit: str, call: cst.Call) -> list[cst.BaseStatement]:
        """What is to be done before the first batch."""
        trial = ensure_type(syntax.expression(fit), cst.Call).args[0].value
        condition = before_the_first(self._given(call) or {})
        text = f"{name}.validate({syntax.code(trial)}, verbose=False)"
        if not condition:
            return []
        if condition != "True":
            text = f"if {condition}:\n    {text}\n"
        (line,) = syntax.statements(f"{text}\n")
        is_early = any("def on_trial_startup(" in t for t in self.file.elsewhere.texts.values())
        return [marked(line, _STARTS_LATER) if is_early else line]

    def _length(self, length: cst.BaseExpression, aggregation: str) -> str:
        unit, number = self._lengths.unit(length)
        if unit == "max_steps":
            return f"max_steps={self._steps(syntax.code(number), aggregation)}"
        if not unit and aggregation and syntax.code(length) not in self._lengths.epochs:
            self._said.append(_COUNTS.format(aggregation))
        # A length of a variable is a dict by now, of the one flag that says it.
        if isinstance(length, cst.IfExp):
            length = length.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        return f"{unit}={syntax.code(number)}" if unit else f"**{syntax.code(length)}"

    def _steps(self, batches: str, aggregation: str) -> str:
        """The number of steps in so many batches."""
        steps, is_whole = in_steps(batches, aggregation, self.file.steps or 1)
        if aggregation in self._constants:
            is_whole = in_steps(batches, self._constants[aggregation], 1)[1]
        self._said += [] if is_whole else [_COUNTS.format(aggregation)]
        return steps
