"""When Determined stepped an LR scheduler."""

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols

STEP_MODE = "det_compat.pytorch.LRScheduler.StepMode"
#: Lightning's interval of each step mode that has one.
INTERVALS = {
    "STEP_EVERY_EPOCH": "epoch",
    "STEP_EVERY_BATCH": "step",
    "STEP_EVERY_OPTIMIZER_STEP": "step",
}


def step_mode(node: cst.BaseExpression | None, symbols: Symbols) -> str:
    """The name of Determined's step mode that an expression is; ``""`` if it is none."""
    path = symbols.path(node) or ""
    return path.removeprefix(f"{STEP_MODE}.") if path.startswith(f"{STEP_MODE}.") else ""


def choices(node: cst.BaseExpression, symbols: Symbols) -> list[tuple[str, str]]:
    """The intervals of ``A if a else B``, with their conditions; none if one of them is unknown."""
    found: list[tuple[str, str]] = []
    before: list[str] = []
    while isinstance(node, cst.IfExp):
        # What a condition needs must be there where the scheduler is stepped.
        names = {name for name in syntax.names_in(node.test) if not name.startswith("__det_")}
        if not names <= {"self"} or not step_mode(node.body, symbols):
            return []
        test = syntax.code(node.test)
        interval = INTERVALS.get(step_mode(node.body, symbols))
        found += [(interval, " and ".join([*before, test]))] if interval else []
        before.append(f"not {test}")
        node = node.orelse
    if not (mode := step_mode(node, symbols)):
        return []
    interval = INTERVALS.get(mode)
    return [*found, (interval, " and ".join(before))] if interval else found


def kept_mode(attribute: str) -> str:
    """The attribute that keeps the name of a step mode which is known at run time."""
    return f"{attribute}_step_mode"


def kept_choices(attribute: str) -> tuple[tuple[str, str], ...]:
    """The intervals of a scheduler whose step mode is kept, with their conditions."""
    found: dict[str, list[str]] = {}
    for mode, interval in INTERVALS.items():
        found.setdefault(interval, []).append(f'"{mode}"')
    mode = f"self.{kept_mode(attribute)}"
    return tuple(
        (
            interval,
            f"{mode} == {names[0]}" if len(names) == 1 else f"{mode} in ({', '.join(names)})",
        )
        for interval, names in found.items()
    )
