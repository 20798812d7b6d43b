"""What scripts do below ``fit()``, and how Determined left the models for that.

Its last batch was validated and saved wherever a period ended, and models stay in evaluation mode
from that validation on.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.script_contexts.one_place import TRAINER
from det_compat.migrate.to_lightning.scripts.lines import is_fit, is_kept
from det_compat.migrate.to_lightning.scripts.schedule import Schedule
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above, marked
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.walking import below

_MODES = (
    "models are in training mode below this, and the last validation of Determined's left them in "
    "evaluation mode: call eval() before they are used, and train() before another fit()"
)


@dataclass(frozen=True)
class Ending:
    """The end of a training.

    Attributes:
        trainer: what the Trainer is called.
        trial: what it trains.
        schedule: what the script asks for.
    """

    trainer: str
    trial: cst.BaseExpression
    schedule: Schedule

    @property
    def module(self) -> str:
        """What the trial is called, or can be asked for by."""
        return (
            syntax.code(self.trial) if is_kept(self.trial) else f"{self.trainer}.lightning_module"
        )

    def lines(self) -> list[cst.BaseStatement]:
        """The statements that validate and save what the last batch has left."""
        quoted = self.trainer.replace('"', "'")
        validating = f"{self.trainer}.validate({self.module}, verbose=False)"
        saving = f'{self.trainer}.save_checkpoint(f"{{{quoted}.log_dir}}/checkpoints/last.ckpt")'
        lacking = self.schedule.unvalidated(self.trainer)
        missing = self.schedule.unsaved(self.trainer)
        if lacking == missing:
            return _on(lacking, "validated and saved, too", validating, saving)
        end = _on(missing, "saved, too", saving)
        if missing == "True":
            told = cst.EmptyLine(comment=cst.Comment("# the last batch is saved"))
            end = [above(syntax.statement(saving), [told])]
        return [*_on(lacking, "validated, too", validating), *end]

    def with_modes(
        self,
        lines: Sequence[cst.BaseStatement],
        function: cst.FunctionDef | None,
        module: cst.Module,
        fits: Sequence[cst.Call],
    ) -> tuple[list[cst.BaseStatement], list[str]]:
        """These statements, and one by which models are in evaluation mode, if they run below.

        Args:
            lines: the statements.
            function: in which the script trains, if it does in one.
            module: the file.
            fits: the calls of ``fit()`` in it.

        Returns:
            The statements, and what to say where Determined put the models back as it trained on.
        """
        if not is_kept(self.trial) or not is_used_later(self.trial, function, module, fits):
            return [*lines], []
        if not is_one(fits, module):
            return [*lines], [_MODES]
        text = f"# as the last validation left it\n{self.module}.eval()\n"
        return [*lines, *syntax.statements(text)], []

    def marked(
        self, lines: Sequence[cst.BaseStatement], texts: Iterable[str]
    ) -> list[cst.BaseStatement]:
        """These statements, below a comment if callbacks among some code have to come after."""
        is_validated = any(".validate(" in syntax.code(line) for line in lines)
        if not any(_shuts_down(text, is_validated=is_validated) for text in texts):
            return [*lines]
        return [*(marked(line, _SHUT_DOWN) for line in lines[:1]), *lines[1:]]


def _on(condition: str, done: str, *lines: str) -> list[cst.BaseStatement]:
    """Some statements under a condition, if there is one."""
    body = "".join(f"    {line}\n" for line in (f"# the last batch is {done}", *lines))
    return syntax.statements(f"if {condition}:\n{body}") if condition else []


def _shuts_down(text: str, *, is_validated: bool) -> bool:
    """Whether a callback does something as a trial ends, other than to tell what it knows.

    What it knows may be of the last validation, where the last batch ``is_validated`` later.
    """
    node = syntax.statement(text) if "def on_trial_shutdown(" in text else None
    method = (
        syntax.methods(node).get("on_trial_shutdown") if isinstance(node, cst.ClassDef) else None
    )
    calls = [syntax.call_of(line) for line in syntax.body_of(method)] if method else []
    if not is_validated and method is not None and not _HEARS.search(text):
        # A checkpoint has the same in it, whenever it is written.
        names = [syntax.code(c.func).rpartition(".")[2] for c in syntax.find(method, cst.Call)]
        sets = any(
            isinstance(t.target, cst.Attribute) for t in syntax.find(method, cst.AssignTarget)
        )
        if not sets and {*names} <= _WRITING:
            return False
    return not all(
        call
        and _TELLING.fullmatch(syntax.code(call.func))
        and not (is_validated and any(any(syntax.find(a, cst.Attribute)) for a in call.args))
        for call in calls
    )


#: What writes what it is given, or makes that.
_WRITING = words(
    """
    DictWriter Path abs close dict dirname dump dumps exists float flush format get info int items
    join len list makedirs max mean min mkdir open print range round sorted str sum to_csv values
    warning write write_text writeheader writelines writer writerow writerows zip
    """
)
_HEARS = re.compile(r"def (state_dict|on_checkpoint_\w+)\(")
_TELLING = re.compile(r"print|(?:self\.)?_?log\w*\.\w+", re.IGNORECASE)
#: What to say of what follows the last batch where callbacks do something as a trial ends.
_SHUT_DOWN = (
    "callbacks have done on_fit_end by now, and Determined called on_trial_shutdown after this"
)


def trainings(module: cst.CSTNode, trainer: str, symbols: Symbols) -> list[cst.Call]:
    """The calls of ``fit()`` of a Trainer, and not of anything else."""
    found = [call for call in syntax.find(module, cst.Call) if is_fit(call)]
    owners = [ensure_type(call.func, cst.Attribute).value for call in found]
    return [
        call
        for call, owner in zip(found, owners, strict=True)
        if syntax.code(owner) == trainer
        or (isinstance(owner, cst.Call) and symbols.path(owner.func) == TRAINER)
    ]


def is_used_later(
    trial: cst.BaseExpression,
    function: cst.FunctionDef | None,
    module: cst.Module,
    fits: Sequence[cst.Call],
) -> bool:
    """Whether the code below a ``fit()`` runs a trial, or that below the call of its function."""
    if _is_used_below(trial, function or module, fits):
        return True
    names = [each.name.value for each in function.params.params] if function is not None else []
    own = syntax.code(trial)
    if function is None or own not in names:
        return False
    scopes: list[cst.FunctionDef | cst.Module] = [*syntax.find(module, cst.FunctionDef), module]
    for scope in scopes:
        for call in syntax.find(scope, cst.Call):
            is_its = syntax.code(call.func) == function.name.value
            given = syntax.argument(call, names.index(own), own) if is_its else None
            if given is not None and _is_used_below(given, scope, [call]):
                return True
    return False


def _is_used_below(
    trial: cst.BaseExpression, scope: cst.FunctionDef | cst.Module, fits: Sequence[cst.Call]
) -> bool:
    """Whether the code below a ``fit()`` runs a trial, or what it was made of, or hands it on."""
    own = syntax.code(trial)
    made_of, is_below = set[str](), False
    functions = syntax.find(scope, cst.FunctionDef) if isinstance(scope, cst.Module) else ()
    within = {id(node) for each in (*fits, *functions) for node in below(each)} - {*map(id, fits)}
    for node in below(scope):
        if isinstance(node, cst.Assign) and syntax.code(node.targets[0].target) == own:
            given = node.value.args if isinstance(node.value, cst.Call) else ()
            made_of = {syntax.code(each.value) for each in given}
        if not is_below:
            is_below = any(node is each for each in fits)
        elif id(node) in within:
            continue
        elif isinstance(node, cst.Call) and syntax.code(node.func) in made_of:
            return True
        elif isinstance(node, (cst.Call, cst.Arg, cst.Return)):
            used = node.func if isinstance(node, cst.Call) else node.value
            if used is not None and f"{syntax.code(used)}.".startswith(f"{own}."):
                return True
    return False


def is_one(fits: Sequence[cst.Call], module: cst.Module) -> bool:
    """Whether a file has one of these, in no loop."""
    loops = [*syntax.find(module, cst.For), *syntax.find(module, cst.While)]
    within = {id(call) for loop in loops for call in syntax.find(loop, cst.Call)}
    return len(fits) == 1 and id(fits[0]) not in within
