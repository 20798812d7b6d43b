"""Imports of PEDL become imports of Determined; what Determined does not have is written out."""

from __future__ import annotations

import libcst as cst

from det_compat.migrate.tree.imports import added, bound_name, dropping
from det_compat.migrate.tree.syntax import code, find, names_in, simple, statement

_MODULES = ("pedl.frameworks.pytorch", "pedl.frameworks.pytorch.data")
_ERROR_RATE = '''\
def {0}(predictions: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The share of predictions, one row each, whose largest column is not the label."""
    return (predictions.argmax(1) != labels).float().mean()
'''


def in_determined(tree: cst.Module) -> cst.Module:
    """The file with imports of ``determined.pytorch``, and of pedl only what is still used."""
    used = {
        name
        for line in tree.body
        if not isinstance(simple(line), (cst.Import, cst.ImportFrom))
        for name in names_in(line) | _quoted(line)
    }
    return dropping(tree, _Imports(used))


def _quoted(line: cst.CSTNode) -> set[str]:
    """Names in annotations that are texts."""
    return {
        name
        for found in find(line, cst.Annotation)
        for text in find(found, cst.SimpleString)
        for name in str(text.evaluated_value).replace(".", " ").split()
    }


class _Imports(cst.CSTTransformer):
    def __init__(self, used: set[str]) -> None:
        self._used = used

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.Attribute:
        if code(original_node) in _MODULES:
            return _PYTORCH.deep_clone()
        return updated_node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        small = simple(updated_node)
        if isinstance(small, cst.Import):
            return self._plain(updated_node, small)
        old = simple(original_node)
        if not isinstance(old, cst.ImportFrom) or old.module is None or old.relative:
            return updated_node
        module = code(old.module)
        if module.partition(".")[0] != "pedl" or isinstance(old.names, cst.ImportStar):
            return updated_node
        gone = {"error_rate"} if module == "pedl.frameworks.pytorch.util" else set()
        if module == "pedl":
            gone = {code(a.name) for a in old.names if bound_name(a) not in self._used}
        kept = [alias for alias in old.names if code(alias.name) not in gone]
        if not kept:
            return cst.RemoveFromParent()
        kept[-1] = kept[-1].with_changes(comma=old.names[-1].comma)
        assert isinstance(small, cst.ImportFrom)
        return updated_node.with_changes(body=[small.with_changes(names=kept)])

    def _plain(
        self, line: cst.SimpleStatementLine, small: cst.Import
    ) -> cst.SimpleStatementLine | cst.RemovalSentinel:
        kept = [a for a in small.names if code(a.name) != "pedl" or bound_name(a) in self._used]
        if not kept:
            return cst.RemoveFromParent()
        kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return line.with_changes(body=[small.with_changes(names=kept)])


_PYTORCH = cst.Attribute(cst.Name("determined"), cst.Name("pytorch"))


def with_error_rate(tree: cst.Module, name: str) -> cst.Module:
    """The file with PEDL's ``error_rate`` as a function of its own, if it uses it."""
    if not name:
        return tree
    body: list[cst.BaseStatement] = [*tree.body]
    kinds = (cst.ClassDef, cst.FunctionDef)
    at = next((i for i, line in enumerate(body) if isinstance(line, kinds)), len(body))
    made = statement(_ERROR_RATE.format(name))
    blank = [cst.EmptyLine(indent=False)] * 2
    body.insert(at, made.with_changes(leading_lines=blank))
    return added(tree.with_changes(body=body), ["import torch"])
