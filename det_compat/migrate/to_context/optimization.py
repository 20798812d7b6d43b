"""What went with a step before the context API: clipping of gradients, and LR schedulers.

Callbacks and hyperparameters clipped; ``create_lr_scheduler`` returned a wrapper of Determined's.
"""

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.config.hyperparameters import Const
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import File
from det_compat.migrate.tree.marks import comment, marked

_Node = TypeVar("_Node", bound=cst.CSTNode)
_CALLBACKS = {
    "det_compat.pytorch.ClipGradsL2Norm": "clip_grad_norm_",
    "det_compat.pytorch.ClipGradsL2Value": "clip_grad_value_",
}
#: What is said of callbacks that clip, and where more of it stands.
NOT_CALLED = (
    "Determined has not called what clips here since 0.12.13, Lightning does; "
    "clip_grads of step_optimizer is given the parameters",
    "MIGRATION.md#determined-012",
)
_BOTH = (
    "Determined 0.12 clipped by callbacks, and by hyperparameters only where there were none: "
    "this may clip by both"
)
#: The hook by which callbacks of 0.12 clipped.
HOOK = "on_before_optimizer_step"
_SCHEDULER = "det_compat.pytorch.LRScheduler"
_INDENT = " " * 4
_HPARAMS = {"clip_grad_l2_norm": "clip_grad_norm_", "clip_grad_val": "clip_grad_value_"}


def clipping(
    build_callbacks: cst.FunctionDef | None,
    hparams: Sequence[Mapping[str, Any]],
    context: str,
    file: File,
) -> str:
    """``clip_grads`` in the place of a callback or hyperparameter that clips; ``""`` if none does.

    Args:
        build_callbacks: the trial's method.
        hparams: those of each experiment config of the trial.
        context: the expression that is the context in ``train_batch``.
        file: gets the import that the expression needs.
    """
    for element in _entries(build_callbacks, file):
        made = ensure_type(element.value, cst.Call)
        value = _value(build_callbacks, made)
        return _clip(_CALLBACKS[file.symbols.path(made.func) or ""], syntax.code(value), file)
    chosen, own = "", ""
    if build_callbacks is not None and _clipping_calls(build_callbacks, file):
        own = syntax.code(build_callbacks)
    for name, function in _HPARAMS.items():
        if name in own:
            # A callback clips by it, beside which Determined did not.
            continue
        has = [each.get(name) not in (None, Const(None)) for each in hparams]
        if not any(has):
            continue
        clip = _clip(function, f'{context}.get_hparam("{name}")', file)
        if all(has):
            return f"{chosen}{clip}"
        # Only some of the configs clip.
        chosen += f'({clip}) if {context}.get_hparams().get("{name}") is not None else '
    return chosen and f"{chosen}None"


def hparams_in_code(texts: Collection[bytes]) -> Iterator[dict[str, Any]]:
    """The hyperparameters that scripts give trials, so far as they tell how gradients are clipped.

    A script that starts experiments has configs of its own, which clip by what is written in it or
    in a file that it imports.
    """
    if any(_STARTS.search(text) for text in texts):
        yield {}
        for name in _HPARAMS:
            if any(_written(name).search(text) for text in texts):
                yield {name: Const(1.0)}


#: What starts an experiment, or hands hyperparameters to a trial.
_STARTS = re.compile(
    rb"\bExperiment\(|\bpytorch\.init\(|\bcreate_experiment\(|(?s:\bexperimental\b.*\bcreate\()"
)


@cache
def _written(name: str) -> re.Pattern[bytes]:
    """What gives a hyperparameter a value, as a key, by name, or as an item."""
    return re.compile(rf"""["']{name}["']\]?\s*[:=,)](?!=)|\b{name}\s*=(?!=)""".encode())


def _clipping_calls(build: cst.FunctionDef, file: File) -> list[cst.Call]:
    """What makes callbacks that clip in ``build_callbacks``."""
    calls = syntax.find(build.body, cst.Call)
    return [call for call in calls if file.symbols.path(call.func) in _CALLBACKS]


def clips_by_hparams(hparams: Iterable[Mapping[str, Any]]) -> bool:
    """Whether some of these hyperparameters clip gradients."""
    return any(each.get(name) not in (None, Const(None)) for each in hparams for name in _HPARAMS)


def _clip(function: str, value: str, file: File) -> str:
    file.imports.new.add("import torch")
    return f"lambda params: torch.nn.utils.{function}(params, {value})"


def _entries(build: cst.FunctionDef | None, file: File) -> list[cst.DictElement]:
    """The callback that clips, if there is one that the method makes in any case."""
    if build is None or len(syntax.returns(build)) > 1:
        return []
    smalls = map(syntax.simple, syntax.body_of(build))
    made = [each.value for each in smalls if isinstance(each, (cst.Assign, cst.Return))]
    own = syntax.local_names(build)
    found = [
        element
        for each in made
        if isinstance(each, cst.Dict)
        for element in each.elements
        if isinstance(element, cst.DictElement)
        and isinstance(element.value, cst.Call)
        and file.symbols.path(element.value.func) in _CALLBACKS
        and element.value.args
        and not syntax.names_in(_value(build, element.value)) & own
    ]
    # Of several, each clips what the one before has left, which one ``clip_grads`` does not say.
    return found if len(found) == 1 else []


def _value(build: cst.FunctionDef | None, made: cst.Call) -> cst.BaseExpression:
    """What a callback clips to."""
    value = made.args[0].value
    known = _locals(build).get(syntax.code(value))
    return syntax.expression(known) if known else value


def _locals(build: cst.FunctionDef | None) -> dict[str, str]:
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


def clipping_method(
    name: str, build: cst.FunctionDef | None, said: str, file: File
) -> cst.FunctionDef:
    """The method by which a class clips what the class that trains steps with.

    Args:
        name: of the method.
        build: its ``build_callbacks``, if it has one.
        said: the comment of a class that does not clip.
        file: gets the import that the method needs.
    """
    entries = _entries(build, file)
    if build is None or not entries:
        return syntax.method(f"def {name}(self, params):\n    # {said}\n    pass\n")
    made = ensure_type(entries[0].value, cst.Call)
    function = _CALLBACKS[file.symbols.path(made.func) or ""]
    value = syntax.replaced(_value(build, made), syntax.self_name(build), "self")
    file.imports.new.add("import torch")
    line = f"torch.nn.utils.{function}(params, {syntax.code(value)})"
    return syntax.method(f"def {name}(self, params):\n    {line}\n")


def may_clip(text: bytes) -> bool:
    """Whether there may be something in a file that clips as callbacks of 0.12 did."""
    return b"ClipGradsL2" in text or HOOK.encode() in text


def with_words_of_clipping(tree: cst.Module, file: File) -> cst.Module:
    """A file of older trials alone that says of all that still clips in it that nothing calls it.

    On the way to Lightning, which calls it, as Determined did for these trials, the word goes.
    """

    def clips(node: cst.CSTNode) -> bool:
        if isinstance(node, cst.FunctionDef) and node.name.value == HOOK:
            return True
        if isinstance(node, cst.ClassDef):
            return any(file.symbols.path(base.value) in _CALLBACKS for base in node.bases)
        calls = (each.func for each in syntax.find(node, cst.Call))
        return any(file.symbols.path(func) in _CALLBACKS for func in calls)

    def said(node: _Node) -> _Node:
        is_said = comment(*NOT_CALLED) in syntax.code(node)
        return marked(node, *NOT_CALLED) if clips(node) and not is_said else node

    tree = syntax.each(tree, cst.FunctionDef, said)
    tree = syntax.each(tree, cst.ClassDef, said)
    return tree.with_changes(
        body=[said(each) if syntax.simple(each) is not None else each for each in tree.body]
    )


def without_clipping(
    build: cst.FunctionDef, file: File, *, is_kept: bool, by_hparams: bool
) -> cst.FunctionDef | None:
    """The method ``build_callbacks`` without what clips, unless that is kept.

    None if it would build nothing. ``by_hparams`` is whether the trial clips beside callbacks.
    """
    said = (_BOTH, NOT_CALLED[1]) if by_hparams else NOT_CALLED
    entries = [] if is_kept else _entries(build, file)
    if not entries:
        return marked(build, *said) if _clipping_calls(build, file) else build
    lines = [_without(line, entries) for line in syntax.body_of(build)]
    used: set[str] = set()
    for line in lines:
        used |= set() if isinstance(syntax.simple(line), cst.Assign) else syntax.names_in(line)
    kept = [line for line in lines if not _is_idle(line, used)]
    only = syntax.simple(kept[0]) if len(kept) == 1 else None
    if isinstance(only, cst.Return) and only.value is not None and syntax.code(only.value) == "{}":
        return None
    return syntax.with_body(build, kept)


def _without(line: cst.BaseStatement, entries: list[cst.DictElement]) -> cst.BaseStatement:
    for found in syntax.find(line, cst.Dict):
        rest = [element for element in found.elements if element not in entries]
        if len(rest) == len(found.elements):
            continue
        rest[-1:] = syntax.without_commas(rest[-1:])
        left = found.with_changes(elements=rest) if rest else cst.Dict([])
        return syntax.with_node(line, found, left)
    return line


def _is_idle(line: cst.BaseStatement, used: set[str]) -> bool:
    small = syntax.simple(line)
    return isinstance(small, cst.Assign) and syntax.code(small.targets[0].target) not in used


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
    known = _locals(create)
    for _ in known:
        for name in syntax.names_in(mode) & known.keys():
            mode = syntax.replaced(mode, name, known[name])
    # The scheduler is wrapped in another method, which has none of the variables of this one.
    if syntax.names_in(mode) & (syntax.local_names(create) - {syntax.self_name(create)}):
        return None
    return f"step_mode={syntax.code(mode)}"


def _with_variables(node: _Node, create: cst.FunctionDef, file: File) -> _Node:
    """What has variables of a method that are known to stand for something, with these again."""
    known = _locals(create)
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
    known = _locals(create)
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
