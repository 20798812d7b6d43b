"""Whether Lightning may step the optimizer: one backward, one step, in straight-line code."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.to_lightning.automatic.loss import copied, is_entry, is_key, loss_of
from det_compat.migrate.to_lightning.automatic.stepped import called, changed_by_step
from det_compat.migrate.to_lightning.class_facts import ClassFacts
from det_compat.migrate.to_lightning.data.loader_order import Project
from det_compat.migrate.to_lightning.optimization.gradients import zeroes_gradients
from det_compat.migrate.to_lightning.optimization.schedulers import are_lightnings
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.trial_attributes import (
    attributes_called,
    attributes_changed,
    attributes_read,
    reachable,
)
from det_compat.migrate.tree.walking import below


def is_automatic(
    node: cst.ClassDef,
    symbols: Symbols,
    facts: ClassFacts,
    project: Project,
    asked: Collection[str],
) -> bool:
    """Whether one optimizer is stepped right after one backward, in straight-line code.

    Args:
        node: the class.
        symbols: of its file.
        facts: what stands in it.
        project: the functions that it may call.
        asked: the attributes that code elsewhere may ask it for.
    """
    own = syntax.methods(node)
    method = own.get("train_batch")
    if method is None or len(facts.optimizers) != 1:
        return False
    # An attribute may be set to one of several optimizers.
    wraps = len(symbols.calls(node, "wrap_optimizer"))
    is_kept = "wrap_optimizer" not in facts.unkept and not facts.optimizers[0].startswith("*")
    if not is_kept or _uses(node, symbols, "wrap_optimizer") != wraps:
        return False
    if any(_uses(node, symbols, name) != 1 for name in _ONCE):
        return False
    if _uses(node, symbols, "lr_schedulers"):
        return False
    if not are_lightnings(facts.schedulers, own, asked):
        return False
    attributes = [*facts.optimizers, *(scheduler.attribute for scheduler in facts.schedulers)]
    if any(name.startswith("*") for name in attributes):
        return False
    attribute = f"{syntax.self_name(method)}.{facts.optimizers[0]}"
    if _is_used_elsewhere(own, without_zeroing(method, attribute), attribute):
        return False
    return _is_simple(own, symbols, facts, project)


_ONCE = ("backward", "step_optimizer")


@dataclass(frozen=True)
class Stepped:
    """A backward pass and the step after it, as statements of a method.

    Attributes:
        index: of the backward pass.
        end: the index behind the step.
        backward, step: the calls.
        between: what clips gradients between them.
    """

    index: int
    end: int
    backward: cst.Call
    step: cst.Call
    between: Sequence[cst.BaseStatement] = ()


def backward_and_step(method: cst.FunctionDef, symbols: Symbols) -> Stepped | None:
    """The calls of backward and, in the next statement or behind what clips, of a step."""
    body = syntax.body_of(method)
    calls = [syntax.lone_call(line) for line in body]
    names = [symbols.method(call) for call in calls]
    if names.count("backward") != 1 or names.count("step_optimizer") != 1:
        return None
    index, end = names.index("backward"), names.index("step_optimizer")
    backward, step, between = calls[index], calls[end], body[index + 1 : end]
    if backward is None or step is None or end < index or not _only_clips(between, method):
        return None
    return Stepped(index, end + 1, backward, step, between)


def _only_clips(lines: Sequence[cst.BaseStatement], method: cst.FunctionDef) -> bool:
    """Whether statements do nothing but clip gradients, and need no variable of their method."""
    own = {syntax.target_of(line) or "" for line in lines}
    others = syntax.local_names(method) - own - {syntax.self_name(method)}
    uses = [name.value for name in syntax.find(method.body, cst.Name)]
    inside = [name.value for line in lines for name in syntax.find(line, cst.Name)]
    if any(uses.count(name) != inside.count(name) for name in own):
        return False
    is_alone = not any(syntax.names_in(line) & others for line in lines)
    kinds = [_is_clipping(line) for line in lines]
    are_known = all(
        kind or (syntax.target_of(line) or "").isidentifier()
        for kind, line in zip(kinds, lines, strict=True)
    )
    return not lines or (is_alone and are_known and any(kinds))


def _is_clipping(line: cst.BaseStatement) -> bool:
    if isinstance(line, cst.If) and line.orelse is None:
        return all(map(_is_clipping, syntax.body_of(line)))
    call = syntax.lone_call(line)
    return call is not None and called(call).rpartition(".")[2] in _CLIPPING


_CLIPPING = ("clip_grad_norm_", "clip_grad_value_")


def _uses(node: cst.CSTNode, symbols: Symbols, member: str) -> int:
    found = (symbols.member(attribute) for attribute in syntax.find(node, cst.Attribute))
    return sum(pair is not None and pair[1] == member for pair in found)


def without_zeroing(method: cst.FunctionDef, attribute: str) -> cst.FunctionDef:
    """A method without ``zero_grad()`` before the backward pass: gradients are zero by then."""
    zeroing = f"{attribute}.zero_grad"
    body = [
        line
        for line in syntax.body_of(method)
        if (call := syntax.lone_call(line)) is None or syntax.code(call.func) != zeroing
    ]
    return syntax.with_body(method, body)


def _is_used_elsewhere(
    own: dict[str, cst.FunctionDef], method: cst.FunctionDef, attribute: str
) -> bool:
    others = (m for name, m in own.items() if name not in ("__init__", "train_batch"))
    if any(syntax.mentions(other, attribute) for other in others):
        return True
    used = [*map(syntax.code, syntax.find(method, cst.Attribute))]
    stored = {syntax.code(target.target) for target in syntax.find(method, cst.AssignTarget)}
    groups = f"{attribute}.param_groups"
    # Lightning has the groups as well, with the learning rates that are asked for.
    reads = used.count(groups) if not any(text.startswith(groups) for text in stored) else 0
    return used.count(attribute) != 1 + reads


def _is_simple(
    own: dict[str, cst.FunctionDef], symbols: Symbols, facts: ClassFacts, project: Project
) -> bool:
    method = own["train_batch"]
    attribute = f"{syntax.self_name(method)}.{facts.optimizers[0]}"
    found = backward_and_step(method, symbols)
    if found is None:
        return False
    index, backward, step = found.index, found.backward, found.step
    optimizer, clip = syntax.argument(step, 0, "optimizer"), syntax.argument(step, 1, "clip_grads")
    if len(backward.args) != 1:
        return False
    loss = loss_of(method, index, backward)
    is_one = isinstance(loss, cst.Name) or is_entry(loss, method, found.end)
    if not is_one and "loss" in syntax.names_in(method.body):
        return False
    if optimizer is None or syntax.code(optimizer) != attribute:
        return False
    if syntax.argument(step, 3, "scaler") or not zeroes_gradients(step):
        return False
    local = syntax.local_names(method) - {syntax.self_name(method)}
    if clip is not None and (found.between or syntax.names_in(clip) & local):
        return False
    before, is_clipped = syntax.body_of(method)[:index], clip is not None or bool(found.between)
    if is_clipped and syntax.returns_in(before):
        # Lightning clips after a batch that ends early, too, when there are no gradients.
        return False
    if is_clipped and _meets_clipping(own, found, clip):
        return False
    rest = _Afterwards(own, found, syntax.code(loss), project)
    if rest.changes_the_loss():
        return False
    return _ends_plainly(own, rest, symbols, facts, project)


def _meets_clipping(
    own: dict[str, cst.FunctionDef], found: Stepped, clip: cst.BaseExpression | None
) -> bool:
    """Whether what comes behind the step changes what clips, or sees what that has changed.

    Lightning clips after it.
    """
    method = own["train_batch"]
    lines = [cst.SimpleStatementLine([cst.Expr(clip)])] if clip is not None else []
    clips = syntax.with_body(method, [*found.between, *lines])
    rest = syntax.with_body(method, syntax.body_of(method)[found.end :])
    clipping, behind = (
        [each, *(own[name] for name in reachable(own, *attributes_read(each)))]
        for each in (clips, rest)
    )

    def names(
        kind: Callable[[cst.FunctionDef], Iterator[str]], each: list[cst.FunctionDef]
    ) -> set[str]:
        return {name for method in each for name in kind(method)}

    changed = names(attributes_changed, clipping) | (
        names(attributes_called, clipping) - own.keys()
    )
    if isinstance(clip, cst.Attribute):
        changed |= {clip.attr.value} - own.keys()
    is_seen = not changed.isdisjoint(names(attributes_read, behind))
    return is_seen or not names(attributes_read, clipping).isdisjoint(
        names(attributes_changed, behind)
    )


def _ends_plainly(
    own: dict[str, cst.FunctionDef],
    rest: "_Afterwards",
    symbols: Symbols,
    facts: ClassFacts,
    project: Project,
) -> bool:
    method, after = own["train_batch"], rest.lines
    returns = syntax.returns_in(after)
    if len(returns) != 1 or not after or not isinstance(syntax.simple(after[-1]), cst.Return):
        return False
    # Lightning steps after the method returns, which what comes after the step must not see.
    me = syntax.self_name(method)
    functions = {name for name, other in own.items() if _is_function(other)}
    attributes, variables = changed_by_step(own, functions, facts, symbols, project)
    changing = attributes | (own.keys() - functions)
    changing -= rest.unaware({name: own[name] for name in changing & own.keys()}, changing, symbols)
    changing |= {name for name in functions if rest.is_changed_by(own[name])}
    # Schedulers are stepped after the method has returned, in both.
    schedulers = {f"{scheduler.attribute}.get_last_lr" for scheduler in facts.schedulers}
    groups = f"{me}.{facts.optimizers[0]}.param_groups"
    for line in after:
        # A step changes no learning rates, but the parameters that are beside them.
        is_rate = '"lr"' in syntax.code(line).replace("'", '"') and "params" not in syntax.code(
            line
        )
        seen = syntax.replaced(line, groups, "None") if is_rate else line
        if _asks_more(line, symbols) or _sees(seen, me, changing, schedulers):
            return False
        if syntax.names_in(line) & (variables - {rest.loss}):
            return False
    return True


def _asks_more(line: cst.CSTNode, symbols: Symbols) -> bool:
    """Whether code asks a context for what may be another thing once a step was taken."""
    asked = [n.value for n in syntax.find(line, cst.Attribute) if n.attr.value in _ASKED]
    return any(symbols.is_context(n) and n not in asked for n in syntax.find(line, cst.Name))


#: What a context says whether a step was taken or not.
_ASKED = words(
    "get_hparam get_hparams get_data_config get_experiment_config get_global_batch_size "
    "get_per_slot_batch_size distributed device to_device is_epoch_start is_epoch_end "
    "current_train_epoch current_train_batch"
)


class _Afterwards:
    """What comes after the step of a ``train_batch``, and before Lightning's backward pass.

    Args:
        own: the methods of the trial.
        found: the backward pass and the step.
        loss: what that is of, as code.
        project: the functions that it may call.
    """

    def __init__(
        self, own: dict[str, cst.FunctionDef], found: Stepped, loss: str, project: Project
    ) -> None:
        body = syntax.body_of(own["train_batch"])
        self.lines, self.loss, self._project = body[found.end :], loss, project
        self._copied = copied(own["train_batch"], found.index, found.end, loss, own)
        others = [each for name, each in own.items() if name != "train_batch"]
        lines = [(line, False) for line in [*body[: found.index], *others]]
        lines += [(line, True) for line in self.lines]
        self._values = [
            (syntax.code(to), value, is_late)
            for line, is_late in lines
            for to, value in _pairs(line)
            # A variable of another method is another one.
            if line not in others or not isinstance(to, cst.Name)
        ]

    def changes_the_loss(self) -> bool:
        """Whether it sets the loss anew, or may change in place what the backward pass needs.

        What measures the time of a step belongs behind it, too.
        """
        return any(self._changes(node) for line in self.lines for node in below(line))

    def unaware(
        self, methods: dict[str, cst.FunctionDef], changing: set[str], symbols: Symbols
    ) -> set[str]:
        """Those of some methods that neither see what a step changes, nor change the loss."""
        found = {name for name, each in methods.items() if not each.decorators}
        before = -1
        while before != len(found):
            before = len(found)
            for name in [*found]:
                method = methods[name]
                seen = _sees(method.body, syntax.self_name(method), changing - found, ())
                is_plain = not seen and not _asks_more(method.body, symbols)
                if not is_plain or any(map(self._changes, below(method.body))):
                    found.remove(name)
        return found

    def is_changed_by(self, function: cst.FunctionDef) -> bool:
        """Whether a function calls what may change in place what it is given."""
        return any(map(self._changes, syntax.find(function.body, cst.Call)))

    def _changes(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Call):
            name = called(node).rpartition(".")[2]
            given = {arg.keyword.value for arg in node.args if arg.keyword}
            is_in_place = name.endswith("_") and not name.startswith("_")
            is_in_place |= self._project.changes(name).arguments or bool(given & _IN_PLACE)
            return is_in_place or name in _CLOCKS
        if isinstance(node, cst.Del):
            return self.loss in syntax.names_in(node)
        if not isinstance(node, (cst.AssignTarget, cst.AnnAssign, cst.AugAssign, *_FOR)):
            return False
        targets = syntax.parts(node.target)
        if any(syntax.code(target) == self.loss for target in targets):
            return True
        changed: list[cst.BaseExpression] = []
        changed += (t for t in targets if isinstance(t, cst.Subscript) and not is_key(t))
        changed += targets if isinstance(node, cst.AugAssign) else []
        return not all(map(self._is_fresh, changed))

    def _is_fresh(self, target: cst.BaseExpression) -> bool:
        """Whether what changes is a number or a container, or no tensor of the loss."""
        whole = syntax.code(target.value if isinstance(target, cst.Subscript) else target)
        if isinstance(target, cst.Subscript) and whole in self._copied:
            return True
        values = [(value, is_late) for to, value, is_late in self._values if to == whole]
        return bool(values) and all(_is_new(value, is_late) for value, is_late in values)


_FOR = (cst.For, cst.CompFor, cst.NamedExpr)
_IN_PLACE = {"inplace", "out"}
_CLOCKS = ("memory_allocated", "monotonic", "now", "perf_counter", "synchronize", "time")
_DISPLAYS = (cst.BaseNumber, cst.BaseString, cst.List, cst.Dict, cst.BaseComp, cst.Set)
_COMPUTED = (cst.Comparison, cst.BinaryOperation, cst.BooleanOperation)
_COMPUTING = ("argmax", "clone", "item", "len", "mean", "size", "sum", "tolist")


def _pairs(node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    for line in syntax.find(node, cst.Assign):
        yield from syntax.pairs(line)


def _is_new(value: cst.BaseExpression, is_late: bool) -> bool:
    """Whether a value is no tensor that the loss was computed from, nor a view of one."""
    if isinstance(value, cst.UnaryOperation):
        value = value.expression
    if isinstance(value, _DISPLAYS) or not is_late:
        return isinstance(value, _DISPLAYS)
    if isinstance(value, cst.Call):
        return called(value).rpartition(".")[2] in _COMPUTING
    return isinstance(value, _COMPUTED)


def _is_function(method: cst.FunctionDef) -> bool:
    """Whether a method depends on nothing but what else it is given."""
    if [syntax.code(each.decorator) for each in method.decorators] == ["staticmethod"]:
        return True
    is_plain = not method.decorators and bool(method.params.params)
    return is_plain and syntax.self_name(method) not in syntax.names_in(method.body)


def _sees(line: cst.CSTNode, own_name: str, names: set[str], harmless: Collection[str]) -> bool:
    """Whether a statement uses the object as a whole, or one of these attributes."""
    attributes = [
        node for node in syntax.find(line, cst.Attribute) if syntax.is_name(node.value, own_name)
    ]
    known = {f"{own_name}.{text}" for text in harmless}
    spared = sum(syntax.code(node) in known for node in syntax.find(line, cst.Attribute))
    seen = sum(node.attr.value in names for node in attributes)
    every = sum(name.value == own_name for name in syntax.find(line, cst.Name))
    return every > len(attributes) or seen > spared
