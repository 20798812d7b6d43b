"""Methods that make loaders, and that cannot be called twice.

Determined called each of them once; Lightning does it for each ``fit()``, and where it looks for a
learning rate or a batch size.
"""

import re
from collections.abc import Mapping

import libcst as cst
from libcst import ensure_type

from det_compat.migrate.shapes.values import assigned
from det_compat.migrate.to_lightning.data.loaders import NAMES
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above, comments_of

_SAID = cst.EmptyLine(comment=cst.Comment("# another fit() does this to the same data once more"))
_ADDING = ("append", "extend", "insert")


def once(node: cst.ClassDef, texts: Mapping[str, str]) -> cst.ClassDef:
    """A trial that wraps no data twice which it keeps, or says where it would.

    Args:
        node: the class.
        texts: the functions and classes of the project, by name.
    """
    own = syntax.methods(node)
    made = {name: _once(own[name], node, texts) for name in NAMES if name in own}
    lines = [
        made.get(line.name.value, line) if isinstance(line, cst.FunctionDef) else line
        for line in syntax.body_of(node)
    ]
    return syntax.with_body(node, lines) if made else node


def _once(method: cst.FunctionDef, node: cst.ClassDef, texts: Mapping[str, str]) -> cst.FunctionDef:
    known = assigned(method)
    body: list[cst.BaseStatement] = []
    for line in syntax.body_of(method):
        small, target = syntax.simple(line), syntax.target_of(line) or ""
        value = getattr(small, "value", None)
        made = known.get(syntax.code(value)) if isinstance(value, cst.Name) else value
        call = syntax.lone_call(line)
        is_added = call is not None and _adds(call, method)
        if not is_added and not _wraps(made, target, method, texts):
            body.append(line)
        elif made is value and isinstance(made, cst.Call) and _is_new(made, node, texts):
            test = f"if not isinstance({target}, {syntax.code(made.func)}):\n    {target} = 0\n"
            guarded = ensure_type(syntax.statement(test), cst.If)
            plain = line.with_changes(leading_lines=[])
            body.append(above(syntax.with_body(guarded, [plain]), comments_of(line)))
        else:
            body.append(above(line, [_SAID]))
    is_same = all(a is b for a, b in zip(body, syntax.body_of(method), strict=True))
    return method if is_same else syntax.with_body(method, body)


def _wraps(
    value: cst.BaseExpression | None,
    target: str,
    method: cst.FunctionDef,
    texts: Mapping[str, str],
) -> bool:
    """Whether a statement keeps an object of a class with what the attribute was in it."""
    is_own = target.startswith(f"{syntax.self_name(method)}.")
    if not is_own or not isinstance(value, cst.Call):
        return False
    is_class = texts.get(_name(value), "").lstrip().startswith(("class ", "@"))
    is_class |= _name(value) in _LIBRARY
    return is_class and any(syntax.code(arg.value) == target for arg in value.args)


_LIBRARY = ("Subset", "ConcatDataset", "ChainDataset", "StackDataset")


def _adds(call: cst.Call, method: cst.FunctionDef) -> bool:
    """Whether a call adds something to a list which is not made anew in the same method."""
    owner, _, name = syntax.code(call.func).rpartition(".")
    if name not in _ADDING or not owner.startswith(f"{syntax.self_name(method)}."):
        return False
    return owner not in {syntax.code(t.target) for t in syntax.find(method, cst.AssignTarget)}


def _is_new(call: cst.Call, node: cst.ClassDef, texts: Mapping[str, str]) -> bool:
    """Whether nothing but one call in the project makes objects of a class."""
    called = re.compile(rf"\b{re.escape(_name(call))}\(")
    others = [text for name, text in texts.items() if name not in (_name(call), node.name.value)]
    is_own = _name(call) in texts and isinstance(call.func, cst.Name)
    once = len(called.findall(syntax.code(node))) == 1
    return is_own and once and not any(map(called.search, others))


def _name(call: cst.Call) -> str:
    return syntax.code(call.func).rpartition(".")[2]
