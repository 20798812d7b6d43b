"""The loop over the loader in a validation of a whole data set, what is before it and behind it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.walking import children

_NO_GRADIENTS = ("torch.no_grad()", "torch.inference_mode()", "torch.set_grad_enabled(False)")


@dataclass(frozen=True)
class Parts:
    """A method whose statements are those before a loop, a loop, and those behind it.

    Attributes:
        before: the statements before the loop.
        body: those of the loop.
        after: those behind it.
        target: what the loop sets for each batch.
        index: the variable that counts batches; ``""`` if there is none.
    """

    before: list[cst.BaseStatement]
    body: list[cst.BaseStatement]
    after: list[cst.BaseStatement]
    target: cst.BaseExpression
    index: str

    @property
    def all(self) -> list[cst.BaseStatement]:
        """Every statement."""
        return [*self.before, *self.body, *self.after]


def parts_of(body: Sequence[cst.BaseStatement], loader: str) -> Parts | None:
    """The parts of a method that goes through its loader once; None if it does otherwise."""
    lines = _unfolded(body, loader)
    at = [i for i, line in enumerate(lines) if _goes_through(line, loader)]
    loop = lines[at[0]] if len(at) == 1 else None
    if not isinstance(loop, cst.For) or loop.orelse is not None or loop.asynchronous:
        return None
    target: cst.BaseExpression = loop.target
    index = ""
    if _counts(loop.iter):
        if not isinstance(target, cst.Tuple) or len(target.elements) != 2:
            return None
        first, target = (element.value for element in target.elements)
        if not isinstance(first, cst.Name):
            return None
        index = first.value
    inner = [*syntax.body_of(loop)]
    found = [*_own_ends(inner)]
    if found or any(map(_goes_on_behind, inner)):
        return None
    before, after = lines[: at[0]], [*lines[at[0] + 1 :]]
    if any(isinstance(each, cst.Return) for line in before for each in _own_ends([line])):
        return None
    inner[:1] = [above(line, _comments(loop.leading_lines)) for line in inner[:1]]
    after = _with_footer(loop.body, after)
    inner = [*cst.IndentedBlock(inner).visit(_Continuing()).body]  # type: ignore[union-attr]
    return Parts(before, inner, after, target, index)


def _unfolded(body: Sequence[cst.BaseStatement], loader: str) -> list[cst.BaseStatement]:
    """Statements without the blocks that switch gradients off around the loop: Lightning does."""
    found: list[cst.BaseStatement] = []
    for at, line in enumerate(body):
        is_around = isinstance(line, cst.With) and _is_without_gradients(line)
        if not (isinstance(line, cst.With) and is_around and _holds_loop(line, loader)):
            found.append(line)
            continue
        inner = [*syntax.body_of(line)]
        inner[:1] = [above(first, line.leading_lines) for first in inner[:1]]
        rest = _with_footer(line.body, body[at + 1 :])
        return [*found, *_unfolded([*inner, *rest], loader)]
    return found


def _is_without_gradients(line: cst.With) -> bool:
    first, *others = line.items
    return not others and first.asname is None and syntax.code(first.item) in _NO_GRADIENTS


def _holds_loop(line: cst.With, loader: str) -> bool:
    return any(
        _goes_through(each, loader)
        or (
            isinstance(each, cst.With) and _is_without_gradients(each) and _holds_loop(each, loader)
        )
        for each in syntax.body_of(line)
    )


def _goes_through(line: cst.BaseStatement, loader: str) -> bool:
    """Whether this is a loop over the batches of the loader."""
    if not isinstance(line, cst.For):
        return False
    return syntax.code(_bare(line.iter)) == loader


def _bare(iterated: cst.BaseExpression) -> cst.BaseExpression:
    """What a loop goes through, without what counts or shows how far it is."""
    while isinstance(iterated, cst.Call) and iterated.args and not iterated.args[0].keyword:
        name = syntax.code(iterated.func)
        more = [syntax.code(each.value) for each in iterated.args[1:]]
        is_counting = name == "enumerate" and more in ([], ["0"])
        is_same = name == "iter" and not more
        if not (is_counting or is_same or name.rpartition(".")[2] in ("tqdm", "track")):
            break
        iterated = iterated.args[0].value
    return iterated


def _counts(iterated: cst.BaseExpression) -> bool:
    calls = syntax.find(iterated, cst.Call)
    return any(syntax.code(call.func) == "enumerate" for call in calls)


def _own_ends(
    body: Sequence[cst.CSTNode], *, in_loop: bool = False
) -> Iterator[cst.Break | cst.Return]:
    """What leaves a block early: not the functions in it, nor loops that are all in it."""
    for node in body:
        if isinstance(node, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
            continue
        if isinstance(node, cst.Return) or (isinstance(node, cst.Break) and not in_loop):
            yield node
        is_loop = in_loop or isinstance(node, (cst.For, cst.While))
        yield from _own_ends([*children(node)], in_loop=is_loop)


def _goes_on_behind(line: cst.BaseStatement) -> bool:
    """Whether a loop in this one says what comes behind it that the next batch does."""
    loops = [*syntax.find(line, cst.For), *syntax.find(line, cst.While)]
    behind = (getattr(each, "orelse", None) for each in loops)
    return any(each is not None and any(syntax.find(each, cst.Continue)) for each in behind)


class _Continuing(cst.CSTTransformer):
    """What went on with the next batch ends the step."""

    def visit_For(self, node: cst.For) -> bool:
        return False

    def visit_While(self, node: cst.While) -> bool:
        return False

    def leave_Continue(self, original: cst.Continue, updated: cst.Continue) -> cst.Return:
        return cst.Return()


def _comments(lines: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    return [line for line in lines if line.comment is not None]


def _with_footer(
    block: cst.BaseSuite, after: Sequence[cst.BaseStatement]
) -> list[cst.BaseStatement]:
    """Statements below the comments at the end of a block before them."""
    footer = _comments(block.footer) if isinstance(block, cst.IndentedBlock) else []
    return [*(above(line, footer) for line in after[:1]), *after[1:]]


def parsed(body: Sequence[cst.BaseStatement]) -> list[ast.stmt]:
    """Statements as Python's own parser has them."""
    return ast.parse(syntax.code(cst.Module([*body]))).body  # type: ignore[list-item]


def without_blank(body: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
    """Statements that do not begin with blank lines."""
    first = [
        line.with_changes(leading_lines=_stripped(getattr(line, "leading_lines", ())))
        for line in body[:1]
    ]
    return [*first, *body[1:]]


def _stripped(lines: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    kept = [*lines]
    while kept and kept[0].comment is None:
        kept.pop(0)
    return kept
