"""What a validation does that Lightning's would not bear.

It may leave traces on a trial, which Lightning's sanity check would leave, too: Lightning validates
a few batches before it trains, with the validation loader made first; Determined never did. And it
may need gradients, of which Lightning's inference mode has none.
"""

from collections.abc import Iterator, Mapping

import libcst as cst
from libcst import matchers as m
from libcst.helpers import ensure_type

from det_compat.analysis.expressions import words
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import marked

#: The methods that a validation calls.
VALIDATING = ("evaluate_batch", "evaluate_full_dataset", "on_validation_start", "on_validation_end")
_TRAINING_LOADER, _VALIDATION_LOADER = "build_training_data_loader", "build_validation_data_loader"
#: What these are called on is another thing afterwards.
_CHANGING = words(
    """
    add append appendleft clear discard extend insert pop popleft popitem remove setdefault step
    load_state_dict
    """
)


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


def keeps_state(own: Mapping[str, cst.FunctionDef], reset: set[str]) -> bool:
    """Whether a validation changes the trial, or needs what making the training loader left.

    Args:
        own: the methods of the trial.
        reset: attributes that are reset before each validation.
    """
    validating = reachable(own, *VALIDATING)
    changed = {name for method in validating for name in attributes_changed(own[method])}
    return bool(changed - reset) or needs_training_loader(own)


def needs_training_loader(own: Mapping[str, cst.FunctionDef]) -> bool:
    """Whether a validation needs what making the training loader has left on the trial."""
    early = {
        name for method in reachable(own, "__init__") for name in attributes_changed(own[method])
    }
    late = {
        name
        for method in reachable(own, _TRAINING_LOADER)
        for name in attributes_changed(own[method])
    }
    needing = reachable(own, _VALIDATION_LOADER, *VALIDATING)
    needed = {name for method in needing for name in attributes_read(own[method])}
    return bool((late - _made(own, early)) & needed)


def _changed_from(own: Mapping[str, cst.FunctionDef], start: str) -> set[str]:
    """The attributes that a method changes, itself or by those that it calls."""
    return {name for method in reachable(own, start) for name in attributes_changed(own[method])}


def counts_when_called(node: cst.ClassDef) -> bool:
    """Whether a model changes in a way of its own whenever it is called."""
    forward = syntax.methods(node).get("forward")
    return forward is not None and any(True for _ in attributes_changed(forward))


def _made(own: Mapping[str, cst.FunctionDef], early: set[str]) -> set[str]:
    """The attributes that are more than None once the trial is made."""
    lines = (
        line
        for name in reachable(own, "__init__")
        for line in syntax.find(own[name], cst.Assign)
        if not m.matches(line.value, m.Name("None"))
    )
    me = syntax.self_name(own["__init__"]) if "__init__" in own else ""
    return early & {name for line in lines for name in _stems(line, me)}


def attributes_changed(method: cst.FunctionDef) -> Iterator[str]:
    """The attributes of its object that a method sets, or calls to change."""
    own = syntax.self_name(method)
    for assign in syntax.find(method.body, cst.Assign):
        yield from _stems(assign, own)
    for changing in syntax.find(method.body, cst.AugAssign):
        yield from _stem(changing.target, own)
    for annotated in syntax.find(method.body, cst.AnnAssign):
        yield from _stem(annotated.target, own)
    for call in syntax.find(method.body, cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _CHANGING:
            yield from _stem(call.func.value, own)


def _stems(node: cst.Assign, own: str) -> Iterator[str]:
    for target in node.targets:
        for part in syntax.parts(target.target):
            yield from _stem(part, own)


def _stem(node: cst.BaseExpression, own: str) -> Iterator[str]:
    """The attribute of ``own`` that ``self.a``, ``self.a[0]`` or ``self.a.b`` begins with."""
    while isinstance(node, (cst.Attribute, cst.Subscript, cst.Call)):
        if m.matches(node, m.Attribute(value=m.Name(own))):
            assert isinstance(node, cst.Attribute)
            yield node.attr.value
            return
        node = node.func if isinstance(node, cst.Call) else node.value


def attributes_read(method: cst.FunctionDef) -> Iterator[str]:
    """The attributes of its object that a method reads, or sets."""
    own = syntax.self_name(method)
    for node in syntax.find(method.body, cst.Attribute):
        if isinstance(node.value, cst.Name) and node.value.value == own:
            yield node.attr.value


_GRADIENTS = ("torch.enable_grad()", "torch.set_grad_enabled(True)")
_INFERENCE = "Lightning validates in inference mode: this needs pl.Trainer(inference_mode=False)"


def with_gradients(method: cst.FunctionDef) -> cst.FunctionDef:
    """A method that a validation calls, with inference mode left where it asks for gradients.

    A batch that is made in inference mode has none even so.
    """
    batch = [param.name.value for param in method.params.params[1:2]]
    return ensure_type(method.visit(_Gradients(batch)), cst.FunctionDef)


class _Gradients(cst.CSTTransformer):
    def __init__(self, batch: list[str]) -> None:
        self._batch = batch

    def leave_With(self, original: cst.With, updated: cst.With) -> cst.With:
        at = [syntax.code(item.item) in _GRADIENTS for item in original.items]
        if not any(at):
            return updated
        before, after = updated.items[: at.index(True)], updated.items[at.index(True) :]
        leaving = cst.WithItem(syntax.expression("torch.inference_mode(False)"))
        items = syntax.without_commas([*before, leaving, *after])
        updated = updated.with_changes(items=items)
        needs = syntax.names_in(original.body) & {*self._batch}
        return marked(updated, _INFERENCE) if needs else updated
