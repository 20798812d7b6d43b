"""The context of a trial that is asked for by its name."""

import re
from collections.abc import Iterable
from pathlib import Path

import libcst as cst

from det_compat.migrate.target import Target
from det_compat.migrate.tree import syntax

_ASKING = re.compile(rb"getattr\([^()]*['\"]context['\"],?\s*\)")


class AskedContexts(Target):
    """Writes ``getattr(trial, "context")`` as ``trial.context``, which the next steps know."""

    @classmethod
    def is_needed(cls, texts: Iterable[bytes]) -> bool:
        """Whether some file asks for a context by its name."""
        return any(map(_ASKING.search, texts))

    def migrated(self, path: Path) -> bytes | None:
        """The new text of a file; None if it asks for no context."""
        source = self.sources[path]
        if not _ASKING.search(source):
            return None
        made = syntax.each(cst.parse_module(source), cst.Call, _attribute).bytes
        return None if made == source else made


def _attribute(call: cst.Call) -> cst.BaseExpression:
    args = [arg.value for arg in call.args]
    if syntax.code(call.func) != "getattr" or len(args) != 2:
        return call
    owner, name = args
    is_plain = isinstance(owner, (cst.Name, cst.Attribute, cst.Subscript, cst.Call))
    is_context = isinstance(name, cst.SimpleString) and name.evaluated_value == "context"
    if not (is_plain and is_context):
        return call
    return cst.Attribute(owner, cst.Name("context"), lpar=call.lpar, rpar=call.rpar)
