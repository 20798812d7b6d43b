"""What is known while methods are followed through all that they call."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from det_compat.migrate.effects.makers import Makers
from det_compat.migrate.effects.source import Project, Scope
from det_compat.migrate.effects.values import ANYTHING, ITSELF, Value

#: More functions than these are not followed.
MOST = 120


@dataclass
class Trace:
    """What the methods of an object change, as far as they have been followed.

    Attributes:
        own: the methods of its class, with those that it inherits.
        project: the code around it.
        covered: methods of its bases that are followed for these.
        reset: attributes to which may be added, as they are reset.
        changed: the attributes, and variables of files, that are another thing afterwards.
        unproven: the code of what may change something, for all that is known.
        known: what each function returns, by itself and its arguments.
    """

    own: Mapping[str, Scope]
    project: Project
    covered: Collection[str] = ()
    reset: Collection[str] = ()
    changed: set[str] = field(default_factory=set)
    unproven: set[str] = field(default_factory=set)
    known: dict[object, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.makers = Makers(self.own, self.project)

    def change(self, value: Value, attribute: str = "") -> None:
        """Note that something is another thing now, or an attribute of the object is."""
        for name in value.state:
            if name == ITSELF and attribute:
                self.changed.add(attribute)
            elif name.partition(".")[0] in (ITSELF, ANYTHING):
                self.unproven.add(f"something of {name}")
            else:
                self.changed.add(name.partition(".")[0])
