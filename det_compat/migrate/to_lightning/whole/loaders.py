"""The loader of a validation of a whole data set, where Lightning may go through it."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.trial_attributes import reachable

_LOADER = "val_dataloader"


def unwrapped_loader(
    own: Mapping[str, cst.FunctionDef], around: Elsewhere
) -> cst.FunctionDef | None:
    """The method that makes the loader of validations, as it was before the loader was wrapped.

    None if it makes anything but a DataLoader of torch's that Lightning goes through as it is: one
    with a sampler would be told of epochs, and data without a length read ahead.

    Args:
        own: the methods of a module.
        around: the code around it.
    """
    method = own.get(_LOADER)
    if method is None:
        return None
    returns = [*syntax.find(method, cst.Return)]
    inner = [_inner(found.value) for found in returns]
    if not inner or not all(
        value is not None and _is_loader(value, method, own) for value in inner
    ):
        return None
    reached = [own[name] for name in reachable(own, _LOADER)]
    text = "".join(map(syntax.code, reached)).replace("sampler=None", "")
    names = {name for each in reached for name in syntax.names_in(each)}
    names |= {a.attr.value for each in reached for a in syntax.find(each, cst.Attribute)}
    texts = [around.texts[name] for name in names if name in around.texts]
    is_open = any("def __iter__(" in each and "def __len__(" not in each for each in texts)
    is_told = "ampler" in text or any("def set_epoch(" in each for each in texts)
    # Lightning makes a class of the project's anew for several devices, if it can.
    is_own = any("DataLoader" in name for name in names if name in around.texts)
    if is_told or is_own or is_open:
        return None
    return syntax.transformed(method, _Unwrapping())


def _inner(value: cst.BaseExpression | None) -> cst.BaseExpression | None:
    """The loader that is the one batch of another; None if this is no such loader."""
    if not isinstance(value, cst.Call) or not syntax.code(value).endswith("batch_size=None)"):
        return None
    given = value.args[0].value
    is_list = isinstance(given, cst.List) and len(given.elements) == 1
    return given.elements[0].value if isinstance(given, cst.List) and is_list else None


def _is_loader(
    value: cst.BaseExpression, method: cst.FunctionDef, own: Mapping[str, cst.FunctionDef]
) -> bool:
    """Whether a value is a DataLoader, on each way to it."""
    if isinstance(value, cst.Name):
        targets = [
            (syntax.code(target), given)
            for line in syntax.find(method.body, cst.Assign)
            for target, given in syntax.pairs(line)
        ]
        every = [given for target, given in targets if target == value.value]
        return bool(every) and all(isinstance(e, cst.Call) and _makes(e, own) for e in every)
    return isinstance(value, cst.Call) and _makes(value, own)


def _makes(call: cst.Call, own: Mapping[str, cst.FunctionDef]) -> bool:
    owner, _, name = syntax.code(call.func).rpartition(".")
    if owner == "self" and name in own:
        found = [each.value for each in syntax.find(own[name], cst.Return)]
        return bool(found) and all(e is not None and _is_loader(e, own[name], {}) for e in found)
    return name.endswith("DataLoader")


class _Unwrapping(cst.CSTTransformer):
    def leave_Return(self, original: cst.Return, updated: cst.Return) -> cst.Return:
        inner = _inner(updated.value)
        if inner is None:
            return updated
        return updated.with_changes(value=syntax.expression(syntax.code(inner)))

    def leave_SimpleStatementLine(
        self, original: cst.SimpleStatementLine, updated: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        lines = updated.leading_lines
        said = [each for each in lines if each.comment and "its one batch is" in each.comment.value]
        if not said:
            return updated
        return updated.with_changes(leading_lines=[each for each in lines if each is not said[0]])
