"""What is wrapped, put where it can be seen: in the attributes of the trial that wraps it."""

import re
from collections.abc import Collection

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.to_lightning.optimization.kept import called_often, looped, wrappings
from det_compat.migrate.tree import syntax
from det_compat.migrate.tree.file import Line, Lines
from det_compat.migrate.tree.marks import above
from det_compat.migrate.tree.symbols import Symbols
from det_compat.migrate.tree.transformers import ScopedTransformer

#: What must be returned from configure_optimizers, and the attribute that keeps it.
KEPT = {"wrap_optimizer": "optimizer", "wrap_lr_scheduler": "lr_scheduler"}
#: What wraps something, and the name of the parameter for it.
WRAPPING = {**KEPT, "wrap_model": "model"}
#: The list of those that a loop makes.
LISTS = {
    "wrap_model": "networks",
    "wrap_optimizer": "all_optimizers",
    "wrap_lr_scheduler": "schedulers",
}


def spread_choices(tree: cst.Module, symbols: Symbols) -> cst.Module:
    """Write ``self.a = wrapped if given else None`` as two statements, of which one may not run."""

    def wraps(value: cst.CSTNode | None) -> bool:
        branches = [value.body, value.orelse] if isinstance(value, cst.IfExp) else []
        return any(symbols.method(syntax.call_of(b)).startswith("wrap_") for b in branches)

    def spread(line: cst.SimpleStatementLine) -> cst.BaseStatement:
        value, target = getattr(syntax.simple(line), "value", None), syntax.target_of(line) or ""
        if not isinstance(value, cst.IfExp) or not wraps(value) or "." not in target:
            return line
        parts = (value.test, value.body, value.orelse)
        test, first, second = (syntax.whole(syntax.code(part)) for part in parts)
        text = f"if {test}:\n    {target} = {first}\nelse:\n    {target} = {second}\n"
        return syntax.statement(text).with_changes(leading_lines=line.leading_lines)

    if not any(map(wraps, syntax.find(tree, cst.IfExp))):
        return tree
    return syntax.each(tree, cst.SimpleStatementLine, spread)


def spread_makers(tree: cst.Module, symbols: Symbols) -> cst.Module:
    """Write each lambda that wraps as a function, whose calls stand in lines of their own.

    So ``self.a, self.b = make(x), make(y)`` tells what each of them is.
    """

    def makes(line: cst.CSTNode) -> bool:
        small = syntax.simple(line)
        value = small.value if isinstance(small, cst.Assign) else None
        is_named = (syntax.target_of(line) or "").isidentifier()
        return is_named and isinstance(value, cst.Lambda) and bool(symbols.calls(value, *WRAPPING))

    lines = [line for line in syntax.find(tree, cst.SimpleStatementLine) if makes(line)]
    names = {syntax.target_of(line) for line in lines}

    def spread(
        line: cst.SimpleStatementLine,
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        small = syntax.simple(line)
        if not isinstance(small, cst.Assign):
            return line
        if makes(line):
            made = ensure_type(small.value, cst.Lambda)
            header = f"def {syntax.target_of(line)}({syntax.code(made.params)}):\n"
            function = syntax.statement(
                f"{header}    return {syntax.whole(syntax.code(made.body))}\n"
            )
            return above(function, line.leading_lines or [cst.EmptyLine(indent=False)])
        pairs = [*syntax.pairs(small)]
        is_one = len(small.targets) == 1 and len(pairs) > 1 and isinstance(small.value, cst.Tuple)
        made_of = [value.func for _, value in pairs if isinstance(value, cst.Call)]
        is_made = len(made_of) == len(pairs) and {*map(syntax.code, made_of)} <= names
        if not is_one or not is_made:
            return line
        first, *rest = [cst.SimpleStatementLine([syntax.assignment(*pair)]) for pair in pairs]
        return cst.FlattenSentinel([above(first, line.leading_lines), *rest])

    return syntax.each(tree, cst.SimpleStatementLine, spread) if names else tree


def _kept_names(line: Line, own: str) -> list[str]:
    """The variables that a statement keeps in attributes."""
    small, call = syntax.simple(line), syntax.lone_call(line)
    target = syntax.target_of(line) or ""
    if call is not None and syntax.code(call.func).startswith(f"{own}."):
        # As ``self.all.append(one)`` does.
        is_appended = syntax.code(call.func).endswith(".append") and len(call.args) == 1
        return [syntax.code(call.args[0].value)] if is_appended else []
    if not isinstance(small, cst.Assign) or f"{own}." not in target:
        return []
    return [syntax.code(part) for part in syntax.parts(small.value)]


def keep_wrapped(tree: cst.Module, symbols: Symbols) -> cst.Module:
    """Keep what ``__init__``, and the methods that it calls, wrap in an attribute.

    A trial need not keep what it wraps; a module that must return it does, and one whose context
    was asked for its models.
    """
    tree = _keep_returned(tree, symbols)
    members = map(symbols.member, syntax.find(tree, cst.Attribute))
    asked = {member[1] for member in members if member is not None}

    def keeping(node: cst.ClassDef) -> cst.ClassDef:
        if not symbols.calls(node, "wrap_model", *KEPT):
            return node
        own = syntax.methods(node)
        taken = {syntax.target_of(line) for line in syntax.find(node, cst.SimpleStatementLine)}
        often = called_often(own)
        bases = [base.value for base in node.bases]
        is_heir = any(isinstance(b, cst.Name) and symbols.get(b) is None for b in bases)
        # What a base keeps by a name of the same making is another one.
        prefix = f"{_words(node.name.value)}_" if is_heir else ""
        made: dict[cst.BaseStatement, cst.BaseStatement] = {}
        for name, method in own.items():
            if name == "__init__" or name not in often:
                keeping = _Keeping(method, symbols, taken, prefix, asked)
                made[method] = keeping.kept(_wrapped_where_made(method, symbols))
        return syntax.with_body(node, [made.get(line, line) for line in syntax.body_of(node)])

    return syntax.each(tree, cst.ClassDef, keeping)


def _wrapped_where_made(method: cst.FunctionDef, symbols: Symbols) -> cst.FunctionDef:
    """The method that wraps a scheduler as it puts it into an attribute, where it did so later."""
    lines = [*syntax.body_of(method)]
    for line in syntax.body_of(method):
        call = syntax.lone_call(line)
        if call is None or symbols.method(call) != "wrap_lr_scheduler" or not call.args:
            continue
        target = syntax.code(call.args[0].value)
        made = next((each for each in lines if syntax.target_of(each) == target), None)
        small = syntax.simple(made) if made is not None else None
        if made is None or not isinstance(small, cst.Assign) or "." not in target:
            continue
        between = lines[lines.index(made) + 1 : lines.index(line)]
        known = {name for each in between for name in syntax.names_in(each)}
        asked = {name for arg in call.args[1:] for name in syntax.names_in(arg)}
        is_used = any(syntax.mentions(each, target) for each in between)
        if is_used or asked & known - {syntax.self_name(method)}:
            continue
        first = call.args[0].with_changes(value=small.value)
        wrapped = call.with_changes(args=[first, *call.args[1:]])
        lines[lines.index(made)] = syntax.with_node(made, small.value, wrapped)
        lines.remove(line)
    return syntax.with_body(method, lines)


def _keep_returned(tree: cst.Module, symbols: Symbols) -> cst.Module:
    """Keep what a method wraps where it returns it, by the name that it has where it is called.

    ``self.a = self.make()`` says nothing of when a scheduler steps that ``make`` wraps otherwise in
    each branch.
    """

    def keeping(node: cst.ClassDef) -> cst.ClassDef:
        if not any(_returns_wrapped(r, symbols) for r in syntax.find(node, cst.Return)):
            return node

        def wraps_or_none(line: cst.Return) -> bool:
            is_none = line.value is None or syntax.code(line.value) == "None"
            return is_none or _returns_wrapped(line, symbols)

        own = syntax.methods(node)
        calling = [line for method in own.values() for line in syntax.find(method, Line)]
        made: dict[cst.BaseStatement, cst.BaseStatement] = {}
        for name in own.keys() - called_often(own):
            if not all(map(wraps_or_none, syntax.returns(own[name]))):
                continue
            me = syntax.self_name(own[name])
            found = [line for line in calling if syntax.mentions(line, f"{me}.{name}")]
            call = syntax.call_of(found[0]) if len(found) == 1 else None
            target = syntax.target_of(found[0]) or "" if call is not None else ""
            if call and syntax.code(call.func) == f"{me}.{name}" and target.startswith(f"{me}."):
                made[own[name]] = syntax.transformed(own[name], _Returning(target, symbols))
        return syntax.with_body(node, [made.get(line, line) for line in syntax.body_of(node)])

    return syntax.each(tree, cst.ClassDef, keeping)


def _returns_wrapped(small: cst.CSTNode | None, symbols: Symbols) -> bool:
    value = small.value if isinstance(small, cst.Return) else None
    return isinstance(value, cst.Call) and symbols.method(value) in KEPT


class _Returning(cst.CSTTransformer):
    def __init__(self, target: str, symbols: Symbols) -> None:
        super().__init__()
        self._target = target
        self._symbols = symbols

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        small = syntax.simple(updated)
        if not isinstance(small, cst.Return) or not _returns_wrapped(small, self._symbols):
            return updated
        value = ensure_type(small.value, cst.Call)
        kept = syntax.assignment(syntax.expression(self._target), value)
        last = cst.SimpleStatementLine([cst.Return(syntax.expression(self._target))])
        return cst.FlattenSentinel([updated.with_changes(body=[kept]), last])


def _words(name: str) -> str:
    """The name of a class as that of a variable."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_")


class _Keeping(cst.CSTTransformer):
    """Gives what a method wraps and does not keep an attribute."""

    def __init__(
        self,
        method: cst.FunctionDef,
        symbols: Symbols,
        taken: set[str | None],
        prefix: str,
        asked: Collection[str],
    ) -> None:
        super().__init__()
        self._own = syntax.self_name(method)
        # One that is wrapped at times is not the one model that an attribute keeps.
        asks_models = "models" in asked and method.name.value == "__init__"
        self._models = syntax.body_of(method) if asks_models else ()
        self._asked = asked
        self._symbols = symbols
        lines = [*syntax.find(method, cst.SimpleStatementLine)]
        self._taken = taken
        self._prefix = prefix
        self._kept = {name for line in lines for name in _kept_names(line, self._own)}
        self._looped = {*looped(method)}
        self._lists: list[str] = []

    def kept(self, method: cst.FunctionDef) -> cst.FunctionDef:
        """The method with all that it wraps in attributes: lists of what it wraps in loops."""
        made = syntax.transformed(method, self)
        body = [*made.body.body] if isinstance(made.body, cst.IndentedBlock) else []
        for name in self._lists:
            first = next(i for i, line in enumerate(body) if syntax.mentions(line, name))
            body.insert(first, syntax.statement(f"{name} = []"))
        return syntax.with_body(made, body) if self._lists else made

    def leave_SimpleStatementLine(self, original: Line, updated: Line) -> Lines:
        call, variable = syntax.call_of(updated), syntax.target_of(updated) or ""
        member = self._symbols.method(call)
        is_lost = not variable or (variable.isidentifier() and variable not in self._kept)
        is_model = member == "wrap_model" and any(self._is_in(original, o) for o in self._models)
        if call is None or not (member in KEPT or is_model) or not is_lost:
            return updated
        is_list = original in self._looped
        # Where the context is not asked for them, a trial steps optimizers by a name of its own,
        # which would be none of Lightning's.
        is_hidden = member == "wrap_optimizer" and "optimizers" not in self._asked
        if isinstance(syntax.simple(updated), cst.Return) or (is_list and is_hidden):
            return updated
        owner, _, attribute = syntax.code(call.args[0].value).partition(".")
        is_kept = owner == self._own and attribute.isidentifier() and not variable
        if is_kept and not is_list and member == "wrap_lr_scheduler":
            # The attribute that it is in already keeps it.
            return updated.with_changes(body=[syntax.assignment(call.args[0].value, call)])
        own_name = LISTS[member] if is_list else variable or KEPT.get(member, "model")
        name = self._name(own_name if own_name == variable else f"{self._prefix}{own_name}")
        target = syntax.expression(name)
        is_same = syntax.code(call.args[0].value) == variable
        if is_list:
            self._lists.append(name)
            kept = call if not variable or is_same else cst.Name(variable)
            more: cst.BaseSmallStatement = cst.Expr(
                cst.Call(cst.Attribute(target, cst.Name("append")), [cst.Arg(kept)])
            )
        elif not variable or is_same:
            more = syntax.assignment(target, call)
        else:
            more = syntax.assignment(target, cst.Name(variable))
        if not variable or is_same:
            return updated.with_changes(body=[more])
        return cst.FlattenSentinel([updated, cst.SimpleStatementLine([more])])

    def _is_in(self, line: Line, outer: cst.BaseStatement) -> bool:
        """Whether a statement is this one, or directly in this loop."""
        return line is outer or (isinstance(outer, cst.For) and line in syntax.body_of(outer))

    def _name(self, name: str) -> str:
        name = f"{self._own}.{name}"
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def unset(init: cst.FunctionDef) -> set[str]:
    """The attributes that an object may have as None once it is made."""
    lines = (
        each for each in syntax.find(init, Line) if isinstance(syntax.simple(each), cst.Assign)
    )
    none = {syntax.target_of(each) for each in lines if _sets_none(each)}
    return {name.removeprefix(f"{syntax.self_name(init)}.") for name in none if name}


def _sets_none(line: Line) -> bool:
    return syntax.code(getattr(syntax.simple(line), "value", line)) == "None"


def kept_by_objects(node: cst.ClassDef, symbols: Symbols) -> list[tuple[str, cst.Call]]:
    """The attributes of an object that its ``__init__`` wraps, with the calls, if these are all.

    Those are of no trial. One that it may not wrap it sets to None.
    """
    own = syntax.methods(node)
    init = own.get("__init__")
    if init is None or own.keys() & {"train_batch", "build_training_data_loader"}:
        return []
    me = syntax.self_name(init)
    local = syntax.local_names(init) | {me}
    # What a module keeps, another one that keeps it sees.
    is_module = any(syntax.code(base.value).endswith("Module") for base in node.bases)
    wrapping = KEPT if is_module else WRAPPING
    found: list[tuple[str, cst.Call]] = []
    always, optional, again = syntax.body_of(init), unset(init), {*looped(init)}
    for line in syntax.find(init, Line):
        call, target = syntax.call_of(line), syntax.target_of(line) or ""
        member, name = symbols.method(call), target.removeprefix(f"{me}.")
        if call is None or member not in wrapping or name == target or not name.isidentifier():
            continue
        wrapped, more = syntax.argument(call, 0, wrapping[member]), call.args[1:]
        asked = {n for arg in more for n in syntax.names_in(arg)}
        is_first = name not in dict(found) and (line in always or name in optional)
        is_known = is_first and line not in again and not asked & local
        if is_known and wrapped is call.args[0].value:
            found.append((name, call))
    return found if len(symbols.calls(node, *wrapping)) == len(found) else []


#: What a context has of what was wrapped.
_LISTS = {
    "models": "wrap_model",
    "optimizers": "wrap_optimizer",
    "lr_schedulers": "wrap_lr_scheduler",
}


def name_wrapped(tree: cst.Module, symbols: Symbols) -> cst.Module:
    """Name the attributes where a trial asks for ``context.models[0]`` and the like."""

    def named(node: cst.ClassDef) -> cst.ClassDef:
        kept = {
            name: _attributes(node, member, symbols)
            for name, member in _LISTS.items()
            if syntax.has_attribute(node, name)
        }
        known = {name: found for name, found in kept.items() if found}
        return syntax.transformed(node, _Naming(symbols, known)) if known else node

    return syntax.each(tree, cst.ClassDef, named)


def _attributes(node: cst.ClassDef, member: str, symbols: Symbols) -> list[str]:
    """The attributes that keep what a class wraps; none if one of them is not a single one."""
    methods = [*syntax.methods(node).values()]
    found = [w for each in methods for w in wrappings(each, symbols) if w.member == member]
    is_known = len(found) == len(symbols.calls(node, member))
    names = [*dict.fromkeys(w.attribute for w in found)]
    return names if is_known and not any(w.is_list for w in found) else []


class _Naming(ScopedTransformer):
    def __init__(self, symbols: Symbols, known: dict[str, list[str]]) -> None:
        super().__init__()
        self._symbols = symbols
        self._known = known

    def _names(self, node: cst.CSTNode) -> list[str]:
        member = self._symbols.member(node)
        if member is None or self.method is None:
            return []
        own = syntax.self_name(self.method)
        return [f"{own}.{name}" for name in self._known.get(member[1], ())]

    def leave_Subscript(
        self, original: cst.Subscript, updated: cst.Subscript
    ) -> cst.BaseExpression:
        names = self._names(original.value)
        index = original.slice[0].slice
        at = syntax.code(index.value) if isinstance(index, cst.Index) else ""
        return (
            syntax.expression(names[int(at)]) if at.isdigit() and int(at) < len(names) else updated
        )
