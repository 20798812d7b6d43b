"""What tests have in the place of a context, which nothing asks any more."""

import ast
from collections.abc import Collection, Iterator
from typing import TypeGuard

from det_compat.catalog.members import TELLTALE
from det_compat.migrate.review.project import Finding, Text, methods

#: The methods that only Determined's contexts have.
_OF_CONTEXT = {name for name, owner in TELLTALE.items() if owner.endswith("TrialContext")}
#: What a mock is told of one of its methods.
_TOLD = ("return_value", "side_effect")
#: Fewer than these may be the methods of something else.
_SURE = 2


def stand_ins(text: Text, trials: Collection[str]) -> Iterator[Finding]:
    """Where a mock is told what a context answers, and the classes that are like one.

    How they come into a trial may not be seen: the class is an argument, or a fixture makes it.
    """
    if _names(text).isdisjoint(trials):
        return
    for statement in text.tree.body:
        nodes = [*ast.walk(statement)]
        mocked = [each for each in nodes if _is_told(each)]
        if mocked:
            yield Finding(min(each.lineno for each in mocked), _SAID)
        for each in nodes:
            if isinstance(each, ast.ClassDef) and len(_OF_CONTEXT & methods(each).keys()) >= _SURE:
                yield Finding(each.lineno, _SAID)


_SAID = "this stands for a context of Determined, which no migrated class takes"


def _is_told(node: ast.AST) -> TypeGuard[ast.Attribute]:
    """Whether a mock is told what one of a context's methods does."""
    of = node.value if isinstance(node, ast.Attribute) and node.attr in _TOLD else None
    return isinstance(of, ast.Attribute) and of.attr in _OF_CONTEXT


def _names(text: Text) -> set[str]:
    imported = (n for n in text.nodes if isinstance(n, ast.ImportFrom))
    names = {alias.name for node in imported for alias in node.names}
    return names | {node.attr for node in text.nodes if isinstance(node, ast.Attribute)}
