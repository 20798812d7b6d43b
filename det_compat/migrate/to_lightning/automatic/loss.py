"""What the backward pass of a training step is of."""

from collections.abc import Collection, Iterator, Sequence

import libcst as cst

from det_compat.migrate.shapes.values import assigned
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.marks import above


def loss_of(method: cst.FunctionDef, index: int, backward: cst.Call) -> cst.BaseExpression:
    """What the backward pass at an index is of: of ``{"loss": loss}["loss"]``, the variable."""
    given = backward.args[0].value
    if not isinstance(given, cst.Subscript) or not isinstance(given.value, cst.Name):
        return given
    variables, name = assigned(method), given.value.value
    made = variables.get(name)
    before = [n for line in syntax.body_of(method)[:index] for n in syntax.find(line, cst.Name)]
    if not isinstance(made, cst.Dict) or [n.value for n in before].count(name) != 1:
        return given
    elements = (each for each in made.elements if isinstance(each, cst.DictElement))
    values = {syntax.code(each.key).replace("'", '"'): each.value for each in elements}
    value = values.get(syntax.code(given.slice[0]).replace("'", '"'))
    is_same = isinstance(value, cst.Name) and variables.get(value.value) is not None
    return value if value is not None and is_same else given


def is_entry(loss: cst.BaseExpression, method: cst.FunctionDef, end: int) -> bool:
    """Whether a loss is an entry of a dict that nothing behind the step, at ``end``, changes."""
    if not isinstance(loss, cst.Subscript) or not isinstance(loss.value, cst.Name):
        return False
    index, owner = loss.slice[0].slice, loss.value.value
    is_text = isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString)
    after = syntax.body_of(method)[end:]
    others = (line for line in after if not isinstance(syntax.simple(line), cst.Return))
    if not is_text or any(owner in syntax.names_in(line) for line in others):
        return False
    # Nothing else may have it, under another name.
    values = [node.value for node in syntax.find(method.body, cst.Subscript)]
    values += [each.value for each in syntax.returns(method) if each.value is not None]
    values += [each.target for each in syntax.find(method.body, cst.AssignTarget)]
    known = sum(isinstance(each, cst.Name) and each.value == owner for each in values)
    return known == sum(name.value == owner for name in syntax.find(method.body, cst.Name))


def copied(
    method: cst.FunctionDef, index: int, end: int, loss: str, own: Collection[str] = ()
) -> list[str]:
    """The results of a model of which parts are set behind a step, and that a copy may stand for.

    The backward pass, which comes later then, needs them as they are. Nothing but the loss has been
    made of these, and what the model was given is not used behind the step.

    Args:
        method: the training step.
        index: of the backward pass.
        end: behind the step.
        loss: what the backward pass is of, as code.
        own: the methods of its class, which may keep what they return.
    """
    body = syntax.body_of(method)
    before, after = body[:index], body[end:]
    behind = {name for line in after for name in syntax.names_in(line)}
    found = []
    for name in dict.fromkeys(name for line in after for name in _parts_set(line)):
        lines = [line for line in before if name in syntax.names_in(line)]
        targets = [syntax.target_of(line) for line in lines]
        made = syntax.call_of(lines[0]) if lines else None
        if targets != [name, loss] or made is None or syntax.call_of(lines[1]) is None:
            continue
        owner, _, called = syntax.code(made.func).partition(".")
        is_models = owner == syntax.self_name(method) and called not in own
        given = {each for arg in made.args for each in syntax.names_in(arg.value)}
        is_set = any(name == syntax.code(n.target) for n in _targets(after))
        if is_models and not is_set and given.isdisjoint(behind - {syntax.self_name(method)}):
            found.append(name)
    return found


def with_copies(after: list[cst.BaseStatement], names: list[str]) -> list[cst.BaseStatement]:
    """Statements behind a step that change copies."""
    made: list[cst.BaseStatement] = []
    waiting = [*names]
    for line in after:
        for name in [each for each in waiting if each in _parts_set(line)]:
            waiting.remove(name)
            [copy] = syntax.statements(f"{name} = {name}.detach().clone()\n")
            said = cst.EmptyLine(comment=cst.Comment("# the backward pass needs it as it is"))
            lines = getattr(line, "leading_lines", ())
            made.append(above(above(copy, [said]), lines))
            line = line.with_changes(leading_lines=[])
        made.append(line)
    return made


def _targets(lines: Sequence[cst.BaseStatement]) -> Iterator[cst.AssignTarget | cst.AugAssign]:
    for line in lines:
        yield from syntax.find(line, cst.AssignTarget)
        yield from syntax.find(line, cst.AugAssign)


def _parts_set(line: cst.BaseStatement) -> Iterator[str]:
    """The variables of which a statement sets parts, but for the entries of dicts."""
    for found in _targets([line]):
        target = found.target
        if isinstance(target, cst.Subscript) and isinstance(target.value, cst.Name):
            yield from [] if is_key(target) else [target.value.value]


def is_key(target: cst.Subscript) -> bool:
    """Whether something is set under a text, which is a dict's."""
    index = target.slice[0].slice if len(target.slice) == 1 else None
    return isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString)
