"""The lengths in a script: ``Batch(2)`` and ``Epoch(2)``, and variables that are such."""

from collections.abc import Iterator

import libcst as cst

from det_compat.migrate.to_lightning.metrics.reducer_kinds import set_otherwise, values_of
from det_compat.migrate.to_lightning.scripts.lines import is_fit
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols

#: The flag of ``pl.Trainer`` that has the unit of a length.
UNITS = {"det_compat.pytorch.Batch": "max_steps", "det_compat.pytorch.Epoch": "max_epochs"}


class Lengths:
    """What is known of lengths in a file.

    A variable that only ``fit()`` is given, and that is always of one unit, becomes its number.

    Attributes:
        epochs: the variables that are always a number of epochs.
    """

    def __init__(self, tree: cst.Module, symbols: Symbols) -> None:
        self._symbols = symbols
        self._units: dict[str, str] = {}
        values, others = values_of(tree), set_otherwise(tree)
        units = {name: {self.unit(each)[0] for each in found} for name, found in values.items()}
        self.epochs = {name for name in units if units[name] == {"max_epochs"}} - others
        others |= {*_used_beside_fit(tree)}
        known = {name: found for name, found in units.items() if len(found) == 1}
        self._units = {n: u for n in known.keys() - others for u in known[n] if u}
        self._numbers = [each for name in self._units for each in values[name]]

    def unit(self, value: cst.BaseExpression) -> tuple[str, cst.BaseExpression]:
        """The flag for a length in the unit of ``Batch(2)`` or ``Epoch(2)``, and the number."""
        if isinstance(value, cst.Name) and value.value in self._units:
            return self._units[value.value], value
        path = self._symbols.path(value.func) if isinstance(value, cst.Call) else None
        unit = UNITS.get(path or "", "")
        if isinstance(value, cst.Call) and unit and len(value.args) == 1:
            return unit, value.args[0].value
        return "", value

    def is_of_number(self, call: cst.Call) -> bool:
        """Whether a call makes the length of a variable that becomes its number."""
        return any(call is each for each in self._numbers)


def _used_beside_fit(tree: cst.Module) -> Iterator[str]:
    """The names that are read elsewhere than as an argument of ``fit()``."""
    calls = [call for call in syntax.find(tree, cst.Call) if is_fit(call)]
    given = [arg.value for call in calls for arg in call.args]
    set_to = [target.target for target in syntax.find(tree, cst.AssignTarget)]
    set_to += [line.target for line in syntax.find(tree, cst.AnnAssign)]
    spared = {id(node) for node in (*given, *set_to)}
    spared |= {id(arg.keyword) for arg in syntax.find(tree, cst.Arg)}
    spared |= {id(node.attr) for node in syntax.find(tree, cst.Attribute)}
    yield from (n.value for n in syntax.find(tree, cst.Name) if id(n) not in spared)
