"""What forbids that statements of ``__init__`` move behind those that follow them.

They move only where all that they pass, and they themselves, are known to leave each other alone.
"""

from collections.abc import Collection, Mapping

import libcst as cst

from det_compat.migrate.to_lightning.moving import known
from det_compat.migrate.to_lightning.moving.effects import (
    ANYTHING,
    HPARAMS,
    Effects,
    Links,
    overlap,
)
from det_compat.migrate.to_lightning.moving.reading import Reader
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import attributes_changed
from det_compat.migrate.tree.walking import has

#: What Lightning calls after ``__init__`` and before any of these may be made.
_BETWEEN = "build_callbacks"


class Commuting:
    """The order of the statements of a trial's ``__init__``.

    Args:
        init: the method.
        reader: what is known of the code that it runs.
    """

    def __init__(self, init: cst.FunctionDef, reader: Reader) -> None:
        self._init, self._reader = init, reader
        self._body, self._me = syntax.body_of(init), syntax.self_name(init)

    def may_move(
        self,
        moved: Collection[cst.BaseStatement],
        kept: Mapping[str, str],
        *,
        may_draw: bool = False,
    ) -> bool:
        """Whether statements may run when all others have, and callbacks have been made.

        Args:
            moved: the statements.
            kept: what they ask in place of variables.
            may_draw: whether somebody else has seen to it that they draw nothing.
        """
        reader, init = self._reader, self._init
        if reader.is_odd or syntax.returns(init) or self._keeps_for_later(moved, kept):
            return False
        every = {line: self._effects(line) for line in self._body}
        between = reader.of_method(_BETWEEN, [], {}) if _BETWEEN in reader.own else Effects()
        whole = Effects()
        for each in (*every.values(), between):
            whole.add(each)
        links = whole.links
        own = {name for line in moved for name in every[line].bound}
        own |= {name.partition("[")[0] for line in moved if "[" in (name := self._target(line))}
        names = {value.replace(f"{self._me}.", "self.", 1) for value in kept.values()}
        attributes = {name for name in names if name.startswith("self.") and "(" not in name}
        asks = any("(" in value for value in kept.values())
        for at, line in enumerate(self._body):
            if line not in moved:
                changes = every[line].changes(links)
                if asks and (_is_anything(changes) or overlap(changes, [HPARAMS])):
                    return False
                continue
            does = every[line]
            if not self._is_own(does, own, links) or not (may_draw or does.is_quiet):
                return False
            passed = [n for n in self._body[at:] if n not in moved]
            asking = [every[n] for n in passed if self._target(n) not in attributes]
            taken = self._hands_on(line, own) | (whole.once & does.read)
            # What a method sets that it calls, others find set, or set again.
            taken |= {name for name in does.bound if name.startswith("self.")}
            if taken & {name for each in (*asking, between) for name in each.read | each.bound}:
                return False
            reads = does.read | (attributes if syntax.names_in(line) & kept.keys() else set())
            if not all(
                _leaves(reads, does, each, links)
                for each in (*(self._rebinding(n, every[n], attributes) for n in passed), between)
            ):
                return False
        return True

    def _effects(self, line: cst.BaseStatement) -> Effects:
        return self._reader.effects(self._init, line)

    def _target(self, line: cst.BaseStatement) -> str:
        return (syntax.target_of(line) or "").replace(f"{self._me}.", "self.", 1)

    def _is_own(self, does: Effects, own: Collection[str], links: Links) -> bool:
        """Whether code changes nothing but what moves along."""
        changes = links.of(does.changed | does.below | does.filled, deep=False)
        return all("@" in name or name in own for name in changes)

    def _hands_on(self, line: cst.BaseStatement, own: Collection[str]) -> set[str]:
        """What optimizers are given as a whole, which fill in what groups of parameters lack."""
        found: set[str] = set()
        for call in syntax.find(line, cst.Call):
            given = syntax.argument(call, 0, "params")
            if isinstance(given, (cst.Name, cst.Attribute)):
                name = syntax.code(given).replace(f"{self._me}.", "self.", 1)
                last = syntax.code(call.func).rpartition(".")[2]
                is_known = self._reader.path(call.func) or last in self._reader.around.texts
                found |= {name} - {*own} if is_known else set()
        return found

    def _rebinding(
        self, line: cst.BaseStatement, effects: Effects, attributes: Collection[str]
    ) -> Effects:
        """The effects of a statement that may give something the value that it has."""
        name = self._target(line)
        is_same = keeps_model(line, self._reader.symbols)
        if not is_same and name not in attributes:
            return effects
        made = Effects()
        made.add(effects)
        made.bound.discard(name)
        made.filled |= {name} if is_same else set()
        return made

    def _keeps_for_later(
        self, moved: Collection[cst.BaseStatement], kept: Mapping[str, str]
    ) -> bool:
        """Whether a function that moves would ask for an attribute that training changes."""
        changed = {
            f"{self._me}.{name}"
            for name, methods in self._reader.own.items()
            for method in methods
            if name != "__init__"
            for name in attributes_changed(method)
        }
        late = {name for name, value in kept.items() if value in changed}
        return any(
            has(line, cst.Lambda, cst.FunctionDef, cst.GeneratorExp)
            and syntax.names_in(line) & late
            for line in moved
        )


def _leaves(reads: Collection[str], does: Effects, other: Effects, links: Links) -> bool:
    """Whether some code leaves all that another one asks for as it is."""
    changes = other.changes(links, fills=not does.is_plain)
    if _is_anything(other.changes(links)) or overlap(other.bound, reads):
        return False
    # What parameters are does not change with what a model was made by.
    without = links.hyperparameters - links.of(reads, deep=False) if does.is_plain else ()
    return not overlap(changes, links.of(reads, deep=True, without=without))


def _is_anything(changes: Collection[str]) -> bool:
    return ANYTHING in changes


def keeps_model(line: cst.BaseStatement, symbols: Symbols) -> bool:
    """Whether a statement wraps or moves the model that its target is already."""
    value: object = getattr(syntax.simple(line), "value", None)
    while isinstance(value, cst.Call):
        func = value.func
        if symbols.method(value) == "wrap_model" and value.args:
            value = value.args[0].value
        elif isinstance(func, cst.Attribute) and func.attr.value in known.FILLING:
            value = func.value
        else:
            return False
    if not isinstance(value, (cst.Name, cst.Attribute)):
        return False
    return syntax.target_of(line) == syntax.code(value)
