"""When Determined stepped an LR scheduler."""

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols

_STEP_MODES = "det_compat.pytorch.LRScheduler.StepMode."
#: Lightning's interval of each step mode that has one.
INTERVALS = {
    "STEP_EVERY_EPOCH": "epoch",
    "STEP_EVERY_BATCH": "step",
    "STEP_EVERY_OPTIMIZER_STEP": "step",
}


def step_mode(node: cst.BaseExpression | None, symbols: Symbols) -> str:
    """The name of Determined's step mode that an expression is; ``""`` if it is none."""
    path = symbols.path(node) or ""
    return path.removeprefix(_STEP_MODES) if path.startswith(_STEP_MODES) else ""


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
