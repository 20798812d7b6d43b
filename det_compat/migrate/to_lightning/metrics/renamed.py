"""What metrics are logged as: those of a validation have names that training has not."""

from collections.abc import Collection, Mapping

import libcst as cst

from det_compat.migrate.shapes.values import assigned
from det_compat.migrate.tree import syntax

#: What ``name`` is logged as, if that is never a name of training's, or may have ``val_`` already.
ALL = 'f"val_{name}"'
NOT_YET = f'name if name.startswith("val") else {ALL}'

#: What a comment says where all metrics of a validation get other names.
ALL_RENAMED = "# val_ tells these from what training logs"


def renamed_in(metrics: str, key: str) -> str:
    """The expression of metrics, a dict, of which each is logged as what ``key`` says."""
    if key == "name":
        return metrics
    made = syntax.expression(metrics)
    if isinstance(made, cst.DictComp) and syntax.code(made.key) == "name":
        return syntax.code(made.with_changes(key=syntax.expression(key)))
    return f"{{{key}: value for name, value in {owner(metrics)}.items()}}"


def owner(text: str) -> str:
    """An expression as it stands in front of a dot."""
    plain = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Dict)
    return text if isinstance(syntax.expression(text), plain) else f"({text})"


def renamed_where_made(
    method: cst.FunctionDef, renamed: Mapping[str, str]
) -> tuple[cst.FunctionDef, frozenset[str]]:
    """A method whose dicts of metrics have the new names where they are written out.

    Returns:
        The method, and the variables that are such dicts: nothing but items of them is used, or
        all its values before there are any that get another name.
    """
    known, done = assigned(method), set[str]()
    for found in syntax.returns(method) if renamed else ():
        name = found.value.value if isinstance(found.value, cst.Name) else ""
        made = known.get(name)
        uses = sum(node.value == name for node in syntax.find(method.body, cst.Name))
        items = [n for n in syntax.find(method.body, cst.Subscript) if syntax.code(n.value) == name]
        returns = sum(
            syntax.code(each.value) == name
            for each in syntax.returns(method)
            if each.value is not None
        )
        looks = _looks_before(method, name, renamed) if uses > 1 + returns + len(items) else 0
        if isinstance(made, cst.Dict) and uses == 1 + returns + len(items) + looks:
            done.add(name)
    dicts = [known[name] for name in done]

    def key(node: cst.BaseExpression) -> cst.BaseExpression:
        text = str(node.evaluated_value) if isinstance(node, cst.SimpleString) else ""
        return cst.SimpleString(f'"{renamed[text]}"') if text in renamed else node

    class Renaming(cst.CSTTransformer):
        def leave_Dict(self, original: cst.Dict, updated: cst.Dict) -> cst.Dict:
            elements = [
                each.with_changes(key=key(each.key)) if isinstance(each, cst.DictElement) else each
                for each in updated.elements
            ]
            return updated.with_changes(elements=elements) if original in dicts else updated

        def leave_Subscript(self, original: cst.Subscript, updated: cst.Subscript) -> cst.Subscript:
            index = updated.slice[0].slice
            if syntax.code(original.value) not in done or not isinstance(index, cst.Index):
                return updated
            return updated.with_deep_changes(index, value=key(index.value))

    return syntax.transformed(method, Renaming()) if done else method, frozenset(done)


def _looks_before(method: cst.FunctionDef, name: str, renamed: Collection[str]) -> int:
    """How often the values of a dict are asked for, all before it has one of these names."""
    found = 0
    for line in syntax.body_of(method):
        texts = {str(each.evaluated_value) for each in syntax.find(line, cst.SimpleString)}
        if name in syntax.names_in(line) and not texts.isdisjoint(renamed):
            break
        looks = (syntax.code(each.func) for each in syntax.find(line, cst.Call))
        found += sum(text == f"{name}.values" for text in looks)
    return found


def all_renamed(element: cst.BaseDictElement, key: str) -> cst.BaseDictElement:
    """An entry of a dict of metrics, or all that another dict gives it, as ``val_...``.

    Args:
        element: the entry.
        key: what ``name`` is logged as.
    """
    value, keeps = element.value, key == NOT_YET
    if isinstance(element, cst.DictElement):
        return element.with_changes(key=_as_val(element.key, keeps=keeps))
    if isinstance(value, cst.DictComp):
        named = _as_val(value.key, keeps=keeps)
        return element.with_changes(value=value.with_changes(key=named))
    return element.with_changes(value=syntax.expression(renamed_in(syntax.code(value), key)))


def _as_val(key: cst.BaseExpression, *, keeps: bool) -> cst.BaseExpression:
    """The name of a metric with ``val_`` in front, or one that has it already if it keeps that."""
    text = syntax.code(key)
    if isinstance(key, cst.SimpleString):
        start = len(key.prefix + key.quote)
    elif isinstance(key, cst.FormattedString):
        start = len(key.start)
    elif keeps and isinstance(key, cst.Name):
        return syntax.expression(NOT_YET.replace("name", text))
    else:
        # Before Python 3.12 no quote, and no backslash, may stand in an f-string of that quote.
        is_plain = not {'"', "\\", "\n"} & {*text}
        return syntax.expression(f'f"val_{{{text}}}"' if is_plain else f'"val_" + str({text})')
    if keeps and text[start:].startswith("val"):
        return key
    return syntax.expression(f"{text[:start]}val_{text[start:]}")


def renamed_key(renamed: Collection[str], *, is_every: bool) -> str:
    """The expression of what ``name`` is logged as."""
    if is_every:
        return ALL
    names = sorted(renamed)
    test = f'== "{names[0]}"' if len(names) == 1 else f"in {tuple(names)}".replace("'", '"')
    return f'f"val_{{name}}" if name {test} else name' if names else "name"


def said_of(renamed: Collection[str], *, is_open: bool = False) -> str:
    """What a comment says where some are, or where what both log is only known at run time."""
    if renamed:
        more = "; others may be the same, too" if is_open else ""
        return f"# val_ tells these from what training logs: {', '.join(sorted(renamed))}{more}"
    return "# where training logs one of these names, give it another here" if is_open else ""
