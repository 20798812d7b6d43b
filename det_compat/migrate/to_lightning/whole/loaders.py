"""The loader of a validation of a whole data set, where Lightning may go through it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import Elsewhere
from det_compat.migrate.tree.marks import above
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
    returns = syntax.returns(method)
    inner = [_inner(found.value) for found in returns]
    # Determined made an error of no loader.
    made = [value for value in inner if value is None or not syntax.is_name(value, "None")]
    if not made or not all(v is not None and _is_loader(v, method, own) for v in made):
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


_ALL = """\
# each device goes through all of the data: Lightning leaves this sampler as it is
sampler = torch.utils.data.DistributedSampler({}, num_replicas=1, rank=0, shuffle=False)
"""


def unsharded(method: cst.FunctionDef, around: Elsewhere) -> cst.FunctionDef | None:
    """A method whose loader gives all of the data to each device, in the same order.

    None if it may have another order, or data that no sampler has an order for: Determined's own
    loader took none of these.
    """
    paths = around.imported.get("DataLoader", frozenset())
    is_determineds = bool(paths) and all("determined" in each for each in paths)
    if not is_determineds or "sampler" in syntax.names_in(method):
        return None
    returned = {syntax.code(each.value) for each in syntax.returns(method) if each.value}
    making = _Ordering(returned, syntax.names_in(method))
    made = syntax.transformed(method, making)
    return made if making.is_known else None


class _Ordering(cst.CSTTransformer):
    """Gives loaders a sampler."""

    def __init__(self, returned: Collection[str], names: Collection[str]) -> None:
        super().__init__()
        self.is_known = True
        self._returned = returned
        self._names = names

    def leave_SimpleStatementLine(
        self, original: cst.SimpleStatementLine, updated: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.BaseStatement]:
        small = syntax.simple(updated)
        is_return = isinstance(small, cst.Return) and not isinstance(small.value, cst.Name)
        if not is_return and syntax.target_of(updated) not in self._returned:
            return updated
        call = syntax.call_of(updated)
        data = None if call is None else syntax.argument(call, 0, "dataset")
        args = None if call is None else _with_sampler(call.args)
        if (
            call is None
            or data is None
            or args is None
            or not syntax.is_name(call.func, "DataLoader")
        ):
            self.is_known = False
            return updated
        name, made = syntax.code(data), []
        if not isinstance(data, (cst.Name, cst.Attribute)) or any(syntax.find(data, cst.Call)):
            self.is_known &= "dataset" not in self._names
            name, made = "dataset", syntax.statements(f"dataset = {name}\n")
            args = [a.with_changes(value=cst.Name(name)) if a.value is data else a for a in args]
        made += syntax.statements(_ALL.format(name))
        lines = updated.leading_lines
        line = syntax.with_node(updated, call, call.with_changes(args=args))
        first, *rest = [*made, line.with_changes(leading_lines=())]
        return cst.FlattenSentinel([above(first, lines), *rest])


def _with_sampler(args: Sequence[cst.Arg]) -> list[cst.Arg] | None:
    """The arguments of a loader with a sampler; None if it has another order than its data."""
    names = [each.keyword.value if each.keyword else "" for each in args]
    for name, each in zip(names, args, strict=True):
        is_default = syntax.is_name(each.value, "False", "None")
        if each.star or (name in _ORDERS and not is_default):
            return None
    if names.count("") > len(("dataset", "batch_size")):
        return None
    given = syntax.expression("f(sampler=sampler)")
    assert isinstance(given, cst.Call)
    new, at = given.args[0], [i for i, name in enumerate(names) if name in _ORDERS]
    if at:
        new = args[at[0]].with_changes(keyword=new.keyword, value=new.value)
        return [new if i == at[0] else each for i, each in enumerate(args) if i not in at[1:]]
    last = args[-1]
    between = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    before = last.with_changes(comma=between, whitespace_after_arg=cst.SimpleWhitespace(""))
    after = new.with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    return [*args[:-1], before, after]


_ORDERS = ("shuffle", "sampler", "batch_sampler")


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
        found = [each.value for each in syntax.returns(own[name])]
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
