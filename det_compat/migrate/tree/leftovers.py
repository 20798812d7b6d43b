"""What nothing has replaced: it becomes what it was, below a comment that says so.

A function that still needs Determined imports it by itself, so that the file can be imported
without; where only a branch needs it, that branch does, so that the others can run.
"""

import itertools
from collections import defaultdict
from typing import TypeAlias, TypeVar

import libcst as cst

from det_compat.analysis.scopes import CONTEXT
from det_compat.catalog import support
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.branches import asked_by_name
from det_compat.migrate.tree.file import File, FileTransformer
from det_compat.migrate.tree.imports import imported
from det_compat.migrate.tree.walking import children

_Block: TypeAlias = cst.FunctionDef | cst.If
_Tree = TypeVar("_Tree", bound=cst.CSTNode)
_Suite = TypeVar("_Suite", bound=cst.BaseSuite)


def put_back(tree: cst.Module, file: File) -> cst.Module:
    """Put back what placeholders stand for; a context that is handed on is the module now."""
    imports = dict(pair for line in tree.body for pair in imported(line))
    made = syntax.transformed(tree, _Leftovers(file, imports))
    # Above the first statement a file that was rewritten before has its comments in the header.
    there = [line.comment.value for line in made.header if line.comment is not None]
    lines = getattr(made.body[0], "leading_lines", ()) if made.body and there else ()
    left = [line for line in lines if line.comment is None or line.comment.value not in there]
    if len(left) == len(lines):
        return made
    return made.with_changes(body=[made.body[0].with_changes(leading_lines=left), *made.body[1:]])


def put_back_silently(tree: _Tree, file: File) -> _Tree:
    """Put back everything, without comments: this code is still Determined's."""

    def original(name: cst.Name) -> cst.BaseExpression:
        symbol = file.symbols.get(name)
        if symbol is None:
            return name
        file.imports.kept.update(syntax.names_in(symbol.original))
        return symbol.original.deep_clone()

    return syntax.each(file.symbols.with_held(tree), cst.Name, original)


#: What these do with a context, others do with what they return.
_HOLDERS = ("contextlib", "copy", "dataclasses", "functools", "logging", "typing")

#: What is said of names for which there is something of another kind.
_INSTEAD = {
    "det_compat.pytorch.load_trial_from_checkpoint_path": (
        "the class's load_from_checkpoint() loads Lightning's checkpoints, and `det-compat"
        " checkpoint convert --for FILE:CLASS DIR OUT.ckpt` makes one of a folder"
    )
}


class _Leftovers(FileTransformer[File]):
    marked_statements = (cst.SimpleStatementLine, cst.FunctionDef, cst.ClassDef, cst.If)

    def __init__(self, file: File, imports: dict[str, str]) -> None:
        super().__init__(file)
        self._imports = imports
        self._blocks: list[_Block] = []
        self._bodies: dict[cst.BaseSuite, _Block] = {}
        # The innermost of these blocks that is around all uses of a name imports it.
        self._around: dict[str, tuple[_Block, ...]] = {}
        self._needed: dict[cst.CSTNode, set[str]] = defaultdict(set)
        self._in_annotation = 0

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        return self.symbols.member(node) is None

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> syntax.Expression:
        found = self.symbols.member(original)
        if found is None:
            return updated
        context, member = found
        link = support.of_member(CONTEXT, member.partition(".")[0]).link
        self.mark(f"the context's {member} has no counterpart", link)
        symbol, (part, _, rest) = self.symbols.get(context), member.partition(".")
        is_held = symbol is not None and symbol.part == part
        names = [self._context(context), *([] if is_held else [part]), rest]
        return syntax.expression(".".join(filter(None, names)))

    def _context(self, context: cst.Name) -> str:
        """What is written for a context: ``__init__`` of a trial is not given one any more."""
        text, module = self.symbols.original(context), self.symbols.module(context)
        is_given = text.isidentifier() and text != module
        is_gone = is_given and [f.name.value for f in self.functions] == ["__init__"]
        return f"{module}.context" if is_gone else text

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> syntax.Expression:
        asked = asked_by_name(original, self.symbols)
        if asked is not None:
            # The module would answer, and it has other names than the context had.
            self.mark(f"the context was asked for {syntax.code(asked[1])} by name")
        elif any(self.symbols.is_context(arg.value) for arg in original.args):
            self._check_taker(original.func)
        return updated

    def _check_taker(self, function: cst.BaseExpression) -> None:
        """Mark that a function which nobody has read is given the module for the context."""
        name, around = syntax.code(function), self.file.elsewhere
        paths = around.imported.get(name.partition(".")[0], frozenset())
        is_taken = any(path.partition(".")[0] not in _HOLDERS for path in paths)
        if is_taken and around.is_unread(name):
            self.mark(f"{name} gets this module for the context, and is in none of these files")

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> syntax.Expression:
        symbol = self.symbols.get(original)
        if symbol is None:
            return updated
        if symbol.is_object and symbol.path == CONTEXT:
            return symbol.module.deep_clone()
        if self._in_annotation:
            self.file.imports.new.add("from typing import Any")
            return cst.Name("Any")
        if "()" not in symbol.path or any(syntax.find(symbol.original, cst.Call)):
            # What a refused call returns has its comment where it is called.
            path = symbol.path.partition("()")[0]
            said = f"{path.removeprefix('det_compat.')} has no counterpart"
            self.mark(_INSTEAD.get(path, said), support.of_name(path).link)
        names = syntax.names_in(symbol.original)
        # What it is given may be variables of the function, which no import needs to have made.
        local = names & self._imports.keys() if self._blocks else set()
        for each in local:
            self._needed[self._around[each][-1]].add(each)
        self.file.imports.kept.update(names - local)
        return symbol.original.deep_clone()

    def visit_Annotation(self, node: cst.Annotation) -> None:
        self._in_annotation += 1

    def leave_Annotation(self, original: cst.Annotation, updated: cst.Annotation) -> cst.Annotation:
        self._in_annotation -= 1
        return updated

    def visit_FunctionDef(self, node: _Block) -> None:
        if not self._blocks and _imports_by_itself(node):
            self._around = {}
            self._find_uses(node.body, (node,))
        elif not self._blocks or isinstance(node, cst.FunctionDef):
            return
        self._bodies[node.body] = node

    def _find_uses(self, node: cst.CSTNode, around: tuple[_Block, ...]) -> None:
        symbol = self.symbols.get(node) if isinstance(node, cst.Name) else None
        for name in syntax.names_in(symbol.original) & self._imports.keys() if symbol else ():
            pairs = zip(self._around.get(name, around), around, strict=False)
            both = itertools.takewhile(lambda pair: pair[0] is pair[1], pairs)
            self._around[name] = tuple(block for block, _ in both)
        for child in children(node):
            inner = (node,) if isinstance(node, cst.If) and child is node.body else ()
            self._find_uses(child, (*around, *inner))

    def visit_IndentedBlock(self, node: cst.BaseSuite) -> None:
        if node in self._bodies:
            self._blocks.append(self._bodies[node])

    def leave_IndentedBlock(self, original_node: _Suite, updated_node: _Suite) -> _Suite:
        if original_node in self._bodies:
            self._blocks.pop()
        return updated_node

    def leave_FunctionDef(self, original_node: _Block, updated_node: _Block) -> _Block:
        needed = {self._imports[name] for name in self._needed.pop(original_node, ())}
        lines = sorted(needed, key=lambda text: (text.startswith("from"), text))
        if not lines:
            return updated_node
        self.file.imports.local.update(lines)
        there = {
            syntax.code(small) for line in updated_node.body.body if (small := syntax.simple(line))
        }
        # A file that was rewritten before has them already.
        made = [syntax.statement(line) for line in lines if line not in there]
        body = syntax.below_docstring(syntax.body_of(updated_node), made)
        return syntax.with_body(updated_node, body)

    visit_If = visit_FunctionDef
    leave_If = leave_FunctionDef
    visit_SimpleStatementSuite = visit_IndentedBlock
    leave_SimpleStatementSuite = leave_IndentedBlock


def _imports_by_itself(node: _Block) -> bool:
    """Whether a block is a function, or only runs where its file is the program."""
    return isinstance(node, cst.FunctionDef) or syntax.code(node.test).startswith("__name__ ==")
