"""Heirs of older trials with an ``__init__`` of their own.

Determined built the model when all of ``__init__`` had run, that of the heir, too. What an heir
sets behind ``super().__init__(context)`` stays there if nothing that builds needs it, and else
comes before.
"""

from collections.abc import Mapping, Sequence

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere

_BY_NAME = ("getattr", "hasattr", "vars", "operator.attrgetter")
_BUILDS = ("build_model", "optimizer", "create_lr_scheduler")


def is_super_init(line: cst.BaseStatement) -> bool:
    """Whether a statement is a call of the ``__init__`` of a base, and nothing else."""
    call = syntax.lone_call(line)
    func = "" if call is None else syntax.code(call.func)
    return func.startswith("super(") and "__init__" in func


def with_model_last(
    init: cst.FunctionDef, classes: Sequence[Mapping[str, cst.FunctionDef]], around: Elsewhere
) -> cst.FunctionDef | None:
    """An heir's ``__init__`` whose base builds the model at its end; None if that is too early.

    Args:
        init: of the heir.
        classes: the methods of the heir, and of each class that it derives from, in their order.
        around: the code of the project.
    """
    lines = [*syntax.body_of(init)]
    at = next((i for i, line in enumerate(lines) if is_super_init(line)), None)
    if at is None or any(syntax.find(init, cst.Return)):
        return None
    first, call, behind = lines[:at], lines[at], lines[at + 1 :]
    if not behind:
        return init
    own, texts = syntax.self_name(init), [*map(syntax.code, behind)]
    asked = {name for line in behind for name in _attributes(line, own)}
    methods = [each[name] for name in asked for each in classes if name in each]
    if any(_attributes(each, syntax.self_name(each), is_set=True) for each in methods):
        return None
    sets = {name for line in behind for name in _attributes(line, own, is_set=True)}
    draws = around.may_draw(texts)
    if not draws and not sets & _needed(classes):
        return init
    before = [each["__init__"] for each in classes[1:] if "__init__" in each]
    if draws and around.may_draw(map(syntax.code, before)):
        return None
    if any(sets & {*_attributes(each, syntax.self_name(each), is_set=True)} for each in before):
        return None
    context = next((p.name.value for p in init.params.params if "context" in p.name.value), None)
    if context is not None:
        behind = [syntax.replaced(line, f"{own}.context", context) for line in behind]
    known = {
        part.attr.value
        for line in (*first, *behind)
        for target in syntax.find(line, cst.AssignTarget)
        if isinstance(part := target.target, cst.Attribute) and syntax.code(part.value) == own
    }
    left = [name for line in behind for name in _attributes(line, own)]
    names = [each for line in behind for each in syntax.find(line, cst.Name) if each.value == own]
    if len(names) > len(left) or not {*left} <= known:
        # It needs what the base sets, or hands itself on.
        return None
    return syntax.with_body(init, [*first, *behind, call])


def _attributes(node: cst.CSTNode, own: str, *, is_set: bool = False) -> list[str]:
    """The attributes of the object that are named in some code, or which it sets."""
    targets: list[cst.CSTNode] = [node]
    if is_set:
        targets = [each.target for each in syntax.find(node, cst.AssignTarget)]
        targets += [each.target for each in syntax.find(node, cst.AnnAssign)]
        targets += [each.target for each in syntax.find(node, cst.AugAssign)]
        # What is called alone may change what it is a method of.
        calls = (syntax.lone_call(each) for each in syntax.find(node, cst.SimpleStatementLine))
        targets += [each.func for each in calls if each is not None]
    found = (each for target in targets for each in syntax.find(target, cst.Attribute))
    return [each.attr.value for each in found if syntax.code(each.value) == own]


def _needed(classes: Sequence[Mapping[str, cst.FunctionDef]]) -> set[str]:
    """The attributes that may be read by what builds a trial, whichever class has it."""
    left, names = [*_BUILDS], set[str]()
    while left:
        name = left.pop()
        for method in (each[name] for each in classes if name in each):
            found = {each.attr.value for each in syntax.find(method, cst.Attribute)}
            calls = (c for c in syntax.find(method, cst.Call) if syntax.code(c.func) in _BY_NAME)
            strings = (each for call in calls for each in syntax.find(call, cst.SimpleString))
            found |= {str(each.evaluated_value) for each in strings}
            left += found - names
            names |= found
    return names
