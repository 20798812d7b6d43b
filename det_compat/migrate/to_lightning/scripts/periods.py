"""What ``fit()`` does where it is given no period of validations.

Determined validated after the last batch alone, Lightning does after each epoch: whatever moves in
validations, such as a patience or the random numbers, would move more often.
"""

import libcst as cst

from det_compat.migrate.tree import syntax

_PERIOD = "validation_period"


def with_period(given: dict[str, cst.BaseExpression]) -> dict[str, cst.BaseExpression]:
    """The arguments of ``fit()``, whose period is the length where that is all that they say."""
    length = given.get("max_length")
    is_said = isinstance(length, cst.Call) and _lacks_period(given)
    return {**given, _PERIOD: length} if is_said and length is not None else given


def at_end(length: str, given: dict[str, cst.BaseExpression]) -> list[str]:
    """The flags of a validation after the last batch alone, given the flag of the length.

    A length of a variable is a dict of the one flag that says it.
    """
    name = length.removeprefix("**")
    if name == length or not _lacks_period(given):
        return []
    name = name if name.replace(".", "").isidentifier() else f"({name})"
    return [
        f'val_check_interval={name}.get("max_steps")',
        f'check_val_every_n_epoch={name}.get("max_epochs")',
    ]


def _lacks_period(given: dict[str, cst.BaseExpression]) -> bool:
    period = given.get(_PERIOD)
    return period is None or syntax.code(period) == "None"
