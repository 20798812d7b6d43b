"""A model that a trial keeps and then wraps under another name, which a checkpoint has once."""

from collections.abc import Collection

import libcst as cst

from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.symbols import Symbols


def named_once(
    tree: cst.Module, symbols: Symbols, alone: Collection[str], asked: Collection[str]
) -> cst.Module:
    """The file, whose trials have one name for a model that they keep as it is, and wrapped.

    Args:
        tree: the file.
        symbols: what its placeholders stand for.
        alone: the trials in it that have neither bases nor heirs.
        asked: the attributes that code beside trials may ask them for.
    """
    texts = {text.evaluated_value for text in syntax.find(tree, cst.SimpleString)}
    taken = {*asked, *(text for text in texts if isinstance(text, str))}

    def named(node: cst.ClassDef) -> cst.ClassDef:
        if node.name.value not in alone:
            return node
        for name, wrapped in _pairs(node, symbols):
            every = [n for n in syntax.find(tree, cst.Attribute) if n.attr.value == name]
            inside = [n for n in syntax.find(node, cst.Attribute) if n.attr.value == name]
            of_self = all(syntax.code(n.value) == "self" for n in inside)
            if of_self and len(every) == len(inside) and name not in taken:
                node = _renamed(node, name, wrapped, symbols)
        return node

    return syntax.each(tree, cst.ClassDef, named)


def _pairs(node: cst.ClassDef, symbols: Symbols) -> list[tuple[str, str]]:
    """The attributes that ``__init__`` sets to models, with those that it then sets to these."""
    own = syntax.methods(node)
    init = own.get("__init__")
    if init is None or any(syntax.self_name(method) != "self" for method in own.values()):
        return []
    body = syntax.body_of(init)
    sets = [syntax.code(target.target) for target in syntax.find(node, cst.AssignTarget)]
    found: list[tuple[str, str]] = []
    for at, line in enumerate(body):
        call, target = syntax.call_of(line), syntax.target_of(line) or ""
        if call is None or symbols.method(call) != "wrap_model" or len(call.args) != 1:
            continue
        name = syntax.code(call.args[0].value)
        makers = [i for i, each in enumerate(body[:at]) if syntax.target_of(each) == name]
        names = [each.removeprefix("self.") for each in (name, target)]
        is_pair = name != target and all(each.startswith("self.") for each in (name, target))
        is_pair &= all(each.isidentifier() for each in names)
        is_once = is_pair and sets.count(name) == sets.count(target) == len(makers) == 1
        if is_once and not {*names} & own.keys():
            # Models are trained in the order in which they are wrapped.
            between = body[makers[0] : at]
            if not any(symbols.calls(each, "wrap_model") for each in between):
                found.append((names[0], names[1]))
    return found


def _renamed(node: cst.ClassDef, name: str, wrapped: str, symbols: Symbols) -> cst.ClassDef:
    init = syntax.methods(node)["__init__"]
    body = [*syntax.body_of(init)]
    maker = next(line for line in body if syntax.target_of(line) == f"self.{name}")
    wrap = next(line for line in body if syntax.target_of(line) == f"self.{wrapped}")
    small, call = syntax.simple(maker), syntax.call_of(wrap)
    assert isinstance(small, (cst.Assign, cst.AnnAssign)) and small.value is not None
    assert call is not None
    model = call.with_changes(args=[call.args[0].with_changes(value=small.value)])
    made = maker.with_deep_changes(small, value=model)
    kept = [made if line is maker else line for line in body if line is not wrap]
    node = syntax.with_node(node, init, syntax.with_body(init, kept))
    return syntax.replaced(node, f"self.{name}", f"self.{wrapped}")
