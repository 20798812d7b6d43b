"""What scripts ask for, and when: the callbacks for it."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import libcst as cst

from det_compat.migrate.to_lightning.plan import TrialPlan
from det_compat.migrate.to_lightning.written_out.checkpoints import BEHIND
from det_compat.migrate.tree import syntax

#: The parameters of Determined's ``fit()``, in order.
_FIT = (
    "checkpoint_period",
    "validation_period",
    "max_length",
    "reporting_period",
    "checkpoint_policy",
    "latest_checkpoint",
    "step_zero_validation",
    "test_mode",
    "profiling_enabled",
)
#: What has a checkpoint take the place of one with the same name, which is of the same batch.
_OVER = ", enable_version_counter=False"
_NEVER, _ALWAYS, _BEST = ((f'"{word}"', f"'{word}'") for word in ("none", "all", "best"))


def given_to_fit(call: cst.Call) -> dict[str, cst.BaseExpression] | None:
    """The arguments of ``fit()`` by name; None if they are not all known."""
    found: dict[str, cst.BaseExpression] = {}
    for index, arg in enumerate(call.args):
        name = arg.keyword.value if arg.keyword else _FIT[index] if index < len(_FIT) else ""
        if arg.star or name not in _FIT:
            return None
        found[name] = arg.value
    return found


@dataclass(frozen=True)
class Length:
    """A length or a period: the flag of ``pl.Trainer`` that has its unit, and its number as text.

    Both are empty where they are not told. One that is ``chosen`` at run time has the condition of
    its ``choice``, what it is then, and what it is otherwise.
    """

    unit: str = ""
    number: str = ""
    choice: "tuple[str, Length, Length] | None" = None

    def flag(self, unit: str) -> str:
        """The value of the flag of ``pl.Trainer`` with this unit, as text."""
        if self.choice is None:
            return self.number if self.unit == unit else "None"
        if self.number.isidentifier():
            return f'{self.number}.get("{unit}")'
        test, one, other = self.choice
        found = (one.flag(unit), other.flag(unit))
        return found[0] if found[0] == found[1] else f"{found[0]} if {test} else {found[1]}"

    def arms(self, test: str) -> "tuple[Length, Length]":
        """What it is where a condition holds, and where it does not."""
        is_by_it = self.choice is not None and self.choice[0] == test
        return self.choice[1:] if self.choice is not None and is_by_it else (self, self)

    @property
    def bracketed(self) -> str:
        """The number, to stand behind an operator."""
        is_one = re.fullmatch(r'[\w.]+(\["\w+"\])?', self.number)
        return self.number if is_one else f"({self.number})"

    def divides(self, other: "Length") -> bool:
        """Whether so many of this make the other one up, as far as it can be told."""
        if self.unit != other.unit or self.number in (other.number, "1"):
            return self.unit == other.unit
        every, length = self.number, other.number
        is_known = every.isdigit() and length.isdigit() and int(every) > 0
        return is_known and int(length) % int(every) == 0


@dataclass(frozen=True)
class Schedule:
    """What a script asks for, and when.

    Attributes:
        length: of the training.
        validation: the period of validations.
        checkpoint: that of checkpoints.
        policy: which validations a checkpoint follows, as it is written; ``""`` if it is not said.
        may_test: whether the training may be a test, of which nothing is written.
        counts_batches: whether each batch makes one step, so that Lightning's steps are batches.
        learns: whether validations may change what is in a checkpoint.
    """

    length: Length
    validation: Length
    checkpoint: Length
    policy: str
    may_test: bool
    counts_batches: bool
    learns: bool = False

    @property
    def saves(self) -> bool:
        """Whether Lightning is to write checkpoints."""
        return bool(self.checkpoint.unit) or self.policy not in _NEVER

    @property
    def is_open(self) -> bool:
        """Whether only the run decides which validations a checkpoint follows, and it matters."""
        is_same = bool(self.checkpoint.unit) and self.checkpoint == self.validation
        is_told = self.policy in ("", *_NEVER, *_ALWAYS, *_BEST)
        return not is_told and not is_same

    @property
    def lacks_best(self) -> bool:
        """Whether a validation may be the best of all and leave no checkpoint that is kept."""
        is_best = self.policy in ("", *_BEST) and self.validation != self.length
        return is_best and not (self.checkpoint.unit and self.checkpoint.divides(self.validation))

    @property
    def _is_validated_each_epoch(self) -> bool:
        return self.validation == Length("max_epochs", "1")

    @property
    def _follows_validations(self) -> bool:
        """Whether each validation is to be saved, and not the last one alone.

        What the last batch leaves is saved below ``fit()`` where nothing else does.
        """
        is_at_end = bool(self.checkpoint.unit) and self.validation == self.length
        return self.policy in _ALWAYS and not is_at_end

    def callbacks(self, counted: Callable[[str], str]) -> list[str]:
        """The callbacks that write checkpoints, where Lightning's own is not enough.

        Lightning refuses two that are told the same numbers, and saves twice what both save,
        unless the later one may write over the file.

        Args:
            counted: says how many steps of optimizers are in a number of batches.
        """
        every, validated = self.checkpoint, self.validation
        if every.unit == "max_steps" and every == validated and every.choice is None:
            # It saves behind each validation, as Determined did.
            return ["ModelCheckpoint(save_top_k=-1)"]
        made = [self._periodic(counted)] if every.unit else []
        if not self._follows_validations or (made and every.divides(validated)):
            return made
        if not made or validated.divides(every):
            return ["ModelCheckpoint(save_top_k=-1)"]
        if (chosen := every.choice or validated.choice) is not None:
            one, other = (
                replace(self, length=Length(), checkpoint=a, validation=b).callbacks(counted)
                for a, b in zip(every.arms(chosen[0]), validated.arms(chosen[0]), strict=True)
            )
            either = f"*([{', '.join(one)}] if {chosen[0]} else [{', '.join(other)}])"
            return one if one == other else [either]
        if every.unit == "max_steps":
            return [*made, f"ModelCheckpoint(save_top_k=-1{_OVER})"]
        last = self._periodic(counted, _OVER)
        if validated.unit == "max_steps":
            steps = counted(validated.number)
            return [f"ModelCheckpoint(every_n_train_steps={steps}, save_top_k=-1)", last]
        first = f"ModelCheckpoint(every_n_epochs={validated.number}, save_top_k=-1)"
        if not (every.number.isdigit() and validated.number.isdigit()):
            last = f"*([{last}] if {every.bracketed} % {validated.bracketed} else [])"
        return [first, last]

    def _periodic(self, counted: Callable[[str], str], more: str = "") -> str:
        """The callback that saves by the period of checkpoints."""
        every = self.checkpoint
        if every.choice is not None:
            steps, epochs = map(every.flag, ("max_steps", "max_epochs"))
            each = f"every_n_train_steps={steps}, every_n_epochs={epochs}"
            more = f", save_on_train_epoch_end=True{more}"
        elif every.unit == "max_steps":
            each = f"every_n_train_steps={counted(every.number)}"
        else:
            each = f"every_n_epochs={every.number}"
            # It would wait for the next validation, which may come in another epoch.
            end = "" if self._is_validated_each_epoch else ", save_on_train_epoch_end=True"
            more = f"{end}{more}"
        saving = "ModelCheckpoint"
        if every.unit == "max_steps" and self.learns and not self._follows_validations:
            saving = BEHIND
        return f"{saving}({each}, save_top_k=-1{more})"

    def unvalidated(self, trainer: str) -> str:
        """The condition on which the last batch is not validated; ``""`` if it always is."""
        every = self.validation
        if every.choice is not None:
            test, *both = every.choice
            found = [replace(self, validation=each).unvalidated(trainer) for each in both]
            return _chosen(test, *found)
        if every.divides(self.length):
            return ""
        if every.unit == "max_steps":
            return self._within(trainer, every)
        lacks = f"{trainer}.current_epoch % {every.bracketed}"
        if self.length.unit == "max_epochs":
            return lacks
        # Lightning validates at the end of an epoch, in which a length in batches may end.
        ends_within = f"not {trainer}.is_last_batch"
        return ends_within if every.number == "1" else f"{ends_within} or {lacks}"

    def unsaved(self, trainer: str) -> str:
        """The condition on which there is no checkpoint of the last batch."""
        every = self.checkpoint
        if every.choice is not None:
            test, *both = every.choice
            return _chosen(
                test, *(replace(self, checkpoint=each).unsaved(trainer) for each in both)
            )
        found = f"{trainer}.current_epoch % {every.bracketed}"
        if not self.saves:
            found = "True"
        elif not every.unit:
            # Checkpoints follow validations, but where there is one in each epoch.
            found = "" if self._is_validated_each_epoch else self.unvalidated(trainer)
        elif every.divides(self.length) or every == Length("max_epochs", "1"):
            found = ""
        elif every.unit == "max_steps":
            found = self._within(trainer, every)
        if self._follows_validations and every.unit:
            found = "" if self._is_validated_each_epoch else _both(found, self.unvalidated(trainer))
        if not (found and self.may_test):
            return found
        is_real = f"not {trainer}.fast_dev_run"
        return is_real if found == "True" else f"{is_real} and ({found})"

    def _within(self, trainer: str, every: Length) -> str:
        total = f"({trainer}.fit_loop.total_batch_idx + 1)"
        return f"{f'{trainer}.global_step' if self.counts_batches else total} % {every.bracketed}"


def _both(*conditions: str) -> str:
    """The condition that all of some hold, ``""`` if one never does."""
    if not all(conditions) or len({*conditions}) == 1:
        return min(conditions)
    are_open = (" or " in each and not each.startswith("(") for each in conditions)
    pairs = zip(conditions, are_open, strict=True)
    return " and ".join(f"({each})" if is_open else each for each, is_open in pairs)


def _chosen(test: str, one: str, other: str) -> str:
    """The condition that is one of two, ``""`` for what never is."""
    if one == other:
        return one
    if not one:
        return f"not {test} and {other}" if test.isidentifier() else f"not ({test}) and {other}"
    return f"(\n    {one}\n    if {test}\n    else {other or False}\n)"


def before_the_first(given: dict[str, cst.BaseExpression]) -> str:
    """The condition on which ``fit()`` validates before it trains; ``""`` if it does not."""
    asked, latest = given.get("step_zero_validation"), given.get("latest_checkpoint")
    condition = "" if asked is None else syntax.code(asked)
    if condition in ("", "False") or latest is None or syntax.code(latest) == "None":
        return "" if condition == "False" else condition
    # What goes on from a checkpoint has been validated.
    fresh = f"{syntax.code(latest)} is None"
    return fresh if condition == "True" else f"({condition}) and {fresh}"


def needs_fit(plan: TrialPlan, asked: Collection[str]) -> bool:
    """Whether what a validation runs uses what a module only has once ``fit()`` has begun.

    Callbacks may call what is ``asked`` of a trial elsewhere.
    """
    callbacks = (plan.all_methods & {*asked}) - {"train_batch"}
    names = ("evaluate_batch", "evaluate_full_dataset", "build_callbacks", *callbacks)
    loaders = ("build_training_data_loader", "build_validation_data_loader")
    stepped = {*plan.all_optimizers, *(each.attribute for each in plan.all_schedulers)}
    return not stepped.isdisjoint(plan.uses(*plan.reached(*names, *loaders)))
