"""What ``fit()`` does where it is given no period of validations.

Determined validated after the last batch alone, Lightning does after each epoch: whatever moves in
validations, such as a patience or the random numbers, would move more often.
"""

import libcst as cst

from det_compat.migrate.tree import syntax

_PERIOD = "validation_period"


def with_period(given: dict[str, cst.BaseExpression]) -> dict[str, cst.BaseExpression]:
    """The arguments of ``fit()``, whose length is its period where they name none."""
    return {**given, _PERIOD: given["max_length"]} if _lacks_period(given) else given


def is_at_end(given: dict[str, cst.BaseExpression]) -> bool:
    """Whether the length is told, at run time, and no period is."""
    length = given.get("max_length")
    is_said = length is not None and syntax.code(length) != "None"
    return is_said and _lacks_period(given)


def at_end(length: str, given: dict[str, cst.BaseExpression]) -> list[str]:
    """The flags of a validation after the last batch alone, given the flag of the length.

    A length of a variable is a dict of the one flag that says it.
    """
    if not is_at_end(given):
        return []
    name = length.removeprefix("**")
    name = name if name.replace(".", "").isidentifier() else f"({name})"
    return [
        f'val_check_interval={name}.get("max_steps")',
        f'check_val_every_n_epoch={name}.get("max_epochs")',
    ]


def _lacks_period(given: dict[str, cst.BaseExpression]) -> bool:
    period = given.get(_PERIOD)
    return period is None or syntax.code(period) == "None"
