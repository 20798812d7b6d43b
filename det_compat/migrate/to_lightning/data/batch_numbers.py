"""The numbers of batches: Determined's start with the run, Lightning's with each epoch."""

import ast
from collections.abc import Sequence

import libcst as cst

from det_compat.migrate.to_lightning.plan import TOTAL_BATCH
from det_compat.migrate.tree import syntax

#: What a method may ask to know whether a batch is the first of the run, and is not.
_IS_FIRST = ("{0} == 0", "not {0}")
_IS_LATER = ("{0} != 0", "{0} > 0")


def with_batch_number(
    method: cst.FunctionDef, index: str, *, is_counted: bool, is_automatic: bool = False
) -> cst.FunctionDef:
    """A batch method that finds the number of its batch, if it uses that.

    Args:
        method: train_batch.
        index: the parameter that it was given the number by; Lightning's is ``batch_idx``.
        is_counted: whether each batch makes one step, which Lightning counts.
        is_automatic: whether Lightning makes it, and none is made before the method ends.
    """
    names = [name for name in syntax.find(method.body, cst.Name) if name.value == index]
    if not names:
        return method
    own = syntax.self_name(method)
    first = _First(own, index)
    asking = syntax.transformed(method.body, first)
    if first.asked == len(names):
        return method.with_changes(body=asking)
    number = f"{own}.global_step" if is_counted else TOTAL_BATCH.format(own)
    if is_counted and is_automatic and _is_seldom_read(method, index):
        return method.with_changes(body=syntax.replaced(method.body, index, number))
    line = syntax.statements(f"{index} = {number}\n")
    return syntax.with_body(method, syntax.below_docstring(syntax.body_of(method), line))


#: So many times a number is asked for where it is needed.
_SELDOM = 2


def _is_seldom_read(method: cst.FunctionDef, name: str) -> bool:
    """Whether a method reads a parameter a few times, and means nothing else by its name."""
    plain = method.with_changes(params=cst.Parameters())
    nodes = ast.walk(ast.parse(syntax.code(plain).strip()))
    found = [n for n in nodes if name in (getattr(n, "id", ""), getattr(n, "arg", ""))]
    reads = [n for n in found if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    others = [n for n in found if not isinstance(n, ast.keyword)]
    return len(reads) == len(others) <= _SELDOM


def in_step(functions: Sequence[cst.FunctionDef]) -> bool:
    """Whether code in these functions has the number of a batch in its epoch as ``batch_idx``."""
    if [function.name.value for function in functions] != ["training_step"]:
        return False
    targets = syntax.find(functions[0].body, cst.AssignTarget)
    return not any("batch_idx" in syntax.names_in(each.target) for each in targets)


class _First(cst.CSTTransformer):
    """Asks for the epoch as well where code asks whether a batch is the first one."""

    def __init__(self, own: str, index: str) -> None:
        super().__init__()
        self.asked = 0
        first = f"{own}.current_epoch == 0 and batch_idx == 0"
        later = f"{own}.current_epoch > 0 or batch_idx > 0"
        self._made = {text.format(index): first for text in _IS_FIRST}
        self._made |= {text.format(index): later for text in _IS_LATER}

    def leave_Comparison(
        self, original_node: cst.BaseExpression, updated_node: cst.BaseExpression
    ) -> cst.BaseExpression:
        text = self._made.get(syntax.code(original_node.with_changes(lpar=[], rpar=[])))
        self.asked += text is not None
        return updated_node if text is None else syntax.expression(f"({text})")

    leave_UnaryOperation = leave_Comparison

    def leave_If(self, original: cst.If, updated: cst.If) -> cst.If:
        if syntax.code(original.test) not in self._made:
            return updated
        return updated.with_changes(test=updated.test.with_changes(lpar=[], rpar=[]))
