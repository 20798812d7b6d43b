"""What the methods of a trial change, and read."""

from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from det_compat.analysis.expressions import words
from det_compat.migrate.tree import syntax

#: The methods that a validation calls.
VALIDATING = ("evaluate_batch", "evaluate_full_dataset", "on_validation_start", "on_validation_end")
#: What these are called on is another thing afterwards.
_CHANGING = words(
    """
    add append appendleft clear discard extend insert pop popleft popitem remove setdefault step
    load_state_dict
    """
)
#: What these are given as their first argument is another thing afterwards.
_CHANGING_GIVEN = words("next heappush heappop heappushpop heapreplace shuffle")
#: What these keywords are given is another thing afterwards.
_CHANGING_KEYWORDS = words("generator out")


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


def attributes_made(own: Mapping[str, cst.FunctionDef], start: str) -> set[str]:
    """The attributes that are more than None, or nothing, after a method."""
    return {
        name
        for method in reachable(own, start)
        for target, value in values_set(own[method])
        if syntax.code(value) not in _EMPTY
        for name in _stem(target, syntax.self_name(own[method]))
    }


def values_set(node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """What some code sets, and to what."""
    for line in syntax.find(node, cst.Assign):
        yield from syntax.pairs(line)
    for named in syntax.find(node, cst.AnnAssign):
        if named.value is not None:
            yield named.target, named.value


def values_of(tree: cst.Module) -> dict[str, list[cst.BaseExpression]]:
    """What each variable and attribute of a file is set to."""
    found: dict[str, list[cst.BaseExpression]] = {}
    for target, value in values_set(tree):
        found.setdefault(syntax.code(target), []).append(value)
    return found


def bound_in(line: cst.CSTNode) -> set[str]:
    """The names in what a statement, or one in it, sets."""
    targets = [each.target for each in syntax.find(line, cst.AssignTarget)]
    targets += [each.target for each in syntax.find(line, cst.AugAssign)]
    return {name for target in targets for name in syntax.names_in(target)}


def set_otherwise(tree: cst.Module) -> set[str]:
    """The variables that a file sets in other ways than these assignments."""
    found = {syntax.code(each.target) for each in syntax.find(tree, cst.AnnAssign)}
    found |= {syntax.code(each.target) for each in syntax.find(tree, cst.NamedExpr)}
    found |= {syntax.code(each.target) for each in syntax.find(tree, cst.For)}
    return found | {each.name.value for each in syntax.find(tree, cst.Param)}


#: What an attribute is set to which only gets its value later.
_EMPTY = ("None", "{}", "[]", "dict()", "list()", "set()")


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
        by_name = syntax.is_name(call.func, "setattr", "delattr") and len(call.args) > 1
        if by_name and syntax.is_name(call.args[0].value, own):
            yield syntax.code(call.args[1].value).strip("'\"")


def _changed_by_call(call: cst.Call) -> Iterator[cst.BaseExpression]:
    """What a call changes, as its name says."""
    func = call.func
    if isinstance(func, cst.Attribute) and _is_changing(func.attr.value):
        # What a method in place changes may have been made by the call in front of it.
        is_made = func.attr.value not in _CHANGING and isinstance(func.value, cst.Call)
        yield from [] if is_made else [func.value]
    name = syntax.code(func).rpartition(".")[2]
    yield from [arg.value for arg in call.args[:1]] if name in _CHANGING_GIVEN else []
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value in _CHANGING_KEYWORDS:
            yield arg.value


def _is_changing(method: str) -> bool:
    """Whether a method changes what it is called on; those of tensors say so by an underscore."""
    return method in _CHANGING or (method.endswith("_") and not method.startswith("_"))


def _stems(node: cst.Assign, own: str) -> Iterator[str]:
    for target in node.targets:
        for part in syntax.parts(target.target):
            yield from _stem(part, own)


def _stem(node: cst.BaseExpression, own: str) -> Iterator[str]:
    """The attribute of ``own`` that ``self.a``, ``self.a[0]`` or ``self.a.b`` begins with."""
    while isinstance(node, (cst.Attribute, cst.Subscript, cst.Call)):
        if isinstance(node, cst.Attribute) and syntax.code(node.value) in (own, f"type({own})"):
            yield node.attr.value
            return
        node = node.func if isinstance(node, cst.Call) else node.value


def attributes_read(method: cst.FunctionDef) -> Iterator[str]:
    """The attributes of its object that a method reads, or sets."""
    own = syntax.self_name(method)
    for node in syntax.find(method.body, cst.Attribute):
        if isinstance(node.value, cst.Name) and node.value.value == own:
            yield node.attr.value


def attributes_called(method: cst.FunctionDef) -> Iterator[str]:
    """The attributes of its object that a method calls, or methods of which but for ``get``."""
    for call in syntax.find(method.body, cst.Call):
        if not syntax.code(call.func).endswith(".get"):
            yield from _stem(call.func, syntax.self_name(method))


def attributes_set(method: cst.FunctionDef) -> Iterator[tuple[str, str, bool]]:
    """The attributes that a method sets or adds to, with the code of the value, and if it is all.

    Variables of the method are followed.
    """
    own = f"{syntax.self_name(method)}."
    pairs = [*values_set(method)]
    set_to = len(pairs)
    for call in syntax.find(method, cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _ADDING:
            pairs += [(call.func.value, each.value) for each in call.args]
    local: dict[str, list[cst.BaseExpression]] = {}
    for target, value in pairs:
        for name in syntax.names_in(target) if not isinstance(target, cst.Attribute) else ():
            local.setdefault(name, []).append(value)
    for index, (target, value) in enumerate(pairs):
        text = syntax.code(target)
        if not text.startswith(own):
            continue
        name = text.removeprefix(own).partition(".")[0].partition("[")[0]
        is_whole = index < set_to and text == f"{own}{name}"
        is_local = isinstance(value, cst.Name) and value.value in local
        for each in local[syntax.code(value)] if is_local else [value]:
            yield name, _with_variables(each, local), is_whole


def _with_variables(
    value: cst.BaseExpression, local: Mapping[str, Sequence[cst.BaseExpression]]
) -> str:
    """The code of a value, with that of the variables in it."""
    found, known = [value], set[str]()
    for each in found:
        names = (syntax.names_in(each) & local.keys()) - known
        known |= names
        found += [one for name in sorted(names) for one in local[name]]
    return "\n".join(map(syntax.code, found))


_ADDING = ("append", "insert", "extend", "update", "add_module", "register_module", "setdefault")


#: What changes nothing that a validation sees.
_HARMLESS = words(
    """
    print len float int str round sum min max range enumerate sorted list dict items keys values
    join format get append isinstance info debug warning error log add_scalar add_scalars flush
    time perf_counter mean item
    """
)


def changes_data(method: cst.FunctionDef) -> bool:
    """Whether a hook may change what batches or a validation are made from, and see."""
    own = syntax.self_name(method)
    targets = [found.target for found in syntax.find(method.body, cst.AssignTarget)]
    targets += [found.target for found in syntax.find(method.body, cst.AugAssign)]
    calls = (syntax.code(call.func) for call in syntax.find(method.body, cst.Call))
    return any(name.rpartition(".")[2] not in _HARMLESS for name in calls) or any(
        syntax.code(target).removeprefix(f"{own}.").count(".") for target in targets
    )


def is_there(attribute: str) -> str:
    """The condition that ``self`` has an attribute, or an entry of a dict as in ``nets["d"]``."""
    owner, bracket, key = attribute.partition("[")
    there = f"{of_self(attribute)} is not None"
    return f"{key.removesuffix(']')} in self.{owner}" if bracket else there


def of_self(attribute: str) -> str:
    """An attribute of ``self``, or of what that has, which may lack."""
    owner, _, name = f"self.{attribute}".rpartition(".")
    return f'getattr({owner}, "{name}", None)'


def layers_of_wrapped(method: cst.FunctionDef) -> Iterator[str]:
    """The attributes that are layers of what a method wraps, and have the mode of that."""
    own = f"{syntax.self_name(method)}."
    wraps = (c for c in syntax.find(method, cst.Call) if _name_of(c) == "wrap_model")
    for call in (inner for wrap in wraps for inner in syntax.find(wrap, cst.Call)):
        is_row = _name_of(call) in ("Sequential", "DataParallel")
        for text in (syntax.code(arg.value) for arg in call.args if is_row):
            yield from [text.removeprefix(own)] if text.startswith(own) else []


def _name_of(call: cst.Call) -> str:
    return syntax.code(call.func).rpartition(".")[2]
