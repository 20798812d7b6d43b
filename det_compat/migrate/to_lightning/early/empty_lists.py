"""Lists of optimizers, schedulers, models and reducers that only some configs make.

The hooks of a module go through them. Determined kept such objects by itself, whatever a trial had.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import libcst as cst

from det_compat.migrate.to_lightning.moving.surely import is_set
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.trial_attributes import reachable

_ASKED = re.compile(r"attr\([^()]*,\s*[\"'](\w+)[\"']")
_BEFORE = ("save_hyperparameters", "super().__init__", "automatic_optimization")


def with_empty_lists(
    body: Sequence[cst.BaseStatement],
    kept: Iterable[str],
    node: cst.ClassDef,
    texts: Mapping[str, str],
) -> list[cst.BaseStatement]:
    """The lines of a module whose ``__init__`` has the lists that it may not come to, empty.

    Args:
        body: the lines.
        kept: the attributes with such objects; those of which several are in it have a star.
        node: the class as it was, which may ask whether an attribute is there.
        texts: the code that may, too.
    """
    own = {line.name.value: line for line in body if isinstance(line, cst.FunctionDef)}
    init = own.get("__init__")
    paths = dict.fromkeys(each.removeprefix("*") for each in kept if each.startswith("*"))
    if init is None or not paths:
        return [*body]
    own_name = syntax.self_name(init)
    # A dict is gone through by its values.
    names = [path.partition(".")[0] for path in paths]
    set_early = {
        target
        for name in reachable(own, "__init__")
        for line in syntax.find(own[name], cst.SimpleStatementLine)
        if (target := syntax.target_of(line))
    }
    asking = (syntax.code(node), *texts.values())
    asked = {name for text in asking for name in _ASKED.findall(text)}
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
