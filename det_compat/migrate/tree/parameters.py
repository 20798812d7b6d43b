"""What the constructor of a LightningModule takes: hyperparameters, and sections of the config.

A name that every config of the class has becomes a parameter, with the value of the first config
for its default. What else configs have, or the code asks for, is one, too, where that can be
(``from_config/closed.py``), and comes in by ``**hparams`` otherwise.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import libcst as cst

from det_compat.config import ExperimentConfig
from det_compat.config.hyperparameters import Categorical, Const, Double, Int, Log
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.walking import children
from det_compat.shared.masking import is_secret_name

#: The section of a config that it need not have.
DATA = "data_config"
_SECTIONS = {
    "get_data_config": DATA,
    "get_experiment_config": "experiment_config",
    "get_trial_seed": "experiment_config",
}
_GETTERS = ("get_hparam", "get_hparams")
_BATCH_SIZES = ("get_per_slot_batch_size", "get_global_batch_size")
_CONTAINERS: dict[type, str] = {dict: "dict[str, Any]", list: "list[Any]"}
_PLAIN = (bool, int, float, str)
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class ConfigUse:
    """What code asks of the experiment config.

    Attributes:
        names: the hyperparameters that it is known to need, in order.
        is_open: whether it may ask for others, or whether they are there.
        sections: what else of the config is asked for.
        read: the hyperparameters that are read of something that is made of all of them.
        is_whole: whether it does more with the dict of them all than to look one up.
    """

    names: tuple[str, ...] = ()
    is_open: bool = False
    sections: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    is_whole: bool = False


@dataclass(frozen=True)
class Arguments:
    """The parameters of a constructor.

    Attributes:
        types: the annotation of each hyperparameter that is named, in order.
        defaults: the values that those have which have one.
        is_open: whether it takes others.
        sections: what else of the config it is given.
        asks: whether the hyperparameters are used as one dict.
        needs: the names that the code asks for; with those of configs where bases get the rest.
        is_whole: whether more is done with that dict than to look one up.
        settings: which of the types are values of the config, and how to look them up in one.
        absent: the names that are no hyperparameters where they are None, as nobody gives them.
    """

    types: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    is_open: bool = False
    sections: tuple[str, ...] = ()
    asks: bool = False
    needs: frozenset[str] = frozenset()
    is_whole: bool = False
    settings: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()

    @property
    def named(self) -> dict[str, str]:
        """The annotation of each parameter by keyword; none where everything comes by ``**``."""
        if self.is_open and not self.types:
            return {}
        # A section is a dict, and no parameter may have one for its default.
        return {
            **self.types,
            **{
                name: f"dict[str, Any]{' | None' if name in self.defaults else ''}"
                for name in self.sections
            },
        }


def distinct(found: Iterable[_Item]) -> tuple[_Item, ...]:
    """The items, each once, in the order of their first."""
    return tuple(dict.fromkeys(found))


def arguments(
    own: ConfigUse,
    around: ConfigUse,
    configs: Sequence[ExperimentConfig],
    is_whole: bool,
    *,
    is_asked: bool = False,
) -> Arguments:
    """The parameters of a trial's constructor.

    Args:
        own: what the class asks of the config.
        around: what its file does.
        configs: those of the class.
        is_whole: whether all of the trial is in one class; otherwise bases get the rest.
        is_asked: whether they ask for anything else of it.
    """
    names = distinct((*own.names, *around.names))
    sections = distinct((*own.sections, *around.sections))
    asks, is_all = own.is_open or around.is_open, own.is_whole or around.is_whole
    spaces = [config.hyperparameters.space for config in configs]
    if not is_whole:
        there = frozenset(names).union(*spaces)
        return Arguments({}, {}, True, sections, asks, there, is_all)
    if not configs or not (names or asks or sections or is_asked):
        types = {name: annotation_of(name, ()) for name in names if can_be_parameter(name)}
        is_open = asks or any(spaces) or len(types) < len(names)
        return Arguments(types, {}, is_open, sections, asks, frozenset(names), is_all)
    known = distinct((*names, *(name for space in spaces for name in space)))
    constants = configs[0].hyperparameters.constants().items()
    defaults: dict[str, Any] = {n: value for n, value in constants if isinstance(value, _PLAIN)}
    # No secret of a config comes into the code.
    defaults = {
        n: v for n, v in defaults.items() if not (v and isinstance(v, str) and is_secret_name(n))
    }
    # Determined gave {} for a section that a config has not.
    lacking = {DATA: None} if DATA in sections and not all(c.data for c in configs) else {}
    # Where the code never asks whether a name is there, a default harms no config without it.
    harmless = {} if asks else defaults
    named = [name for name in known if name in harmless or all(name in space for space in spaces)]
    named = [name for name in named if can_be_parameter(name)]
    # LightningCLI takes a null for no argument.
    none = {n for space in spaces for n, item in space.items() if item == Const(None)}
    defaults = {**{name: None for name in named if name in none}, **defaults}
    return Arguments(
        {name: annotation_of(name, values_of(name, spaces)) for name in named},
        {**{name: defaults[name] for name in named if name in defaults}, **lacking},
        not {*known, *own.read, *around.read} <= {*named},
        sections,
        asks,
        frozenset(names),
        is_all,
    )


def can_be_parameter(name: str) -> bool:
    """Whether a parameter can have this name: none is ``drop-out`` or ``lambda``."""
    return name.isidentifier() and not keyword.iskeyword(name)


def values_of(name: str, spaces: Sequence[dict[str, Any]]) -> Iterator[Any]:
    """The values of a hyperparameter in all configs; of a range, one of its type."""
    for item in (space[name] for space in spaces if name in space):
        if isinstance(item, Const):
            yield item.value
        elif isinstance(item, Categorical):
            yield from item.vals
        elif isinstance(item, (Int, Double, Log)):
            yield 0 if isinstance(item, Int) else 0.0
        else:
            yield {}


#: Hyperparameters that are real numbers, also where each config happens to have a whole one.
_REAL = re.compile(
    r"(?:.*_)?(?:lr|wd|eps|alpha|beta\d?|gamma|momentum|dropout|learning_rate|\w*_?decay"
    r"|dropout_(?:rate|prob)|temperature)"
)


def annotation_of(name: str, values: Iterable[Any]) -> str:
    """The annotation of a hyperparameter with these values."""
    types = {type(value) for value in values}
    if not types and name == "global_batch_size":
        return "int"
    if types == {int, float} or (types == {int} and _REAL.fullmatch(name)):
        return "float"
    only = types.pop() if len(types) == 1 else object
    return only.__name__ if only in _PLAIN else _CONTAINERS.get(only, "Any")


def config_use(
    node: cst.CSTNode, symbols: Symbols, functions: Mapping[str, cst.FunctionDef] | None = None
) -> ConfigUse:
    """What code below ``node`` asks of the experiment config.

    A method of the context that is kept under another name is found where it is called, a
    hyperparameter where it is looked up in what ``get_hparams()`` has returned, or in functions,
    those of other files by name, that are given it.
    """
    names: list[str] = []
    sections: list[str] = []
    asks = is_whole = False
    tried = {
        id(call) for each in syntax.find(node, cst.Try) for call in syntax.find(each.body, cst.Call)
    }
    called = {id(call.func) for call in syntax.find(node, cst.Call)}
    called |= {id(value) for value in _only_called(node)}
    for getter in syntax.find(node, cst.Attribute):
        # What is handed on may be called with any name.
        member = symbols.member(getter)
        if member is not None and member[1] in _GETTERS and id(getter) not in called:
            asks, is_whole = True, is_whole or member[1] == "get_hparams"
    for call in syntax.find(node, cst.Call):
        method, name = symbols.method(call), syntax.argument(call, 0, "name")
        if method in _BATCH_SIZES:
            names.append("global_batch_size")
        elif method in _SECTIONS:
            sections.append(_SECTIONS[method])
        elif (
            method == "get_hparam" and isinstance(name, cst.SimpleString) and id(call) not in tried
        ):
            names.append(str(name.evaluated_value))
        elif method == "get_hparam":
            asks = True
    looked_up = _looked_up(node, symbols)
    asks = asks or not all(looked_up)
    is_whole = is_whole or None in looked_up
    read = distinct((*_read_of_all(node, symbols), *_asked(node, symbols, functions or {})))
    names += filter(None, looked_up)
    return ConfigUse(distinct(names), asks, distinct(sections), read, is_whole)


def _only_called(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What local variables stand for that are found wherever they are called, and not used else."""
    for line in syntax.find(node, cst.SimpleStatementLine):
        target, value = syntax.target_of(line) or "", getattr(syntax.simple(line), "value", None)
        if isinstance(value, cst.Attribute) and target.isidentifier():
            home = _home(node, line, target)
            attributes = {id(each.attr) for each in syntax.find(home, cst.Attribute)}
            names = (each for each in syntax.find(home, cst.Name) if id(each) not in attributes)
            if home is not node and sum(each.value == target for each in names) == 1:
                yield value


def joined_use(uses: Iterable[ConfigUse]) -> ConfigUse:
    """What several files together ask of the experiment config."""
    every = [*uses]
    return ConfigUse(
        distinct(name for use in every for name in use.names),
        any(use.is_open for use in every),
        distinct(section for use in every for section in use.sections),
        distinct(name for use in every for name in use.read),
        any(use.is_whole for use in every),
    )


def _looked_up(node: cst.CSTNode, symbols: Symbols) -> list[str | None]:
    """What is looked up in the dict of hyperparameters, as ``_lookups`` says it."""
    calls = symbols.calls(node, "get_hparams")
    if not calls:
        return []
    found: list[str | None] = [*_lookups(node, lambda each: any(each is call for call in calls))]
    for line in syntax.find(node, cst.SimpleStatementLine):
        target, value = syntax.target_of(line), getattr(syntax.simple(line), "value", None)
        call = syntax.call_of(line)
        given = call.args[0].value if call and syntax.code(call.func) in _ATTRDICT else None
        is_made = given in calls
        if target and (is_made or value in calls):
            # The call is no use, but each use of the name is one.
            found.remove(None)
            uses = _lookups(_home(node, line, target), partial(_is_read, target=target))
            found += ["", *(name and "" for name in uses)] if is_made else uses
    return found


#: What has hyperparameters for attributes, which ``_read_of_all`` names.
_ATTRDICT = ("AttrDict", "attrdict.AttrDict")
#: What of a dict gives more than one of its values.
_OF_ALL = {*dir(dict)} - {"get"}


def _read_of_all(node: cst.CSTNode, symbols: Symbols) -> Iterator[str]:
    """The names that are read of what a call makes of ``get_hparams()``, an AttrDict for example.

    A method is called, and is no hyperparameter.
    """
    asking = symbols.calls(node, "get_hparams")
    for line in syntax.find(node, cst.SimpleStatementLine) if asking else ():
        target, call = syntax.target_of(line), syntax.call_of(line)
        if not target or call is None or not any(arg.value in asking for arg in call.args):
            continue
        home = _home(node, line, target)
        called = {id(each.func) for each in syntax.find(home, cst.Call)}
        every: list[cst.Attribute | cst.Subscript] = [
            *syntax.find(home, cst.Attribute),
            *syntax.find(home, cst.Subscript),
        ]
        of_it = [each for each in every if syntax.code(each.value) == target]
        named = [
            (each, each.attr.value if isinstance(each, cst.Attribute) else _key(each))
            for each in of_it
            if id(each) not in called
        ]
        # What the trial puts there is no hyperparameter.
        put = {id(each.target) for each in syntax.find(home, cst.AssignTarget)}
        own = {name for each, name in named if id(each) in put}
        yield from (name for _, name in named if name is not None and name not in own)


def _asked(
    node: cst.CSTNode, symbols: Symbols, others: Mapping[str, cst.FunctionDef]
) -> Iterator[str]:
    """The names that are looked for in all hyperparameters, also by functions that get them."""
    asking = symbols.calls(node, "get_hparams")
    lines = syntax.find(node, cst.SimpleStatementLine) if asking else ()
    given = [line for line in lines if getattr(syntax.simple(line), "value", 0) in asking]
    kept = {target: _home(node, n, target) for n in given if (target := syntax.target_of(n))}
    for text, home in {**kept, **{syntax.code(call): node for call in asking}}.items():
        yield from _asked_of(text, home)
    functions = {**others, **{f.name.value: f for f in syntax.find(node, cst.FunctionDef)}}
    for call in syntax.find(node, cst.Call) if asking else ():
        function = functions.get(syntax.code(call.func).rpartition(".")[2])
        if function is None:
            continue
        params = [each.name.value for each in function.params.params]
        params = params[params[:1] == ["self"] :]
        for place, arg in enumerate(call.args):
            if arg.value not in asking and syntax.code(arg.value) not in kept:
                continue
            if arg.star == "**":
                yield from _taken_apart(function)
            elif not arg.star:
                name = arg.keyword.value if arg.keyword else "".join(params[place : place + 1])
                yield from _asked_of(name, function)


def _taken_apart(function: cst.FunctionDef) -> Iterator[str]:
    """The keys of a dict that a function takes by ``**`` which need not be there."""
    params = (*function.params.params, *function.params.kwonly_params)
    yield from (each.name.value for each in params if each.default is not None)
    if function.params.star_kwarg is not None:
        yield from _asked_of(function.params.star_kwarg.name.value, function)


def _asked_of(name: str, function: cst.CSTNode) -> Iterator[str]:
    """The keys that a function looks for in a variable, by a text."""
    for call in syntax.find(function, cst.Call):
        if syntax.code(call.func) == f"{name}.get" and call.args:
            yield from _text(call.args[0].value)
    for each in syntax.find(function, cst.Comparison):
        if any(syntax.code(found.comparator) == name for found in each.comparisons):
            yield from _text(each.left)


def _text(node: cst.BaseExpression) -> Iterator[str]:
    if isinstance(node, cst.SimpleString):
        yield str(node.evaluated_value)


def _home(node: cst.CSTNode, line: cst.CSTNode, target: str) -> cst.CSTNode:
    """Where a name is known: the innermost function around a statement, or all of ``node``."""
    around = [
        function
        for function in syntax.find(node, cst.FunctionDef)
        if any(each is line for each in syntax.find(function, cst.SimpleStatementLine))
    ]
    return around[-1] if around and target.isidentifier() else node


def _is_read(node: cst.CSTNode, target: str) -> bool:
    owner, _, name = target.rpartition(".")
    if isinstance(node, cst.Attribute):
        return bool(owner) and node.attr.value == name and syntax.code(node.value) == owner
    return not owner and isinstance(node, cst.Name) and node.value == name


def _lookups(node: cst.CSTNode, is_one: Callable[[cst.CSTNode], bool]) -> Iterator[str | None]:
    """The names that are looked up in the expressions that ``is_one`` tells.

    It is ``""`` for one that may not be there, or is not known; None for each other use.
    """
    target = node.target if isinstance(node, cst.AssignTarget) else None
    if isinstance(target, cst.Subscript) and is_one(target.value):
        # What the trial puts there is no hyperparameter, and there must be a dict to put it in.
        yield ""
    elif isinstance(node, cst.Attribute) and is_one(node.value):
        yield None if node.attr.value in _OF_ALL else ""
    elif isinstance(node, cst.ComparisonTarget) and is_one(node.comparator):
        yield ""
    elif isinstance(node, cst.Subscript) and is_one(node.value):
        yield _key(node) or ""
        yield from (each for part in node.slice for each in _lookups(part, is_one))
    elif target is not None and is_one(target):
        return
    elif is_one(node):
        yield None
    else:
        # The names of attributes and keywords are no variables, and those of parameters no uses.
        skipped = {id(getattr(node, part, None)) for part in ("attr", "keyword")}
        skipped |= {id(node.name)} if isinstance(node, cst.Param) else set()
        for child in children(node):
            if id(child) not in skipped:
                yield from _lookups(child, is_one)


def _key(node: cst.Subscript) -> str | None:
    index = node.slice[0].slice if len(node.slice) == 1 else None
    value = index.value if isinstance(index, cst.Index) else None
    return str(value.evaluated_value) if isinstance(value, cst.SimpleString) else None
