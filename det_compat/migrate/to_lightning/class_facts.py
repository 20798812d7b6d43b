"""What stands in a trial class itself: its methods, and what it wraps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst
from libcst import matchers as m
from libcst.helpers import ensure_type

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line
from det_compat.migrate.tree.metric_shapes import assigned
from det_compat.migrate.tree.parameters import distinct
from det_compat.migrate.tree.step_modes import (
    INTERVALS,
    choices,
    kept_choices,
    kept_mode,
    step_mode,
)
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.validation_state import (
    attributes_changed,
    attributes_read,
)

_CASTS = ("cast", "typing.cast")
#: What a context is asked for that depends on the number of processes.
SIZES = frozenset(("distributed.get_size", "distributed.size", "get_per_slot_batch_size"))


@dataclass(frozen=True)
class WrappedScheduler:
    """An LR scheduler that is wrapped: its attribute, when it steps, every how many of these.

    The attribute has a star if it is a list of schedulers.

    ``mode`` is the name of Determined's step mode, ``""`` if it is decided at run time; ``choices``
    are the intervals that it is then, with their conditions, if these are known. Only a scheduler
    that ``is_torchs`` can be Lightning's. One that ``may_lack`` is only made under a condition.
    """

    attribute: str
    mode: str
    frequency: str = "1"
    choices: tuple[tuple[str, str], ...] = ()
    is_torchs: bool = True
    may_lack: bool = False

    @property
    def interval(self) -> str:
        """Lightning's interval; ``""`` where the trial steps it."""
        return INTERVALS.get(self.mode, "")


@dataclass(frozen=True)
class WrappedModel:
    """A model that is wrapped: its attribute, with a star if that is a list of models.

    One that ``may_lack`` is only made under a condition.
    """

    attribute: str
    may_lack: bool = False


@dataclass(frozen=True)
class WrappedReducer:
    """A reducer that is wrapped: its attribute and the expression of its name, if it has one.

    An attribute with a star is a list of reducers, with names that ``loop`` goes through. One that
    ``may_lack`` is only made under a condition. ``made_by`` is the name of its class.
    """

    attribute: str
    name: str | None
    loop: str = ""
    may_lack: bool = False
    made_by: str = ""


@dataclass(frozen=True)
class ClassFacts:
    """What stands in a trial class itself.

    Attributes:
        name: of the class.
        methods: the names of its methods with their parameters.
        models, optimizers, schedulers, reducers: what it wraps, by attribute; with a star in
            front, the attribute is a list.
        training_reducers: those of training metrics alone.
        unkept: the methods of the context by which it wraps what no attribute is known to keep.
        calls_init: whether its ``__init__`` calls that of its base.
        stays: whether it asks for batches that are not moved to the device.
        uses: the attributes of its object that each method reads.
        stores: those that its methods set.
        sizes: the methods that ask for what depends on the number of processes.
        logged, validated: metric names that its train_batch, and its evaluation, are known to
            return.
    """

    name: str
    methods: dict[str, list[str]]
    models: tuple[WrappedModel, ...]
    optimizers: tuple[str, ...]
    schedulers: tuple[WrappedScheduler, ...]
    reducers: tuple[WrappedReducer, ...]
    training_reducers: tuple[WrappedReducer, ...]
    unkept: frozenset[str]
    calls_init: bool
    stays: bool
    uses: dict[str, frozenset[str]]
    stores: frozenset[str]
    sizes: frozenset[str]
    logged: frozenset[str]
    validated: frozenset[str]


def facts_of(
    node: cst.ClassDef, symbols: Symbols, classes: Mapping[str, cst.ClassDef]
) -> ClassFacts:
    """What stands in a trial class, given the classes of its file."""
    own = syntax.methods(node)
    wrapped = [found for method in own.values() for found in wrappings(method, symbols)]
    variables = variables_of(own)
    init = own.get("__init__", cst.Pass())
    reducers = tuple(made for w in wrapped if (made := _reducer(w)) is not None)
    others = tuple(made for w in wrapped if (made := _reducer(w, validates=False)) is not None)
    return ClassFacts(
        name=node.name.value,
        methods={name: _parameters(method) for name, method in own.items()},
        models=distinct(
            WrappedModel(w.starred, w.is_conditional) for w in wrapped if w.member == "wrap_model"
        ),
        optimizers=distinct(w.starred for w in wrapped if w.member == "wrap_optimizer"),
        schedulers=distinct(
            _scheduler(w, symbols, classes, variables)
            for w in wrapped
            if w.member == "wrap_lr_scheduler"
        ),
        reducers=reducers,
        training_reducers=others,
        unkept=frozenset(
            member
            for member in ("wrap_model", "wrap_optimizer", "wrap_lr_scheduler", "wrap_reducer")
            if len(symbols.calls(node, member)) > sum(w.is_kept(member) for w in wrapped)
        ),
        calls_init=any(
            "__init__" in syntax.code(call.func) for call in syntax.find(init, cst.Call)
        ),
        stays=bool(symbols.calls(node, "experimental.disable_auto_to_device")),
        uses={name: frozenset(attributes_read(method)) for name, method in own.items()},
        sizes=frozenset(name for name, method in own.items() if asks_sizes(method, symbols)),
        stores=frozenset(name for method in own.values() for name in attributes_changed(method)),
        logged=_keys(own, "train_batch"),
        validated=_keys(own, "evaluate_full_dataset") or _keys(own, "evaluate_batch"),
    )


def _keys(own: Mapping[str, cst.FunctionDef], name: str) -> frozenset[str]:
    return frozenset(syntax.returned_keys(own[name]) if name in own else ())


def _parameters(method: cst.FunctionDef) -> list[str]:
    params = method.params
    named = [*params.posonly_params, *params.params, *params.kwonly_params]
    extra = [f"**{params.star_kwarg.name.value}"] if params.star_kwarg else []
    return [*(p.name.value for p in named), *extra]


def asks_sizes(node: cst.CSTNode, symbols: Symbols) -> bool:
    """Whether code asks how many processes there are, or for what depends on that."""
    members = map(symbols.member, syntax.find(node, cst.Attribute))
    return any(member is not None and member[1] in SIZES for member in members)


def named_for(own: Mapping[str, cst.FunctionDef], name: str) -> set[str]:
    """The names in a method, and where the attributes and methods that it uses are made."""
    if name not in own:
        return set()
    used = {*attributes_read(own[name])}
    nodes: list[cst.CSTNode] = [own[name], *(own[each] for each in used & own.keys())]
    for method in own.values():
        targets = {f"{syntax.self_name(method)}.{each}" for each in used}
        lines = syntax.find(method, cst.SimpleStatementLine)
        nodes += [line for line in lines if syntax.target_of(line) in targets]
    return {found for node in nodes for found in syntax.names_in(node)}


def variables_of(own: Mapping[str, cst.FunctionDef]) -> dict[str, cst.BaseExpression | None]:
    """What each local variable of the methods of a class is; None if it is set more than once."""
    return {n: value for method in own.values() for n, value in assigned(method).items()}


def step_mode_of(
    found: Wrapping, symbols: Symbols, variables: Mapping[str, cst.BaseExpression | None]
) -> cst.BaseExpression | None:
    """The step mode that a scheduler is wrapped with; a variable as what it was set to."""
    given = syntax.argument(found.call, 1, "step_mode")
    if isinstance(given, cst.Name):
        given = variables.get(given.value) or given
    return given


def _scheduler(
    found: Wrapping,
    symbols: Symbols,
    classes: Mapping[str, cst.ClassDef],
    variables: Mapping[str, cst.BaseExpression | None],
) -> WrappedScheduler:
    made = syntax.argument(found.call, 0, "lr_scheduler")
    made_by = classes.get(syntax.code(made.func)) if isinstance(made, cst.Call) else None
    given = step_mode_of(found, symbols, variables)
    frequency = syntax.argument(found.call, 2, "frequency")
    mode = "" if found.keeps_mode else step_mode(given, symbols)
    found_choices: tuple[tuple[str, str], ...] = ()
    if found.keeps_mode:
        found_choices = kept_choices(found.attribute)
    elif isinstance(given, cst.IfExp):
        found_choices = tuple(choices(given, symbols))
    return WrappedScheduler(
        found.starred,
        mode,
        "1" if frequency is None else syntax.code(frequency),
        found_choices,
        made_by is None or bool(made_by.bases),
        found.is_conditional and not found.is_list,
    )


def _reducer(found: Wrapping, *, validates: bool = True) -> WrappedReducer | None:
    """A reducer of validation metrics, or of training metrics alone; None for another."""
    if found.member not in ("wrap_reducer", "experimental.wrap_reducer"):
        return None
    name = syntax.argument(found.call, 1, "name")
    phases = ((2, "for_training"), (3, "for_validation"))
    given = (syntax.argument(found.call, *phase) for phase in phases)
    left_out = [phase is not None and syntax.code(phase) == "False" for phase in given]
    if left_out[1] if validates else left_out != [False, True]:
        return None
    known = syntax.code(name) if name is not None and syntax.code(name) != "None" else None
    if not found.is_kept(found.member):
        return None
    reducer = syntax.argument(found.call, 0, "reducer")
    return WrappedReducer(
        found.starred,
        known,
        found.loop,
        may_lack=found.is_conditional and not found.is_list,
        made_by=syntax.code(reducer.func) if isinstance(reducer, cst.Call) else "",
    )


@dataclass(frozen=True)
class Wrapping:
    """A call that wraps something, and the attribute that keeps it.

    Attributes:
        member: ``wrap_optimizer``, for example.
        call: the call.
        attribute: without ``self.``.
        is_list: whether the attribute is a list of such.
        loop: what the list is made from, as in ``i in range(3)``; ``""`` if it is no comprehension.
        is_conditional: whether the statement may not run, and nothing else sets the attribute.
        keeps_mode: whether the next statement keeps the step mode of a scheduler.
    """

    member: str
    call: cst.Call
    attribute: str
    is_list: bool = False
    loop: str = ""
    is_conditional: bool = False
    keeps_mode: bool = False

    def is_kept(self, member: str) -> bool:
        """Whether this is such a call, and all of what it is called is known."""
        name = syntax.argument(self.call, 1, "name") if member.endswith("reducer") else None
        has_name = name is not None and syntax.code(name) != "None"
        return self.member == member and (not self.is_list or not has_name or bool(self.loop))

    @property
    def starred(self) -> str:
        """The attribute, with a star in front if it is a list."""
        return f"*{self.attribute}" if self.is_list else self.attribute


def wrappings(method: cst.FunctionDef, symbols: Symbols) -> Iterator[Wrapping]:
    """What a method wraps and keeps on its object."""
    own = syntax.self_name(method)
    modes = {syntax.target_of(line) for line in syntax.find(method, cst.SimpleStatementLine)}
    variables = assigned(method)
    for line in syntax.find(method, cst.SimpleStatementLine):
        for value, attribute, is_list, loop in _kept(line):
            if isinstance(value, cst.Name):
                value = variables.get(value.value)
            call = _without_cast(value)
            member = symbols.method(call)
            if call is not None and member.rpartition(".")[2].startswith("wrap_"):
                is_sure = method.name.value == "__init__" and _always_sets(
                    syntax.body_of(method), f"{own}.{attribute}", line
                )
                keeps_mode = f"{own}.{kept_mode(attribute)}" in modes
                yield Wrapping(member, call, attribute, is_list, loop, not is_sure, keeps_mode)


def _always_sets(
    body: Sequence[cst.BaseStatement], target: str, line: cst.BaseStatement | None
) -> bool:
    """Whether a block is sure to come by ``line``, or else to set ``target``."""
    for each in body:
        if each is line or (line is None and syntax.target_of(each) == target):
            return True
        if isinstance(each, cst.With) and _always_sets(_block(each.body), target, line):
            return True
        if isinstance(each, cst.If) and each.orelse is not None:
            parts = [_block(each.body), _otherwise(each.orelse)]
            if all(_always_sets(part, target, None) for part in parts):
                return True
    return False


def _otherwise(orelse: cst.If | cst.Else) -> Sequence[cst.BaseStatement]:
    return [orelse] if isinstance(orelse, cst.If) else _block(orelse.body)


def _block(suite: cst.BaseSuite) -> Sequence[cst.BaseStatement]:
    return suite.body if isinstance(suite, cst.IndentedBlock) else ()


def _kept(line: Line) -> Iterator[tuple[cst.BaseExpression | None, str, bool, str]]:
    """The values that a statement keeps: each with its attribute, as in a Wrapping."""
    small = syntax.simple(line)
    value = getattr(small, "value", None)
    targets = small.targets if isinstance(small, cst.Assign) else ()
    target = targets[0].target if len(targets) == 1 else None
    if isinstance(target, (cst.Tuple, cst.List)):
        names = [_attribute(syntax.code(element.value)) for element in target.elements]
        values = (
            [e.value for e in value.elements] if isinstance(value, (cst.Tuple, cst.List)) else []
        )
        if isinstance(value, (cst.ListComp, cst.GeneratorExp)):
            values = [value.elt] * len(names)
        yield from (
            (each, name, False, "") for each, name in zip(values, names, strict=False) if name
        )
        return
    attribute = _attribute(syntax.target_of(line) or "")
    if attribute and isinstance(value, cst.ListComp):
        inner = value.for_in
        is_plain = not inner.ifs and inner.inner_for_in is None
        loop = f"{syntax.code(inner.target)} in {syntax.code(inner.iter)}"
        yield value.elt, attribute, True, loop if is_plain else ""
    elif attribute and isinstance(value, (cst.List, cst.Tuple)):
        yield from ((element.value, attribute, True, "") for element in value.elements)
    elif attribute and isinstance(value, (cst.Dict, cst.DictComp)):
        made = value.elements if isinstance(value, cst.Dict) else [value]
        for each in made:
            key = syntax.code(each.key) if isinstance(each, cst.DictElement) else ""
            name = _attribute(f"self.{attribute}[{key}]")
            yield each.value, name, name.endswith(".values()"), ""
    elif attribute.endswith(".values()"):
        yield value, attribute, True, ""
    elif attribute:
        yield value, attribute, False, ""
    elif m.matches(line, _APPENDING):
        call = ensure_type(value, cst.Call)
        owner = syntax.code(ensure_type(call.func, cst.Attribute).value)
        if "." in owner:
            yield call.args[0].value, owner.partition(".")[2], True, ""


def _attribute(target: str) -> str:
    """What follows the object in a target; for an entry of a dict by a variable, all of its values.

    It is ``""`` for a variable.
    """
    attribute = target.partition(".")[2]
    owner, bracket, key = attribute.partition("[")
    key = key.removesuffix("]")
    is_known = key.isdigit() or (key[:1] in ("'", '"') and key[-1:] == key[:1])
    return f"{owner}.values()" if bracket and not is_known else attribute


_APPEND = m.Call(func=m.Attribute(attr=m.Name("append")), args=[m.AtLeastN(n=1)])
_APPENDING = m.SimpleStatementLine(body=[m.Expr(value=_APPEND)])


def _without_cast(value: cst.BaseExpression | None) -> cst.Call | None:
    """The call that a value is, without a cast around it."""
    if isinstance(value, cst.Call) and syntax.code(value.func) in _CASTS and len(value.args) == 2:
        value = value.args[1].value
    return value if isinstance(value, cst.Call) else None
