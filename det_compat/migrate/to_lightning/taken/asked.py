"""The context of a trial that is asked for by its name."""

import ast
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import libcst as cst

from det_compat.migrate.target import Target
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import parsed

_ASKING = re.compile(rb"getattr\([^()]*['\"]context['\"](,\s*None)?,?\s*\)")


class AskedContexts(Target):
    """Writes ``getattr(trial, "context")`` as ``trial.context``, which the next steps know.

    So does one with None for a default, if the code would not run where it is None.
    """

    @classmethod
    def is_needed(cls, texts: Iterable[bytes]) -> bool:
        """Whether some file asks for a context by its name."""
        return any(map(_ASKING.search, texts))

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a file; None if it asks for no context."""
        source = self.sources[path]
        if not _ASKING.search(source):
            return None
        made = syntax.each(cst.parse_module(source), cst.Call, self._attribute).bytes
        return None if made == source else made

    def _attribute(self, call: cst.Call) -> cst.BaseExpression:
        args = [arg.value for arg in call.args]
        if syntax.code(call.func) != "getattr" or len(args) not in (2, 3):
            return call
        owner, name = args[:2]
        is_plain = isinstance(owner, (cst.Name, cst.Attribute, cst.Subscript, cst.Call))
        is_context = isinstance(name, cst.SimpleString) and name.evaluated_value == "context"
        if not (is_plain and is_context) or (len(args) == 3 and not self._is_there(call)):
            return call
        return cst.Attribute(owner, cst.Name("context"), lpar=call.lpar, rpar=call.rpar)

    def _is_there(self, call: cst.Call) -> bool:
        text = ast.unparse(ast.parse(syntax.code(call).strip(), mode="eval"))
        same = [each for each in self._uses.calls("getattr") if ast.unparse(each) == text]
        return text.endswith(", None)") and all(map(self._uses.are_asked, same))

    @cached_property
    def _uses(self) -> "_Uses":
        return _Uses([parsed(source) for source in self.sources.values()])


class _Uses:
    """What becomes of the results of calls in some files."""

    def __init__(self, trees: Sequence[ast.Module]) -> None:
        self._nodes = [node for tree in trees for node in ast.walk(tree)]
        self._above = {each: node for node in self._nodes for each in ast.iter_child_nodes(node)}

    def calls(self, name: str) -> list[ast.Call]:
        """The calls of what has a name."""
        calls = (node for node in self._nodes if isinstance(node, ast.Call))
        return [call for call in calls if _name_of(call.func) == name]

    def are_asked(self, node: ast.expr, deep: int = 4) -> bool:
        """Whether a value has an attribute wherever it gets to, so that it is never None."""
        outer = self._above[node]
        if isinstance(outer, ast.Attribute):
            return True
        function = outer
        while not isinstance(function, (ast.FunctionDef, ast.Module)):
            function = self._above[function]
        if isinstance(outer, ast.Assign) and isinstance(target := outer.targets[0], ast.Name):
            same = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == target.id]
            read = [each for each in same if each is not target]
            return bool(read) and all(isinstance(self._above[n], ast.Attribute) for n in read)
        if not isinstance(outer, ast.Return) or not isinstance(function, ast.FunctionDef):
            return False
        calls = self.calls(function.name)
        named = [node for node in self._nodes if _name_of(node) == function.name]
        is_called = len(named) == len(calls) > 0 and deep > 0
        return is_called and all(self.are_asked(call, deep - 1) for call in calls)


def _name_of(node: ast.AST) -> str:
    """The name that a variable or an attribute has."""
    return str(getattr(node, "attr", getattr(node, "id", "")))
