"""Lists of optimizers, schedulers, models and reducers that only some configs make.

The hooks of a module go through them. Determined kept such objects by itself, whatever a trial had.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.trial_attributes import reachable

_ASKED = re.compile(r"attr\([^()]*,\s*[\"'](\w+)[\"']")
_BEFORE = ("save_hyperparameters", "super().__init__", "automatic_optimization")


def with_empty_lists(
    body: Sequence[cst.BaseStatement], kept: Iterable[str], texts: Iterable[str]
) -> list[cst.BaseStatement]:
    """The lines of a module whose ``__init__`` has the lists that it may not come to, empty.

    Args:
        body: the lines.
        kept: the attributes with such objects; those of which several are in it have a star.
        texts: the code that may ask whether an attribute is there.
    """
    own = {line.name.value: line for line in body if isinstance(line, cst.FunctionDef)}
    init = own.get("__init__")
    if init is None:
        return [*body]
    own_name = syntax.self_name(init)
    paths = dict.fromkeys(each.removeprefix("*") for each in kept if each.startswith("*"))
    # A dict is gone through by its values.
    names = [path.partition(".")[0] for path in paths]
    set_early = {
        target
        for name in reachable(own, "__init__")
        for line in syntax.find(own[name], cst.SimpleStatementLine)
        if (target := syntax.target_of(line))
    }
    asked = {name for text in texts for name in _ASKED.findall(text)}
    missing = [
        f"{own_name}.{name} = {'{}' if f'{name}.values()' in paths else '[]'}"
        for name in dict.fromkeys(names)
        if name not in asked
        and f"{own_name}.{name}" in set_early
        and not is_set(syntax.body_of(init), f"{own_name}.{name}", own)
    ]
    if not missing:
        return [*body]
    lines = syntax.body_of(init)
    above = [at for at, line in enumerate(lines) if any(n in syntax.code(line) for n in _BEFORE)]
    at = max(above, default=-1) + 1
    made = syntax.with_body(
        init, [*lines[:at], *syntax.statements("\n".join([*missing, ""])), *lines[at:]]
    )
    return [made if line is init else line for line in body]


def is_set(
    lines: Iterable[cst.BaseStatement],
    target: str,
    own: Mapping[str, cst.FunctionDef],
    above: tuple[str, ...] = (),
) -> bool:
    """Whether lines that run one after the other are sure to set something."""
    for line in lines:
        if syntax.target_of(line) == target:
            return True
        if isinstance(line, cst.With) and is_set(syntax.body_of(line), target, own, above):
            return True
        if isinstance(line, cst.If) and all(
            is_set(part, target, own, above) for part in _branches(line)
        ):
            return True
        call = syntax.call_of(line)
        owner, _, name = syntax.code(call.func).rpartition(".") if call is not None else ("",) * 3
        if (
            name in own
            and name not in above
            and owner == target.partition(".")[0]
            and is_set(syntax.body_of(own[name]), target, own, (*above, name))
        ):
            return True
        if any(syntax.find(line, cst.Return)):
            return False
    return False


def _branches(node: cst.If) -> Iterator[Sequence[cst.BaseStatement]]:
    """The lines of each branch; none for the one that is not there."""
    yield syntax.body_of(node)
    if isinstance(node.orelse, cst.If):
        yield from _branches(node.orelse)
    else:
        yield syntax.body_of(node.orelse) if node.orelse is not None else ()
