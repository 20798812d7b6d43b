"""LR schedulers before the context API: ``create_lr_scheduler`` returned them wrapped."""

import ast
from collections.abc import Iterator, Sequence
from typing import TypeVar

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import File

_Node = TypeVar("_Node", bound=cst.CSTNode)
_SCHEDULER = "det_compat.pytorch.LRScheduler"
_INDENT = " " * 4


def locals_of(build: cst.FunctionDef | None) -> dict[str, str]:
    """What the variables of a method stand for, where one expression says so."""
    found: dict[str, str] = {}
    if build is None:
        return found
    stores = [syntax.code(each.target) for each in syntax.find(build.body, cst.AssignTarget)]
    for line in syntax.body_of(build):
        small, (name, options) = syntax.simple(line), _chosen(line)
        if isinstance(small, cst.Assign):
            name = syntax.code(small.targets[0].target)
            found[name] = syntax.code(small.value)
            stores.remove(name)
        elif name in found:
            found[name] = _choice(options, found[name])
            for _ in options:
                stores.remove(name)
    # One that is set in another way, too, may be anything.
    return {name: value for name, value in found.items() if name not in stores}


def _chosen(line: cst.BaseStatement | cst.Else | None) -> tuple[str, list[tuple[str, str]]]:
    """The variable that an ``if`` sets, and no more, and the values with their conditions."""
    name, options = "", list[tuple[str, str]]()
    while isinstance(line, cst.If):
        only = line.body.body[0] if len(line.body.body) == 1 else None
        small = syntax.simple(only) if isinstance(only, cst.SimpleStatementLine) else None
        target = syntax.target_of(only) if only is not None else None
        if not isinstance(small, cst.Assign) or not target or name not in ("", target):
            return "", []
        options.append((syntax.code(line.test), syntax.code(small.value)))
        name, line = target, line.orelse
    return (name, options) if line is None else ("", [])


def step_mode(create: cst.FunctionDef | None, file: File) -> str | None:
    """How the scheduler is wrapped; ``""`` if there is none, None if that is not known."""
    if create is None:
        return ""
    made = _wrapper(create, file)
    if made is None:
        return None
    given = _mode(made)
    if given is None:
        return None
    mode = _with_variables(given, create, file)
    known = locals_of(create)
    for _ in known:
        for name in syntax.names_in(mode) & known.keys():
            mode = syntax.replaced(mode, name, known[name])
    # The scheduler is wrapped in another method, which has none of the variables of this one.
    if syntax.names_in(mode) & (syntax.local_names(create) - {syntax.self_name(create)}):
        return None
    return f"step_mode={syntax.code(mode)}"


def _with_variables(node: _Node, create: cst.FunctionDef, file: File) -> _Node:
    """What has variables of a method that are known to stand for something, with these again."""
    known = locals_of(create)
    for name in syntax.find(node, cst.Name):
        symbol = file.symbols.get(name)
        if symbol is not None and syntax.code(symbol.original) in known:
            node = syntax.replaced(node, name.value, syntax.code(symbol.original))
    return node


#: The flags of wrappers, of which the later is asked first.
_FLAGS = ("step_every_epoch", "step_every_batch")


def _early_mode(made: cst.Call) -> str:
    """The step mode of a wrapper of PEDL's, which had a flag for each."""
    modes = f"{syntax.code(made.func)}.StepMode"
    default, options = f"{modes}.MANUAL_STEP", list[tuple[str, str]]()
    for keyword, name in zip(_FLAGS, ("EPOCH", "BATCH"), strict=True):
        given = syntax.argument(made, 9, keyword)
        condition = "False" if given is None else syntax.code(given)
        if condition == "True":
            default, options = f"{modes}.STEP_EVERY_{name}", []
        elif condition != "False":
            options.insert(0, (condition, f"{modes}.STEP_EVERY_{name}"))
    return _choice(options, default)


def _choice(options: Sequence[tuple[str, str]], default: str) -> str:
    """The expression of the first of some values whose condition holds."""
    lines = [*(f"{value} if {condition}" for condition, value in options), default]
    if len(lines) == 1:
        return default
    # An expression of several lines stands below the argument's name, in the body of a method.
    inner = "".join(f"\n{_INDENT * 2}{'else ' * (i > 0)}{line}" for i, line in enumerate(lines))
    return f"({inner}\n{_INDENT})"


def _wrapper(create: cst.FunctionDef, file: File) -> cst.Call | None:
    """The one call that wraps the scheduler, if the method returns what it makes."""
    body = syntax.body_of(create)
    returns = syntax.returns(create)
    made = _wrappers(create, file)
    if len(returns) != 1 or len(made) != 1 or returns[0].value is None:
        return None
    if returns[0].value is made[0]:
        return made[0]
    targets = {syntax.target_of(line) for line in body if syntax.call_of(line) is made[0]}
    return made[0] if syntax.code(returns[0].value) in targets else None


def makes_none(create: cst.FunctionDef) -> bool:
    """Whether the method makes no scheduler, whatever it does else."""
    given = [found.value for found in syntax.returns(create)]
    return all(value is None or syntax.code(value) == "None" for value in given)


def is_wrapped(create: cst.FunctionDef, file: File) -> bool:
    """Whether all that the method returns is what it wraps, or None."""
    known = locals_of(create)
    values = (found.value for found in syntax.returns(create))
    texts = [known.get(syntax.code(v), syntax.code(v)) for v in values if v is not None]
    calls = _wrappers(create, file)
    made = {syntax.code(call) for call in calls if syntax.argument(call, 0, "scheduler")}
    are_known = None not in map(_mode, calls) and len(made) == len(calls) > 0
    return are_known and all(text == "None" or text in made for text in texts)


def _wrappers(create: cst.FunctionDef, file: File) -> list[cst.Call]:
    calls = syntax.find(create.body, cst.Call)
    return [call for call in calls if file.symbols.path(call.func) == _SCHEDULER]


def _mode(made: cst.Call) -> cst.BaseExpression | None:
    """The step mode that a wrapper is given; None if it is in what is only known at run time."""
    if any(arg.star for arg in made.args):
        return None
    return syntax.argument(made, 1, "step_mode") or syntax.expression(_early_mode(made))


def spread_wrappers(node: cst.ClassDef, file: File) -> cst.ClassDef:
    """The class whose wrappers of schedulers are given by name what was in a dict."""

    def spread(call: cst.Call) -> cst.Call:
        is_wrapper = file.symbols.path(call.func) == _SCHEDULER
        if not is_wrapper or not any(arg.star for arg in call.args):
            return call
        return _with_flags(_spread(call), file)

    return syntax.each(node, cst.Call, spread)


def _spread(made: cst.Call) -> cst.Call:
    """A wrapper whose arguments are by name, where they were in a dict that is written out.

    The name of a flag may be an expression itself.
    """
    args: list[cst.Arg] = []
    for arg in made.args:
        pairs = [*_pairs(arg.value)] if arg.star == "**" else []
        if not pairs:
            args.append(arg)
        plain = {name: value for name, value in pairs if isinstance(name, str)}
        chosen = [(syntax.code(name), value) for name, value in pairs if not isinstance(name, str)]
        for flag in _FLAGS if chosen else ():
            texts = [f'{name} == "{flag}"' for name, _ in chosen]
            known = [plain.pop(flag)] if flag in plain else []
            plain[flag] = syntax.expression(" or ".join([*texts, *map(syntax.code, known)]))
        args += [
            cst.Arg(value, cst.Name(name), equal=syntax.EQUAL) for name, value in plain.items()
        ]
    return made.with_changes(args=syntax.without_commas(args))


#: What is asked for a value, and does nothing else.
_ASKING = ("get", "get_hparam", "get_hyperparameter")


def _with_flags(made: cst.Call, file: File) -> cst.Call:
    """A wrapper that is asked for each flag what a dict has for it, which only a run tells."""
    spread = [arg for arg in made.args if arg.star == "**"]
    named = {each for tree in file.elsewhere.trees for each in _words(tree)}
    if len(spread) != 1 or "step_mode" in named or named.isdisjoint(_FLAGS):
        return made
    options = spread[0].value
    calls = (syntax.code(call.func).rpartition(".")[2] for call in syntax.find(options, cst.Call))
    kinds = (cst.Name, cst.Attribute, cst.Subscript)
    if not isinstance(options, kinds) or not all(name in _ASKING for name in calls):
        return made
    args = [arg for arg in made.args if arg is not spread[0]]
    given = {arg.keyword.value for arg in args if arg.keyword is not None}
    for flag in _FLAGS:
        if flag not in given:
            value = syntax.expression(f'{syntax.code(options)}.get("{flag}")')
            args.append(cst.Arg(value, cst.Name(flag), equal=syntax.EQUAL))
    return made.with_changes(args=syntax.without_commas(args))


def _words(tree: ast.Module) -> Iterator[str]:
    """What a file has as a text, or gives something by name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.keyword) and node.arg is not None:
            yield node.arg


def _pairs(
    node: cst.BaseExpression,
) -> Iterator[tuple[cst.BaseExpression | str, cst.BaseExpression]]:
    """The names and values of a dict that is written out; none if some are only known at run time.

    A name is text where that is what stands there; one that is computed has a flag that is True.
    """
    elements = node.elements if isinstance(node, cst.Dict) else ()
    found = [e for e in elements if isinstance(e, cst.DictElement)]
    keys = [
        str(e.key.evaluated_value) if isinstance(e.key, cst.SimpleString) else e.key for e in found
    ]
    are_known = all(
        isinstance(k, str) or syntax.code(e.value) == "True"
        for k, e in zip(keys, found, strict=True)
    )
    if len(found) == len(elements) and are_known:
        yield from ((key, e.value) for key, e in zip(keys, found, strict=True))


def with_plain_scheduler(create: cst.FunctionDef, file: File, *, is_apart: bool) -> cst.FunctionDef:
    """The method ``create_lr_scheduler`` that returns torch's scheduler itself.

    One that wraps it in a way of its own asks the context to, and one ``is_apart``, in another
    class than what calls it.
    """
    is_plain = not is_apart and step_mode(create, file) is not None
    made = _wrapper(create, file) if is_plain else None
    scheduler = syntax.argument(made, 0, "scheduler") if made is not None else None
    if made is None or scheduler is None:
        wrap = f"{syntax.self_name(create)}.context.wrap_lr_scheduler"

        def wrapped(call: cst.Call) -> cst.Call:
            if file.symbols.path(call.func) != _SCHEDULER:
                return call
            plain = syntax.argument(call, 0, "scheduler")
            mode = _mode(call)
            if plain is None or mode is None:
                return call.with_changes(func=syntax.expression(wrap))
            given = [cst.Arg(plain), cst.Arg(mode, cst.Name("step_mode"), equal=syntax.EQUAL)]
            return call.with_changes(func=syntax.expression(wrap), args=given)

        return syntax.each(create, cst.Call, wrapped).with_changes(returns=None)
    lines: list[cst.BaseStatement] = []
    for line in syntax.body_of(create):
        changed = syntax.with_node(line, made, scheduler)
        if not syntax.is_idle(changed):
            lines.append(changed)
    # What says when to step has been written where the scheduler is wrapped.
    modes = {
        name
        for arg in made.args
        if arg.value is not scheduler
        for name in syntax.names_in(_with_variables(arg, create, file))
    }
    for name in modes:
        rest = [line for line in lines if name not in (syntax.target_of(line), _chosen(line)[0])]
        if not any(name in syntax.names_in(line) for line in rest):
            lines = rest
    return syntax.with_body(create, lines).with_changes(returns=None)
