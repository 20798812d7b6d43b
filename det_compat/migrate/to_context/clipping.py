"""What clipped gradients before the context API: callbacks, and hyperparameters of some names."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.config.hyperparameters import Const
from det_compat.migrate.to_context.lr_schedulers import locals_of
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import File
from det_compat.migrate.tree.marks import comment, marked

_Node = TypeVar("_Node", bound=cst.CSTNode)
#: The callbacks that clip, each with the function of torch that does so.
CALLBACKS = {
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
        return _clip(CALLBACKS[file.symbols.path(made.func) or ""], syntax.code(value), file)
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
    return [call for call in calls if file.symbols.path(call.func) in CALLBACKS]


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
        and file.symbols.path(element.value.func) in CALLBACKS
        and element.value.args
        and not syntax.names_in(_value(build, element.value)) & own
    ]
    # Of several, each clips what the one before has left, which one ``clip_grads`` does not say.
    return found if len(found) == 1 else []


def _value(build: cst.FunctionDef | None, made: cst.Call) -> cst.BaseExpression:
    """What a callback clips to."""
    value = made.args[0].value
    known = locals_of(build).get(syntax.code(value))
    return syntax.expression(known) if known else value


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
    function = CALLBACKS[file.symbols.path(made.func) or ""]
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
            return any(file.symbols.path(base.value) in CALLBACKS for base in node.bases)
        calls = (each.func for each in syntax.find(node, cst.Call))
        return any(file.symbols.path(func) in CALLBACKS for func in calls)

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
