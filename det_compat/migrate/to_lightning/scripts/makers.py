"""Classes of lengths that a script chooses at run time: ``UNITS[args.unit](args.length)``.

Each becomes the name of the flag of ``pl.Trainer`` that has its unit, and what it makes a dict.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols

#: The flag of ``pl.Trainer`` that has the unit of a length.
UNITS = {"det_compat.pytorch.Batch": "max_steps", "det_compat.pytorch.Epoch": "max_epochs"}
#: What goes through the keys of a table.
_OF_KEYS = ("sorted", "list", "tuple", "set", "len", "iter")


class Makers:
    """The variables of a file that are classes of lengths, or tables of them, and nothing else.

    Args:
        tree: of the file.
        symbols: what stands in it.
        values: what its variables are set to, with its parameters as far as that is known.
        unsure: the names that are set in other ways, too.
        asked: the names of the file that others may use; ``*`` if that may be any.
    """

    def __init__(
        self,
        tree: cst.Module,
        symbols: Symbols,
        values: Mapping[str, Sequence[cst.BaseExpression]],
        unsure: Collection[str],
        asked: Collection[str],
    ) -> None:
        self._symbols = symbols
        known = {n: v for n, v in values.items() if v and n.isidentifier()}
        known = {n: v for n, v in known.items() if {n, "*"}.isdisjoint({*unsure, *asked})}
        used = [*_uses(tree)] if symbols.has(*UNITS) else []
        self._tables = {name for name, found in known.items() if all(map(self._is_table, found))}
        self._tables -= {name for name, is_of_keys, _ in used if not is_of_keys}
        self._names = {*known} - {name for name, _, is_called in used if not is_called}
        while gone := {n for n in self._names if not all(map(self._is_maker, known[n]))}:
            self._names -= gone
        found = [value for name in (*self._tables, *self._names) for value in known[name]]
        self._classes = [n for value in found for n in self._leaves(value)]

    def _is_table(self, value: cst.BaseExpression) -> bool:
        elements = value.elements if isinstance(value, cst.Dict) else ()
        return bool(elements) and all(self._is_class(each.value) for each in elements)

    def _is_class(self, value: cst.BaseExpression) -> bool:
        return self._symbols.path(value) in UNITS

    def _is_maker(self, value: cst.BaseExpression) -> bool:
        if isinstance(value, cst.IfExp):
            return self._is_maker(value.body) and self._is_maker(value.orelse)
        if isinstance(value, cst.Subscript):
            return syntax.code(value.value) in self._tables
        return self._is_class(value) or syntax.code(value) in self._names

    def _leaves(self, value: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """The classes in a value."""
        if isinstance(value, cst.Dict):
            yield from (each.value for each in value.elements)
        elif isinstance(value, cst.IfExp):
            yield from (*self._leaves(value.body), *self._leaves(value.orelse))
        elif self._is_class(value):
            yield value

    def is_made(self, value: cst.BaseExpression) -> bool:
        """Whether something is a length of a class that is chosen at run time."""
        if not isinstance(value, cst.Call) or len(value.args) != 1 or value.args[0].star:
            return False
        return not self._is_class(value.func) and self._is_maker(value.func)

    def flag(self, node: cst.Name) -> cst.SimpleString | None:
        """The name of its flag, in the place of a class."""
        is_one = any(node is each for each in self._classes)
        unit = UNITS.get(self._symbols.path(node) or "") if is_one else None
        return None if unit is None else cst.SimpleString(f'"{unit}"')


def flag_of(value: cst.Dict) -> tuple[str, cst.BaseExpression] | None:
    """The flag and the number of such a dict, where the flag is known at run time."""
    first = value.elements[0] if len(value.elements) == 1 else None
    if not isinstance(first, cst.DictElement) or isinstance(first.key, cst.SimpleString):
        return None
    return syntax.code(first.key), first.value


def _uses(tree: cst.Module) -> Iterator[tuple[str, bool, bool]]:
    """Each name that is read, whether it is for keys or what one of them has, and to call it."""
    set_to = {id(target.target) for target in syntax.find(tree, cst.AssignTarget)}
    spared = {id(arg.keyword) for arg in syntax.find(tree, cst.Arg)} | set_to
    spared |= {id(param.name) for param in syntax.find(tree, cst.Param)}
    spared |= {id(node.attr) for node in syntax.find(tree, cst.Attribute)}
    calls = [*syntax.find(tree, cst.Call)]
    called = {id(call.func) for call in calls if len(call.args) == 1}
    keyed = {id(node.value) for node in syntax.find(tree, cst.Subscript)}
    for call in calls:
        if syntax.code(call.func) in _OF_KEYS:
            keyed |= {id(arg.value) for arg in call.args}
    for name in syntax.find(tree, cst.Name):
        if id(name) not in spared:
            yield name.value, id(name) in keyed, id(name) in called
