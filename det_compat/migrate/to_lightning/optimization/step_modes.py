"""When Determined stepped an LR scheduler."""

from collections.abc import Collection, Sequence

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
        is_open = isinstance(node.test, (cst.BooleanOperation, cst.IfExp, cst.Lambda))
        test = f"({syntax.code(node.test)})" if is_open else syntax.code(node.test)
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


def hand_modes_on(files: Sequence[tuple[cst.Module, Symbols]]) -> list[cst.Module]:
    """The trees of files in which functions return, beside a scheduler, the step mode it has.

    ``self.sched = make(context)`` says no more when it steps once ``make`` wraps nothing, where
    that is in a variable of this function.
    """
    trees = [tree for tree, _ in files]
    known = {
        line.name.value
        for tree, symbols in files
        for line in tree.body
        if isinstance(line, cst.FunctionDef) and _local_mode(line, symbols)
    }
    if not known:
        return trees
    functions = [each for tree in trees for each in syntax.find(tree, cst.FunctionDef)]
    defined = [each.name.value for each in functions]
    lines = [line for tree in trees for line in syntax.find(tree, cst.SimpleStatementLine)]
    kept = [_called(line) for line in lines if (syntax.target_of(line) or "").startswith("self.")]
    calls = [_last(call) for tree in trees for call in syntax.find(tree, cst.Call)]
    known = {n for n in known if defined.count(n) == 1 and 0 < calls.count(n) == kept.count(n)}
    return [_handing_on(tree, symbols, known) for tree, symbols in files]


def _last(call: cst.Call) -> str:
    return syntax.code(call.func).rpartition(".")[2]


def _called(line: cst.CSTNode) -> str:
    call = syntax.call_of(line)
    return "" if call is None else _last(call)


def _local_mode(function: cst.FunctionDef, symbols: Symbols) -> str:
    """The variable of a function that has the step mode of the one scheduler it returns wrapped."""
    last = syntax.body_of(function)[-1]
    call = syntax.call_of(last) if isinstance(syntax.simple(last), cst.Return) else None
    mode = syntax.argument(call, 1, "step_mode") if call is not None else None
    if not isinstance(mode, cst.Name):
        return ""
    wraps = symbols.calls(function, "wrap_lr_scheduler", "wrap_optimizer", "wrap_model")
    returns = syntax.returns(function)
    if wraps != [call] or not all(_is_none(each) for each in returns if each.value is not call):
        return ""
    targets = [syntax.code(each.target) for each in syntax.find(function.body, cst.AssignTarget)]
    lines = syntax.find(function.body, cst.Assign)
    chosen = [line for line in lines if isinstance(line.value, cst.IfExp)]
    is_chosen = any(syntax.code(line.targets[0].target) == mode.value for line in chosen)
    return mode.value if is_chosen or targets.count(mode.value) > 1 else ""


def _is_none(line: cst.Return) -> bool:
    return line.value is None or syntax.code(line.value) == "None"


def _handing_on(tree: cst.Module, symbols: Symbols, known: Collection[str]) -> cst.Module:
    def returning(function: cst.FunctionDef) -> cst.FunctionDef:
        mode = _local_mode(function, symbols) if function.name.value in known else ""
        if not mode:
            return function

        def beside(each: cst.Return) -> cst.Return:
            value = each.value or cst.Name("None")
            own = cst.Name("None" if _is_none(each) else mode)
            return cst.Return(cst.Tuple([*map(cst.Element, (value, own))], lpar=[], rpar=[]))

        return syntax.each(function, cst.Return, beside)

    def keeping(line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
        small, name = syntax.simple(line), syntax.target_of(line) or ""
        if _called(line) not in known or not isinstance(small, cst.Assign):
            return line
        targets = [syntax.expression(each) for each in (name, kept_mode(name))]
        both = cst.Tuple([*map(cst.Element, targets)], lpar=[], rpar=[])
        return line.with_changes(body=[syntax.assignment(both, small.value)])

    made = syntax.each(tree, cst.FunctionDef, returning)
    return syntax.each(made, cst.SimpleStatementLine, keeping)
