"""The function that a file gets whose metrics are not all numbers."""

import re
from collections.abc import Collection

import libcst as cst

from det_compat.migrate.tree import syntax

#: The function that a file gets whose metrics are not all numbers, and only known at run time.
NUMBERS_OF = """\
def numbers_of(metrics, reduction=None):
    \"""The metrics that are numbers: several are reduced to one, or get an index each.\"""
    found = {}
    metrics = metrics if isinstance(metrics, dict) else {"loss": metrics}
    for name, value in metrics.items():
        if isinstance(value, dict):
            inner = {f"{name}/{key}": part for key, part in value.items()}
            found.update(numbers_of(inner, reduction))
            continue
        if value is None or isinstance(value, str):
            continue
        values = torch.as_tensor(value).float().flatten()
        if len(values) == 1:
            found[name] = values.item()
        elif reduction is not None:
            found[name] = getattr(values, reduction)().item()
        else:
            numbers = enumerate(values.tolist())
            found.update({f"{name}_{index}": number for index, number in numbers})
    return found
"""


def numbers_of(metrics: str, reduction: str, odd: Collection[str]) -> str:
    """The expression of what can be logged of metrics, given what of them is known to be odd."""
    if not odd:
        return metrics
    return f'numbers_of({metrics}, "{reduction}")' if reduction else f"numbers_of({metrics})"


def numbers_definition(tree: cst.Module) -> str:
    """That function, as a file needs it: without the reduction that none of its calls asks for.

    Nor does its parameter hide what the file has imported or defined.
    """
    calls = [
        call for call in syntax.find(tree, cst.Call) if syntax.is_name(call.func, "numbers_of")
    ]
    made = NUMBERS_OF
    if all(syntax.argument(call, 1, "reduction") is None for call in calls):
        made = made.replace("are reduced to one, or get", "get").replace(_REDUCING, "")
        made = made.replace(", reduction", "").replace("=None", "")
    aliases = syntax.find(tree, cst.ImportAlias)
    taken = {each.evaluated_alias or each.evaluated_name.partition(".")[0] for each in aliases}
    taken |= {getattr(line, "name", cst.Name("_")).value for line in tree.body}
    name = next(name for name in ("metrics", "logged", "given") if name not in taken)
    return re.sub(r"\bmetrics\b(?! that)", name, made)


_REDUCING = """\
        elif reduction is not None:
            found[name] = getattr(values, reduction)().item()
"""


def with_numbers_of(tree: cst.Module) -> cst.Module:
    """The file with that function, if it calls it and has none."""
    there = {node.name.value for node in syntax.find(tree, cst.FunctionDef)}
    is_needed = "numbers_of" in syntax.names_in(tree) and "numbers_of" not in there
    return syntax.with_definition(tree, numbers_definition(tree)) if is_needed else tree
