"""The hooks of a validation, written down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import libcst as cst

from det_compat.migrate.to_lightning.whole.branches import STEP, Branch, Lines, without_end
from det_compat.migrate.to_lightning.whole.parts import without_blank
from det_compat.migrate.to_lightning.whole.shares import SUMMED
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above

START, END = "on_validation_epoch_start", "on_validation_epoch_end"
_SAID = "# on several devices, the {} of what each finds in its share of the data"


@dataclass(frozen=True)
class Writing:
    """What all hooks of a validation have of the method that they take the place of.

    Attributes:
        step: that method.
        training: the module's training_step, whose batch is annotated as this one's is.
        me: what it calls the module.
        batch: what the step calls a batch.
    """

    step: cst.FunctionDef
    training: cst.FunctionDef | None
    me: str
    batch: str

    def hooks(
        self,
        branches: Sequence[tuple[Branch, Sequence[Sequence[cst.BaseStatement]], str | None]],
        docstring: Sequence[cst.BaseStatement],
    ) -> list[cst.FunctionDef]:
        """The hooks.

        Args:
            branches: the validations, each with the statements of its hooks and with how what
                several devices find becomes one number: ``"mean"`` or ``"sum"``, or None where
                each goes through all of the data.
            docstring: what the method that they take the place of says.
        """
        found: list[tuple[Branch, list[list[cst.BaseStatement]]]] = []
        for branch, parts, devices in branches:
            before, body, after = map(without_blank, parts)
            logging = cst.IndentedBlock(after).visit(_Logging(self.me, devices))
            after = [*logging.body] if isinstance(logging, cst.IndentedBlock) else after
            found.append((branch, [before, body, after]))
        before, body, after = (
            joined([(branch, lines[at]) for branch, lines in found], says=at == 1)
            for at in range(3)
        )
        if docstring and body:
            body = [*docstring, *body]
        hooks = [(START, before), (STEP, body), (END, after)]
        made = [self._hook(name, lines) for name, lines in hooks if lines or name == STEP]
        first = made[0].with_changes(leading_lines=self.step.leading_lines)
        blank = [cst.EmptyLine(indent=False)]
        return [first, *(each.with_changes(leading_lines=blank) for each in made[1:])]

    def _hook(self, name: str, lines: Sequence[cst.BaseStatement]) -> cst.FunctionDef:
        own, _, index = self.step.params.params
        given = [own]
        if name == STEP:
            training = self.training
            known = training.params.params[1].annotation if training else None
            given = [
                own,
                cst.Param(cst.Name(self.batch), known if index.annotation else None),
                index,
            ]
        method = self.step.with_changes(
            name=cst.Name(name),
            decorators=[],
            params=self.step.params.with_changes(params=syntax.without_commas(given)),
        )
        made = syntax.with_body(method, lines)
        if isinstance(made.body, cst.IndentedBlock) and name != END:
            return made.with_changes(body=made.body.with_changes(footer=[]))
        return made


class _Logging(cst.CSTTransformer):
    """Logs what is found once for all batches, which says so where it does first."""

    def __init__(self, me: str, devices: str | None) -> None:
        super().__init__()
        self._devices = devices
        self._logs = (f"{me}.log", f"{me}.log_dict")
        self._said: list[str] = []

    def leave_SimpleStatementLine(
        self, original: cst.SimpleStatementLine, updated: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        calls = [c for c in syntax.find(original, cst.Call) if syntax.code(c.func) in self._logs]
        devices = "sum" if any(SUMMED in syntax.code(call) for call in calls) else self._devices
        if not calls or devices is None or devices in self._said:
            return updated
        self._said.append(devices)
        lines = updated.leading_lines
        at = next((i for i, line in enumerate(lines) if line.comment is not None), len(lines))
        said = cst.EmptyLine(comment=cst.Comment(_SAID.format(devices)))
        return updated.with_changes(leading_lines=[*lines[:at], said, *lines[at:]])

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        if syntax.code(original.func) not in self._logs:
            return updated
        args = [a for a in updated.args if not (a.keyword and a.keyword.value == "batch_size")]
        if self._devices == "sum" and SUMMED not in syntax.code(updated):
            given = syntax.expression(f'f(reduce_fx="{self._devices}")')
            args += given.args if isinstance(given, cst.Call) else ()
        return updated.with_changes(args=syntax.without_commas(args))


def joined(
    branches: Sequence[tuple[Branch, Lines]], *, says: bool = False
) -> list[cst.BaseStatement]:
    """The statements of a hook, given what each of several validations does in it.

    Args:
        branches: the validations, each with its statements.
        says: whether the comments above what tells them apart belong here.
    """
    if len(branches) == 1:
        return [*branches[0][1]]
    shared = [
        same[0]
        for same in takewhile(_are_same, zip(*(lines for _, lines in branches), strict=False))
    ]
    branches = [(each, lines[len(shared) :]) for each, lines in branches]
    return [*shared, *_told_apart(branches, says=says)]


def _are_same(lines: Sequence[cst.BaseStatement]) -> bool:
    """Whether several validations begin with the same statement, which is no end of them."""
    small = syntax.simple(lines[0])
    is_end = isinstance(small, (cst.Return, cst.Raise))
    return len({syntax.code(line).strip() for line in lines}) == 1 and not is_end


def _told_apart(branches: Sequence[tuple[Branch, Lines]], *, says: bool) -> list[cst.BaseStatement]:
    """The statements of a hook that some validations do and others do not."""
    *some, (last, rest) = branches
    chain: cst.If | None = None
    if last.test is None and rest:
        blocks = [_block(each, _returning(lines), says=says) for each, lines in some]
        first = rest[0] if not blocks or _is_apart(rest[0]) else above(rest[0], [_BLANK])
        return [*blocks, first, *rest[1:]]
    while branches and not branches[-1][1]:
        branches = branches[:-1]
    for each, lines in reversed(branches):
        block = _block(
            each, lines or [syntax.statement("pass")], says=says and each is branches[0][0]
        )
        chain = block.with_changes(orelse=chain)
    return [] if chain is None else [chain]


_RETURN = syntax.statement("return")
_BLANK = cst.EmptyLine(indent=False)


def _is_apart(line: cst.BaseStatement) -> bool:
    """Whether there is a blank line above a statement."""
    return any(each.comment is None for each in getattr(line, "leading_lines", ()))


def _returning(lines: Lines) -> list[cst.BaseStatement]:
    """Statements with a return at their end, unless they raise something there."""
    is_raise = bool(lines) and isinstance(syntax.simple(lines[-1]), cst.Raise)
    return [*lines] if is_raise else [*without_end(lines), _RETURN]


def _block(branch: Branch, lines: Lines, *, says: bool) -> cst.If:
    assert branch.test is not None
    said = branch.said if says else ()
    return cst.If(branch.test, cst.IndentedBlock([*lines]), leading_lines=said)
