"""What a validation does that Lightning's would not bear.

It may leave traces on a trial, which Lightning's sanity check would leave, too: Lightning validates
a few batches before it trains, with the validation loader made first; Determined never did.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import libcst as cst
from libcst import matchers as m

from det_compat.analysis.expressions import words
from det_compat.migrate.effects.follow import changed_by_reading, followed, function_of
from det_compat.migrate.effects.source import Scope
from det_compat.migrate.effects.tracing import Trace
from det_compat.migrate.effects.values import GLOBAL
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.elsewhere import (
    CHANGING,
    CHANGING_GIVEN,
    CHANGING_KEYWORDS,
    Elsewhere,
    is_changing,
)

#: The methods that a validation calls.
VALIDATING = ("evaluate_batch", "evaluate_full_dataset", "on_validation_start", "on_validation_end")
#: The hook of a trial that such a validation would change.
NO_SANITY_CHECK = """\
def on_fit_start(self):
    # what a validation leaves behind must not be there when training begins
    self.trainer.num_sanity_val_steps = 0
"""
_TRAINING_LOADER, _VALIDATION_LOADER = "build_training_data_loader", "build_validation_data_loader"


def reachable(own: Mapping[str, cst.FunctionDef], *starts: str) -> list[str]:
    """The methods of an object that some of it call, and so on, with these themselves."""
    found = [name for name in starts if name in own]
    for name in found:
        found.extend(called for called in _called(own[name], own) if called not in found)
    return found


def _called(method: cst.FunctionDef, own: Mapping[str, cst.FunctionDef]) -> Iterator[str]:
    for node in syntax.find(method, cst.Attribute):
        if isinstance(node.value, cst.Name) and node.attr.value in own:
            yield node.attr.value


def keeps_state(
    own: Mapping[str, cst.FunctionDef], reset: Collection[str], around: Elsewhere
) -> bool:
    """Whether a validation changes what is there when training begins, or needs what it leaves.

    Args:
        own: the methods of the trial.
        reset: attributes that are reset before each validation.
        around: the code that it calls.
    """
    found = _Changes(own, around, frozenset(reset))
    # What training leaves behind is not there when a sanity check needs it.
    late = (found.of("train_batch") - found.made("__init__")) & found.needed(*VALIDATING)
    validating = found.trace(*VALIDATING, *_handed_on(own, _VALIDATION_LOADER))
    changed = validating.changed - {*reset}
    return bool(changed or late or validating.unproven) or needs_training_loader(own, around)


def _handed_on(own: Mapping[str, cst.FunctionDef], start: str) -> Iterator[str]:
    """The methods that one, or what it calls, hands to what calls them later."""
    for name in reachable(own, start):
        calls = {id(call.func) for call in syntax.find(own[name], cst.Call)}
        for each in syntax.find(own[name], cst.Lambda):
            calls -= {id(call.func) for call in syntax.find(each, cst.Call)}
        me = syntax.self_name(own[name])
        for node in syntax.find(own[name], cst.Attribute):
            is_own = m.matches(node.value, m.Name(me)) and node.attr.value in own
            yield from [node.attr.value] if is_own and id(node) not in calls else []


def data_changes(names: Iterable[str], around: Elsewhere) -> bool:
    """Whether the functions and classes of these names make data that change as they are read."""
    return any(changed_by_reading(name, around) for name in names)


def outlives_reset(reducer: str, texts: Mapping[str, str]) -> bool:
    """Whether a class of reducers, one of ``texts``, keeps something when it is reset."""
    own: dict[str, cst.FunctionDef] = {}
    waiting = [reducer.rpartition(".")[2]]
    for name in waiting:
        try:
            tree = cst.parse_module(texts.get(name, ""))
        except cst.ParserSyntaxError:
            return True
        for node in syntax.find(tree, cst.ClassDef):
            own = syntax.methods(node) | own
            bases = (syntax.code(each.value).rpartition(".")[2] for each in node.bases)
            waiting += [base for base in bases if base not in waiting]
    resetting = reachable(own, "reset")
    kept = {
        name for n in own.keys() - {"__init__", *resetting} for name in attributes_changed(own[n])
    }
    return not kept <= {name for each in resetting for name in attributes_changed(own[each])}


def needs_training_loader(own: Mapping[str, cst.FunctionDef], around: Elsewhere) -> bool:
    """Whether a validation needs what making the training loader has left behind."""
    found = _Changes(own, around)
    late = found.of(_TRAINING_LOADER)
    # The loader of validations is made once: what it has read then is never read again.
    if late & found.needed(_VALIDATION_LOADER):
        return True
    return bool((late - found.made("__init__")) & found.needed(*VALIDATING))


@dataclass(frozen=True)
class _Changes:
    """What the methods of a trial change and need: its attributes, and variables of files.

    Attributes:
        own: the methods.
        around: the code that they call.
    """

    own: Mapping[str, cst.FunctionDef]
    around: Elsewhere
    reset: frozenset[str] = frozenset()

    def of(self, *starts: str) -> set[str]:
        """What some methods change, or those that they call."""
        return self.trace(*starts).changed

    def trace(self, *starts: str) -> Trace:
        """What some methods change, or those that they call, and what may do so."""
        return followed(self._parsed, starts, self.around, self.reset | self._reset)

    @cached_property
    def _parsed(self) -> dict[str, Scope]:
        return {name: function_of(syntax.code(method)) for name, method in self.own.items()}

    def needed(self, *starts: str) -> set[str]:
        """What some methods read, or those that they call."""
        return {n for m in reachable(self.own, *starts) for n in self._read(self.own[m])}

    def made(self, start: str) -> set[str]:
        """The attributes that are more than None, or nothing, after a method."""
        return {
            name
            for method in reachable(self.own, start)
            for line in syntax.find(self.own[method], cst.Assign)
            for target, value in syntax.pairs(line)
            if syntax.code(value) not in _EMPTY
            for name in _stem(target, syntax.self_name(self.own[method]))
        }

    def _read(self, method: cst.FunctionDef) -> Iterator[str]:
        yield from attributes_read(method)
        of_modules = {node.attr.value for node in self._of_others(method, self.around.imported)}
        for name in syntax.names_in(method.body) | of_modules:
            known = {name, *self.around.names.get(name, ())} & self._shared
            yield from (f"{GLOBAL}{each}" for each in known)

    @cached_property
    def _shared(self) -> frozenset[str]:
        """The variables of files, and the classes, of which each may be changed anywhere."""
        return self.around.variables | self.around.classes

    @staticmethod
    def _of_others(method: cst.FunctionDef, names: Collection[str]) -> Iterator[cst.Attribute]:
        """Each ``name.part`` in a method, of these names and none of its own."""
        targets = (each.target for each in syntax.find(method.body, cst.AssignTarget))
        parts = (part for target in targets for part in syntax.parts(target))
        local = {part.value for part in parts if isinstance(part, cst.Name)}
        local |= {param.name.value for param in method.params.params}
        for node in syntax.find(method.body, cst.Attribute):
            first, _, rest = syntax.code(node.value).partition(".")
            owner = "" if first == syntax.self_name(method) else rest.rpartition(".")[2] or first
            # The trial's own class is none of those that are known.
            if owner not in local and (owner in names or owner[:1].isupper()):
                yield node

    @cached_property
    def _reset(self) -> set[str]:
        """The attributes that a validation resets."""
        methods = (self.own[name] for name in reachable(self.own, *VALIDATING))
        calls = (call for each in methods for call in syntax.find(each.body, cst.Call))
        called = (syntax.code(call.func).split(".") for call in calls)
        return {parts[-2] for parts in called if parts[-1] == "reset" and len(parts) > 1}


#: What an attribute is set to which only gets its value later.
_EMPTY = ("None", "{}", "[]", "dict()", "list()", "set()")


def counts_when_called(node: cst.ClassDef) -> bool:
    """Whether a model changes in a way of its own whenever it is called."""
    forward = syntax.methods(node).get("forward")
    return forward is not None and any(True for _ in attributes_changed(forward))


def attributes_changed(method: cst.FunctionDef) -> Iterator[str]:
    """The attributes of its object that a method sets, or calls to change."""
    own = syntax.self_name(method)
    for assign in syntax.find(method.body, cst.Assign):
        yield from _stems(assign, own)
    for changing in syntax.find(method.body, cst.AugAssign):
        yield from _stem(changing.target, own)
    for annotated in syntax.find(method.body, cst.AnnAssign):
        yield from _stem(annotated.target, own)
    for loop in syntax.find(method.body, cst.For):
        yield from _stem(loop.target, own)
    for removed in syntax.find(method.body, cst.Del):
        yield from _stem(removed.target, own)
    for call in syntax.find(method.body, cst.Call):
        for changed in _changed_by_call(call):
            yield from _stem(changed, own)
        if m.matches(call, _SETS_BY_NAME) and syntax.code(call.args[0].value) == own:
            yield syntax.code(call.args[1].value).strip("'\"")


_SETS_BY_NAME = m.Call(m.Name("setattr") | m.Name("delattr"), [m.Arg(), m.Arg(), m.ZeroOrMore()])


def _changed_by_call(call: cst.Call) -> Iterator[cst.BaseExpression]:
    """What a call changes, as its name says."""
    func = call.func
    if isinstance(func, cst.Attribute) and is_changing(func.attr.value):
        # What a method in place changes may have been made by the call in front of it.
        is_made = func.attr.value not in CHANGING and isinstance(func.value, cst.Call)
        yield from [] if is_made else [func.value]
    name = syntax.code(func).rpartition(".")[2]
    yield from [arg.value for arg in call.args[:1]] if name in CHANGING_GIVEN else []
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value in CHANGING_KEYWORDS:
            yield arg.value


def _stems(node: cst.Assign, own: str) -> Iterator[str]:
    for target in node.targets:
        for part in syntax.parts(target.target):
            yield from _stem(part, own)


def _stem(node: cst.BaseExpression, own: str) -> Iterator[str]:
    """The attribute of ``own`` that ``self.a``, ``self.a[0]`` or ``self.a.b`` begins with."""
    while isinstance(node, (cst.Attribute, cst.Subscript, cst.Call)):
        if m.matches(node, m.Attribute(value=m.Name(own) | _class_of(own))):
            assert isinstance(node, cst.Attribute)
            yield node.attr.value
            return
        node = node.func if isinstance(node, cst.Call) else node.value


def _class_of(own: str) -> m.Call:
    return m.Call(m.Name("type"), [m.Arg(m.Name(own))])


def attributes_read(method: cst.FunctionDef) -> Iterator[str]:
    """The attributes of its object that a method reads, or sets."""
    own = syntax.self_name(method)
    for node in syntax.find(method.body, cst.Attribute):
        if isinstance(node.value, cst.Name) and node.value.value == own:
            yield node.attr.value


#: What changes nothing that a validation sees.
_HARMLESS = words(
    """
    print len float int str round sum min max range enumerate sorted list dict items keys values
    join format get append isinstance info debug warning error log add_scalar add_scalars flush
    time perf_counter mean item
    """
)


def changes_validation(method: cst.FunctionDef) -> bool:
    """Whether a hook may change what a validation sees."""
    own = syntax.self_name(method)
    targets = [found.target for found in syntax.find(method.body, cst.AssignTarget)]
    targets += [found.target for found in syntax.find(method.body, cst.AugAssign)]
    calls = (syntax.code(call.func) for call in syntax.find(method.body, cst.Call))
    return any(name.rpartition(".")[2] not in _HARMLESS for name in calls) or any(
        syntax.code(target).removeprefix(f"{own}.").count(".") for target in targets
    )
