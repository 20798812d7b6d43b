"""What is to become of the files and trial classes of a tree, before anything is changed.

All of it is read, and decided, before the first pass; no pass changes it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst
from libcst import matchers as m
from libcst.helpers import ensure_type

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import File, FileTransformer, Line
from det_compat.migrate.tree.metric_shapes import assigned
from det_compat.migrate.tree.parameters import HYPERPARAMETERS, Arguments, distinct, plain_dict
from det_compat.migrate.tree.step_modes import INTERVALS, choices, step_mode
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.validation_state import keeps_state, reachable

_CASTS = ("cast", "typing.cast")
#: The number of the batch in the whole training, given the LightningModule.
TOTAL_BATCH = "{0}.trainer.fit_loop.total_batch_idx"


@dataclass(frozen=True)
class WrappedScheduler:
    """An LR scheduler that is wrapped: its attribute, when it steps, every how many of these.

    The attribute has a star if it is a list of schedulers.

    ``mode`` is the name of Determined's step mode, ``""`` if it is decided at run time; ``choices``
    are the intervals that it is then, with their conditions, if these are known. Only a scheduler
    that ``is_torchs`` can be Lightning's.
    """

    attribute: str
    mode: str
    frequency: str = "1"
    choices: tuple[tuple[str, str], ...] = ()
    is_torchs: bool = True

    @property
    def interval(self) -> str:
        """Lightning's interval; ``""`` where the trial steps it."""
        return INTERVALS.get(self.mode, "")


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
        optimizers, schedulers, reducers: what it wraps, by attribute; with a star in front, the
            attribute is a list.
        calls_init: whether its ``__init__`` calls that of its base.
        stays: whether it asks for batches that are not moved to the device.
        early: its methods that run before there is a Trainer.
        keeps_state: whether a validation that nobody wants would change what comes after it.
        logged: metric names that its train_batch is known to return.
    """

    name: str
    methods: dict[str, list[str]]
    optimizers: tuple[str, ...]
    schedulers: tuple[WrappedScheduler, ...]
    reducers: tuple[WrappedReducer, ...]
    calls_init: bool
    stays: bool
    early: frozenset[str]
    keeps_state: bool
    logged: frozenset[str]


class OtherBases(enum.Enum):
    """The bases of a class in front of Determined's."""

    NONE = "there are none"
    PLAIN = "none of them has an __init__"
    INITIALIZED = "one of them has an __init__"
    UNKNOWN = "one of them is in no file that was read"


@dataclass(frozen=True, eq=False)
class TrialPlan:
    """What becomes of a trial class, which depends on the other classes of the tree.

    Attributes:
        own: what stands in the class itself.
        parents: plans of its bases that are trial classes of the tree, or mixins of them.
        is_root: whether it derives from Determined's class itself.
        is_whole: whether all of the trial is in this class, so that its methods can become
            Lightning's; otherwise they stay, and Lightning's call them.
        is_automatic: whether Lightning may step the optimizer.
        arguments: the parameters of its constructor.
        is_mixin: whether it is no trial class itself, and so no module.
        other_bases: what is known of the bases in front of Determined's.
        arrays: whether its batches have NumPy's arrays.
    """

    own: ClassFacts
    parents: Sequence[TrialPlan]
    is_root: bool
    is_whole: bool
    is_automatic: bool
    arguments: Arguments
    is_mixin: bool
    other_bases: OtherBases
    arrays: bool

    @property
    def ancestors(self) -> list[TrialPlan]:
        """This plan and those of its bases, nearest first."""
        found = [self]
        for plan in found:
            found.extend(parent for parent in plan.parents if parent not in found)
        return found

    def parameters(self, method: str) -> list[str] | None:
        """The parameters of a method, its own or inherited; None if there is none."""
        known = (plan.own.methods for plan in self.ancestors)
        return next((methods[method] for methods in known if method in methods), None)

    @property
    def all_methods(self) -> set[str]:
        """The names of all methods, inherited ones included."""
        return {name for plan in self.ancestors for name in plan.own.methods}

    @property
    def evaluates_whole(self) -> bool:
        """Whether validation is one call with the whole loader."""
        return self.parameters("evaluate_full_dataset") is not None

    @property
    def _initialized(self) -> list[ClassFacts]:
        return [p.own for p in self.ancestors if p is self or self.own.calls_init][::-1]

    @property
    def idle_hooks(self) -> list[str]:
        """The intervals at which bases step what this class does not make."""
        if self.is_root or self.own.calls_init or "__init__" not in self.own.methods:
            return []
        own = {scheduler.interval for scheduler in self.own.schedulers}
        inherited = {s.interval for p in self.ancestors[1:] for s in p.own.schedulers}
        return sorted(interval for interval in inherited - own if interval)

    @property
    def all_optimizers(self) -> list[str]:
        """The attributes of every optimizer, those of bases first."""
        return [*dict.fromkeys(o for own in self._initialized for o in own.optimizers)]

    @property
    def all_schedulers(self) -> list[WrappedScheduler]:
        """Every scheduler, those of bases first."""
        return [*dict.fromkeys(s for own in self._initialized for s in own.schedulers)]


@dataclass(frozen=True)
class LightningFile(File):
    """What the passes over a file know.

    Attributes:
        plans: of the trial classes of the file, by name.
        trials: of those of the whole tree.
        callbacks: the names of the classes that are callbacks.
        reducers: those of reducers, and whether they derive from MetricReducer itself.
        functions: the names of the file's functions, and of Python's own.
        names: those that the file binds at its top level.
        renamed: the attributes of trials that a LightningModule has for something else.
        hearing: the names of the classes of the whole tree that are told of validations.
    """

    plans: dict[str, TrialPlan] = field(default_factory=dict)
    trials: dict[str, TrialPlan] = field(default_factory=dict)
    callbacks: set[str] = field(default_factory=set)
    reducers: dict[str, bool] = field(default_factory=dict)
    functions: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    renamed: frozenset[str] = frozenset()
    hearing: frozenset[str] = frozenset()


class LightningTransformer(FileTransformer[LightningFile]):
    """A transformer that knows which trial class it is in."""

    def plain_hparams(self, hparams: cst.BaseExpression) -> cst.BaseExpression:
        """The hyperparameters of a module, where code elsewhere gets hold of them."""
        if self.plan is None or not self.plan.is_root:
            sections = {name for p in self.file.plans.values() for name in p.arguments.sections}
            return plain_dict(hparams, sections)
        sections = {*self.plan.arguments.sections}
        if sections and not syntax.has_attribute(self.classes[-1], HYPERPARAMETERS):
            owner = syntax.code(hparams).rpartition(".")[0]
            return syntax.expression(f"{owner}.{HYPERPARAMETERS}")
        return plain_dict(hparams, sections)

    @property
    def plan(self) -> TrialPlan | None:
        """The plan of the innermost class around, None if that is no trial class."""
        return self.file.plans.get(self.classes[-1].name.value) if self.classes else None


def facts_of(
    node: cst.ClassDef, symbols: Symbols, classes: Mapping[str, cst.ClassDef]
) -> ClassFacts:
    """What stands in a trial class, given the classes of its file."""
    own = syntax.methods(node)
    wrapped = [found for method in own.values() for found in wrappings(method, symbols)]
    variables = {n: value for method in own.values() for n, value in assigned(method).items()}
    init = own.get("__init__", cst.Pass())
    reducers = tuple(made for w in wrapped if (made := _reducer(w)) is not None)
    return ClassFacts(
        name=node.name.value,
        methods={name: _parameters(method) for name, method in own.items()},
        optimizers=distinct(w.starred for w in wrapped if w.member == "wrap_optimizer"),
        schedulers=distinct(
            _scheduler(w, symbols, classes, variables)
            for w in wrapped
            if w.member == "wrap_lr_scheduler"
        ),
        reducers=reducers,
        calls_init=any(
            "__init__" in syntax.code(call.func) for call in syntax.find(init, cst.Call)
        ),
        stays=bool(symbols.calls(node, "experimental.disable_auto_to_device")),
        early=frozenset(("__init__", *reachable(own, "__init__"))),
        keeps_state=keeps_state(own, {r.attribute.removeprefix("*") for r in reducers}),
        logged=frozenset(syntax.returned_keys(own["train_batch"]) if "train_batch" in own else ()),
    )


def _parameters(method: cst.FunctionDef) -> list[str]:
    params = method.params
    named = [*params.posonly_params, *params.params, *params.kwonly_params]
    extra = [f"**{params.star_kwarg.name.value}"] if params.star_kwarg else []
    return [*(p.name.value for p in named), *extra]


def _scheduler(
    found: Wrapping,
    symbols: Symbols,
    classes: Mapping[str, cst.ClassDef],
    variables: Mapping[str, cst.BaseExpression | None],
) -> WrappedScheduler:
    made = syntax.argument(found.call, 0, "lr_scheduler")
    made_by = classes.get(syntax.code(made.func)) if isinstance(made, cst.Call) else None
    given = syntax.argument(found.call, 1, "step_mode")
    if isinstance(given, cst.Name):
        given = variables.get(given.value) or given
    frequency = syntax.argument(found.call, 2, "frequency")
    return WrappedScheduler(
        found.starred,
        step_mode(given, symbols),
        "1" if frequency is None else syntax.code(frequency),
        tuple(choices(given, symbols)) if isinstance(given, cst.IfExp) else (),
        made_by is None or bool(made_by.bases),
    )


def _reducer(found: Wrapping) -> WrappedReducer | None:
    """A reducer of validation metrics; None for another, or for one without a known name."""
    if found.member not in ("wrap_reducer", "experimental.wrap_reducer"):
        return None
    name = syntax.argument(found.call, 1, "name")
    for_validation = syntax.argument(found.call, 3, "for_validation")
    if for_validation is not None and syntax.code(for_validation) == "False":
        return None
    known = syntax.code(name) if name is not None and syntax.code(name) != "None" else None
    if found.is_list and known is not None and not found.loop:
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
        is_conditional: whether the statement may not run.
    """

    member: str
    call: cst.Call
    attribute: str
    is_list: bool = False
    loop: str = ""
    is_conditional: bool = False

    @property
    def starred(self) -> str:
        """The attribute, with a star in front if it is a list."""
        return f"*{self.attribute}" if self.is_list else self.attribute


def wrappings(method: cst.FunctionDef, symbols: Symbols) -> Iterator[Wrapping]:
    """What a method wraps and keeps on its object."""
    plain = {id(line) for line in syntax.body_of(method)}
    for line in syntax.find(method, cst.SimpleStatementLine):
        is_conditional = method.name.value != "__init__" or id(line) not in plain
        for value, attribute, is_list, loop in _kept(line):
            call = _without_cast(value)
            member = symbols.method(call)
            if call is not None and member.rpartition(".")[2].startswith("wrap_"):
                yield Wrapping(member, call, attribute, is_list, loop, is_conditional)


def _kept(line: Line) -> Iterator[tuple[cst.BaseExpression | None, str, bool, str]]:
    """The values that a statement keeps: each with its attribute, as in a Wrapping."""
    attribute = (syntax.target_of(line) or "").partition(".")[2]
    small = syntax.simple(line)
    value = getattr(small, "value", None)
    if attribute and isinstance(value, cst.ListComp):
        inner = value.for_in
        is_plain = not inner.ifs and inner.inner_for_in is None
        loop = f"{syntax.code(inner.target)} in {syntax.code(inner.iter)}"
        yield value.elt, attribute, True, loop if is_plain else ""
    elif attribute and isinstance(value, (cst.List, cst.Tuple)):
        yield from ((element.value, attribute, True, "") for element in value.elements)
    elif attribute:
        yield value, attribute, False, ""
    elif m.matches(line, _APPENDING):
        call = ensure_type(value, cst.Call)
        owner = syntax.code(ensure_type(call.func, cst.Attribute).value)
        if "." in owner:
            yield call.args[0].value, owner.partition(".")[2], True, ""


_APPEND = m.Call(func=m.Attribute(attr=m.Name("append")), args=[m.AtLeastN(n=1)])
_APPENDING = m.SimpleStatementLine(body=[m.Expr(value=_APPEND)])


def _without_cast(value: cst.BaseExpression | None) -> cst.Call | None:
    """The call that a value is, without a cast around it."""
    if isinstance(value, cst.Call) and syntax.code(value.func) in _CASTS and len(value.args) == 2:
        value = value.args[1].value
    return value if isinstance(value, cst.Call) else None
