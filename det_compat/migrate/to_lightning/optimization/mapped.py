"""What ``map`` wraps, or what is unpacked from one expression, wrapped where it can be seen."""

import libcst as cst

from det_compat.migrate.to_lightning.optimization.wrapping import WRAPPING
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line, Lines
from det_compat.migrate.tree.symbols import Symbols

_SEQUENCES = (cst.List, cst.Tuple)


#: What a context of 0.12 is asked for where it has one of each, and where a later one lists them.
_ONE_OF = {
    "get_model": ("models", "wrap_model"),
    "get_optimizer": ("optimizers", "wrap_optimizer"),
    "get_lr_scheduler": ("lr_schedulers", "wrap_lr_scheduler"),
}


def of_lists(tree: cst.Module, symbols: Symbols) -> cst.Module:
    """Write ``context.get_optimizer()`` as ``context.optimizers[0]``: it has only one."""

    def of_list(call: cst.Call) -> cst.BaseExpression:
        found = symbols.called(call)
        name, wrapper = _ONE_OF.get(found[1] if found else "", ("", ""))
        # Without an LR scheduler there is None; another file may wrap a model and an optimizer.
        least = int(name == "lr_schedulers")
        if found is None or not name or not least <= len(symbols.calls(tree, wrapper)) <= 1:
            return call
        first = cst.SubscriptElement(cst.Index(cst.Integer("0")))
        return cst.Subscript(cst.Attribute(found[0], cst.Name(name)), [first])

    is_asked = any(syntax.has_attribute(tree, name) for name in _ONE_OF)
    return syntax.each(tree, cst.Call, of_list) if is_asked else tree


def spread_maps(tree: cst.Module, symbols: Symbols) -> cst.Module:
    """Write what ``map`` and generators wrap as lists, and each of several that get a name by it.

    So ``self.a, self.b = map(context.wrap_model, nets)`` tells what each of them is.
    """
    if not any(symbols.member(each) for each in syntax.find(tree, cst.Attribute)):
        return tree
    wraps = _Wraps(tree, symbols)
    listed = syntax.transformed(tree, _Listing(tree, wraps))

    def spread(line: Line) -> Lines:
        small = syntax.simple(line)
        if not isinstance(small, cst.Assign) or len(small.targets) != 1:
            return line
        first, *rest = _spread(small, wraps) or [small]
        made = [cst.SimpleStatementLine([each]) for each in rest]
        return cst.FlattenSentinel([line.with_changes(body=[first]), *made]) if made else line

    return syntax.each(listed, cst.SimpleStatementLine, spread)


class _Wraps:
    """Whether something wraps, by itself or in a function of the file that does."""

    def __init__(self, tree: cst.Module, symbols: Symbols) -> None:
        self.symbols = symbols
        functions = (f for f in syntax.find(tree, cst.FunctionDef) if f.name.value != "__init__")
        self._functions = {f.name.value for f in functions if symbols.calls(f, *WRAPPING)}

    def is_wrapping(self, function: cst.BaseExpression) -> bool:
        """Whether a function itself wraps what it is called with, or makes that and wraps it."""
        member = self.symbols.member(function)
        name = syntax.code(function).rpartition(".")[2]
        return (member is not None and member[1] in WRAPPING) or name in self._functions

    def __call__(self, value: cst.CSTNode) -> bool:
        return any(self.is_wrapping(call.func) for call in syntax.find(value, cst.Call))


class _Listing(cst.CSTTransformer):
    """Writes ``list(map(wrap, all))``, and what is like it, as ``[wrap(each) for each in all]``."""

    def __init__(self, tree: cst.Module, wraps: _Wraps) -> None:
        super().__init__()
        self._wraps = wraps
        self._added = {
            syntax.code(each)
            for sum_ in syntax.find(tree, cst.BinaryOperation)
            for each in (sum_.left, sum_.right)
        }

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        name, args = syntax.code(updated.func), updated.args
        if name not in ("list", "tuple") or len(args) != 1 or args[0].star or args[0].keyword:
            return updated
        return self._list_of(args[0].value) or updated

    def leave_List(self, original: cst.List, updated: cst.List) -> cst.BaseExpression:
        elements = updated.elements
        is_one = len(elements) == 1 and isinstance(elements[0], cst.StarredElement)
        return (self._list_of(elements[0].value) if is_one else None) or updated

    def leave_Assign(self, original: cst.Assign, updated: cst.Assign) -> cst.Assign:
        target = updated.targets[0].target
        if isinstance(original.value, cst.Call) and syntax.code(original.value.func) == "tuple":
            # A tuple that others are added to takes no lists.
            return original if syntax.code(target) in self._added else updated
        if not isinstance(target, _SEQUENCES):
            return updated
        return updated.with_changes(value=self._list_of(updated.value) or updated.value)

    def _list_of(self, value: cst.BaseExpression) -> cst.ListComp | None:
        """What wraps all that something has, as a list; None if it wraps nothing."""
        if isinstance(value, cst.GeneratorExp):
            made = cst.ListComp(value.elt, value.for_in)
            return made if self._wraps(value.elt) else None
        if not isinstance(value, cst.Call) or syntax.code(value.func) != "map":
            return None
        function, *every = (arg.value for arg in value.args)
        if len(every) != 1 or any(arg.star or arg.keyword for arg in value.args):
            return None
        if self._wraps.is_wrapping(function):
            if isinstance(inner := every[0], (cst.GeneratorExp, cst.ListComp)):
                return cst.ListComp(cst.Call(function, [cst.Arg(inner.elt)]), inner.for_in)
            name, body = "each", syntax.expression(f"{syntax.code(function)}(each)")
        elif isinstance(function, cst.Lambda) and self._wraps(function.body):
            params = function.params.params
            if len(params) != 1 or params[0].default is not None:
                return None
            name, body = params[0].name.value, function.body
        else:
            return None
        loop = syntax.expression(f"[{name} for {name} in {syntax.whole(syntax.code(every[0]))}]")
        assert isinstance(loop, cst.ListComp)
        return loop.with_changes(elt=body)


def _spread(line: cst.Assign, wraps: _Wraps) -> list[cst.Assign] | None:
    """The assignments of which each keeps one of those that a list wraps for several names."""
    target, value = line.targets[0].target, line.value
    if not isinstance(target, _SEQUENCES) or not isinstance(value, cst.ListComp):
        return None
    names = [each.value for each in target.elements]
    loop, element = value.for_in, value.elt
    item = loop.target.value if isinstance(loop.target, cst.Name) else ""
    is_plain = item and not loop.ifs and loop.inner_for_in is None
    is_plain = is_plain and not any(
        isinstance(each, cst.StarredElement) for each in target.elements
    )
    if not is_plain or not wraps(element):
        return None
    kept = {syntax.code(name) for name in names}
    if any(syntax.mentions(element, name) for name in kept):
        return None
    if isinstance(loop.iter, _SEQUENCES) and len(loop.iter.elements) == len(names):
        given = [each.value for each in loop.iter.elements]
        is_free = not any(syntax.mentions(g, n) for g in given for n in kept)
        is_open = any(isinstance(each, cst.StarredElement) for each in loop.iter.elements)
        # What makes it is said once in the text, and runs once.
        is_once = all(isinstance(g, (cst.Name, cst.Attribute)) for g in given)
        is_once |= sum(n.value == item for n in syntax.find(element, cst.Name)) == 1
        if is_free and is_once and not is_open:
            values = [syntax.replaced(element, item, syntax.code(each)) for each in given]
            return [syntax.assignment(*pair) for pair in zip(names, values, strict=True)]
    if not isinstance(element, cst.Call):
        return None
    argument = element.args[0].value if element.args else None
    if wraps.symbols.method(element) not in WRAPPING or argument is None:
        return None
    # All are made first, as they were, and wrapped then.
    made: cst.BaseExpression = loop.iter
    if not (isinstance(argument, cst.Name) and argument.value == item):
        made = value.with_changes(elt=argument)
    if item in {n for arg in element.args[1:] for n in syntax.names_in(arg)}:
        return None
    first = line.with_changes(value=made)
    calls = [element.with_deep_changes(element.args[0], value=name) for name in names]
    return [first, *(syntax.assignment(*pair) for pair in zip(names, calls, strict=True))]
