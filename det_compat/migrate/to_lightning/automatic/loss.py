"""What the backward pass of a training step is of."""

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.metric_shapes import assigned


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
