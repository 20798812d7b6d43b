"""Follows methods of a trial."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from det_compat.migrate.effects.calls import called
from det_compat.migrate.effects.source import FUNCTIONS, Project, Scope, is_static, parsed
from det_compat.migrate.effects.tracing import Trace
from det_compat.migrate.effects.values import ITSELF, NEW, of
from det_compat.migrate.tree.elsewhere import Elsewhere

#: The methods that are given a loader, which they may go through.
_GIVEN_LOADERS = ("evaluate_full_dataset",)


def function_of(text: str) -> Scope:
    """The function that a text is."""
    (made,) = parsed(text).body
    assert isinstance(made, FUNCTIONS)
    return made


def followed(
    own: Mapping[str, Scope], starts: Iterable[str], around: Elsewhere, reset: frozenset[str]
) -> Trace:
    """What some methods of a class change, or may change, with all that they call.

    Args:
        own: the methods of the class, with those that it inherits.
        starts: the names of the methods.
        around: the code that these call.
        reset: attributes to which may be added, as they are reset.
    """
    names = [*starts]
    trace = Trace(own, Project(around), names, reset)
    for name in names:
        if name in own:
            given = of("the loader") if name in _GIVEN_LOADERS else NEW
            called(trace, own[name], [of(ITSELF), given], {}, own)
    return trace


#: What a loader calls of what it reads from.
_READING = ("__call__", "__getitem__", "__iter__", "__next__", "__len__")


def changed_by_reading(name: str, around: Elsewhere) -> set[str]:
    """What is changed where data are read that a function or class of this name makes."""
    project, found = Project(around), set[str]()
    for own in project.methods(name):
        trace = Trace(own, project)
        for each in own.keys() & {*_READING}:
            called(trace, own[each], [] if is_static(own[each]) else [of(ITSELF)], {}, own)
        found |= trace.changed
    for function in project.definitions(name):
        if isinstance(function, FUNCTIONS):
            trace = Trace({}, project)
            called(trace, function, [], {})
            found |= trace.changed
    return found
