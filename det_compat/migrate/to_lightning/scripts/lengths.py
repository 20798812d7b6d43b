"""The lengths in a script: ``Batch(2)`` and ``Epoch(2)``, and variables that are such."""

import re
from collections import Counter
from collections.abc import Collection, Iterator

import libcst as cst

from det_compat.migrate.to_lightning.scripts.lines import is_fit
from det_compat.migrate.to_lightning.scripts.makers import UNITS, Makers, flag_of
from det_compat.migrate.to_lightning.scripts.schedule import Length
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.docstrings import without_entries
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import set_otherwise, values_of
from det_compat.migrate.tree.walking import below


class Lengths:
    """What is known of lengths in a file.

    A variable that only ``fit()`` is given, and that is always of one unit, becomes its number. So
    does a parameter; one that is never given anything, and None by default, goes.

    Args:
        tree: of the file.
        symbols: what stands in it.
        asked: the names of the file that others may use; ``*`` if that may be any.

    Attributes:
        epochs: the variables that are always a number of epochs.
        makers: the classes of lengths that are chosen at run time.
        functions: the functions that return lengths, and nothing else.
    """

    def __init__(self, tree: cst.Module, symbols: Symbols, asked: Collection[str] = "*") -> None:
        self._symbols = symbols
        self._units: dict[str, str] = {}
        values, others = values_of(tree), set_otherwise(tree)
        given = {} if "*" in asked else _given(tree, asked)
        others, beside = others - given.keys(), {*_used_beside_fit(tree)}
        always = {n for n, found in given.items() if {*map(syntax.code, found)} == {"None"}}
        # A checkpoint to go on from is named by whoever starts the training.
        self._idle = always - beside - {*_given_beside_periods(tree)}
        values |= given
        units = {name: {self.unit(each)[0] for each in found} for name, found in values.items()}
        self.epochs = {name for name in units if units[name] == {"max_epochs"}} - others
        unsure, others = others, others | beside
        known = {name: found for name, found in units.items() if len(found) == 1}
        self._units = {n: u for n in known.keys() - others for u in known[n] if u}
        self._numbers = [each for name in self._units for each in values[name]]
        self.makers = Makers(tree, symbols, values, unsure, asked)
        functions = (line for line in tree.body if isinstance(line, cst.FunctionDef))
        self.functions = {each.name.value for each in functions if self._gives_lengths(each)}
        # Others that are lengths become dicts, each of the one flag that says it.
        arms = {n: [arm for each in found for arm in _arms(each)] for n, found in values.items()}
        self._dicts = {n for n in arms if arms[n] and all(map(self._is_length, arms[n]))}
        self._dicts -= unsure | self._units.keys()

    def unit(self, value: cst.BaseExpression) -> tuple[str, cst.BaseExpression]:
        """The flag for a length in the unit of ``Batch(2)`` or ``Epoch(2)``, and the number."""
        if isinstance(value, cst.Name) and value.value in self._units:
            return self._units[value.value], value
        path = self._symbols.path(value.func) if isinstance(value, cst.Call) else None
        unit = UNITS.get(path or "", "")
        if isinstance(value, cst.Call) and unit and len(value.args) == 1:
            return unit, value.args[0].value
        return "", value

    def _is_length(self, value: cst.BaseExpression) -> bool:
        is_given = isinstance(value, cst.Call) and syntax.code(value.func) in self.functions
        return is_given or bool(self.unit(value)[0]) or self.makers.is_made(value)

    def _gives_lengths(self, function: cst.FunctionDef) -> bool:
        values = [each.value for each in syntax.returns(function)]
        arms = [arm for value in values if value is not None for arm in _arms(value)]
        is_length = (
            isinstance(arm, cst.Call)
            and (self._symbols.path(arm.func) in UNITS or self.makers.is_made(arm))
            for arm in arms
        )
        return bool(values) and None not in values and all(is_length)

    def length(self, value: cst.BaseExpression | None) -> Length:
        """A length or period as far as it is told, with what it is chosen from at run time."""
        unit, number = self.unit(value) if value is not None else ("", cst.Name("None"))
        if isinstance(value, cst.Name) and value.value in self._dicts:
            one, other = (Length(each, f'{value.value}["{each}"]') for each in UNITS.values())
            return Length("chosen", value.value, (f'"max_steps" in {value.value}', one, other))
        if isinstance(value, cst.Dict) and (made := flag_of(value)) is not None:
            one, other = (Length(each, syntax.code(made[1])) for each in UNITS.values())
            return Length("chosen", syntax.code(value), (f'{made[0]} == "max_steps"', one, other))
        if isinstance(value, cst.IfExp):
            one, other = self.length(value.body), self.length(value.orelse)
            is_told = bool(one.unit and other.unit)
            choice = (syntax.code(value.test), one, other)
            return Length("chosen", syntax.code(value), choice) if is_told else Length()
        return Length(unit, syntax.code(number)) if unit else Length()

    def in_steps(self, flag: str, steps: int) -> list[str]:
        """The flags of a length that is a variable, where a batch makes so many steps."""
        name = flag.removeprefix("**")
        if steps == 1 or name not in self._dicts:
            return [flag]
        told = f'max_steps={steps} * {name}["max_steps"] if "max_steps" in {name} else -1'
        return [told, f'max_epochs={name}.get("max_epochs")']

    def told(
        self, given: dict[str, cst.BaseExpression] | None
    ) -> dict[str, cst.BaseExpression] | None:
        """The arguments of ``fit()`` without parameters that are always None."""
        every = {} if given is None else given
        known = {name: value for name, value in every.items() if not self._is_idle(value)}
        return None if given is None else known

    def _is_idle(self, value: cst.BaseExpression) -> bool:
        return syntax.code(value) in self._idle

    def without_idle(self, function: cst.FunctionDef, before: cst.FunctionDef) -> cst.FunctionDef:
        """A function without such parameters, and variables that it read ``before`` alone."""
        function = _without_unread(function, before)
        params = function.params
        parts = {"params": params.params, "kwonly_params": params.kwonly_params}
        gone = [p.name.value for part in parts.values() for p in part if self._is_idle(p.name)]
        for part, there in parts.items():
            kept = [param for param in there if param.name.value not in gone]
            kept[-1:] = [param.with_changes(comma=there[-1].comma) for param in kept[-1:]]
            params = params.with_changes(**{part: kept})
        return without_entries(function.with_changes(params=params), gone, returns=True)

    def is_of_number(self, call: cst.Call) -> bool:
        """Whether a call makes the length of a variable that becomes its number."""
        return any(call is each for each in self._numbers)


def _arms(value: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What a value may be at run time."""
    if isinstance(value, cst.IfExp):
        yield from (*_arms(value.body), *_arms(value.orelse))
    else:
        yield value


#: What makes a dict of something, and does no more.
_COPYING = re.compile(r"dict|vars|(?:dataclasses\.|attrs?\.)?asdict|(?:copy\.)?deepcopy")


def _without_unread(function: cst.FunctionDef, before: cst.FunctionDef) -> cst.FunctionDef:
    read = Counter(name.value for name in syntax.find(function, cst.Name))
    was = Counter(name.value for name in syntax.find(before, cst.Name))

    def is_unread(line: cst.BaseStatement) -> bool:
        target = syntax.target_of(line) or ""
        calls = (syntax.code(call.func) for call in syntax.find(line, cst.Call))
        return read[target] == 1 < was[target] and all(map(_COPYING.fullmatch, calls))

    body = [line for line in syntax.body_of(function) if not is_unread(line)]
    return syntax.with_body(function, body)


def _given(tree: cst.Module, asked: Collection[str]) -> dict[str, list[cst.BaseExpression]]:
    """All that each parameter is ever given, if that is known and no variable has its name."""
    functions = [line for line in tree.body if isinstance(line, cst.FunctionDef)]
    read = [name.value for name in syntax.find(tree, cst.Name)]
    bound = [param.name.value for param in syntax.find(tree, cst.Param)]
    bound += [
        syntax.code(each.target)
        for each in below(tree)
        if isinstance(each, (cst.AssignTarget, cst.AnnAssign, cst.NamedExpr, cst.For))
    ]
    found: dict[str, list[cst.BaseExpression]] = {}
    for function in functions:
        name, params = function.name.value, function.params
        calls = [c for c in syntax.find(tree, cst.Call) if syntax.code(c.func) == name]
        is_handed_on = read.count(name) > 1 + len(calls)
        if not calls or is_handed_on or name in asked or any(a.star for c in calls for a in c.args):
            continue
        for at, param in enumerate((*params.params, *params.kwonly_params)):
            key = param.name.value
            each = [syntax.argument(c, at, key) or param.default for c in calls]
            if bound.count(key) == 1:
                found[key] = [value for value in each if value is not None]
    return found


def _given_beside_periods(tree: cst.Module) -> Iterator[str]:
    for call in syntax.find(tree, cst.Call):
        for arg in call.args if is_fit(call) else ():
            if arg.keyword is None or not arg.keyword.value.endswith("_period"):
                yield syntax.code(arg.value)


def _used_beside_fit(tree: cst.Module) -> Iterator[str]:
    """The names that are read elsewhere than as an argument of ``fit()``."""
    calls = [call for call in syntax.find(tree, cst.Call) if is_fit(call)]
    given = [arg.value for call in calls for arg in call.args]
    set_to = [target.target for target in syntax.find(tree, cst.AssignTarget)]
    set_to += [line.target for line in syntax.find(tree, cst.AnnAssign)]
    spared = {id(node) for node in (*given, *set_to)}
    spared |= {id(arg.keyword) for arg in syntax.find(tree, cst.Arg)}
    spared |= {id(param.name) for param in syntax.find(tree, cst.Param)}
    spared |= {id(node.attr) for node in syntax.find(tree, cst.Attribute)}
    yield from (n.value for n in syntax.find(tree, cst.Name) if id(n) not in spared)
