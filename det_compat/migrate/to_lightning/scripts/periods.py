"""What ``fit()`` does where it is given no period of validations.

Determined validated after the last batch alone, Lightning does after each epoch: whatever moves in
validations, such as a patience or the random numbers, would move more often.
"""

from collections.abc import Collection, Mapping

import libcst as cst

from det_compat.migrate.to_lightning.scripts.lengths import Lengths
from det_compat.migrate.to_lightning.scripts.lines import is_fit, is_text
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line, Lines

_PERIOD = "validation_period"
#: How ``pl.Trainer`` is told a period of validations, by the flag that a length in its unit has.
FLAGS = {
    "max_steps": "val_check_interval={0}, check_val_every_n_epoch=None",
    "max_epochs": "check_val_every_n_epoch={0}",
}


_PERIODS = {
    _PERIOD: FLAGS,
    # Lightning reports by batches; what is said of checkpoints depends on more.
    "reporting_period": {"max_steps": "log_every_n_steps={0}", "max_epochs": ""},
    "checkpoint_period": {"max_steps": "", "max_epochs": ""},
}
#: The same of one that is only known at run time, in both units.
_CHOSEN = {
    _PERIOD: "val_check_interval={0}, check_val_every_n_epoch={1}",
    "reporting_period": "log_every_n_steps={0}",
}


def period_flags(given: Mapping[str, cst.BaseExpression], lengths: Lengths) -> list[str] | None:
    """The arguments of ``pl.Trainer`` for the periods of ``fit()``; None if one is not known."""
    flags = []
    for period, templates in _PERIODS.items():
        value = given.get(period)
        if value is None or is_text(value, "None"):
            continue
        unit, number = lengths.unit(value)
        length = lengths.length(value)
        if isinstance(number, (cst.List, cst.Tuple, cst.Set)) or not length.unit:
            return None
        template = _CHOSEN.get(period, "") if length.choice else templates[unit]
        texts = map(length.flag, FLAGS) if length.choice else [length.number]
        flags += [template.format(*texts)] if template else []
    return flags


def with_period(given: dict[str, cst.BaseExpression]) -> dict[str, cst.BaseExpression]:
    """The arguments of ``fit()``, whose length is its period where they name none."""
    return {**given, _PERIOD: given["max_length"]} if lacks_period(given) else given


def at_end(length: str, given: dict[str, cst.BaseExpression]) -> list[str]:
    """The flags of a validation after the last batch alone, where no period is given.

    Args:
        length: the flag of the length: what a config says, or a variable, which is a dict of it.
        given: the arguments of ``fit()``, with a period where they tell the length themselves.
    """
    if not lacks_period(given):
        return []
    unit, _, number = length.partition("=")
    if unit in FLAGS:
        return [FLAGS[unit].format(number)]
    name = length.removeprefix("**")
    name = name if name.replace(".", "").isidentifier() else f"({name})"
    return [
        f'val_check_interval={name}.get("max_steps")',
        f'check_val_every_n_epoch={name}.get("max_epochs")',
    ]


def with_named_periods(tree: cst.Module, makers: Collection[str]) -> cst.Module:
    """The script with a variable for each period that a function makes, above ``fit()``.

    Lightning is told of it in several places, and in each of the unit that it is of then.

    Args:
        tree: of the script.
        makers: the functions that return lengths.
    """
    taken = syntax.names_in(tree)

    def named(line: Line) -> Lines:
        names: dict[str, str] = {}
        lines: list[cst.BaseStatement] = []
        for call in syntax.find(line, cst.Call):
            for arg in call.args if is_fit(call) else ():
                value, keyword = arg.value, "" if arg.keyword is None else arg.keyword.value
                is_made = isinstance(value, cst.Call) and syntax.code(value.func) in makers
                if not keyword.endswith("_period") or not is_made:
                    continue
                text = syntax.code(value)
                if text not in names:
                    names[text] = f"{keyword}_" if keyword in taken else keyword
                    lines.append(syntax.statement(f"{names[text]} = {text}\n"))
                line = syntax.with_node(line, value, cst.Name(names[text]))
        return cst.FlattenSentinel([*lines, line]) if lines else line

    return syntax.each(tree, cst.SimpleStatementLine, named) if makers else tree


def lacks_period(given: dict[str, cst.BaseExpression]) -> bool:
    """Whether ``fit()`` is given no period of validations."""
    period = given.get(_PERIOD)
    return period is None or syntax.code(period) == "None"
