"""When Determined stepped an LR scheduler."""

from collections.abc import Collection, Iterable, Sequence

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Lines
from det_compat.migrate.tree.marks import above
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


def chosen_interval(found: Sequence[tuple[str, str]], *, are_known: bool) -> str:
    """The expression of Lightning's interval; ``""`` where it may be none of the two.

    Args:
        found: the intervals, with their conditions.
        are_known: whether no mode that is looked up in a run may be another one.
    """
    if len(found) != 2:
        return ""
    (first, test), (second, other) = found
    is_either = other == f"not {test}" or are_known
    return f'"{first}" if {test} else "{second}"' if is_either and first != second else ""


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
        if isinstance(line, cst.FunctionDef) and _modes(line, symbols)
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


def _modes(function: cst.FunctionDef, symbols: Symbols) -> dict[cst.Return, cst.BaseExpression]:
    """The step modes of the schedulers that a function returns wrapped, if only that tells them."""
    returns = syntax.returns(function)
    found: dict[cst.Return, cst.BaseExpression] = {}
    for each in returns:
        call = each.value if isinstance(each.value, cst.Call) else None
        mode = syntax.argument(call, 1, "step_mode") if call is not None else None
        if symbols.method(call) == "wrap_lr_scheduler" and mode is not None:
            found[each] = mode
    wraps = symbols.calls(function, "wrap_lr_scheduler", "wrap_optimizer", "wrap_model")
    is_all = len(wraps) == len(found) and all(_is_none(r) for r in returns if r not in found)
    calls = any(True for mode in found.values() for _ in syntax.find(mode, cst.Call))
    if not is_all or calls or not _returns(function.body):
        return {}
    return (
        found
        if any(_is_local(mode, function) for mode in found.values())
        or len({*map(syntax.code, found.values())}) > 1
        else {}
    )


def _one_name(modes: Iterable[cst.BaseExpression], function: cst.FunctionDef) -> str:
    """The variable that has the step mode wherever a function returns."""
    texts = {syntax.code(mode) for mode in modes}
    if len(texts) == 1:
        return texts.pop()
    taken = syntax.names_in(function)
    return "step_mode" if "step_mode" not in taken else "scheduler_step_mode"


def _is_local(mode: cst.BaseExpression, function: cst.FunctionDef) -> bool:
    """Whether a step mode is one of several that a variable of a function has, or a parameter."""
    if not isinstance(mode, cst.Name):
        return False
    if any(param.name.value == mode.value for param in syntax.find(function.params, cst.Param)):
        return True
    targets = [syntax.code(each.target) for each in syntax.find(function.body, cst.AssignTarget)]
    lines = syntax.find(function.body, cst.Assign)
    chosen = [line for line in lines if isinstance(line.value, cst.IfExp)]
    is_chosen = any(syntax.code(line.targets[0].target) == mode.value for line in chosen)
    return is_chosen or targets.count(mode.value) > 1


def _returns(block: cst.BaseSuite) -> bool:
    """Whether a block of statements is sure to return something, or to raise."""
    last = block.body[-1]
    if isinstance(last, cst.If):
        otherwise = last.orelse
        inner = otherwise.body if isinstance(otherwise, cst.Else) else None
        if isinstance(otherwise, cst.If):
            inner = cst.IndentedBlock([otherwise])
        return inner is not None and _returns(last.body) and _returns(inner)
    small = syntax.simple(last) if isinstance(last, cst.BaseStatement) else last
    return isinstance(small, (cst.Return, cst.Raise))


def _is_none(line: cst.Return) -> bool:
    return line.value is None or syntax.code(line.value) == "None"


def _handing_on(tree: cst.Module, symbols: Symbols, known: Collection[str]) -> cst.Module:
    def returning(function: cst.FunctionDef) -> cst.FunctionDef:
        modes = _modes(function, symbols) if function.name.value in known else {}
        if not modes:
            return function

        name, own_returns = _one_name(modes.values(), function), syntax.returns(function)

        def beside(line: cst.SimpleStatementLine) -> Lines:
            small = line.body[-1]
            if not isinstance(small, cst.Return) or small not in own_returns:
                return line
            value, own = small.value or cst.Name("None"), modes.get(small)
            named = None if own is None or syntax.code(own) == name else cst.Name(name)
            if own is not None and named is not None:
                value = syntax.with_node(value, own, named)
            # Each node of a tree is one place in it.
            parts = [value, (named or own or cst.Name("None")).deep_clone()]
            both = cst.Return(cst.Tuple([*map(cst.Element, parts)], lpar=[], rpar=[]))
            made = line.with_changes(body=[*line.body[:-1], both])
            if own is None or named is None:
                return made
            first = cst.SimpleStatementLine([syntax.assignment(cst.Name(name), own)])
            return cst.FlattenSentinel(
                [above(first, made.leading_lines), made.with_changes(leading_lines=[])]
            )

        return syntax.each(function, cst.SimpleStatementLine, beside)

    def keeping(line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
        small, name = syntax.simple(line), syntax.target_of(line) or ""
        if _called(line) not in known or not isinstance(small, cst.Assign):
            return line
        targets = [syntax.expression(each) for each in (name, kept_mode(name))]
        both = cst.Tuple([*map(cst.Element, targets)], lpar=[], rpar=[])
        return line.with_changes(body=[syntax.assignment(both, small.value)])

    made = syntax.each(tree, cst.FunctionDef, returning)
    return syntax.each(made, cst.SimpleStatementLine, keeping)
