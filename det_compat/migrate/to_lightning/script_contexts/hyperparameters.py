"""The hyperparameters that scripts give their trials by ``pytorch.init()``."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from det_compat.migrate.to_lightning.script_contexts.chosen import chosen, unbound
from det_compat.migrate.to_lightning.script_contexts.one_place import INIT, values_in
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.parameters import Arguments
from det_compat.migrate.tree.symbols import Symbols


@dataclass(frozen=True)
class GivenInScripts:
    """What scripts give their trials.

    Attributes:
        names: all hyperparameters of their contexts; None where not all of them are told.
        always: those that each of them gives.
        made: the names of what is called with a context alone.
        given_more: those of what is called with a context and more.
    """

    names: frozenset[str] | None
    always: frozenset[str]
    made: frozenset[str]
    given_more: frozenset[str]

    def taken(
        self, trial: str, arguments: Arguments, *, is_whole: bool, optional: Collection[str]
    ) -> Arguments:
        """The parameters of a trial, which a script gives all that its context has.

        One that is given more, and asks for none of that, has no use for it. ``optional`` are the
        names that code looks up which need not be there.
        """
        if trial not in self.made:
            is_asked = arguments.types or arguments.asks or arguments.sections or not is_whole
            is_idle = trial in self.given_more and not is_asked
            return replace(arguments, is_open=False) if is_idle else arguments
        arguments = self._without_values(arguments, optional)
        # What a script does not give, its trial asks for elsewhere, if at all.
        found = {name: of for name, of in arguments.types.items() if name in arguments.defaults}
        given = {*self.always, *arguments.settings}
        found |= {n: of for n, of in arguments.types.items() if n in given or not self.names}
        is_told = self.names is not None and self.names <= found.keys()
        is_same = found.keys() == arguments.types.keys()
        if is_told and is_same:
            return arguments
        return replace(arguments, types=arguments.types if is_same else found, is_open=True)

    def _without_values(self, arguments: Arguments, optional: Collection[str]) -> Arguments:
        """The parameters without values of configs that a script's trial would find it has."""
        lacking = [
            name
            for name, value in arguments.defaults.items()
            if arguments.asks and name in arguments.types and value is not None
            if name not in self.always and (name in optional or name not in arguments.needs)
        ]
        types = {name: arguments.types[name] for name in lacking}
        types = {name: of if of == "Any" else f"{of} | None" for name, of in types.items()}
        return replace(
            arguments,
            types={**arguments.types, **types},
            defaults={**arguments.defaults, **dict.fromkeys(lacking)},
            absent=arguments.absent.union(lacking),
        )


def given_in_scripts(
    files: Collection[tuple[cst.Module, Symbols]], tables: Mapping[str, Sequence[str]]
) -> GivenInScripts:
    """What the scripts among the files give to ``pytorch.init()``, and make with its context.

    ``tables`` are the dicts of classes that the files have.
    """
    found = [names for tree, symbols in files for names in _given(tree, symbols)]
    known = [names for names in found if names is not None]
    made: dict[bool, set[str]] = {True: set(), False: set()}
    for tree, symbols in files:
        values = values_in(tree, ())
        for call in syntax.find(tree, cst.Call):
            if any(symbols.is_context(arg.value) for arg in call.args):
                func, bound = unbound(call.func, values)
                is_alone = len(call.args) == 1 and not bound
                made[is_alone].update(chosen(func, values, tables))
    is_told = len(known) == len(found)
    names = frozenset[str]().union(*known) if is_told else None
    always = frozenset.intersection(*map(frozenset, known or [set()]))
    return GivenInScripts(names, always, frozenset(made[True]), frozenset(made[False]))


def _given(tree: cst.Module, symbols: Symbols) -> Iterator[set[str] | None]:
    for call in syntax.find(tree, cst.Call):
        hparams = syntax.argument(call, 0, "hparams") if symbols.path(call.func) == INIT else None
        if hparams is None or syntax.code(hparams) == "None":
            continue
        text = syntax.code(hparams)
        lines = syntax.find(tree, cst.Assign)
        pairs = [pair for line in lines for pair in syntax.pairs(line)]
        values = [value for target, value in pairs if syntax.code(target) == text]
        # What is done to it but hand it on may put more into it.
        others: list[cst.CSTNode] = [
            a for a in syntax.find(tree, cst.Attribute) if syntax.code(a.value) == text
        ]
        others += [p[0] for p in pairs if syntax.code(p[0]).startswith(f"{text}[")]
        keys = [_keys(value) for value in values or [hparams]]
        yield None if others or None in keys else {key for each in keys for key in each or ()}


def _keys(value: cst.BaseExpression) -> set[str] | None:
    """The keys of a dict that is written out; None of anything else."""
    elements = value.elements if isinstance(value, cst.Dict) else [None]
    keys = [e.key if isinstance(e, cst.DictElement) else None for e in elements]
    texts = {str(key.evaluated_value) for key in keys if isinstance(key, cst.SimpleString)}
    return texts if len(texts) == len(keys) else None
