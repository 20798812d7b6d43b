"""What stands in a trial class itself: its methods, and what it wraps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.shapes.values import assigned
from det_compat.migrate.to_lightning.metrics.names import are_shared, every_name, known_names
from det_compat.migrate.to_lightning.optimization.kept import (
    BY_KEY,
    Wrapping,
    called_for_sure,
    called_often,
    wrappings,
)
from det_compat.migrate.to_lightning.optimization.step_modes import (
    INTERVALS,
    choices,
    kept_choices,
    step_mode,
)
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.parameters import distinct
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import (
    attributes_changed,
    attributes_read,
    reachable,
)

#: What a context is asked for that depends on the number of processes.
SIZES = words(
    """
    distributed.get_size distributed.size distributed._hvd_config.use get_per_slot_batch_size
    """
)


_SUMS = (cst.BinaryOperation, cst.BooleanOperation, cst.Comparison, cst.IfExp, cst.Lambda)


@dataclass(frozen=True)
class WrappedScheduler:
    """An LR scheduler that is wrapped: its attribute, when it steps, every how many of these.

    The attribute has a star if it is a list of schedulers.

    ``mode`` is the name of Determined's step mode, ``""`` if it is decided at run time; ``choices``
    are the intervals that it is then, with their conditions, if these are known. Only a scheduler
    that ``is_torchs`` can be Lightning's. One that ``may_lack`` is only made under a condition,
    one that ``is_late`` by a method that ``__init__`` does not call. ``chosen`` is the expression
    of Lightning's interval where a run decides on it; ``""`` elsewhere.
    """

    attribute: str
    mode: str
    frequency: str = "1"
    choices: tuple[tuple[str, str], ...] = ()
    is_torchs: bool = True
    may_lack: bool = False
    is_late: bool = False
    chosen: str = ""

    @property
    def is_stepped(self) -> bool:
        """Whether Lightning can step it."""
        return bool(self.interval or self.chosen)

    @property
    def interval(self) -> str:
        """Lightning's interval; ``""`` where the trial steps it."""
        return INTERVALS.get(self.mode, "")

    @property
    def counts_batches(self) -> bool:
        """Whether it steps after every so many batches, which Lightning counts in each epoch."""
        return self.interval == "step" and self.frequency != "1"

    @property
    def is_lightnings(self) -> bool:
        """Whether Lightning can step it, which asks for schedulers before it asks for data."""
        return self.is_stepped and self.is_torchs and not self.is_late

    def is_due(self, count: str) -> str:
        """The condition that it steps after so many."""
        is_sum = isinstance(syntax.expression(self.frequency), _SUMS)
        every = f"({self.frequency})" if is_sum else self.frequency
        return f"{count} % {every} == 0"


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
    ``may_lack`` is only made under a condition. ``made_by`` is what is wrapped: of a call, what is
    called, with brackets.
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
        bases: what it names as its bases.
        methods: the names of its methods with their parameters.
        models, optimizers, schedulers, reducers: what it wraps, by attribute; with a star in
            front, the attribute is a list.
        lacking: the optimizers that are only made under a condition.
        emptied: the lists of optimizers that are.
        training_reducers: those of training metrics alone.
        unkept: the methods of the context by which it wraps what no attribute is known to keep.
        calls_init: whether its ``__init__`` calls that of its base.
        passes_on: whether it calls it first of all.
        hands_rest_on: whether it gives it, sooner or later, nothing but what it was given by stars.
        stays: whether it asks for batches that are not moved to the device.
        uses: the attributes of its object that each method reads.
        stores: those that its methods set.
        called: the last parts of the names that each method calls.
        sizes: the methods that ask for what depends on the number of processes.
        backwards: how many backward passes stand in it.
        logged, validated: metric names that its train_batch, and its evaluation, are known to
            return.
        every_logged, every_validated: all metric names of these; None if some are not known.
        are_shared: whether both return what one call gives, with the same names.
    """

    name: str
    bases: frozenset[str]
    methods: dict[str, list[str]]
    models: tuple[WrappedModel, ...]
    optimizers: tuple[str, ...]
    lacking: frozenset[str]
    emptied: frozenset[str]
    schedulers: tuple[WrappedScheduler, ...]
    reducers: tuple[WrappedReducer, ...]
    training_reducers: tuple[WrappedReducer, ...]
    unkept: frozenset[str]
    calls_init: bool
    passes_on: bool
    hands_rest_on: bool
    stays: bool
    uses: dict[str, frozenset[str]]
    stores: frozenset[str]
    called: dict[str, frozenset[str]]
    sizes: frozenset[str]
    backwards: int
    logged: frozenset[str]
    validated: frozenset[str]
    every_logged: frozenset[str] | None = frozenset()
    every_validated: frozenset[str] | None = frozenset()
    are_shared: bool = False

    @property
    def are_partly_shared(self) -> bool:
        """Whether some names are in both, and others of both are not known."""
        are_known = self.every_logged is not None or self.every_validated is not None
        return not are_known and bool(self.logged & self.validated)

    @property
    def kept(self) -> list[str]:
        """All that it wraps, by attribute, with stars."""
        models = (each.attribute for each in self.models)
        schedulers = (each.attribute for each in self.schedulers)
        reducers = (each.attribute for each in (*self.reducers, *self.training_reducers))
        return [*self.optimizers, *models, *schedulers, *reducers]


def facts_of(
    node: cst.ClassDef,
    symbols: Symbols,
    classes: Mapping[str, cst.ClassDef],
    *,
    has_heirs: bool,
) -> ClassFacts:
    """What stands in a trial class, given the classes of its file."""
    own = syntax.methods(node)
    often, sure = called_often(own), called_for_sure(own)
    # An heir may have another method of the name.
    sure = sure & {"__init__"} if has_heirs else sure
    wrapped = [
        replace(found, is_conditional=found.is_branch) if name in sure else found
        for name, method in own.items()
        for found in wrappings(method, symbols)
        # Of several that it makes when it is called again, an attribute keeps the last.
        if name not in often or found.is_list or found.member == "wrap_model"
    ]
    wrapped = [_alone_by_key(found, wrapped) for found in wrapped]
    variables = variables_of(own)
    early = reachable(own, "__init__")
    late = {w.attribute for n in own.keys() - early for w in wrappings(own[n], symbols)}
    init = own.get("__init__", cst.Pass())
    reducers = tuple(made for w in wrapped if (made := _reducer(w)) is not None)
    others = tuple(made for w in wrapped if (made := _reducer(w, validates=False)) is not None)
    return ClassFacts(
        name=node.name.value,
        bases=frozenset(syntax.code(base.value) for base in node.bases),
        methods={name: _parameters(method) for name, method in own.items()},
        models=distinct(
            WrappedModel(w.starred, w.is_conditional) for w in wrapped if w.member == "wrap_model"
        ),
        optimizers=distinct(w.starred for w in wrapped if w.member == "wrap_optimizer"),
        lacking=frozenset(
            w.attribute
            for w in wrapped
            if w.member == "wrap_optimizer" and w.is_branch and not w.is_list
        ),
        emptied=frozenset(
            w.starred
            for w in wrapped
            if w.member == "wrap_optimizer" and w.is_branch and w.is_list and w.loop
        ),
        schedulers=distinct(
            replace(_scheduler(w, symbols, classes, variables), is_late=w.attribute in late)
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
        passes_on=_first_call(own.get("__init__")) is not None,
        hands_rest_on=any(
            hands_rest_on(init, call)
            for init in filter(None, [own.get("__init__")])
            for call in map(syntax.lone_call, syntax.body_of(init))
            if call is not None and is_init_of_next(call)
        ),
        stays=bool(symbols.calls(node, "experimental.disable_auto_to_device")),
        uses={name: frozenset(attributes_read(method)) for name, method in own.items()},
        sizes=frozenset(name for name, method in own.items() if asks_sizes(method, symbols)),
        backwards=[*calls(node)].count("backward"),
        stores=frozenset(name for method in own.values() for name in attributes_changed(method)),
        called={name: frozenset(calls(method)) for name, method in own.items()},
        logged=known_names(own, "train_batch"),
        validated=known_names(own, _evaluation(own)),
        every_logged=every_name(own, "train_batch"),
        every_validated=every_name(own, _evaluation(own)),
        are_shared=are_shared(own, "train_batch", _evaluation(own)),
    )


def _first_call(init: cst.FunctionDef | None) -> cst.Call | None:
    """The call of the base's ``__init__`` with which a class begins its own."""
    body = [] if init is None else syntax.body_of(init)
    first = next(iter(body[syntax.has_docstring(body) :]), None)
    call = None if first is None else syntax.lone_call(first)
    return call if call is not None and is_init_of_next(call) else None


def is_init_of_next(call: cst.Call) -> bool:
    """Whether a call is one of the ``__init__`` that comes next."""
    func = syntax.code(call.func)
    return func.startswith("super(") and func.endswith(".__init__")


def hands_rest_on(init: cst.FunctionDef, call: cst.Call) -> bool:
    """Whether a call in a method gives what that got by ``**``, and nothing that it names."""
    rest = init.params.star_kwarg
    names = {syntax.code(arg.value) for arg in call.args if arg.star == "**"}
    return rest is not None and names == {rest.name.value} and all(arg.star for arg in call.args)


def _evaluation(own: Mapping[str, cst.FunctionDef]) -> str:
    return "evaluate_full_dataset" if "evaluate_full_dataset" in own else "evaluate_batch"


def calls(node: cst.CSTNode) -> Iterator[str]:
    """The last parts of the names that some code calls."""
    for call in syntax.find(node, cst.Call):
        yield syntax.code(call.func).rpartition(".")[2]


def asking_at_once(tree: cst.Module, symbols: Symbols) -> Iterator[str]:
    """The functions, and the classes whose ``__init__`` does, that ask how many processes run."""
    for line in tree.body:
        if isinstance(line, cst.FunctionDef) and asks_sizes(line, symbols):
            yield line.name.value
        elif isinstance(line, cst.ClassDef):
            own = syntax.methods(line)
            if any(asks_sizes(own[name], symbols) for name in reachable(own, "__init__")):
                yield line.name.value


def _parameters(method: cst.FunctionDef) -> list[str]:
    params = method.params
    named = [*params.posonly_params, *params.params, *params.kwonly_params]
    extra = [f"**{params.star_kwarg.name.value}"] if params.star_kwarg else []
    return [*(p.name.value for p in named), *extra]


def asks_sizes(node: cst.CSTNode, symbols: Symbols) -> bool:
    """Whether code asks how many processes there are, or for what depends on that."""
    members = map(symbols.member, syntax.find(node, cst.Attribute))
    return any(member is not None and member[1] in SIZES for member in members)


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
    if frequency is not None:
        # It stands in another method, where the variables of this one are not.
        frequency = _without(variables, frequency)
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


def _without(
    variables: Mapping[str, cst.BaseExpression | None], node: cst.BaseExpression
) -> cst.BaseExpression:
    """An expression with what variables are that are set once, in place of their names."""
    for name in syntax.names_in(node):
        if (value := variables.get(name)) is not None:
            others = {other: it for other, it in variables.items() if other != name}
            node = syntax.replaced(node, name, syntax.code(_without(others, value)))
    return node


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
    return WrappedReducer(
        found.starred,
        known,
        found.loop,
        may_lack=found.is_conditional and not found.is_list,
        made_by=_maker(syntax.argument(found.call, 0, "reducer")),
    )


def _alone_by_key(found: Wrapping, wrapped: Sequence[Wrapping]) -> Wrapping:
    """What is named by the keys of a dict, where nothing else is in it with other names."""
    owner = found.attribute.removesuffix(".values()")
    others = [
        w for w in wrapped if w.attribute.partition("[")[0].removesuffix(".values()") == owner
    ]
    is_alone = len(others) == 1 or not found.loop.endswith(BY_KEY)
    return found if is_alone else replace(found, loop="")


def _maker(reducer: cst.BaseExpression | None) -> str:
    if isinstance(reducer, cst.Call):
        return f"{syntax.code(reducer.func)}()"
    return "" if reducer is None else syntax.code(reducer)


EVALUATIONS = frozenset(("evaluate_batch", "evaluate_full_dataset"))
BATCH_METHODS = EVALUATIONS | {"train_batch"}


def calls_batch_methods(tree: cst.Module, *, of_trials: bool) -> bool:
    """Whether a file calls the methods that would become Lightning's.

    One that is not ``of_trials``, and has a class with such methods, calls those of that class.
    """
    nodes = () if of_trials else syntax.find(tree, cst.ClassDef)
    own = {name for node in nodes for name in syntax.methods(node)}
    functions = (call.func for call in syntax.find(tree, cst.Call))
    called = {func.attr.value for func in functions if isinstance(func, cst.Attribute)}
    return bool(called & (BATCH_METHODS - own))


def are_decorated(node: cst.ClassDef) -> bool:
    """Whether a decorator has made of a batch method what may need the arguments that it had."""
    own = syntax.methods(node)
    found = (d for name in BATCH_METHODS if name in own for d in own[name].decorators)
    return any(not syntax.code(each.decorator).startswith(_HARMLESS) for each in found)


#: Decorators that hand on whatever arguments there are.
_HARMLESS = ("torch.", "abc.", "abstractmethod", "override", "typing.")
