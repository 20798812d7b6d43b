"""Options of a script's command line that only what has been rewritten asked for."""

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line, Lines


def without_unread(tree: cst.Module, before: cst.Module) -> cst.Module:
    """A script without the options that it has, asked for ``before``, and does not any more."""
    spaces = {
        target
        for line in syntax.find(tree, cst.SimpleStatementLine)
        if (call := syntax.call_of(line)) is not None and (target := syntax.target_of(line))
        if syntax.code(call.func).endswith(".parse_args")
    }
    asked = [
        {n.attr.value for n in syntax.find(each, cst.Attribute) if syntax.code(n.value) in spaces}
        for each in (before, tree)
    ]
    owners = [syntax.code(node.value) for node in syntax.find(tree, cst.Attribute)]
    used = [name.value for name in syntax.find(tree, cst.Name)]
    # Whatever is given all of them may ask for any.
    is_open = any(used.count(space) != 1 + owners.count(space) for space in spaces)
    gone = asked[0] - asked[1]
    return syntax.transformed(tree, _Unread(gone)) if gone and not is_open else tree


class _Unread(cst.CSTTransformer):
    def __init__(self, gone: set[str]) -> None:
        super().__init__()
        self._gone = gone

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        call = syntax.lone_call(updated)
        if call is None or not syntax.code(call.func).endswith(".add_argument"):
            return updated
        return cst.RemoveFromParent() if _destination(call) in self._gone else updated


def _destination(call: cst.Call) -> str:
    """The attribute that an option is kept in; ``""`` for an argument without dashes."""
    texts = [a.value for a in call.args if a.keyword is None and not a.star]
    names = [str(t.evaluated_value) for t in texts if isinstance(t, cst.SimpleString)]
    if not names or not all(name.startswith("-") for name in names):
        return ""
    told = syntax.argument(call, len(call.args), "dest")
    if told is not None:
        return str(told.evaluated_value) if isinstance(told, cst.SimpleString) else ""
    first = next((name for name in names if name.startswith("--")), names[0])
    return first.lstrip("-").replace("-", "_")
